"""Bounds of integers, as far as a look at the defining ops tells."""

from __future__ import annotations

from typing import Any, cast

from xdsl.ir import SSAValue

from tritium.ir import types as ir
from tritium.ops.arith.casts import ExtSIOp, ExtUIOp
from tritium.ops.arith.constant import ConstantOp, splat_number
from tritium.ops.arith.integer import AddIOp, MulIOp
from tritium.ops.ttir.program import GetNumProgramsOp, GetProgramIdOp
from tritium.ops.ttir.shape import BroadcastOp, ExpandDimsOp, MakeRangeOp, ReshapeOp, SplatOp

Range = tuple[int, int]

MAX_DEPTH = 8
MAX_GRID = 2**31 - 1


def range_of(value: SSAValue, depth: int = 0) -> Range | None:
    """The least and the largest signed number that any element of the value can be.

    None where nothing better than the type is known; sums and products are followed where they
    cannot overflow.
    """
    op: Any = value.owner
    kind = cast(type[Any], type(op))
    if depth > MAX_DEPTH:
        return None
    if kind is ConstantOp:
        number = splat_number(op.properties["value"])
        if number is None or not ir.is_integer(value.type):
            return None
        return int(number), int(number)
    if kind is MakeRangeOp:
        return op.start, op.end - 1
    if kind in (GetProgramIdOp, GetNumProgramsOp):
        return int(kind is GetNumProgramsOp), MAX_GRID - int(kind is GetProgramIdOp)
    if kind in (SplatOp, BroadcastOp, ExpandDimsOp, ReshapeOp):
        return range_of(op.operands[0], depth + 1)
    if kind is ExtSIOp:
        source = op.operands[0]
        whole = _signed(ir.bit_width(source.type))
        # The set bit of an i1 is the number -1 here and 1 everywhere else.
        return whole if whole == (-1, 0) else range_of(source, depth + 1) or whole
    if kind is ExtUIOp:
        source = op.operands[0]
        known = range_of(source, depth + 1)
        if known is not None and known[0] >= 0:
            return known
        return 0, (1 << ir.bit_width(source.type)) - 1
    if kind in (AddIOp, MulIOp):
        return _combined(value, kind is AddIOp, depth)
    return None


def _signed(width: int) -> Range:
    return -(1 << (width - 1)), (1 << (width - 1)) - 1


def _combined(value: SSAValue, is_sum: bool, depth: int) -> Range | None:
    op: Any = value.owner
    left = range_of(op.operands[0], depth + 1)
    right = range_of(op.operands[1], depth + 1) if left else None
    if left is None or right is None:
        return None
    ends = [a + b if is_sum else a * b for a in left for b in right]
    low, high = _signed(ir.bit_width(value.type))
    return (min(ends), max(ends)) if low <= min(ends) and max(ends) <= high else None
