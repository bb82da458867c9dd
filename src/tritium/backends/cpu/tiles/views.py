"""Views: operands of a dot that can be read where they are in memory, and their masks.

A mask is a conjunction of `index < bound`. One that cuts off the end of K in both operands says
how far the sum runs. One that cuts off the end of the rows of A, or of the columns of B, is true
all over most tiles, which is tested when the program runs. Any other mask means that the operand is
copied, with zeros where the mask is false.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from xdsl.ir import SSAValue

from tritium.analysis.recursion import resolve
from tritium.ir import types as ir
from tritium.ops.arith import AndIOp, CmpIPredicate, constant_value
from tritium.ops.arith.compare import is_signed_compare
from tritium.ops.base import Op, permutes
from tritium.ops.tile import CopyOp


@dataclass(frozen=True)
class Prefix:
    """A mask `index < bound`, its `condition`: `index` grows by one from element to element along
    its `axis`, which is that of K if `along_k`, else the other one of the operand. Or a scalar,
    which compares nothing."""

    condition: SSAValue
    axis: int = 0
    along_k: bool = False
    compared: tuple[SSAValue, ...] = ()
    """The index and the bound."""


def peel(value: SSAValue, buffers: Any) -> tuple[SSAValue, bool]:
    """The tile under transpositions of two axes, and whether it is transposed."""
    swapped = False
    while value not in buffers and permutes(owner := value.owner):
        order = owner.permuted_axes
        if order is None or len(order) != 2:
            break
        swapped ^= order == (1, 0)
        value = owner.operands[0]
    return value, swapped


def prefix_masks(load: Any, axis: int) -> list[Prefix] | None:
    """The mask of a load as prefixes, the elements beyond them being zero; K runs along `axis`.
    None for other masks."""
    if load.mask is None:
        return []
    if load.other is not None:
        other = constant_value(load.other)
        if other is None or other.astype("float64").any():
            return None
    found = [
        _prefix(mask, outer, False) or _prefix(mask, along_k, True)
        for mask, (outer, along_k) in conjuncts(load.mask, (1 - axis, axis))
    ]
    given = [prefix for prefix in found if prefix is not None]
    return given if len(given) == len(found) else None


Axes = tuple[int | None, ...]
"""Axes of a value; None for those along which it is the same."""


def conjuncts(mask: SSAValue, axes: Axes) -> Generator[tuple[SSAValue, Axes]]:
    """The conditions that a mask is the conjunction of, each with its axes that are those of the
    mask."""
    masks = [(mask, axes)]
    while masks:
        mask, axes = masks.pop()
        while isinstance(mask.owner, Op) and (sources := mask.owner.source_axes()) is not None:
            axes = tuple(None if axis is None else sources[axis] for axis in axes)
            mask = mask.owner.operands[0]
        if isinstance(mask.owner, AndIOp):
            masks += ((operand, axes) for operand in mask.owner.operands)
        else:
            yield mask, axes


def is_stored_within(value: SSAValue, prefix: Prefix, axis: int) -> bool:
    """True if of a tile only elements are used for which a prefix holds that runs along `axis`: in
    stores whose masks contain its condition, after elementwise ops."""
    values, seen = [value], set[SSAValue]()
    while values:
        value = values.pop()
        for use in value.uses:
            op: Any = use.operation
            if isinstance(op, CopyOp):
                continue  # to be read where the value is used
            if op.stores_elements and use.index == op.operand_names().index("value"):
                if op.mask is None or all(
                    (condition, axes) != (prefix.condition, (prefix.axis,))
                    for condition, axes in conjuncts(op.mask, (axis,))
                ):
                    return False
            elif isinstance(op, Op) and op.is_elementwise and not op.memory_effects():
                values += (result for result in op.results if result not in seen)
                seen.update(op.results)
            else:
                return False
    return True


def _prefix(mask: SSAValue, axis: int | None, along_k: bool) -> Prefix | None:
    """A condition as a prefix along one axis of what it compares."""
    if not isinstance(mask.type, ir.TensorType):
        return Prefix(mask)
    compare = mask.owner
    if not is_signed_compare(compare) or axis is None:
        return None
    index, bound = compare.lhs, compare.rhs
    if compare.predicate is CmpIPredicate.SGT:
        index, bound = bound, index
    elif compare.predicate is not CmpIPredicate.SLT:
        return None
    for along, size in enumerate(ir.shape_of(index.type)):
        grows = int(along == axis and size > 1)
        if slope(index, along) != grows or slope(bound, along) != 0:
            return None
    return Prefix(mask, axis, along_k, (index, bound))


def slope(value: SSAValue, axis: int) -> int | None:
    """0 or 1 if that is the difference between neighbours along an axis, else None."""
    return resolve((value, axis), _slope, {})


def _slope(place: tuple[SSAValue, int]) -> Generator[tuple[SSAValue, int], int | None, int | None]:
    value, axis = place
    shape = ir.shape_of(value.type)
    if not shape or shape[axis] == 1:
        return 0
    owner = value.owner
    if not isinstance(owner, Op):
        return None
    if owner.tile_source and not owner.operands:
        return owner.spacing(axis)
    axes = owner.source_axes()
    if axes is not None:
        inner = axes[axis]
        return 0 if inner is None else (yield owner.operands[0], inner)
    if not owner.weights and not owner.multiplies:
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
