"""Reductions: over a thread's registers, then its warp by shuffles, then warps by shared memory."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tritium.backends.nvidia.lower.access import from_memory, store_words, to_memory
from tritium.backends.nvidia.lower.context import Context, bits_of, layout_of
from tritium.backends.nvidia.lower.control import inline
from tritium.backends.nvidia.lower.shuffles import shuffle_xor
from tritium.backends.nvidia.lower.types import SHARED, memory_bytes, memory_type
from tritium.ir import types as ir
from tritium.ir.layouts.encodings import LANE, REGISTER, WARP, dim
from tritium.ir.layouts.linear import LinearLayout
from tritium.lowering.llvm import Value
from tritium.lowering.registry import lowers
from tritium.ops import ttir

NVIDIA = "nvidia"


@dataclass(frozen=True)
class Split:
    """The bits of a layout's inputs that run along the reduced axis.

    Attributes:
        kept: one register for each element of the result that a thread holds, in its order.
        along: register offsets that run along the axis, in order.
        lanes, warps: masks of the bits of lane and warp that run along it.
    """

    kept: tuple[int, ...]
    along: tuple[int, ...]
    lanes: tuple[int, ...]
    warps: tuple[int, ...]


def split_axis(layout: LinearLayout, axis: int) -> Split:
    """Which positions differ only along the axis. Raises `NotImplementedError` for a layout that
    moves along the axis and another one with one bit."""

    def along(name: str) -> list[bool | None]:
        found: list[bool | None] = []
        for basis in layout.bases(name):
            if basis[axis] and any(x for a, x in enumerate(basis) if a != axis):
                raise NotImplementedError(f"reducing axis {axis} of the layout {layout}")
            found.append(bool(basis[axis]) if any(basis) else None)
        return found

    bases, kinds = layout.bases(REGISTER), along(REGISTER)
    inner = sorted((b for b, k in enumerate(kinds) if k), key=lambda b: bases[b][axis])
    outer = [b for b, k in enumerate(kinds) if k is False]

    def subsets(bits: Sequence[int]) -> tuple[int, ...]:
        return tuple(
            sum(1 << b for i, b in enumerate(bits) if n >> i & 1) for n in range(1 << len(bits))
        )

    masks = [tuple(1 << b for b, k in enumerate(along(n)) if k) for n in (LANE, WARP)]
    return Split(subsets(outer), subsets(inner), masks[0], masks[1])


def warps_along(type: Any, axis: int) -> int:
    """How many warps take part in one reduction."""
    return 1 << len(split_axis(layout_of(type), axis).warps)


def scratch_bytes(op: Any) -> int:
    """Shared memory that the reduction needs: one element for each result and warp."""
    warps = warps_along(op.inputs[0].type, op.axis)
    if warps == 1:
        return 0
    results = 1
    for axis, size in enumerate(ir.shape_of(op.inputs[0].type)):
        results *= size if axis != op.axis else 1
    return sum(-(-results * warps * memory_bytes(v.type) // 16) * 16 for v in op.inputs)


@lowers(NVIDIA, ttir.ReduceOp)
def reduce(c: Context, op: Any) -> None:
    layout = layout_of(op.inputs[0].type)
    parts = split_axis(layout, op.axis)
    tiles = [c.tile(v) for v in op.inputs]
    block = op.regions[0].block

    def combine(a: Sequence[Value], b: Sequence[Value]) -> list[Value]:
        return inline(c, block, [*a, *b])

    partial = [
        functools.reduce(combine, [[t[kept | i] for t in tiles] for i in parts.along])
        for kept in parts.kept
    ]
    for mask in reversed(parts.lanes):
        partial = [combine(v, [shuffle_xor(c, x, mask) for x in v]) for v in partial]
    if parts.warps:
        partial = _across_warps(c, op, layout, parts, partial, combine)
    for i, result in enumerate(op.results):
        c.set(result, [v[i] for v in partial])


def _tree(items: list[list[Value]], combine: Any) -> list[Value]:
    """Combine neighbours, halving again and again: short chains, in the order of `evaluate`."""
    while len(items) > 1:
        items = [combine(a, b) for a, b in zip(items[::2], items[1::2], strict=False)]
    return items[0]


def _across_warps(
    c: Context, op: Any, layout: LinearLayout, parts: Split, partial: list[list[Value]],
    combine: Any,
) -> list[list[Value]]:  # fmt: skip
    """Each warp writes its part, all meet, and every thread combines all parts of its results."""
    warps, rank = 1 << len(parts.warps), len(layout.out_names)
    others = [dim(i) for i in range(rank) if i != op.axis]
    flat = layout.restrict(layout.in_names, others[::-1]).flatten_outs()
    positions = c.positions(flat, parts.kept)
    number = c.linear_map(c.warp, [
        1 << parts.warps.index(1 << b) if 1 << b in parts.warps else 0
        for b in range(layout.in_bits(WARP))
    ]) or c.i32(0)  # fmt: skip
    f = c.f
    owner = _first_lane(c, parts)
    start, bases = c.offsets[op], list[Value]()
    for i, source in enumerate(op.inputs):
        size, element = memory_bytes(source.type), memory_type(source.type)
        bases.append(c.shared(start))
        for position, values in zip(positions, partial, strict=False):
            index = f.op("add", f.op("mul", position, c.i32(warps)), number)
            place = f.emit(SHARED, f"getelementptr {element}, {bases[i]}, {index}")
            store_words(c, c.address(place), [to_memory(c, values[i])], owner, "st.shared", "r")
        start += -(-(1 << flat.total_out_bits) * warps * size // 16) * 16
    c.barrier()
    results: list[list[Value]] = []
    for position in positions:
        items: list[list[Value]] = [[] for _ in range(warps)]
        for i, source in enumerate(op.inputs):
            element = memory_type(source.type)
            first = f.op("mul", position, c.i32(warps))
            row = f.emit(SHARED, f"getelementptr {element}, {bases[i]}, {first}")
            for w, value in enumerate(_row(c, row, element, warps)):
                items[w].append(from_memory(c, value, source.type))
        results.append(_tree(items, combine))
    return results


def _row(c: Context, row: Value, element: str, count: int) -> list[Value]:
    """`count` neighbouring elements, 16 bytes at a time."""
    size = max(bits_of(element) // 8, 1)
    step = min(count, 16 // size)
    values: list[Value] = []
    for start in range(0, count, step):
        place = c.f.emit(row.type, f"getelementptr {element}, {row}, i32 {start}")
        if step == 1:
            values.append(c.f.load(element, place, size))
            continue
        vector = c.f.load(f"<{step} x {element}>", place, step * size)
        values += [c.f.extract(vector, i) for i in range(step)]
    return values


def _first_lane(c: Context, parts: Split) -> Value | None:
    """Whether this lane writes for those that hold the same after the shuffles."""
    mask = sum(parts.lanes)
    if not mask:
        return None
    return c.f.icmp("eq", c.f.op("and", c.lane, c.i32(mask)), c.i32(0))


