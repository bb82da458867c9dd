"""Nests whose loads and stores go through different kernel arguments that may overlap.

A nest loads and stores chunk by chunk, which is what the program says as long as the tiles of
memory are apart, or are the same element by element. Before such a nest that is tested, once for
each pair of tiles, by first and last addresses; if it does not hold, the nest's parts are done one
whole after the other, in the order of the program.

A tile of memory that is accessed twice must also have no element twice: where its rows overlap, or
all of it is one element, a chunk would read or undo what another one has written. The same goes for
one that is stored to in another order than the row-major one, the last element of which wins.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import SSAValue

from tritium.backends.cpu.dot.operand import Step, as_value, static
from tritium.backends.cpu.lower.analysis.strides import Strides
from tritium.backends.cpu.lower.context import Context
from tritium.backends.cpu.lower.dot import number_at
from tritium.backends.cpu.tiles.slices import Slice
from tritium.codegen.llvm.writer import Function, Value, const
from tritium.ir import types as ir


@dataclass(frozen=True)
class Extent:
    """A tile of addresses: its first element's, the lowest, the end of the highest (i64), and for
    each dimension longer than one the distance between neighbours (elements) and its length."""

    first: Value
    low: Value
    end: Value
    steps: tuple[Step, ...]
    counts: tuple[int, ...]
    size: int


def apart(c: Context, part: Slice) -> Value | None:
    """Whether a nest can be done chunk by chunk: an i1, or None if that needs no test. Code goes to
    the current position."""
    steps, extents = Strides(c), dict[SSAValue, Extent | None]()
    result: Value | None = None

    def extent(pointer: SSAValue) -> Extent | None:
        if pointer not in extents:
            extents[pointer] = _extent(c, steps, pointer)
        return extents[pointer]

    for access, store in part.meetings:
        if access.ptr is store.ptr:
            holds = _distinct(c.f, extent(store.ptr))
        else:
            keeps = access.stores_elements or access.results[0] not in part.moved
            holds = _pair(c.f, extent(access.ptr), extent(store.ptr), keeps)
        result = _both(c.f, result, holds)
    return result


def _extent(c: Context, steps: Strides, pointer: SSAValue) -> Extent | None:
    f, shape, size = c.f, ir.shape_of(pointer.type), c.pointee_bytes(pointer.type)
    distances: list[Step] = []
    for dim, count in enumerate(shape):
        if count == 1:
            continue
        step = steps.along(pointer, dim)
        if step is None:
            return None
        distances.append(step)
    zero = const("i64", 0)
    first = f.cast("ptrtoint", number_at(c, pointer, (zero,) * len(shape)), "i64")
    below, above = 0, size
    low, end = first, first
    for step, count in zip(distances, (n for n in shape if n > 1), strict=True):
        known = static(step)
        if known is not None:
            reach = known * size * (count - 1)
            below, above = below + min(reach, 0), above + max(reach, 0)
            continue
        span = f.op("mul", as_value(step), const("i64", size * (count - 1)))
        low = f.op("add", low, f.intrinsic("smin", span, zero))
        end = f.op("add", end, f.intrinsic("smax", span, zero))
    if below:
        low = f.op("add", low, const("i64", below))
    end = f.op("add", end, const("i64", above))
    return Extent(first, low, end, tuple(distances), tuple(n for n in shape if n > 1), size)


def _pair(f: Function, a: Extent | None, b: Extent | None, keeps: bool) -> Value:
    """Whether two tiles are apart, or the same element by element, which will do where each is read
    when the same one is written (`keeps` its place)."""
    if a is None or b is None:
        return const("i1", False)
    holds = f.op("or", f.icmp("ule", a.end, b.low), f.icmp("ule", b.end, a.low))
    if not keeps or a.size != b.size or len(a.steps) != len(b.steps):
        return holds
    same = f.icmp("eq", a.first, b.first)
    if (distinct := _distinct(f, a)) is not None:
        same = f.op("and", same, distinct)
    for left, right in zip(a.steps, b.steps, strict=True):
        known, other = static(left), static(right)
        if known is not None and other is not None:
            if known != other:
                return holds
        elif left != right:
            same = f.op("and", same, f.icmp("eq", as_value(left), as_value(right)))
    return f.op("or", holds, same)


def _distinct(f: Function, tile: Extent | None) -> Value | None:
    """Whether no element is there twice; None if that is certain. Along each dimension, neighbours
    must be further apart than what all those together reach that have smaller distances."""
    if tile is None:
        return const("i1", False)
    known = [static(step) for step in tile.steps]
    if None not in known:
        far = sorted(zip((abs(k or 0) for k in known), tile.counts, strict=True))
        reach = 0
        for distance, count in far:
            if distance <= reach:
                return const("i1", False)
            reach += distance * (count - 1)
        return None
    result: Value | None = None
    zero, false = const("i64", 0), const("i1", False)
    far = [f.call("i64", "llvm.abs.i64", as_value(step), false) for step in tile.steps]
    reaches = [f.op("mul", d, const("i64", n - 1)) for d, n in zip(far, tile.counts, strict=True)]
    for dim, distance in enumerate(far):
        reach = zero
        for other, span in enumerate(reaches):
            if other != dim:
                counts = f.icmp("sle", far[other], distance)
                reach = f.op("add", reach, f.select(counts, span, zero))
        result = _both(f, result, f.icmp("sgt", distance, reach))
    return result


def _both(f: Function, a: Value | None, b: Value | None) -> Value | None:
    """The conjunction of two conditions; None is a condition that always holds."""
    if a is None or b is None:
        return a or b
    for known in (a, b):
        if known.ref == "false":
            return known
    return f.op("and", a, b)
