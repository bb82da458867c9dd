"""Copies of tensors' blocks by the tensor data mover (gfx1250): one instruction of each warp, which
takes a descriptor in scalar registers.

    words 0 to 3   whether it is made (and how many rows: none by number, 16 or 8 at most); the
                   place in LDS; the address (57 bits) and the type of descriptors
    words 4 to 11  bytes of elements, barrier, gaps in LDS; extents of the tensor and of the block
                   along the fastest two axes (the block's along three), strides of the next two
    words 12 to 15, 16 to 19   the same of further axes, or the numbers of rows

Here a descriptor is (address, extents, strides, whether it is made) in registers, and the words are
put together for each copy. The warps share a block's work along its slowest axes; where it has not
enough rows, several copy the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from tritium.backends.amd.lower.hardware import AMDGPU
from tritium.backends.amd.processor import processor
from tritium.codegen.gpu.context import Context, Memory
from tritium.codegen.gpu.memory.descriptors import Descriptor, at_least_0, element_bytes
from tritium.codegen.gpu.memory.shared import padded
from tritium.codegen.gpu.memory.warp_parts import Pieces, part_of, start_of_warp, takes_part
from tritium.codegen.llvm.types import memory_bytes
from tritium.codegen.llvm.writer import Value, const
from tritium.codegen.registry import lowers
from tritium.ir import types as ir
from tritium.ops import ttgir
from tritium.ops.base import Op
from tritium.ops.ttgir.amd.tensor_rows import MOST_ROWS, rows_of
from tritium.ops.ttgir.amd.tensors import active_warps, gaps, pieces_of

_TYPE = 2 << 30
"""The type of descriptors of tensors, in word 3."""
_ROWS = {16: 2 << 30, 32: 3 << 30}
"""Word 0's bits for rows by number, by the bits of the numbers."""
_LOAD, _STORE = "llvm.amdgcn.tensor.load.to.lds", "llvm.amdgcn.tensor.store.from.lds"
_SPECULATIVE, _CHECKED = 8, 9
"""The cache policies of reads ahead."""
_LINE = 256
"""Bytes that a read ahead brings."""


def check(c: Context, op: Op) -> None:
    """Raise `NotImplementedError` for processors that have no such copies, and for clusters."""
    assert isinstance(c.hardware, AMDGPU)
    if not processor(c.hardware.arch).barriers:
        raise c.unsupported(op)
    if c.num_ctas > 1:
        raise c.unsupported(op, f"in clusters, of {c.num_ctas} workgroups")


def _warp(c: Context) -> Value:
    """The number of the warp, in a scalar register."""
    return c.call_together("i32", "llvm.amdgcn.readfirstlane.i32", c.warp)


Words = list[Value]


@dataclass(frozen=True)
class Block:
    """The copy of one warp: the descriptor of its part, the part's shape, its place in LDS (i32),
    and the words that say how elements lie there."""

    desc: Descriptor
    shape: tuple[int, ...]
    place: Value
    format: int

    def words(self, c: Context, barrier: Value | None) -> Words:
        """The words of a copy, without rows by number."""
        f, zero = c.f, c.i32(0)
        rank = len(self.shape)
        extents = [*reversed(self.desc.extents), *[zero] * (5 - rank)]
        sizes = [*reversed(self.shape), *[0] * (5 - rank)]
        steps = [*reversed(self.desc.strides[:-1]), *[const("i64", 0)] * (5 - rank)][:4]
        low, high = zip(*(_split(c, step) for step in steps), strict=False)
        first = self.format | ((1 << 18) if barrier is not None else 0)
        at = zero if barrier is None else f.op("and", f.op("lshr", barrier, c.i32(3)),
                                               c.i32(0xFFFF))  # fmt: skip
        upper, lower = _halves(c, extents)
        further = f.op("or", f.op("lshr", low[1], c.i32(16)), f.op("shl", high[1], c.i32(16)))
        return [
            *self._place(c),
            c.i32(first), _or(c, at, lower[0]), _or(c, upper[0], lower[1]),
            _or(c, upper[1], c.i32(_signed(sizes[0] << 16))), c.i32(sizes[1] | sizes[2] << 16),
            low[0], _or(c, high[0], f.op("shl", low[1], c.i32(16))), further,
            extents[2], extents[3], low[2], _or(c, high[2], c.i32(_signed(sizes[3] << 16))),
            low[3], _or(c, high[3], lower[4]), _or(c, upper[4], c.i32(_signed(sizes[4] << 16))),
            zero,
        ]  # fmt: skip

    def _place(self, c: Context) -> Words:
        low, high = _split(c, self.desc.address)
        high = c.f.op("and", high, c.i32(0x1FFFFFF))
        return [self.desc.made, self.place, low, _or(c, high, c.i32(_signed(_TYPE)))]


