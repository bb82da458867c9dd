"""Tiles in shared memory: allocation, views, loads, stores; and changes of layout.

Where an element of a tile is in shared memory is the composition of two linear layouts: that of the
registers, and the inverse of that of the memory. How wide an access can be is read off the result.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tritium.backends.nvidia.lower import matrix
from tritium.backends.nvidia.lower.access import (
    distinct_registers,
    from_memory,
    grouped,
    store_words,
    to_memory,
    word_type,
)
from tritium.backends.nvidia.lower.context import Context, Memory, Tile, bits_of, layout_of
from tritium.backends.nvidia.lower.shape import in_thread, moved_registers
from tritium.backends.nvidia.lower.types import SHARED, memory_bytes, memory_type
from tritium.ir import types as ir
from tritium.ir.layouts.encodings import OFFSET, REGISTER, dim, linear
from tritium.ir.layouts.linear import LinearLayout
from tritium.lowering.llvm import Value
from tritium.lowering.registry import lowers
from tritium.ops import ttgir

NVIDIA = "nvidia"


def memory_layout(type: Any) -> LinearLayout:
    """The linear layout (offset -> coordinates) of a piece of shared memory."""
    return linear(type.encoding, tuple(type.get_shape()))


def place_of(tile: LinearLayout, memory: LinearLayout) -> LinearLayout:
    """(register, lane, warp, block) -> offset in elements."""
    found = tile.invert_and_compose(memory)
    return found.restrict(found.in_names, [OFFSET])


@dataclass(frozen=True)
class Run:
    """How a thread's registers lie in memory: `groups` are neighbours, at `offsets` (elements,
    of the first of each group)."""

    groups: tuple[tuple[int, ...], ...]
    offsets: list[Value]


def runs(c: Context, tile: LinearLayout, place: LinearLayout, size: int, most: int = 16) -> Run:
    """The widest accesses, at most `most` bytes, in which registers are neighbours in memory."""
    groups = grouped(distinct_registers(tile), run_bits(place, size, most))
    return Run(groups, c.positions(place, [g[0] for g in groups]))


def run_bits(place: LinearLayout, size: int, most: int = 16) -> list[int]:
    """The register bits that are 1, 2, 4, ... elements further in memory, up to `most` bytes."""
    columns, bits = place.columns_of(REGISTER), list[int]()
    while size << len(bits) < most and 1 << len(bits) in columns:
        low = 1 << len(bits)
        if sum(1 for x in place.columns if x & low) != 1:
            break
        bits.append(columns.index(low))
    return bits


def store_tile(
    c: Context, values: Tile, tile: LinearLayout, place: LinearLayout, base: Value, type: ir.Type
) -> None:
    """Write a tile's registers to shared memory."""
    run, element, owner = runs(c, tile, place, memory_bytes(type)), memory_type(type), c.owner(tile)
    for group, offset in zip(run.groups, run.offsets, strict=False):
        pointer = c.f.emit(SHARED, f"getelementptr {element}, {base}, {offset}")
        parts = [to_memory(c, values[r]) for r in group]
        store_words(c, c.address(pointer), parts, owner, "st.shared", "r")


def load_tile(
    c: Context, tile: LinearLayout, place: LinearLayout, base: Value, type: ir.Type
) -> list[Value]:
    """Read a tile's registers from shared memory."""
    element, how = memory_type(type), matrix.find(tile, place, memory_bytes(type))
    if how is not None:
        return matrix.load(c, tile, place, base, element, how)
    run = runs(c, tile, place, memory_bytes(type))
    loaded: dict[int, Value] = {}
    for group, offset in zip(run.groups, run.offsets, strict=False):
        pointer = c.f.emit(SHARED, f"getelementptr {element}, {base}, {offset}")
        loaded.update(zip(group, _read(c, pointer, element, len(group), type), strict=False))
    free = tile.free_variables().get(REGISTER, 0)
    return [loaded[r & ~free] for r in range(tile.in_size(REGISTER))]


@lowers(NVIDIA, ttgir.LocalAllocOp)
def allocate(c: Context, op: Any) -> None:
    type = op.results[0].type
    memory = Memory(c.shared(c.offsets[op]), type)
    c.set(op.results[0], memory)
    if op.src is not None:
        tile = layout_of(op.src.type)
        place = place_of(tile, memory_layout(type))
        store_tile(c, c.tile(op.src), tile, place, memory.address, op.src.type)


@lowers(NVIDIA, ttgir.LocalDeallocOp)
def deallocate(c: Context, op: Any) -> None:
    """Places were chosen before."""


@lowers(NVIDIA, ttgir.LocalLoadOp)
def local_load(c: Context, op: Any) -> None:
    memory, type = c.memory(op.src), op.results[0].type
    tile = layout_of(type)
    place = place_of(tile, memory_layout(memory.type))
    c.set(op.results[0], load_tile(c, tile, place, memory.address, type))


@lowers(NVIDIA, ttgir.LocalStoreOp)
def local_store(c: Context, op: Any) -> None:
    memory, tile = c.memory(op.dst), layout_of(op.src.type)
    place = place_of(tile, memory_layout(memory.type))
    store_tile(c, c.tile(op.src), tile, place, memory.address, op.src.type)


