"""Scans: over a thread's registers, then its warp by shuffles, then warps by shared memory.

`scan_encoding` (passes) gives each thread a run of neighbours along the axis, the lanes of a warp
runs that follow each other, and so the warps. A reverse scan counts all of them backwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tritium.codegen.gpu.collective.reduce import Split, scratch_bytes, split_axis
from tritium.codegen.gpu.collective.shuffles import shuffle
from tritium.codegen.gpu.context import Context, layout_of
from tritium.codegen.gpu.control import inline
from tritium.codegen.gpu.memory.access import from_memory, to_memory, with_copies
from tritium.codegen.gpu.types import GPU, SHARED, memory_type
from tritium.codegen.llvm.types import memory_bytes
from tritium.codegen.llvm.writer import Value
from tritium.codegen.registry import lowers
from tritium.ir import types as ir
from tritium.ir.layouts.encodings import dim
from tritium.ir.layouts.linear import LinearLayout
from tritium.ir.layouts.moves import in_order
from tritium.ops import ttir

Row = list[Value]
"""One element of each operand."""


def _in_order(op: Any, layout: LinearLayout) -> Split:
    """The bits along the axis. Raises `NotImplementedError` unless registers, lanes and warps
    come one above the other, each in consecutive bits."""
    if not in_order(layout, op.axis):
        raise NotImplementedError(f"a scan along axis {op.axis} of the layout {layout}")
    return split_axis(layout, op.axis)


@lowers(GPU, ttir.ScanOp, scratch=scratch_bytes)
def scan(c: Context, op: Any) -> None:
    layout = layout_of(op.inputs[0].type)
    parts, block = _in_order(op, layout), op.regions[0].block
    tiles = [c.tile(v) for v in op.inputs]
    along = parts.along[::-1] if op.reverse else parts.along

    def combine(earlier: Row, later: Row) -> Row:
        return inline(c, block, [*earlier, *later])

    rows: dict[int, list[Row]] = {}
    for kept in parts.kept:
        run = [[t[kept | i] for t in tiles] for i in along]
        for i in range(1, len(run)):
            run[i] = combine(run[i - 1], run[i])
        rows[kept] = run
    if parts.lanes:
        for kept in parts.kept:
            rows[kept] = _over_lanes(c, op, parts, rows[kept], combine)
    if parts.warps:
        _over_warps(c, op, layout, parts, rows, combine)
    registers: dict[int, Row] = {
        kept | i: row for kept, run in rows.items() for i, row in zip(along, run, strict=True)
    }
    every = with_copies(layout, registers)
    for n, result in enumerate(op.results):
        c.set(result, [row[n] for row in every])


def _select(c: Context, condition: Value, then: Row, other: Row) -> Row:
    return [c.f.select(condition, a, b) for a, b in zip(then, other, strict=True)]


def _place(c: Context, index: Value, masks: Sequence[int], reverse: bool) -> Value:
    """The place of a lane or warp along the axis, counted from where the scan starts."""
    shift = masks[0].bit_length() - 1
    place = c.f.op("and", c.f.op("lshr", index, c.i32(shift)), c.i32((1 << len(masks)) - 1))
    return c.f.op("xor", place, c.i32((1 << len(masks)) - 1)) if reverse else place


def _from_earlier(c: Context, row: Row, distance: int, op: Any) -> Row:
    """The values of the lane that is so much earlier (any where there is none)."""
    source = c.f.op("add" if op.reverse else "sub", c.lane, c.i32(distance))
    return [shuffle(c, value, source) for value in row]


def _over_lanes(c: Context, op: Any, parts: Split, run: list[Row], combine: Any) -> list[Row]:
    """Combine what earlier lanes have with each lane's run."""
    place, step = _place(c, c.lane, parts.lanes, op.reverse), parts.lanes[0]
    total = run[-1]
    for bit in range(len(parts.lanes)):
        before = _from_earlier(c, total, step << bit, op)
        far = c.f.icmp("uge", place, c.i32(1 << bit))
        total = _select(c, far, combine(before, total), total)
    before = _from_earlier(c, total, step, op)
    later = c.f.icmp("ne", place, c.i32(0))
    return [*(_select(c, later, combine(before, row), row) for row in run[:-1]), total]


def _over_warps(
    c: Context, op: Any, layout: LinearLayout, parts: Split, rows: dict[int, list[Row]],
    combine: Any,
) -> None:  # fmt: skip
    """Each warp writes its total, all synchronize, and each combines those of the warps
    before it."""
    f, warps = c.f, 1 << len(parts.warps)
    others = [dim(i) for i in range(len(layout.out_names)) if i != op.axis]
    flat = layout.restrict(layout.in_names, others[::-1]).flatten_outs()
    positions = dict(zip(parts.kept, c.positions(flat, parts.kept), strict=True))
    place = _place(c, c.warp, parts.warps, op.reverse)
    last = (1 << len(parts.lanes)) - 1
    writes = f.icmp("eq", _place(c, c.lane, parts.lanes, op.reverse), c.i32(last)) \
        if parts.lanes else None  # fmt: skip
    bases: list[Value] = []
    start = c.offsets[op]
    for n, source in enumerate(op.inputs):
        element, size = memory_type(source.type), memory_bytes(source.type)
        bases.append(c.shared(start))
        for kept, run in rows.items():
            index = f.op("add", f.op("mul", positions[kept], c.i32(warps)), place)
            pointer = f.emit(SHARED, f"getelementptr {element}, {bases[n]}, {index}")
            parts_ = [to_memory(c, run[-1][n])]
            c.hardware.shared.store(c, pointer, parts_, writes)
        start += -(-(1 << flat.total_out_bits) * warps * size // 16) * 16
    c.barrier()
    for kept, run in rows.items():
        before: Row | None = None
        for warp in range(warps - 1):
            total = [
                _read(c, base, positions[kept], warps, warp, source.type)
                for base, source in zip(bases, op.inputs, strict=True)
            ]
            if before is None:
                before = total
                continue
            counts = f.icmp("ugt", place, c.i32(warp))
            before = _select(c, counts, combine(before, total), before)
        assert before is not None
        later = f.icmp("ne", place, c.i32(0))
        rows[kept] = [_select(c, later, combine(before, row), row) for row in run]


def _read(c: Context, base: Value, position: Value, warps: int, warp: int, type: ir.Type) -> Value:
    element = memory_type(type)
    index = c.f.op("add", c.f.op("mul", position, c.i32(warps)), c.i32(warp))
    pointer = c.f.emit(SHARED, f"getelementptr {element}, {base}, {index}")
    return from_memory(c, c.f.load(element, pointer, memory_bytes(type)), type)
