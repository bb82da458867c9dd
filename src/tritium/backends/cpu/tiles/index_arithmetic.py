"""Index arithmetic whose wrapping around matters: integers of up to 32 bits that are widened for
addresses, and divisions of which more is known if nothing is negative."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from typing import Any, NamedTuple

from xdsl.ir import Block, SSAValue

from tritium.backends.cpu.tiles.ir import TileFunction
from tritium.ir import types as ir
from tritium.ops.arith.integer import DivisionOp
from tritium.ops.tile.nests import is_tile

SEVERAL = -1
"""The axis of values whose neighbours are computed together along several axes, or along one that
is not known."""


class IndexOp(NamedTuple):
    """An op that widens the tile `narrow`, or divides (None). `better`: whether more is known of
    its result where nothing wraps around or is negative."""

    op: Any
    narrow: SSAValue | None
    better: bool

    @property
    def numbers(self) -> tuple[SSAValue, ...]:
        """The integers whose bounds matter."""
        return tuple(self.op.operands) if self.narrow is None else (self.narrow,)


def index_arithmetic(
    function: TileFunction, values: Iterable[SSAValue], buffers: Container[SSAValue],
    loop: Any = None, lane: int = SEVERAL,
) -> Iterator[IndexOp]:  # fmt: skip
    """The index arithmetic of code that computes `values`. With `lane`, only neighbours along that
    axis of `values` are computed together: numbers that are the same for them are computed one by
    one, and matter only if facts depend on them."""
    for op, differs in _ancestors(function, values, buffers, loop, lane):
        narrow = _widened(op)
        if narrow is None and not (isinstance(op, DivisionOp) and not op.is_unsigned):
            continue
        better = _is_better_without_wraps(function, op)
        if better or (differs and narrow is not None):
            yield IndexOp(op, narrow, better)


def _ancestors(
    function: TileFunction, values: Iterable[SSAValue], buffers: Container[SSAValue], loop: Any,
    lane: int,
) -> Iterator[tuple[Any, bool]]:  # fmt: skip
    """The ops on tiles that values are computed by, and those on scalars inside of the loop, each
    once for an axis that lanes run along, with whether the results differ by lane. Those behind a
    tile in memory only if assumptions on them say more of it: each nest asks anew, which would go
    through all that was computed before it."""
    stack: list[tuple[SSAValue, int | None]] = [(value, lane) for value in values]
    seen = set[tuple[SSAValue, int | None]]()
    sure, assumed = function.axes, function.address_axes
    while stack:
        value, axis = stack.pop()
        owner: Any = value.owner
        if owner.__class__ is Block or (value, axis) in seen:
            continue
        seen.add((value, axis))
        inside = loop is not None and is_inside(loop, value)
        if not inside and not is_tile(value):
            continue
        if value in buffers and (owner.regions or sure.of(value) == assumed.of(value)):
            continue  # of what loops and branches give, both analyses know the same
        if axis is not None and axis != SEVERAL and ir.shape_of(value.type)[axis] == 1:
            axis = None
        yield owner, axis is not None
        if not owner.regions:
            axis = _axis_of_operands(owner, axis)
            stack.extend((operand, axis) for operand in owner.operands)


def is_inside(loop: Any, value: SSAValue) -> bool:
    """True if a value is defined in a loop."""
    owner: Any = value.owner
    op = owner.parent_op() if isinstance(owner, Block) else owner
    while op is not None:
        if op is loop:
            return True
        op = op.parent_op()
    return False


def _axis_of_operands(op: Any, axis: int | None) -> int | None:
    """The axis of an op's operands that runs along an axis of its result; None if none does."""
    if axis is None or axis == SEVERAL or op.is_elementwise or op.loads_elements:
        return axis
    axes = op.source_axes()
    return SEVERAL if axes is None else axes[axis]


def _widened(op: Any) -> SSAValue | None:
    """The tile of integers that an op widens, if it does."""
    if op.widened_operand is None:
        return None
    (source,) = op.operand_values(op.widened_operand)
    if not ir.is_integer(source.type):
        return None
    bits = ir.bit_width(ir.element_type(source.type))
    if bits == 1 or bits >= 64:
        return None
    to = op.results[0].type
    return None if ir.is_integer(to) and ir.bit_width(ir.element_type(to)) <= bits else source


def _is_better_without_wraps(function: TileFunction, op: Any) -> bool:
    """True if more is known of a result where nothing wraps around or is negative."""
    result = op.results[0]
    sure, assumed = function.axes.of(result), function.address_axes.of(result)
    return (sure.contiguity, sure.constancy) != (assumed.contiguity, assumed.constancy)
