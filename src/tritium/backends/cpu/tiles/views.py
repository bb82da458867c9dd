"""Which operands of a dot can be read where they are in memory, and how their masks look.

A mask `k_index < bound` that cuts off the end of K in both operands says how far the sum runs; any
other mask means that the operand is copied, with zeros where the mask is false.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from xdsl.ir import SSAValue

from tritium.analysis.recursion import resolve
from tritium.ir import types as ir
from tritium.ops.arith import CmpIOp, CmpIPredicate, ConstantOp, MulIOp, constant_value
from tritium.ops.base import Op
from tritium.ops.ttir.shape import MakeRangeOp, TransOp


@dataclass(frozen=True)
class Prefix:
    """A mask `index < bound`: `index` grows by one from element to element along K."""

    index: SSAValue
    bound: SSAValue


def peel(value: SSAValue, buffers: Any) -> tuple[SSAValue, bool]:
    """The tile under transpositions of two axes, and whether it is transposed."""
    swapped = False
    while value not in buffers and isinstance(owner := value.owner, TransOp):
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
    mask, along = load.mask, axis
    while isinstance(mask.owner, Op) and (axes := mask.owner.source_axes()) is not None:
        if (along := axes[along]) is None:
            return None
        mask = mask.owner.operands[0]
    compare = mask.owner
    if not isinstance(compare, CmpIOp):
        return None
    index, bound = compare.lhs, compare.rhs
    if compare.predicate is CmpIPredicate.SGT:
        index, bound = bound, index
    elif compare.predicate is not CmpIPredicate.SLT:
        return None
    for other_axis in range(len(ir.shape_of(index.type))):
        if slope(index, other_axis) != int(other_axis == along) or slope(bound, other_axis) != 0:
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
    owner = value.owner
    if isinstance(owner, MakeRangeOp):
        return 1
    if isinstance(owner, ConstantOp):
        held = constant_value(value)
        return 0 if held is not None and (held == held.flat[0]).all() else None
    if not isinstance(owner, Op):
        return None
    axes = owner.source_axes()
    if axes is not None:
        inner = axes[axis]
        return 0 if inner is None else (yield owner.operands[0], inner)
    if not owner.weights and not isinstance(owner, MulIOp):
        return None
    changes: list[int] = []
    for operand in owner.operands:
        change = yield operand, axis
        if change is None:
            return None
        changes.append(change)
    if not owner.weights:
        return None if any(changes) else 0
    total = sum(w * c for w, c in zip(owner.weights, changes, strict=True))
    return total if total in (0, 1) else None
