"""Which operands of a dot can be read where they are in memory, and how their masks look.

A mask `k_index < bound` that cuts off the end of K in both operands says how far the sum runs; any
other mask means that the operand is copied, with zeros where the mask is false.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from xdsl.ir import Block, SSAValue

from tritium.analysis.recursion import resolve
from tritium.ir import types as ir
from tritium.ops.arith import CmpIOp, CmpIPredicate, constant_value


@dataclass(frozen=True)
class Prefix:
    """A mask `index < bound`: `index` grows by one from element to element along K."""

    index: SSAValue
    bound: SSAValue


def peel(value: SSAValue, buffers: Any) -> tuple[SSAValue, bool]:
    """The tile under transpositions of two axes, and whether it is transposed."""
    swapped = False
    while value not in buffers and getattr(value.owner, "name", "") == "tt.trans":
        owner: Any = value.owner
        if len(owner.order) != 2:
            break
        swapped ^= tuple(owner.order) == (1, 0)
        value = owner.operands[0]
    return value, swapped


def prefix_mask(load: Any, axis: int) -> Prefix | None:
    """The mask of a load as a prefix along `axis`, the elements beyond it being zero."""
    if load.other is not None:
        other = constant_value(load.other)
        if other is None or other.astype("float64").any():
            return None
    mask = load.mask
    while getattr(mask.owner, "name", "") in ("tt.broadcast", "tt.expand_dims"):
        owner: Any = mask.owner
        if owner.name == "tt.expand_dims":
            if owner.axis == axis:
                return None
            axis -= owner.axis < axis
        mask = owner.operands[0]
    compare: Any = mask.owner
    if not isinstance(compare, CmpIOp):
        return None
    index, bound = compare.lhs, compare.rhs
    if compare.predicate is CmpIPredicate.SGT:
        index, bound = bound, index
    elif compare.predicate is not CmpIPredicate.SLT:
        return None
    for other_axis in range(len(ir.shape_of(index.type))):
        if slope(index, other_axis) != int(other_axis == axis) or slope(bound, other_axis) != 0:
            return None
    return Prefix(index, bound)


def slope(value: SSAValue, axis: int) -> int | None:
    """0 or 1 if that is the difference between neighbours along an axis, else None."""
    return resolve((value, axis), _slope, {})


def _slope(
    place: tuple[SSAValue, int],
) -> Generator[tuple[SSAValue, int], int | None, int | None]:
    value, axis = place
    shape = ir.shape_of(value.type)
    if not shape or shape[axis] == 1:
        return 0
    owner: Any = value.owner
    if isinstance(owner, Block):
        return None
    if owner.name == "tt.splat":
        return 0
    if owner.name == "tt.make_range":
        return 1
    if owner.name == "arith.constant":
        held = constant_value(value)
        return 0 if held is not None and (held == held.flat[0]).all() else None
    if owner.name == "tt.expand_dims":
        return 0 if axis == owner.axis else (yield owner.src, axis - (owner.axis < axis))
    if owner.name in ("tt.broadcast", "arith.extsi"):
        return (yield owner.operands[0], axis)
    if owner.name in ("arith.addi", "arith.subi"):
        first = yield owner.operands[0], axis
        second = yield owner.operands[1], axis
        if first is None or second is None or (owner.name == "arith.subi" and second):
            return None
        return first + second if first + second <= 1 else None
    if owner.name == "arith.muli":
        first = yield owner.operands[0], axis
        second = yield owner.operands[1], axis
        return 0 if first == 0 and second == 0 else None
    return None
