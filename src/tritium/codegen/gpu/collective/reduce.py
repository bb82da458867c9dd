"""Reductions: over a thread's registers, then its warp by shuffles, then warps by shared memory."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tritium.codegen.gpu.collective.shuffles import shuffle_xor
from tritium.codegen.gpu.context import Context, layout_of
from tritium.codegen.gpu.control import inline
from tritium.codegen.gpu.emitter import bits_of
from tritium.codegen.gpu.memory.access import from_memory, to_memory
from tritium.codegen.gpu.types import GPU, SHARED, memory_type
from tritium.codegen.llvm.types import memory_bytes
from tritium.codegen.llvm.writer import Value
from tritium.codegen.registry import lowers
from tritium.ir import types as ir
from tritium.ir.layouts.encodings import BLOCK, LANE, REGISTER, WARP, dim
from tritium.ir.layouts.linear import LinearLayout
from tritium.ops import ttir


@dataclass(frozen=True)
class Split:
    """The bits of a layout's inputs that run along the reduced axis.

    Attributes:
        kept: one register for each element of the result that a thread holds, in its order.
        along: register offsets that run along the axis, in order.
        lanes, warps, blocks: masks of the bits of lane, warp and block that run along it.
    """

    kept: tuple[int, ...]
    along: tuple[int, ...]
    lanes: tuple[int, ...]
    warps: tuple[int, ...]
    blocks: tuple[int, ...]


def split_axis(layout: LinearLayout, axis: int) -> Split:
    """The bits of each input that move along the axis. Raises `NotImplementedError` for a layout
    that moves along the axis and another one with one bit."""

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

    masks = [tuple(1 << b for b, k in enumerate(along(n)) if k) for n in (LANE, WARP, BLOCK)]
    return Split(subsets(outer), subsets(inner), *masks)


def scratch_bytes(op: Any) -> int:
    """Shared memory that the reduction needs: one element for each result and warp."""
    parts = split_axis(layout_of(op.inputs[0].type), op.axis)
    if not parts.warps and not parts.blocks:
        return 0
    warps = 1 << len(parts.warps)
    results = 1
    for axis, size in enumerate(ir.shape_of(op.inputs[0].type)):
        results *= size if axis != op.axis else 1
    return sum(-(-results * warps * memory_bytes(v.type) // 16) * 16 for v in op.inputs)


@lowers(GPU, ttir.ReduceOp, scratch=scratch_bytes)
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
    alike = 0
    for mask in reversed(parts.lanes):
        partial = [combine(v, [shuffle_xor(c, x, mask, alike) for x in v]) for v in partial]
        alike |= mask
    if parts.warps or parts.blocks:
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
    """Each warp writes its part, all synchronize, and every thread combines all parts of its
    results, those of its block or those of all blocks along the axis."""
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
            c.hardware.shared.store(c, place, [to_memory(c, values[i])], owner)
        start += -(-(1 << flat.total_out_bits) * warps * size // 16) * 16
    synchronize = c.synchronize if parts.blocks else c.barrier
    synchronize()
    results: list[list[Value]] = []
    blocks = _blocks_along(c, parts)
    for position in positions:
        items: list[list[Value]] = [[] for _ in range(warps * len(blocks))]
        for i, source in enumerate(op.inputs):
            element = memory_type(source.type)
            first = f.op("mul", position, c.i32(warps))
            row = f.emit(SHARED, f"getelementptr {element}, {bases[i]}, {first}")
            parts_ = [value for b in blocks for value in _row(c, row, element, warps, b)]
            for item, value in zip(items, parts_, strict=True):
                item.append(from_memory(c, value, source.type))
        results.append(_tree(items, combine))
    if parts.blocks:
        synchronize()  # before anything else is written there
    return results


def _blocks_along(c: Context, parts: Split) -> list[Value | None]:
    """The blocks whose parts belong to this one's results, in the order of the axis; None is the
    block itself."""
    if not parts.blocks:
        return [None]
    rest = c.f.op("and", c.block, c.i32(~sum(parts.blocks)))
    chosen = [sum(m for i, m in enumerate(parts.blocks) if n >> i & 1)
              for n in range(1 << len(parts.blocks))]  # fmt: skip
    return [c.f.op("or", rest, c.i32(n)) if n else rest for n in chosen]


def _row(
    c: Context, row: Value, element: str, count: int, block: Value | None = None
) -> list[Value]:
    """`count` neighbouring elements, 16 bytes at a time, perhaps of another block's memory."""
    size = max(bits_of(element) // 8, 1)
    step = min(count, 16 // size)
    values: list[Value] = []
    for start in range(0, count, step):
        place = c.f.emit(row.type, f"getelementptr {element}, {row}, i32 {start}")
        if block is not None:
            values += c.hardware.shared.load_remote(c, place, block, element, step)
            continue
        if step == 1:
            values.append(c.f.load(element, place, size))
            continue
        vector = c.f.load(f"<{step} x {element}>", place, step * size)
        values += [c.f.extract(vector, i) for i in range(step)]
    return values


def _first_lane(c: Context, parts: Split) -> Value | None:
    """True if this lane writes for those that hold the same after the shuffles."""
    mask = sum(parts.lanes)
    if not mask:
        return None
    return c.f.icmp("eq", c.f.op("and", c.lane, c.i32(mask)), c.i32(0))
