"""`tt.gather` and `tt.histogram`, through shared memory."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

from tritium.codegen.gpu.context import Context, layout_of
from tritium.codegen.gpu.memory.access import distinct_registers, from_memory, grouped, to_memory
from tritium.codegen.gpu.types import GPU, SHARED, memory_type, value_type
from tritium.codegen.llvm.types import memory_bytes
from tritium.codegen.llvm.writer import Value
from tritium.codegen.registry import lowers
from tritium.ir import types as ir
from tritium.ir.layouts.encodings import BLOCK, OFFSET, REGISTER
from tritium.ir.layouts.linear import LinearLayout
from tritium.ir.layouts.swizzle import run_bits
from tritium.ops import ttir


def gather_bytes(op: Any) -> int:
    """Shared memory for the whole source."""
    return prod(ir.shape_of(op.src.type)) * memory_bytes(op.src.type)


def histogram_bytes(op: Any) -> int:
    """Shared memory for an i32 for each bin."""
    return prod(ir.shape_of(op.results[0].type)) * 4


def offsets(layout: LinearLayout, strides: Mapping[int, int], size: int) -> LinearLayout:
    """The layout's map to `sum(coordinate * stride)`, strides being powers of two that keep axes
    apart; axes left out count as 0."""
    bases = {
        name: [[sum(basis[a] * s for a, s in strides.items())] for basis in layout.bases(name)]
        for name in layout.in_names
    }
    return LinearLayout.of(bases, {OFFSET: size})


def row_major(shape: tuple[int, ...]) -> dict[int, int]:
    """The stride of each axis."""
    return {axis: prod(shape[axis + 1 :]) for axis in range(len(shape))}


def _in_all_blocks(type: ir.Type) -> LinearLayout:
    """The layout of a tile of which each block of a cluster has all."""
    layout = layout_of(type)
    if any(layout.columns_of(BLOCK)):
        raise NotImplementedError(f"{type}: each block of the cluster must have all of it")
    return layout


@lowers(GPU, ttir.GatherOp, scratch=gather_bytes)
def gather(c: Context, op: Any) -> None:
    f, shape, type = c.f, ir.shape_of(op.src.type), op.src.type
    element, size, strides = memory_type(type), prod(shape), row_major(shape)
    base, source = c.shared(c.offsets[op]), _in_all_blocks(op.src.type)
    values, owner, written = c.tile(op.src), c.owner(source), offsets(source, strides, size)
    groups = grouped(distinct_registers(source), run_bits(written, memory_bytes(type)))
    places = c.positions(written, [group[0] for group in groups])
    for group, place in zip(groups, places, strict=True):
        pointer = f.emit(SHARED, f"getelementptr {element}, {base}, {place}")
        c.hardware.shared.store(c, pointer, [to_memory(c, values[r]) for r in group], owner)
    c.barrier()
    result, indices = layout_of(op.results[0].type), c.tile(op.indices)
    stride = strides.pop(op.axis)
    rows = c.positions(offsets(result, strides, size), range(len(indices)))
    found: list[Value] = []
    for index, row in zip(indices, rows, strict=True):
        wide = f.cast("trunc" if index.type == "i64" else "sext", index, "i32")
        at = f.op("add", row, f.op("mul", wide, c.i32(stride)))
        pointer = f.emit(SHARED, f"getelementptr {element}, {base}, {at}")
        found.append(from_memory(c, f.load(element, pointer, memory_bytes(type)), type))
    c.set(op.results[0], found)


@lowers(GPU, ttir.HistogramOp, scratch=histogram_bytes)
def histogram(c: Context, op: Any) -> None:
    """Counted by atomic additions in shared memory."""
    f, base = c.f, c.shared(c.offsets[op])
    type = op.results[0].type
    result, (bins,) = layout_of(type), ir.shape_of(type)
    places = c.positions(offsets(result, {0: 1}, bins), range(result.in_size(REGISTER)))
    pointers = [f.emit(SHARED, f"getelementptr i32, {base}, {place}") for place in places]
    for register in distinct_registers(result):
        f.store(c.i32(0), pointers[register], 4)
    c.barrier()
    source, values = _in_all_blocks(op.src.type), c.tile(op.src)
    masks, owner = None if op.mask is None else c.tile(op.mask), c.owner(source)
    for register in distinct_registers(source):
        value = values[register]
        counts = f.icmp("ult", value, Value(value.type, str(bins))) \
            if bins < 1 << min(int(value.type[1:]), 63) else Value("i1", "true")  # fmt: skip
        for condition in (owner, None if masks is None else masks[register]):
            counts = counts if condition is None else f.op("and", counts, condition)
        wide = f.cast("trunc" if value.type == "i64" else "zext", value, "i32")
        pointer = f.emit(SHARED, f"getelementptr i32, {base}, {wide}")
        c.hardware.shared.add(c, pointer, c.i32(1), counts)
    c.barrier()
    held = value_type(type)
    found = [f.load("i32", pointer, 4) for pointer in pointers]
    cast = "trunc" if int(held[1:]) < 32 else "zext"
    c.set(op.results[0], [f.cast(cast, v, held) for v in found])