def _signed(word: int) -> int:
    """A word as LLVM writes it."""
    return word - (1 << 32) if word >> 31 else word


def _or(c: Context, a: Value, b: Value) -> Value:
    return c.f.op("or", a, b)


def _split(c: Context, number: Value) -> tuple[Value, Value]:
    """The lower word, and the next 32 bits."""
    upper = c.f.op("lshr", number, const("i64", 32))
    return c.f.cast("trunc", number, "i32"), c.f.cast("trunc", upper, "i32")


def _halves(c: Context, words: Sequence[Value]) -> tuple[list[Value], list[Value]]:
    """The upper halves of words, and the lower halves moved up."""
    upper = [c.f.op("lshr", word, c.i32(16)) for word in words]
    return upper, [c.f.op("shl", word, c.i32(16)) for word in words]


def blocks_of_warp(
    c: Context, op: Op, desc: Any, memory: Memory, chosen: Sequence[int], store: bool
) -> list[Block]:
    """The copies of each of the chosen warps of its parts of a block; the others make none. Warps
    take pieces, and share one where there are more of them."""
    type, shape = memory.type, memory.type.get_shape()
    if memory.origin or type.allocation_shape()[-len(shape) :] != shape:
        raise c.unsupported(op, "of a slice of memory")
    gap, pieces = gaps(op.name, type, store), Pieces.of(type)
    at_once = min(pieces.total, len(chosen))
    part = part_of(pieces.shape, len(chosen) // at_once, gap[0] if gap else 1)
    found, warp, bits = Descriptor.of(c, desc), _warp(c), at_once.bit_length() - 1
    number = start_of_warp(c, warp, chosen, [1 << bit for bit in range(bits)]) or c.i32(0)
    inner = [start_of_warp(c, warp, chosen, [0] * bits + [s[axis] for s in part.starts])
             for axis in range(len(shape))]  # fmt: skip
    taken, made = takes_part(c, warp, chosen), found.made
    if taken is not None:
        made = c.f.select(taken, made, c.i32(0))
    here = Descriptor(found.address, found.extents, found.strides, made)
    blocks: list[Block] = []
    for first in range(0, pieces.total, at_once):
        piece = c.f.op("add", number, c.i32(first))
        starts = [c.i32(0) if start is None else start for start in inner]
        place = _place_of_part(c, memory, pieces, starts, gap)
        if pieces.total > 1:
            place = c.f.op("add", place, pieces.place(c, piece))
            along = c.f.op("mul", piece, c.i32(pieces.shape[pieces.axis]))
            starts[pieces.axis] = c.f.op("add", starts[pieces.axis], along)
        extents = [at_least_0(c, c.f.op("sub", n, s))
                   for n, s in zip(here.extents, starts, strict=True)]  # fmt: skip
        address = here.address_at(c, element_bytes(desc), starts)
        moved = Descriptor(address, tuple(extents), here.strides, made)
        blocks.append(_block(c, moved, part.shape, place, memory, gap, store))
    return blocks


def _place_of_part(
    c: Context, memory: Memory, pieces: Pieces, starts: Sequence[Value], gap: Any
) -> Value:
    """The place in LDS of the part of a piece that begins at `starts`, if the piece is the
    first."""
    offset, shape = c.i32(0), pieces.shape
    for axis, start in enumerate(starts):
        offset = c.f.op("add", offset, c.f.op("mul", start, c.i32(prod(shape[axis + 1 :]))))
    offset = padded(c, offset, () if gap is None else (gap,))
    size = memory_bytes(memory.type.element_type)
    return c.f.op("add", c.address(memory.address), c.f.op("mul", offset, c.i32(size)))


def _block(
    c: Context, desc: Descriptor, shape: tuple[int, ...], place: Value, memory: Memory, gap: Any,
    store: bool,
) -> Block:  # fmt: skip
    size = memory_bytes(memory.type.element_type)
    if not store or gap is None:
        return Block(desc, shape, place, _format(size, gap))
    # The gaps are read, as elements outside of the tensor.
    last = c.f.call("i32", "llvm.umin.i32", desc.extents[-1], c.i32(shape[-1]))
    within = Descriptor(desc.address, (*desc.extents[:-1], last), desc.strides, desc.made)
    return Block(within, (*shape[:-1], shape[-1] + gap[1]), place, _format(size, None))


def _format(size: int, gap: tuple[int, int] | None) -> int:
    """The word for elements of `size` bytes, with gaps in LDS."""
    word = (size.bit_length() - 1) << 16
    if gap is not None:
        interval, padding = (count * size // 4 for count in gap)
        word |= 1 << 20 | (interval.bit_length() - 2) << 22 | (padding - 1) << 25
    return word


def _issue(c: Context, name: str, words: Words, rank: int) -> None:
    vectors = [c.vector(words[a:b]) for a, b in ((0, 4), (4, 12), (12, 16), (16, 20))]
    if rank <= 2:
        name, vectors = f"{name}.d2", vectors[:2]
    c.call_together("void", name, *vectors, c.i32(0))


def _barrier(c: Context, op: Any) -> Value | None:
    return None if op.barrier is None else c.address(c.memory(op.barrier).address)


def _copy(c: Context, op: Any, name: str, memory: Memory, chosen: Sequence[int]) -> None:
    check(c, op)
    for block in blocks_of_warp(c, op, op.desc, memory, chosen, store=name == _STORE):
        _issue(c, name, block.words(c, _barrier(c, op)), len(block.shape))
    c.set(op.results[0], None)


@lowers(AMDGPU.name, ttgir.AsyncTDMCopyGlobalToLocalOp)
def load(c: Context, op: ttgir.AsyncTDMCopyGlobalToLocalOp) -> None:
    chosen = active_warps(op.name, op.warp_used_hint, c.num_warps)
    _copy(c, op, _LOAD, c.memory(op.result), chosen)


@lowers(AMDGPU.name, ttgir.AsyncTDMCopyLocalToGlobalOp)
def store(c: Context, op: ttgir.AsyncTDMCopyLocalToGlobalOp) -> None:
    _copy(c, op, _STORE, c.memory(op.src), range(c.num_warps))


@lowers(AMDGPU.name, ttgir.AsyncTDMFusedCopyOp)
def load_fused(c: Context, op: ttgir.AsyncTDMFusedCopyOp) -> None:
    """Each warp takes the words of the copy that it takes part in."""
    check(c, op)
    found: Words | None = None
    for desc, target, hint in zip(op.descs, op.targets, op.warp_used_hints, strict=True):
        chosen = active_warps(op.name, hint, c.num_warps)
        blocks = blocks_of_warp(c, op, desc, c.memory(target), chosen, store=False)
        if len(blocks) > 1:
            raise c.unsupported(op, f"of {pieces_of(target.type)} pieces by {len(chosen)} warps")
        words = blocks[0].words(c, None)
        taken = takes_part(c, _warp(c), chosen)
        if found is not None and taken is not None:
            words = [c.f.select(taken, a, b) for a, b in zip(words, found, strict=True)]
        found = words
    assert found is not None
    _issue(c, _LOAD, found, len(op.descs[0].type.block.get_shape()))
    c.set(op.results[0], None)


def _copy_rows(c: Context, op: Any, name: str, memory: Memory) -> None:
    check(c, op)
    if memory.origin:
        raise c.unsupported(op, "of a slice of memory")
    numbers, shape = c.tile(op.rows), memory.type.get_shape()
    bits, size = ir.bit_width(ir.element_type(op.rows.type)), memory_bytes(memory.type.element_type)
    rows, desc, warp = rows_of(op.name, op.rows.type), Descriptor.of(c, op.desc), _warp(c)
    chosen = tuple(range(c.num_warps))
    first = start_of_warp(c, warp, chosen, rows.warps)
    gap = gaps(op.name, memory.type, name == _STORE)
    for start, registers in rows.groups:
        row = c.i32(start) if first is None else c.f.op("add", first, c.i32(start))
        place = padded(c, c.f.op("mul", row, c.i32(shape[1])), () if gap is None else (gap,))
        place = c.f.op("add", c.address(memory.address), c.f.op("mul", place, c.i32(size)))
        words = Block(desc, (len(registers), shape[1]), place, _format(size, gap)).words(
            c, _barrier(c, op)
        )
        words[0] = _or(c, words[0], c.i32(_signed(_ROWS[bits])))
        words[12:20] = _packed(c, [numbers[r] for r in registers], bits)
        _issue(c, name, words, 5)
    c.set(op.results[0], None)


def _packed(c: Context, numbers: Sequence[Value], bits: int) -> Words:
    """The numbers of rows in eight words."""
    filled = [*numbers, *[const(f"i{bits}", 0)] * (MOST_ROWS[bits] - len(numbers))]
    words = filled
    if bits == 16:
        wide = [c.f.cast("zext", number, "i32") for number in filled]
        words = [_or(c, low, c.f.op("shl", high, c.i32(16)))
                 for low, high in zip(wide[::2], wide[1::2], strict=True)]  # fmt: skip
    return [c.f.call("i32", "llvm.amdgcn.readfirstlane.i32", word) for word in words]


@lowers(AMDGPU.name, ttgir.AsyncTDMGatherOp)
def gather(c: Context, op: ttgir.AsyncTDMGatherOp) -> None:
    _copy_rows(c, op, _LOAD, c.memory(op.result))


@lowers(AMDGPU.name, ttgir.AsyncTDMScatterOp)
def scatter(c: Context, op: ttgir.AsyncTDMScatterOp) -> None:
    _copy_rows(c, op, _STORE, c.memory(op.src))


@lowers(AMDGPU.name, ttgir.AsyncTDMWaitOp)
def wait(c: Context, op: ttgir.AsyncTDMWaitOp) -> None:
    """The counter is of instructions: no copy has fewer than one of each warp."""
    check(c, op)
    c.f.call("void", "llvm.amdgcn.s.wait.tensorcnt", const("i16", min(op.num, 63)))
    c.set(op.results[0], None)


@lowers(AMDGPU.name, ttgir.TDMPrefetchOp)
def prefetch(c: Context, op: ttgir.TDMPrefetchOp) -> None:
    """Each thread reads some lines of the block's rows."""
    check(c, op)
    type, desc = op.desc.type, Descriptor.of(c, op.desc)
    shape, size = type.block.get_shape(), element_bytes(op.desc)
    lines = (*shape[:-1], max(shape[-1] * size // _LINE, 1))
    threads = c.num_warps * c.hardware.lanes
    offsets = [c.scalar(v) for v in op.offsets]
    cache = _SPECULATIVE if op.speculative else _CHECKED
    for first in range(0, prod(lines), threads):
        number, places = c.f.op("add", c.thread, c.i32(first)), list[Value]()
        condition = c.f.icmp("ult", number, c.i32(prod(lines)))
        condition = c.f.op("and", condition, c.scalar(op.pred))
        for axis in reversed(range(len(shape))):
            at = c.f.op("and", number, c.i32(lines[axis] - 1))
            number = c.f.op("lshr", number, c.i32(lines[axis].bit_length() - 1))
            if axis == len(shape) - 1:
                at = c.f.op("mul", at, c.i32(_LINE // size))
            places.insert(0, c.f.op("add", at, offsets[axis]))
        if not op.speculative:
            for place, extent in zip(places, desc.extents, strict=True):
                condition = c.f.op("and", condition, c.f.icmp("ult", place, extent))
        with c.f.when(condition, "ahead", "read"):
            address = desc.address_at(c, size, places)
            address = c.f.cast("inttoptr", address, "ptr addrspace(1)")
            c.f.call("void", "llvm.amdgcn.global.prefetch", address, c.i32(cache))
