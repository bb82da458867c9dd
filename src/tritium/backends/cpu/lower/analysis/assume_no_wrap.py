"""Index arithmetic that is taken not to wrap around, and the test of that when the program runs.

A tile of integers of up to 32 bits that is widened for an address is an arithmetic progression only
if it does not wrap around in its own type, and neighbours have the same quotient only if none is
negative. Where bounds do not prove that when compiling, it is tested before the code that relies on
it, from the scalars that the tile is made of; other code, which computes the numbers one by one as
they stand, runs where it does not hold.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from xdsl.ir import SSAValue

from tritium.backends.cpu.lower.analysis.bounds import Bounds, Interval
from tritium.backends.cpu.lower.context import Assumed, Context
from tritium.backends.cpu.tiles.index_arithmetic import IndexOp
from tritium.codegen.llvm.writer import Value, const
from tritium.ops.arith import FloorDivSIOp
from tritium.ops.elementwise import CastOp


class Assumption(NamedTuple):
    """Assumptions that always hold, and those that hold under the condition `holds` (i1; None:
    always)."""

    holds: Value | None
    always: Assumed
    then: Assumed


def assumption(
    c: Context, arithmetic: Iterable[IndexOp], loop: Any = None, iterations: Value | None = None,
    exact: Iterable[SSAValue] = (),
) -> Assumption | None:  # fmt: skip
    """The assumptions of code that does some index arithmetic; tests go to the current position.
    None if one of the values `exact`, which must not wrap around either, may do so under any
    condition."""
    bounds, tests = Bounds(c, loop, iterations), dict[Value, None]()
    proved, tested = set[SSAValue](), set[SSAValue]()
    addresses_hold, always_hold = True, True
    for value in exact:
        if not _add(tests, bounds.of(value)):
            return None
    for op, narrow, better in arithmetic:
        if narrow is not None:
            extended = op.results[0] if isinstance(op, CastOp) and op.non_negative else narrow
            found = bounds.narrow(narrow, bounds.of(extended))
            if not found.wraps:
                (tested if found.conditions else proved).add(narrow)
                _add(tests, found)
            if better:
                addresses_hold = addresses_hold and not found.wraps
                always_hold = always_hold and not found.wraps and not found.conditions
            continue
        conditions = _not_negative(bounds, op)
        if conditions is None:
            addresses_hold = always_hold = False
        elif conditions:
            always_hold = False
            tests.update(dict.fromkeys(conditions))
    always = Assumed(frozenset(proved), always_hold)
    if not tests:
        return Assumption(None, always, always)
    holds: Value | None = None
    for test in tests:
        holds = test if holds is None else c.f.op("and", holds, test)
    return Assumption(holds, always, Assumed(frozenset(proved | tested), addresses_hold))


def _add(tests: dict[Value, None], found: Interval) -> bool:
    """Collect the conditions under which a tile does not wrap; returns whether there are such."""
    if found.wraps:
        return False
    tests.update(dict.fromkeys(found.conditions))
    return True


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
