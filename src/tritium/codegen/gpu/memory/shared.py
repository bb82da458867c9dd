"""Tiles in shared memory: allocation, views, loads, stores.

Where an element of a tile is in shared memory is the composition of two linear layouts: that of the
registers, and the inverse of that of the memory. How wide an access can be is read off the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from tritium.codegen.gpu.context import Context, Memory, Tile, layout_of
from tritium.codegen.gpu.emitter import Emitter
from tritium.codegen.gpu.matmul.k_blocking import feeds_blocks
from tritium.codegen.gpu.memory.access import (
    distinct_registers,
    from_memory,
    grouped,
    to_memory,
    with_copies,
)
from tritium.codegen.gpu.types import GPU, memory_type
from tritium.codegen.llvm.types import memory_bytes
from tritium.codegen.llvm.writer import Value
from tritium.codegen.registry import lowers
from tritium.ir import types as ir
from tritium.ir.layouts.encodings import BLOCK, OFFSET, SharedEncoding, linear
from tritium.ir.layouts.linear import LinearLayout
from tritium.ir.layouts.swizzle import WIDEST_BYTES, place_of, run_bits
from tritium.ops import ttgir
from tritium.ops.arith import constant_int


def place_in(tile: LinearLayout, type: Any) -> LinearLayout:
    """(register, lane, warp, block) -> offset of a tile's elements in the block's own piece of
    shared memory."""
    memory = memory_layout(type)
    return place_of(tile.resize_outs({n: memory.out_size(n) for n in tile.out_names}), memory)


def place_in_blocks(tile: LinearLayout, memory: LinearLayout) -> tuple[LinearLayout, int]:
    """(register, lane, warp, block) -> offset and, above the returned number of bits, the block
    that has it; of blocks with copies the one with the bits of its own number. Neighbours in memory
    are those whose places differ in the bits below alone."""
    inverse, above = memory.inverse(), memory.in_bits(OFFSET)
    tile, copies = tile.transpose_outs(memory.out_names), memory.free_variables().get(BLOCK, 0)

    def column(basis: Any, own: int = 0) -> int:
        found = inverse.apply({f"dim{i}": x for i, x in enumerate(basis)})
        return int(found[OFFSET]) | (int(found.get(BLOCK, 0)) | own & copies) << above

    bases = {
        n: [[column(b, 1 << i if n == BLOCK else 0)] for i, b in enumerate(tile.bases(n))]
        for n in tile.in_names
    }
    return LinearLayout.of(bases, {OFFSET: 1 << above + memory.in_bits(BLOCK)}), above


def copies_in(memory: LinearLayout) -> list[int]:
    """Bits by which the number of a block differs from those of all blocks with the same copies."""
    free = memory.free_variables().get(BLOCK, 0)
    return [n for n in range(free + 1) if n & ~free == 0]


def memory_layout(type: Any) -> LinearLayout:
    """The linear layout (offset -> coordinates) of a piece of shared memory; of a slice that of the
    tile that it is part of. Of memory with gaps, `gaps_of` says how far they move elements."""
    return linear(type.encoding, type.allocation_shape()[-len(type.get_shape()) :])


Gaps: TypeAlias = "tuple[tuple[int, int], ...]"
"""Pairs (interval, padding): `padding` elements follow every `interval` elements of the tile."""


def gaps_of(type: Any) -> Gaps:
    """The gaps between the elements of a piece of shared memory."""
    encoding, shape = type.encoding, type.allocation_shape()[-len(type.get_shape()) :]
    shared = isinstance(encoding, SharedEncoding)
    return encoding.gaps(shape, memory_bytes(type.element_type)) if shared else ()


def padded(c: Emitter, offset: Value, gaps: Gaps) -> Value:
    """An offset in elements, with the gaps before it."""
    found = offset
    for interval, padding in gaps:
        count = c.f.op("lshr", offset, c.i32(interval.bit_length() - 1))
        before = c.f.op("mul", count, c.i32(padding))
        found = c.f.op("add", found, before, "nuw nsw")
    return found


def shared_pointers(
    c: Emitter, base: Value, place: LinearLayout, registers: Sequence[int], element: str,
    origin: int = 0, gaps: Gaps = (),
) -> list[Value]:  # fmt: skip
    """Pointers to some registers' elements in shared memory; `place`: their offsets in elements."""
    moved = (c.i32(origin), origin) if origin else (None, 0)
    if not gaps:
        return c.pointers(base, place, registers, element, moved)
    offsets = c.positions(place, registers)
    if origin:
        offsets = [c.f.op("xor", offset, c.i32(origin)) for offset in offsets]
    places = [padded(c, offset, gaps) for offset in offsets]
    return [c.f.emit(base.type, f"getelementptr {element}, {base}, {p}") for p in places]


def neighbour_bits(place: LinearLayout, size: int, gaps: Gaps = ()) -> list[int]:
    """The register bits whose elements one access takes: `run_bits` between gaps."""
    most = min((min(pair) for pair in gaps), default=WIDEST_BYTES)
    return run_bits(place, size, min(most * size, WIDEST_BYTES))