@lowers(NVIDIA, ttgir.MemDescIndexOp)
def index(c: Context, op: Any) -> None:
    """One of the buffers along the first axis."""
    memory, type = c.memory(op.src), op.results[0].type
    size = buffer_bytes(type)
    offset = c.f.op("mul", c.scalar(op.index), c.i32(size), "nsw")
    c.set(op.results[0], Memory(c.byte_offset(memory.address, offset), type))


def buffer_bytes(type: Any) -> int:
    """Bytes of one buffer of shared memory."""
    count = 1
    for size in type.get_shape():
        count *= size
    return count * memory_bytes(type.element_type)


@lowers(NVIDIA, ttgir.MemDescTransOp, ttgir.MemDescReinterpretOp, ttgir.MemDescReshapeOp)
def view(c: Context, op: Any) -> None:
    """The same memory with another layout."""
    c.set(op.results[0], Memory(c.memory(op.src).address, op.results[0].type))


@lowers(NVIDIA, ttgir.ConvertLayoutOp)
def convert(c: Context, op: Any) -> None:
    """Nothing or a renumbering of registers where elements stay in their threads; else through
    shared memory."""
    source, result = layout_of(op.src.type), layout_of(op.results[0].type)
    values = c.tile(op.src)
    if in_thread(c, op):
        return
    type = op.src.type
    memory = padded(result, memory_bytes(type))
    base, size = c.shared(c.offsets[op]), memory_bytes(type)
    _store_padded(c, values, source, memory, base, type)
    c.barrier()
    c.set(op.results[0], _load_padded(c, result, memory, base, type, size))


def conversion_bytes(op: Any) -> int:
    """Shared memory that a change of layout needs."""
    source, result = layout_of(op.src.type), layout_of(op.results[0].type)
    if moved_registers(op) is not None:
        return 0
    size = memory_bytes(op.src.type)
    memory = padded(result, size)
    elements = 1 << result.total_out_bits
    return (elements + (elements >> memory.row_bits) * memory.pad) * size


@dataclass(frozen=True)
class Padded:
    """Scratch for a change of layout: elements in order of `axes`, each row of the fastest axis
    followed by `pad` elements, which spreads columns over the banks."""

    axes: tuple[int, ...]
    row_bits: int
    pad: int


def padded(result: LinearLayout, size: int) -> Padded:
    """Scratch whose rows run along the axis that the reader has most neighbours of."""
    rank, bases = len(result.out_names), result.bases(REGISTER)
    fastest = max(range(rank), key=lambda a: (_run(bases, a), a))
    axes = (fastest, *[a for a in reversed(range(rank)) if a != fastest])
    return Padded(axes, result.out_bits(dim(fastest)), 16 // size)


def _run(bases: list[tuple[int, ...]], axis: int) -> int:
    length = 0
    while any(b[axis] == 1 << length and sum(b) == b[axis] for b in bases):
        length += 1
    return length


def _linear(layout: LinearLayout, memory: Padded) -> LinearLayout:
    flat = layout.transpose_outs([dim(a) for a in memory.axes])
    return flat.flatten_outs(OFFSET)


def _padded_offset(c: Context, index: Value, memory: Padded) -> Value:
    if index.ref.startswith("%"):
        row = c.f.op("lshr", index, c.i32(memory.row_bits))
        return c.f.op("add", index, c.f.op("mul", row, c.i32(memory.pad), "nsw"), "nsw")
    number = int(index.ref)
    return c.i32(number + (number >> memory.row_bits) * memory.pad)


def _store_padded(
    c: Context, values: Tile, tile: LinearLayout, memory: Padded, base: Value, type: ir.Type
) -> None:
    size = memory_bytes(type)
    run = runs(c, tile, _linear(tile, memory), size, min(16, size << memory.row_bits))
    element, owner = memory_type(type), c.owner(tile)
    for group, offset in zip(run.groups, run.offsets, strict=False):
        at = _padded_offset(c, offset, memory)
        pointer = c.f.emit(SHARED, f"getelementptr {element}, {base}, {at}")
        parts = [to_memory(c, values[r]) for r in group]
        store_words(c, c.address(pointer), parts, owner, "st.shared", "r")


def _load_padded(
    c: Context, tile: LinearLayout, memory: Padded, base: Value, type: ir.Type, size: int
) -> list[Value]:
    run = runs(c, tile, _linear(tile, memory), size, min(16, size << memory.row_bits))
    element = memory_type(type)
    loaded: dict[int, Value] = {}
    for group, offset in zip(run.groups, run.offsets, strict=False):
        at = _padded_offset(c, offset, memory)
        pointer = c.f.emit(SHARED, f"getelementptr {element}, {base}, {at}")
        loaded.update(zip(group, _read(c, pointer, element, len(group), type), strict=False))
    free = tile.free_variables().get(REGISTER, 0)
    return [loaded[r & ~free] for r in range(tile.in_size(REGISTER))]


def _read(c: Context, pointer: Value, element: str, count: int, type: ir.Type) -> list[Value]:
    word = word_type(element, count)
    words = bits_of(element) * count // bits_of(word)
    held = f"<{words} x {word}>" if words > 1 else word
    value = c.f.load(held, pointer, max(bits_of(element) // 8, 1) * count)
    parts = [c.f.extract(value, i) for i in range(words)] if words > 1 else [value]
    return [from_memory(c, v, type) for v in c.unpack(parts, element)]
