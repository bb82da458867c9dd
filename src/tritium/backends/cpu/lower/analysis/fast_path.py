"""The test whether all masks of a nest are true."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from xdsl.ir import SSAValue

from tritium.backends.cpu.lower.analysis.bounds import Bounds
from tritium.backends.cpu.lower.analysis.strides import Strides
from tritium.backends.cpu.lower.context import Context
from tritium.backends.cpu.lower.dot import number_at
from tritium.backends.cpu.tiles.version import signed_compares
from tritium.codegen.llvm.writer import Value, const
from tritium.ir import types as ir


def unmasked(c: Context, masks: Sequence[SSAValue]) -> Value | None:
    """True if all masks are true (i1); None if that cannot be told from the ends of a tile."""
    f, steps, bounds, holds = c.f, Strides(c), Bounds(c), const("i1", True)
    for mask in masks:
        conditions = _convex_if(steps, bounds, mask)
        if conditions is None:
            return None
        for condition in conditions:
            holds = f.op("and", holds, condition)
        for corner in _corners(ir.shape_of(mask.type)):
            holds = f.op("and", holds, number_at(c, mask, corner))
    return holds


def _corners(shape: tuple[int, ...]) -> Iterator[tuple[Value, ...]]:
    """The positions at the ends of a tile along every dimension. The tile is that of the mask: a
    load that is rearranged on its way has another domain than the nest."""
    for corner in product(*(sorted({0, size - 1}) for size in shape)):
        yield tuple(const("i64", place) for place in corner)


def _convex_if(steps: Strides, bounds: Bounds, mask: SSAValue) -> list[Value] | None:
    """The conditions under which a mask that is true at the corners of its tile is true in all of
    it: what it compares are linear, and do not wrap around. None if that cannot be told."""
    compares = signed_compares(mask)
    if compares is None:
        return None
    found = list[Value]()
    for value in (operand for compare in compares for operand in compare.operands):
        interval = bounds.of(value)
        dims = range(len(ir.shape_of(value.type)))
        if interval.wraps or any(steps.along(value, dim) is None for dim in dims):
            return None
        found.extend(interval.conditions)
    return found