def store_tile(
    c: Context, values: Tile, tile: LinearLayout, place: LinearLayout, base: Value, type: ir.Type,
    origin: int = 0, gaps: Gaps = (),
) -> None:  # fmt: skip
    """Write a tile's registers to shared memory; `origin`: see `Memory`."""
    element, owner, size = memory_type(type), c.owner(tile), memory_bytes(type)
    parts = [to_memory(c, v) for v in values]
    matrices, plain = c.hardware.matrices, owner is None and not origin and not gaps
    how = matrices.find_store(place, size) if plain else None
    if how is not None:
        matrices.store(c, parts, tile, place, base, element, how)
        return
    groups = grouped(distinct_registers(tile), neighbour_bits(place, size, gaps))
    pointers = shared_pointers(c, base, place, [g[0] for g in groups], element, origin, gaps)
    for group, pointer in zip(groups, pointers, strict=True):
        written = [parts[r] for r in group]
        if owner is None:
            c.store_neighbours(pointer, written)
        else:
            c.hardware.shared.store(c, pointer, written, owner)


def load_tile(
    c: Context, tile: LinearLayout, place: LinearLayout, base: Value, type: ir.Type,
    origin: int = 0, gaps: Gaps = (),
) -> list[Value]:  # fmt: skip
    """Read a tile's registers from shared memory; `origin`: see `Memory`."""
    element, size = memory_type(type), memory_bytes(type)
    matrices = c.hardware.matrices
    how = matrices.find_load(place, size, origin, gaps)
    if how is not None:
        parts = matrices.load(c, tile, place, base, element, how)
        return [from_memory(c, value, type) for value in parts]
    groups = grouped(distinct_registers(tile), neighbour_bits(place, size, gaps))
    pointers = shared_pointers(c, base, place, [g[0] for g in groups], element, origin, gaps)
    loaded: dict[int, Value] = {}
    for group, pointer in zip(groups, pointers, strict=True):
        loaded.update(zip(group, read(c, pointer, element, len(group), type), strict=True))
    return with_copies(tile, loaded)


@lowers(GPU, ttgir.LocalAllocOp)
def allocate(c: Context, op: Any) -> None:
    type = op.results[0].type
    memory = Memory(c.shared(c.offsets[op]), type, start=c.offsets[op])
    c.set(op.results[0], memory)
    if op.src is not None:
        tile = layout_of(op.src.type)
        if c.num_ctas > 1 and op.reaches_blocks:
            _store_to_blocks(c, c.tile(op.src), tile, memory, op.src.type)
            return
        place = place_in(tile, type)
        store_tile(c, c.tile(op.src), tile, place, memory.address, op.src.type, gaps=gaps_of(type))


@lowers(GPU, ttgir.LocalDeallocOp)
def deallocate(c: Context, op: Any) -> None:
    """Places were chosen before."""


@lowers(GPU, ttgir.LocalLoadOp)
def local_load(c: Context, op: Any) -> None:
    memory, type = c.memory(op.src), op.results[0].type
    if not memory.origin and not gaps_of(memory.type) and feeds_blocks(c, op):
        c.set(op.results[0], memory)
        return
    tile = layout_of(type)
    if c.num_ctas > 1 and op.reaches_blocks:
        c.set(op.results[0], _load_from_blocks(c, tile, memory, type))
        return
    place = place_in(tile, memory.type)
    gaps = gaps_of(memory.type)
    found = load_tile(c, tile, place, memory.address, type, memory.origin, gaps)
    c.set(op.results[0], found)


@lowers(GPU, ttgir.LocalStoreOp)
def local_store(c: Context, op: Any) -> None:
    memory, tile, values = c.memory(op.dst), layout_of(op.src.type), c.tile(op.src)
    if c.num_ctas > 1 and op.reaches_blocks:
        _store_to_blocks(c, values, tile, memory, op.src.type)
        return
    place, gaps = place_in(tile, memory.type), gaps_of(memory.type)
    store_tile(c, values, tile, place, memory.address, op.src.type, memory.origin, gaps)


def _load_from_blocks(c: Context, tile: LinearLayout, memory: Memory, type: ir.Type) -> list[Value]:
    """Read a tile's registers from the shared memory of the blocks that have them."""
    place, above = place_in_blocks(tile, memory_layout(memory.type))
    element, size = memory_type(type), memory_bytes(type)
    bits = neighbour_bits(place, size, gaps_of(memory.type))[:above]
    groups = grouped(distinct_registers(tile), bits)
    loaded: dict[int, Value] = {}
    for group, at in zip(groups, c.positions(place, [g[0] for g in groups]), strict=True):
        address, block = in_block(c, memory, at, above)
        parts = c.hardware.shared.load_remote(c, address, block, element, len(group))
        loaded.update(zip(group, [from_memory(c, v, type) for v in parts], strict=True))
    return with_copies(tile, loaded)


