"""The usual case of a one-dimensional nest, all masks being true, and the test for it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

from xdsl.ir import SSAValue

from tritium.backends.cpu.lower.context import Context
from tritium.backends.cpu.lower.dot import number_at
from tritium.backends.cpu.lower.reach import computed
from tritium.backends.cpu.lower.steps import Steps
from tritium.backends.cpu.lower.values import Facts
from tritium.backends.cpu.tiles.ir import Nest
from tritium.ir import types as ir
from tritium.lowering.llvm import Value, const


def usual(c: Context, nest: Nest) -> tuple[Value, Facts] | None:
    """The facts of the nest, and whether they hold (i1); None if that cannot be told from the
    ends of a tile. Without any facts there is nothing to tell."""
    masks = _masks(c, nest)
    f, steps, holds = c.f, Steps(c), const("i1", True)
    for mask in masks:
        if not _is_convex(steps, mask):
            return None
        for corner in _corners(ir.shape_of(mask.type)):
            holds = f.op("and", holds, number_at(c, mask, corner))
    return holds, Facts(frozenset(masks))


def _masks(c: Context, nest: Nest) -> list[SSAValue]:
    """The masks of the stores and of the loads that they depend on."""
    masks = dict[SSAValue, None]()
    for root in nest.roots:
        op: Any = root.op
        if root.kind == "store" and op.mask is not None:
            masks[op.mask] = None
    for _, owner in computed(c, nest):
        if owner.name == "tt.load" and owner.mask is not None:
            masks[owner.mask] = None
    return list(masks)


def _corners(shape: tuple[int, ...]) -> Iterator[tuple[Value, ...]]:
    """The positions at the ends of a tile along every dimension. The tile is that of the mask: a
    load that is rearranged on its way has another domain than the nest."""
    for corner in product(*(sorted({0, size - 1}) for size in shape)):
        yield tuple(const("i64", place) for place in corner)


def _is_convex(steps: Steps, mask: SSAValue) -> bool:
    """Whether a mask that is true at the corners of its tile is true in all of it."""
    owner: Any = mask.owner
    name = getattr(owner, "name", "")
    if name == "arith.andi":
        return all(_is_convex(steps, v) for v in owner.operands)
    if name == "tt.splat":
        return True
    return (
        name == "arith.cmpi"
        and owner.predicate.name[:1] == "S"
        and all(
            steps.along(v, dim) is not None
            for v in owner.operands
            for dim in range(len(ir.shape_of(v.type)))
        )
    )
