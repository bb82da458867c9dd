"""The usual case of a one-dimensional nest, all masks being true, and the test for it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

from xdsl.ir import SSAValue

from tritium.backends.cpu.lower.analysis.backward_slice import computed
from tritium.backends.cpu.lower.analysis.bounds import Bounds
from tritium.backends.cpu.lower.analysis.strides import Steps
from tritium.backends.cpu.lower.context import Context
from tritium.backends.cpu.lower.dot import number_at
from tritium.backends.cpu.lower.values import Facts
from tritium.backends.cpu.tiles.ir import Nest
from tritium.codegen.llvm.writer import Value, const
from tritium.ir import types as ir
from tritium.ops.arith import AndIOp, CmpIOp
from tritium.ops.ttir.memory import LoadOp, StoreOp
from tritium.ops.ttir.shape import SplatOp


def usual(c: Context, nest: Nest) -> tuple[Value, Facts] | None:
    """The facts of the nest, and whether they hold (i1); None if that cannot be told from the
    ends of a tile. Without any facts there is nothing to tell."""
    masks = _masks(c, nest)
    f, steps, bounds, holds = c.f, Steps(c), Bounds(c), const("i1", True)
    for mask in masks:
        conditions = _convex_if(steps, bounds, mask)
        if conditions is None:
            return None
        for condition in conditions:
            holds = f.op("and", holds, condition)
        for corner in _corners(ir.shape_of(mask.type)):
            holds = f.op("and", holds, number_at(c, mask, corner))
    return holds, Facts(frozenset(masks))


def _masks(c: Context, nest: Nest) -> list[SSAValue]:
    """The masks of the stores and of the loads that they depend on."""
    masks = dict[SSAValue, None]()
    for root in nest.roots:
        if isinstance(root, StoreOp) and root.mask is not None:
            masks[root.mask] = None
    for _, owner in computed(c, nest):
        if type(owner) is LoadOp and owner.mask is not None:
            masks[owner.mask] = None
    return list(masks)


def _corners(shape: tuple[int, ...]) -> Iterator[tuple[Value, ...]]:
    """The positions at the ends of a tile along every dimension. The tile is that of the mask: a
    load that is rearranged on its way has another domain than the nest."""
    for corner in product(*(sorted({0, size - 1}) for size in shape)):
        yield tuple(const("i64", place) for place in corner)


def _convex_if(steps: Steps, bounds: Bounds, mask: SSAValue) -> list[Value] | None:
    """The conditions under which a mask that is true at the corners of its tile is true in all of
    it: what it compares are linear, and do not wrap around. None if that cannot be told."""
    owner: Any = mask.owner
    if isinstance(owner, AndIOp):
        first, second = (_convex_if(steps, bounds, v) for v in owner.operands)
        return None if first is None or second is None else [*first, *second]
    if isinstance(owner, SplatOp):
        return []
    if not isinstance(owner, CmpIOp) or owner.predicate.name[:1] != "S":
        return None
    found = list[Value]()
    for value in owner.operands:
        interval = bounds.of(value)
        dims = range(len(ir.shape_of(value.type)))
        if interval.wraps or any(steps.along(value, dim) is None for dim in dims):
            return None
        found.extend(interval.conditions)
    return found
