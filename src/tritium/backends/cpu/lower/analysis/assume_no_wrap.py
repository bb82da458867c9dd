"""Index arithmetic that is taken not to wrap around, and the test of that when the program runs.

A tile of integers of up to 32 bits that is widened for an address is an arithmetic progression only
if it does not wrap around in its own type, and neighbours have the same quotient only if none is
negative. Where bounds do not prove that when compiling, it is tested before the code that relies on
it, from the scalars that the tile is made of; other code, which computes the numbers one by one as
they stand, runs where it does not hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, cast

from xdsl.ir import Block, SSAValue

from tritium.backends.cpu.lower.analysis.bounds import Bounds, Interval, is_inside
from tritium.backends.cpu.lower.context import Assumed, Context
from tritium.codegen.llvm.writer import Value, const
from tritium.ir import types as ir
from tritium.ops.arith import DivSIOp, ExtSIOp, ExtUIOp, FloorDivSIOp, IndexCastOp, RemSIOp
from tritium.ops.ttir.memory import AddPtrOp, LoadOp

_DIVISIONS = (DivSIOp, RemSIOp, FloorDivSIOp)
_EXTENSIONS = (ExtSIOp, ExtUIOp, IndexCastOp)
SEVERAL = -1
"""The axis of values whose neighbours are computed together along several axes, or along one that
is not known."""


class Assumption(NamedTuple):
    """Assumptions that always hold, and those that hold under the condition `holds` (i1; None:
    always)."""

    holds: Value | None
    always: Assumed
    then: Assumed


def assumption(
    c: Context, values: Iterable[SSAValue], loop: Any = None, iterations: Value | None = None,
    exact: Iterable[SSAValue] = (), lane: int = SEVERAL,
) -> Assumption | None:  # fmt: skip
    """The assumptions of code that computes `values`; tests go to the current position. None if
    one of the values `exact`, which must not wrap around either, may do so under any condition.
    With `lane`, only neighbours along that axis of `values` are computed together: numbers that
    are the same for them are computed one by one, and need no assumption."""
    bounds, tests = Bounds(c, loop, iterations), dict[Value, None]()
    proved, tested = set[SSAValue](), set[SSAValue]()
    natural, natural_always = True, True
    for value in exact:
        if not _add(tests, bounds.of(value)):
            return None
    for op, differs in _ancestors(c, values, loop, lane):
        narrow = _widened(op)
        if narrow is not None and (differs or _is_better_trusted(c, op)):
            extended = op.results[0] if isinstance(op, ExtUIOp) else narrow
            found = bounds.narrow(narrow, bounds.of(extended))
            if not found.wraps:
                (tested if found.conditions else proved).add(narrow)
                _add(tests, found)
            if _is_better_trusted(c, op):
                natural = natural and not found.wraps
                natural_always = natural_always and not found.wraps and not found.conditions
        elif narrow is None and isinstance(op, _DIVISIONS) and _is_better_trusted(c, op):
            conditions = _not_negative(bounds, op)
            if conditions is None:
                natural = natural_always = False
            elif conditions:
                natural_always = False
                tests.update(dict.fromkeys(conditions))
    always = Assumed(frozenset(proved), natural_always)
    if not tests:
        return Assumption(None, always, always)
    holds: Value | None = None
    for test in tests:
        holds = test if holds is None else c.f.op("and", holds, test)
    return Assumption(holds, always, Assumed(frozenset(proved | tested), natural))


def _add(tests: dict[Value, None], found: Interval) -> bool:
    """Collect the conditions under which a tile does not wrap; whether there are such."""
    if found.wraps:
        return False
    tests.update(dict.fromkeys(found.conditions))
    return True


def _ancestors(
    c: Context, values: Iterable[SSAValue], loop: Any, lane: int
) -> Iterator[tuple[Any, bool]]:
    """The ops on tiles that values are computed by, and those on scalars inside of the loop, each
    once for an axis that lanes run along, with whether the results differ by lane. Those behind a
    tile in memory only if assumptions on them say more of it: each nest asks anew, which would go
    through all that was computed before it."""
    stack: list[tuple[SSAValue, int | None]] = [(value, lane) for value in values]
    seen = set[tuple[SSAValue, int | None]]()
    while stack:
        value, axis = stack.pop()
        owner: Any = value.owner
        if (value, axis) in seen or isinstance(owner, Block):
            continue
        seen.add((value, axis))
        inside = loop is not None and is_inside(loop, value)
        if not inside and not isinstance(value.type, ir.TensorType):
            continue
        if value in c.buffers and c.axis_info(value) == c.address_info(value):
            continue
        shape = ir.shape_of(cast(Any, value.type))
        if axis is not None and axis != SEVERAL and shape[axis] == 1:
            axis = None
        yield owner, axis is not None
        if not owner.regions:
            axis = _axis_of_operands(owner, axis)
            stack.extend((operand, axis) for operand in owner.operands)


def _axis_of_operands(op: Any, axis: int | None) -> int | None:
    """The axis of an op's operands that runs along an axis of its result; None if none does."""
    if axis is None or axis == SEVERAL or op.is_elementwise or isinstance(op, LoadOp):
        return axis
    axes = op.source_axes()
    return SEVERAL if axes is None else axes[axis]


def _widened(op: Any) -> SSAValue | None:
    """The tile of integers that an op widens, if it does."""
    if isinstance(op, _EXTENSIONS):
        source = op.operands[0]
    elif isinstance(op, AddPtrOp):
        source = op.offset
    else:
        return None
    if not ir.is_integer(source.type):
        return None
    bits = ir.bit_width(ir.element_type(source.type))
    if bits == 1 or bits >= 64:
        return None
    to = op.results[0].type
    if not isinstance(op, AddPtrOp) and ir.bit_width(ir.element_type(to)) <= bits:
        return None
    return source


def _is_better_trusted(c: Context, op: Any) -> bool:
    """Whether more is known of a result where nothing wraps around or is negative."""
    result = op.results[0]
    sure, trusting = c.axis_info(result), c.address_info(result)
    return (sure.contiguity, sure.constancy) != (trusting.contiguity, trusting.constancy)


def _not_negative(bounds: Bounds, op: Any) -> list[Value] | None:
    """The conditions under which no operand is negative; None if that cannot be told."""
    found = list[Value]()
    for operand in op.operands:
        interval = bounds.of(operand)
        condition = bounds.not_below(interval.low, 0)
        if interval.wraps or condition == const("i1", False):
            if operand is op.lhs or isinstance(op, FloorDivSIOp):
                return None
            continue
        found.extend(interval.conditions)
        if condition is not None and (operand is op.lhs or isinstance(op, FloorDivSIOp)):
            found.append(condition)
    return found