def _store_to_blocks(
    c: Context, values: Tile, tile: LinearLayout, memory: Memory, type: ir.Type
) -> None:
    """Write a tile's registers to the shared memory of all blocks that have them."""
    layout, owner = memory_layout(memory.type), c.owner(tile, of_program=True)
    place, above = place_in_blocks(tile, layout)
    bits = neighbour_bits(place, memory_bytes(type), gaps_of(memory.type))[:above]
    groups = grouped(distinct_registers(tile), bits)
    for group, at in zip(groups, c.positions(place, [g[0] for g in groups]), strict=True):
        address, block = in_block(c, memory, at, above)
        parts = [to_memory(c, values[r]) for r in group]
        for copy in copies_in(layout):
            to = c.f.op("xor", block, c.i32(copy)) if copy else block
            c.hardware.shared.store_remote(c, address, to, parts, owner)


def in_block(c: Context, memory: Memory, at: Value, above: int) -> tuple[Value, Value]:
    """The address (i32) in its block of what is at a place of `place_in_blocks`, and the block."""
    index = c.f.op("and", at, c.i32((1 << above) - 1))
    if memory.origin:
        index = c.f.op("xor", index, c.i32(memory.origin))
    index = padded(c, index, gaps_of(memory.type))
    offset = c.f.op("mul", index, c.i32(memory_bytes(memory.type.element_type)))
    address = c.f.op("add", c.address(memory.address), offset)
    return address, c.f.op("lshr", at, c.i32(above))


@lowers(GPU, ttgir.MemDescIndexOp)
def index(c: Context, op: Any) -> None:
    """One of the buffers along the first axis."""
    memory, type = c.memory(op.src), op.results[0].type
    size = _stride(op.src.type, 0)
    offset = c.f.op("mul", c.scalar(op.index), c.i32(size), "nsw")
    number, start = constant_int(op.index), memory.start
    start = None if number is None or start is None else start + number * size
    address = c.byte_offset(memory.address, offset)
    c.set(op.results[0], Memory(address, type, memory.origin, start))


def _stride(type: Any, axis: int) -> int:
    """The bytes from one buffer to the next along one of the axes in front of the layout's."""
    shape = type.allocation_shape()[-len(type.get_shape()) :][axis + 1 :]
    return type.encoding.elements_of_block(shape) * memory_bytes(type.element_type)


@lowers(GPU, ttgir.MemDescTransOp, ttgir.MemDescReinterpretOp, ttgir.MemDescReshapeOp)
def view(c: Context, op: Any) -> None:
    """The same memory with another layout, which begins where that of a slice does."""
    memory, type = c.memory(op.src), op.results[0].type
    if not memory.origin or isinstance(op, ttgir.MemDescTransOp):
        c.set(op.results[0], Memory(memory.address, type, memory.origin))
        return
    size = ttgir.bytes_of(op.src.type) // memory_bytes(op.src.type.element_type)
    if memory.origin % size:
        raise c.unsupported(op, f"of a slice at {memory.origin}; multiples of {size} elements are")
    c.set(op.results[0], Memory(c.byte_offset(memory.address, _first_byte(c, memory)), type))


def _first_byte(c: Context, memory: Memory) -> Value:
    """The bytes from the address of a piece of memory to its first element."""
    start = padded(c, c.i32(memory.origin), gaps_of(memory.type))
    return c.f.op("mul", start, c.i32(memory_bytes(memory.type.element_type)))


def first_address(c: Context, memory: Memory) -> Value:
    """The address (i32) of the first element of a piece of shared memory."""
    start = c.address(memory.address)
    return c.f.op("add", start, _first_byte(c, memory)) if memory.origin else start


@lowers(GPU, ttgir.MemDescSubsliceOp)
def subslice(c: Context, op: Any) -> None:
    """Any of the buffers, and of each the part that begins at a multiple of its own size along each
    axis."""
    memory, source, type = c.memory(op.src), op.src.type, op.results[0].type
    buffers = len(op.offsets) - source.encoding.rank
    first, size = op.offsets[buffers:], type.get_shape()[buffers:]
    if any(start % extent for start, extent in zip(first, size, strict=True)):
        raise c.unsupported(op, f"at {list(first)}; multiples of {list(size)} are")
    origin = memory.origin
    if any(first):
        shape = source.allocation_shape()[-len(first) :]
        places = linear(source.encoding, shape).inverse()
        place = places.apply({f"dim{i}": start for i, start in enumerate(first)})
        if place.get(BLOCK, 0):
            raise c.unsupported(op, f"at {list(first)} of {source}: another block of the cluster "
                                    "has what begins there; slices begin in the first block's "
                                    "part")  # fmt: skip
        origin ^= int(place[OFFSET])
    offset = sum(op.offsets[axis] * _stride(source, axis) for axis in range(buffers))
    c.set(op.results[0], Memory(c.byte_offset(memory.address, c.i32(offset)), type, origin))


def read(c: Context, pointer: Value, element: str, count: int, type: ir.Type) -> list[Value]:
    """Neighbours of a tile of this type in shared memory."""
    metadata = c.hardware.shared.read_metadata(c)
    parts = c.load_neighbours(pointer, element, count, "", metadata)
    return [from_memory(c, v, type) for v in parts]
