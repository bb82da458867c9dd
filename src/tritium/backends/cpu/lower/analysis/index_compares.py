"""Folds a combine function's comparisons of indices where elements come in index order.

A reduction that also returns an index compares the indices of equal elements: the first of them is
wanted, in whatever order they come. An accumulator meets them in their order, so that its index is
the smaller one, and the comparison need not be computed.
"""

from __future__ import annotations

from typing import Any, cast

from xdsl.ir import Block, SSAValue

from tritium.ir import types as ir
from tritium.ops.arith import CmpIOp
from tritium.ops.arith.casts import IntegerExtensionOp
from tritium.ops.arith.compare import CmpIPredicate
from tritium.ops.base import Op

_OF_SMALLER = {
    CmpIPredicate.SLT: True, CmpIPredicate.SLE: True, CmpIPredicate.NE: True,
    CmpIPredicate.SGT: False, CmpIPredicate.SGE: False, CmpIPredicate.EQ: False,
}  # fmt: skip
"""Comparisons of an index with a larger one."""
_SWAPPED = {
    CmpIPredicate.SLT: CmpIPredicate.SGT, CmpIPredicate.SLE: CmpIPredicate.SGE,
    CmpIPredicate.SGT: CmpIPredicate.SLT, CmpIPredicate.SGE: CmpIPredicate.SLE,
}  # fmt: skip


def known_in_order(op: Any) -> dict[SSAValue, bool]:
    """The comparisons in the combine region of a `tt.reduce` whose results are known when its first
    arguments come from elements further left, along the axis, than the second ones."""
    block = op.regions[0].block
    half = len(op.operands)
    left, right = block.args[:half], block.args[half:]
    ordered = {
        (a, b)
        for a, b, operand, result in zip(
            left, right, op.operands, block.last_op.operands, strict=True
        )
        if _increases(operand, op.axis) and _is_one_of(result, (a, b))
    }
    known: dict[SSAValue, bool] = {}
    for inner in block.ops:
        if not isinstance(inner, CmpIOp):
            continue
        (a, b), how = inner.operands, cast(CmpIPredicate, inner.predicate)
        if (b, a) in ordered:
            a, b, how = b, a, _SWAPPED.get(how, how)
        if (a, b) in ordered and how in _OF_SMALLER:
            known[inner.results[0]] = _OF_SMALLER[how]
    return known


def _increases(value: SSAValue, axis: int) -> bool:
    """True if each element of a tile is, as a signed number, larger than the one before it along an
    axis. Sums are not looked into: they may wrap."""
    op: Any = value.owner
    if isinstance(op, Block):
        return False
    if op.tile_source and not op.operands:
        return (op.spacing(axis) or 0) > 0
    if op.reshapes:
        one = ir.shape_of(op.src.type) == (ir.shape_of(value.type)[axis],)
        return one and not op.allow_reorder and _increases(op.src, 0)
    if isinstance(op, IntegerExtensionOp) and op.widens and not op.non_negative:
        return _increases(op.operand, axis)
    axes = op.source_axes()
    inner = None if axes is None else axes[axis]
    return inner is not None and _increases(op.operands[0], inner)


def _is_one_of(value: SSAValue, arguments: tuple[SSAValue, SSAValue]) -> bool:
    """True if a region's result is always one of two arguments."""
    if value in arguments:
        return True
    op = value.owner
    sources = [s for s, t in op.forwarded_values() if t is value] if isinstance(op, Op) else []
    return bool(sources) and all(_is_one_of(source, arguments) for source in sources)
