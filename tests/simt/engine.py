"""The copy engine and the warp groups' products of `Simt`, in the form that Hopper has them:
mbarriers, copies of blocks by descriptors, products from shared memory; in clusters also copies and
arrivals in other blocks. Which blocks these are is asked of what NVIDIA's instructions are made by.

A descriptor is the address of a `descriptor`. Copies are complete at once. A product is computed
where it starts; that it is waited for is what the reference semantics check.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from tests.simt.hardware import SIMT, Simt, plain
from tests.simt.mma import exchange, multiply_add, places_of
from tests.simt.scheduler import ARRIVALS
from tritium.backends.nvidia.lower.cluster_store import stores
from tritium.backends.nvidia.lower.tma import (
    Share,
    block_of_barrier,
    blocks_told,
    bulk_start,
    leads_barrier,
    own_coordinates,
    own_patches,
    part_of_block,
    pieces,
    share_of_copy,
    sharing,
    swizzle_of,
)
from tritium.codegen.gpu.casts import FORMATS, float_from
from tritium.codegen.gpu.context import Context, Memory, layout_of
from tritium.codegen.gpu.emitter import bits_of
from tritium.codegen.gpu.memory.access import from_memory
from tritium.codegen.gpu.memory.shared import copies_in, memory_layout
from tritium.codegen.gpu.types import memory_type, value_type
from tritium.codegen.llvm.types import memory_bytes
from tritium.codegen.llvm.writer import Value, const
from tritium.codegen.registry import lowers
from tritium.ir import types as ir
from tritium.ir.layouts.encodings import OFFSET
from tritium.ir.locations import source_position
from tritium.ir.tensor_maps import box
from tritium.ops import ttgir
from tritium.ops.ttgir.tensormap import SIZES
from tritium.ops.ttgir.types import blocks_of_barrier
from tritium.ops.ttir.descriptor import is_unsigned


def descriptor(host: Any) -> np.ndarray:
    """Argument of a kernel for a descriptor (or a whole array): address, extents, steps in bytes;
    of patches also how many positions of the filter there are along each axis, where they begin
    and how far apart they are."""
    array, found = host if isinstance(host, np.ndarray) else host.base, list[int]()
    if getattr(host, "mode", "tiled") == "im2col":
        low, steps = host.pixel_box_lower_corner, host.element_strides or (1,) * array.ndim
        spans = zip(array.shape[1:-1], low, host.pixel_box_upper_corner, steps[1:-1], strict=True)
        counts = [(n - 1 + up - down) // step + 1 for n, down, up, step in spans]
        found = [array.shape[0], *counts, *low, *steps[:-1]]
    return np.array([array.ctypes.data, *array.shape, *array.strides, *found], np.int64)


def _first(c: Context, condition: Value | None = None) -> Value:
    first = c.f.icmp("eq", c.thread, c.i32(0))
    return first if condition is None else c.f.op("and", first, condition)


ALWAYS = Value("i1", "true")


def _simt(c: Context) -> Simt:
    """The hardware, which knows the line of the op and the memory of other blocks."""
    assert isinstance(c.hardware, Simt)
    return c.hardware


def _arrive(
    c: Context, barrier: Any, condition: Value, arrivals: int, size: int, block: Value | None = None
) -> None:
    """Arrive at a barrier, in another block if one is given; its phase then waits for `size` bytes
    more."""

    def write() -> Sequence[Value]:
        hardware, place = _simt(c), c.memory(barrier).address
        hardware.place.tell(c)
        at = plain(c, place) if block is None else hardware.shared.mapped(c, place, block, ARRIVALS)
        c.f.call("i32", "simt_mbarrier_arrive", at, c.i32(arrivals), c.i32(size))
        return []

    c.f.choose_all(condition, [], write)


def _arrive_by(c: Context, op: Any, condition: Value | None, arrivals: int, size: int) -> None:
    """Arrive at a barrier of this block, at one that blocks share, or at those of other blocks."""
    if c.num_ctas > 1 and (op.fromCTA != ttgir.ITSELF or op.multicastCTA):
        block, chosen = blocks_told(c, op)
        condition = chosen if condition is None else c.f.op("and", chosen, condition)
        _arrive(c, op.alloc, condition, arrivals, size, block)
        return
    block = block_of_barrier(c, op.alloc) if blocks_of_barrier(op.alloc.type) else None
    _arrive(c, op.alloc, _first(c, condition), arrivals, size, block)


@lowers(SIMT, ttgir.InitBarrierOp)
def init_barrier(c: Context, op: Any) -> None:
    count = op.count << blocks_of_barrier(op.alloc.type).bit_count()
    first = _first(c, leads_barrier(c, op.alloc))

    def write() -> Sequence[Value]:
        c.f.call("void", "simt_mbarrier_init", plain(c, c.memory(op.alloc).address), c.i32(count))
        return []

    c.f.choose_all(first, [], write)


@lowers(SIMT, ttgir.InvalBarrierOp, ttgir.FenceAsyncSharedOp, ttgir.AsyncTMAStoreWaitOp)
def nothing(c: Context, op: Any) -> None:
    """Memory has one view, and copies are complete."""


@lowers(SIMT, ttgir.ClusterBarrierOp)
def cluster_barrier(c: Context, op: Any) -> None:
    if c.plan is not None and c.plan.meets_all(op):
        c.hardware.barriers.cluster(c, relaxed=op.relaxed)
    else:
        c.synchronize()


@lowers(SIMT, ttgir.BarrierExpectOp)
def barrier_expect(c: Context, op: Any) -> None:
    _arrive_by(c, op, c.scalar(op.pred), 1, op.size)


@lowers(SIMT, ttgir.ArriveBarrierOp)
def arrive_barrier(c: Context, op: Any) -> None:
    condition = None if op.pred is None else c.scalar(op.pred)
    if not op.perWarp:
        _arrive_by(c, op, condition, op.count, 0)
        return
    assert op.count == c.num_warps and not blocks_of_barrier(op.alloc.type)
    c.f.call("i32", "simt_shuffle", c.i32(0), c.i32(0))
    first = c.f.icmp("eq", c.lane, c.i32(0))
    condition = first if condition is None else c.f.op("and", first, condition)
    _arrive(c, op.alloc, condition, 1, 0)


@lowers(SIMT, ttgir.AsyncCopyMbarrierArriveOp)
def async_copy_arrive(c: Context, op: Any) -> None:
    """Threads finish their copies here; they arrive on their own."""
    c.hardware.async_copies.commit(c)
    c.hardware.async_copies.wait(c, 0)
    if op.arrivals:
        _arrive(c, op.barrier, ALWAYS, 1, 0)


@lowers(SIMT, ttgir.WaitBarrierOp)
def wait_barrier(c: Context, op: Any) -> None:
    condition = leads_barrier(c, op.alloc, None if op.pred is None else c.scalar(op.pred))

    def wait() -> Sequence[Value]:
        _simt(c).place.tell(c)
        at = plain(c, c.memory(op.alloc).address)
        c.f.call("void", "simt_mbarrier_wait", at, c.scalar(op.phase))
        return []

    c.f.choose_all(condition, [], wait)


@lowers(SIMT, ttgir.AsyncSharedStoreOp)
def store_to_blocks(c: Context, op: Any) -> None:
    """The bytes have come when they are stored."""
    owner, shared = c.owner(layout_of(op.src.type), of_program=True), _simt(c).shared
    for to, words, block in stores(c, op):
        shared.store_remote(c, to, block, words, owner)
        size = len(words) * bits_of(words[0].type) // 8
        _arrive(c, op.barrier, ALWAYS if owner is None else owner, 0, -size, block)


def _each(
    c: Context, op: Any, memory: Memory, condition: Value,
    write: Callable[[Value, Value, Value, int], Any], share: Share | None = None,
) -> None:  # fmt: skip
    """For each element of this thread block's part of a tile: `write(pointer to it in shared
    memory, pointer to it in global memory, whether the tensor has it, its size)`, by the first
    thread where the condition holds; of a copy that blocks share out those of `share`.

    As the engine of a GPU does it: a piece at a time, row by row from an address on of which some
    bits are XORed to others, whatever layout the memory has."""
    f, size, shape = c.f, memory_bytes(memory.type.element_type), part_of_block(memory)
    patches = isinstance(op.desc.type, ir.PatchesDescType)
    part = box(shape, memory.type.encoding, size)
    part = (shape[0], part[1]) if patches else part
    base, rank = c.scalar(op.desc), len(op.coord)
    starts = own_patches(c, op, memory) if patches else own_coordinates(c, memory, op.coord)
    start = f.cast("ptrtoint", plain(c, memory.address), "i64")
    moves = pieces(memory, shape[0] if patches else 0)
    if share is not None:
        moves, starts = share.pieces, share.moved(c, starts)
        if share.offset is not None:
            start = f.op("add", start, f.cast("sext", share.offset, "i64"))

    def copy() -> Sequence[Value]:
        count = 5 * rank - 3 if patches else 2 * rank + 1
        words = [f.load("i64", f.gep("i64", base, c.i32(i)), 8) for i in range(count)]
        begin = [f.cast("sext", v, "i64") for v in starts]
        moved = [f.cast("sext", c.scalar(v), "i64") for v in op.offsets] if patches else []
        if patches:
            _check_start(c, op, begin, words[1 + 2 * rank :])
        for first, offset in moves:
            where = f.op("add", start, const("i64", bulk_start(memory) + offset))
            f.call("void", "simt_aligned", f.cast("inttoptr", where, "ptr"), const("i64", 128))
            with f.loop(c.i32(0), c.i32(prod(part)), c.i32(1)) as loop:
                places, below = list[Value](), prod(part)
                for axis, extent in enumerate(part):
                    below //= extent
                    place = f.op("and", f.op("lshr", loop.index, c.i32(below.bit_length() - 1)),
                                 c.i32(extent - 1))  # fmt: skip
                    place = f.op("add", place, c.i32(first[axis]))
                    places.append(f.cast("sext", place, "i64"))
                if patches:
                    places = _patch(f, begin, places, moved, words[1 + 2 * rank :])
                else:
                    # Memory may lack leading axes, of size 1.
                    zero = [const("i64", 0)] * (rank - len(places))
                    places = [f.op("add", a, b)
                              for a, b in zip(begin, [*zero, *places], strict=True)]  # fmt: skip
                address, inside = _in_tensor(f, places, words)
                index = f.cast("sext", loop.index, "i64")
                byte = f.op("add", where, f.op("mul", index, const("i64", size)))
                at = f.cast("inttoptr", _permuted(f, byte, memory.type.encoding), "ptr")
                write(at, f.cast("inttoptr", address, "ptr"), inside, size)
        return []

    c.f.choose_all(condition, [], copy)


def _check_start(c: Context, op: Any, start: Sequence[Value], words: Sequence[Value]) -> None:
    """Stop at a start of patches at which no filter begins. `words`: as of `_patch`."""
    f, rank = c.f, len(start)
    counts, steps = words[1 : rank - 1], words[2 * rank - 2 :]
    low = words[rank - 1 : 2 * rank - 3]
    for x, least, step, count in zip(start[1:-1], low, steps, counts, strict=True):
        number = f.op("sdiv", f.op("sub", x, least), step)
        wrong = f.op("or", f.icmp("slt", x, least), f.icmp("sge", number, count))
        with f.when(wrong, "outside", "inside"):
            file, line, _ = source_position(op.location) or ("<unknown>", 0, 0)
            c.hardware.host.fail(c, "patches from where no filter begins", file, line)


def _in_tensor(f: Any, places: Sequence[Value], words: Sequence[Value]) -> tuple[Value, Value]:
    """The address of an element of a tensor, and whether the tensor has it."""
    address, inside, rank = words[0], Value("i1", "true"), len(places)
    for axis, place in enumerate(places):
        inside = f.op("and", inside, f.icmp("ult", place, words[1 + axis]))
        address = f.op("add", address, f.op("mul", place, words[1 + rank + axis]))
    return address, inside


def _permuted(f: Any, address: Value, encoding: Any) -> Value:
    """Where the engine puts what it would put at an address without a swizzle: the number of the
    row of 128 bytes is XORed to that of the 16 bytes in it."""
    swizzle = swizzle_of(encoding)
    if not swizzle:
        return address
    row = f.op("and", f.op("lshr", address, const("i64", 7)), const("i64", swizzle // 16 - 1))
    return f.op("xor", address, f.op("shl", row, const("i64", 4)))


def _patch(
    f: Any, start: list[Value], place: list[Value], offsets: list[Value], words: list[Value]
) -> list[Value]:
    """Where the element at `place`, (pixel, channel), of patches from `start` on is in the tensor.
    `words`: what `descriptor` has of patches."""
    rank, zero = len(start), const("i64", 0)
    counts, steps = words[: rank - 1], words[2 * rank - 3 :]
    low = [zero, *words[rank - 1 : 2 * rank - 3]]
    number = zero
    for axis in range(rank - 1):
        own = f.op("sdiv", f.op("sub", start[axis], low[axis]), steps[axis])
        number = f.op("add", f.op("mul", number, counts[axis]), own)
    number = f.op("add", number, place[0])
    found: list[Value] = []
    for axis in reversed(range(rank - 1)):
        own = f.op("srem", number, counts[axis]) if axis else number
        number = f.op("sdiv", number, counts[axis])
        at = f.op("add", f.op("mul", own, steps[axis]), low[axis])
        found.append(f.op("add", at, offsets[axis - 1]) if axis else at)
    return [*reversed(found), f.op("add", start[-1], place[1])]


@lowers(SIMT, ttgir.AsyncTMACopyGlobalToLocalOp)
def copy_in(c: Context, op: Any) -> None:
    memory = c.memory(op.result)
    element = memory_type(memory.type.element_type)
    zero = const(element, 0 if element[0] == "i" else 0.0)

    if blocks_of_barrier(op.barrier.type):
        raise c.unsupported(op, "to a barrier that blocks share")
    shared, share = sharing(c, op, memory)[0], share_of_copy(c, op, memory)
    copies = [0] if shared is None else copies_in(memory_layout(memory.type))

    def write(to: Value, source: Value, inside: Value, size: int) -> None:
        (value,) = c.f.choose_all(inside, [zero], lambda: [c.f.load(element, source, size)])
        for copy in copies:
            at = _simt(c).shared.mapped(c, to, _other(c, copy), 0) if copy else to
            c.f.store(value, at, size)

    condition = _first(c, c.scalar(op.pred))
    condition = condition if share.acts is None else c.f.op("and", condition, share.acts)
    _each(c, op, memory, condition, write, share)
    parts = len(pieces(memory, part_of_block(memory)[0] if op.offsets else 0))
    size = ttgir.bytes_of(memory.type) * len(share.pieces) // parts
    for copy in copies:
        block = None if shared is None else _other(c, copy)
        _arrive(c, op.barrier, condition, 0, -size, block)


def _other(c: Context, copy: int) -> Value:
    """The block whose number differs from this one's in these bits."""
    return c.f.op("xor", c.block, c.i32(copy))


@lowers(SIMT, ttgir.AsyncTMACopyLocalToGlobalOp)
def copy_out(c: Context, op: Any) -> None:
    memory = c.memory(op.src)
    element = memory_type(memory.type.element_type)

    def write(source: Value, to: Value, inside: Value, size: int) -> None:
        def store() -> Sequence[Value]:
            c.f.store(c.f.load(element, source, size), to, size)
            return []

        c.f.choose_all(inside, [], store)

    _each(c, op, memory, _first(c, c.owner(memory_layout(memory.type), of_program=True)), write)


@lowers(SIMT, ttgir.AsyncTMAReduceOp)
def reduce_out(c: Context, op: Any) -> None:
    """One thread does it without a stop, so that others' come before or after."""
    memory = c.memory(op.src)
    element = memory_type(memory.type.element_type)

    def write(source: Value, to: Value, inside: Value, size: int) -> None:
        def update() -> Sequence[Value]:
            old, new = c.f.load(element, to, size), c.f.load(element, source, size)
            c.f.store(_combined(c, op, old, new), to, size)
            return []

        c.f.choose_all(inside, [], update)

    _each(c, op, memory, _first(c, c.owner(memory_layout(memory.type), of_program=True)), write)


def _combined(c: Context, op: Any, old: Value, new: Value) -> Value:
    """Combine two elements as a bulk reduction does."""
    kind, is_float = op.kind.name.lower(), old.type[0] != "i"
    if kind == "add":
        return c.f.op("fadd" if is_float else "add", old, new)
    if kind in ("and", "or", "xor") and not is_float:
        return c.f.op(kind, old, new)
    if kind in ("min", "max") and not is_float:
        order = ("u" if is_unsigned(op.desc.type) else "s") + ("lt" if kind == "min" else "gt")
        return c.f.select(c.f.icmp(order, old, new), old, new)
    raise c.unsupported(op, f"{kind} of {old.type}")


@lowers(SIMT, ttgir.TensormapCreateOp)
def create_map(c: Context, op: Any) -> None:
    """A `descriptor` in the place of a map."""
    if op.fill_mode:
        raise c.unsupported(op, "with NaN beyond the bounds")
    f, place = c.f, plain(c, c.scalar(op.desc_ptr))
    extents = [f.cast("sext", c.scalar(v), "i64") for v in reversed(op.global_dim)]
    steps = [*map(c.scalar, reversed(op.global_stride)), const("i64", SIZES[op.elem_type])]
    words = [c.as_type(c.scalar(op.global_address), "i64"), *extents, *steps]

    def write() -> Sequence[Value]:
        for i, word in enumerate(words):
            f.store(word, f.gep("i64", place, c.i32(i)), 8)
        return []

    f.choose_all(_first(c), [], write)
    c.barrier()


@lowers(SIMT, ttgir.TensormapFenceproxyAcquireOp)
def acquire_map(c: Context, op: Any) -> None:
    """Memory has one view."""


@lowers(SIMT, ttgir.ReinterpretTensorDescOp)
def reinterpret(c: Context, op: Any) -> None:
    c.set(op.results[0], plain(c, c.scalar(op.rawDesc)))


def _reader(c: Context, operand: Any, k_axis: int, scratch: Value) -> Callable[..., Value]:
    """A function that reads the element at (row or column, k) of an operand in shared memory or,
    from `scratch`, in registers, as float."""
    memory, shape = c.values[operand], ir.shape_of(operand.type) or operand.type.get_shape()
    if not isinstance(memory, Memory):
        exchange(c, operand, scratch, "float")

        def from_registers(other: Value, k: Value) -> Value:
            place = c.f.op("add", c.f.op("mul", other, c.i32(shape[1])), k)
            return c.f.load("float", c.f.gep("float", scratch, place), 4)

        return from_registers
    inverse, type = memory_layout(memory.type).inverse(), memory.type.element_type
    element, size = memory_type(type), memory_bytes(type)

    def columns(axis: str) -> list[int]:
        """The offsets that the bits of a coordinate move an element by, in the block that has it;
        a thread block has what it multiplies."""
        bits = range(inverse.in_bits(axis))
        return [int(inverse.apply({axis: 1 << bit})[OFFSET]) for bit in bits]

    def from_memory_at(other: Value, k: Value) -> Value:
        parts = [
            c.linear_map(index, columns(f"dim{axis}"))
            for index, axis in ((k, k_axis), (other, 1 - k_axis))
        ]
        place = c.i32(memory.origin)
        for part in parts:
            place = place if part is None else c.f.op("xor", place, part)
        value = c.f.load(element, c.f.gep(element, plain(c, memory.address), place), size)
        return float_from(c, from_memory(c, value, type), FORMATS[type], "fp32")

    return from_memory_at


@lowers(SIMT, ttgir.WarpGroupDotOp)
def warp_group_dot(c: Context, op: Any) -> None:
    result = op.results[0].type
    (_, n), depth = ir.shape_of(result), op.b.type.get_shape()[0]
    if value_type(result) != "float":
        raise c.unsupported(op, "products of integers")
    scratch = c.f.call("ptr", "simt_warp_memory")
    left, right = (_reader(c, v, axis, scratch) for v, axis in ((op.a, 1), (op.b, 0)))
    places = places_of(c, result)
    rows = [c.f.op("lshr", p, c.i32(n.bit_length() - 1)) for p in places]
    columns = [c.f.op("and", p, c.i32(n - 1)) for p in places]
    sums = list(c.tile(op.c))
    if op.useC is not None:
        sums = [c.f.select(c.scalar(op.useC), v, const("float", 0.0)) for v in sums]
    with c.f.loop(c.i32(0), c.i32(depth), c.i32(1), sums, at_least_once=True) as loop:
        a, b = (_memoized(partial(read, k=loop.index)) for read in (left, right))
        for row, column, total in zip(rows, columns, loop.carried, strict=True):
            loop.next.append(multiply_add(c, a(row), b(column), total))
    c.f.call("i32", "simt_shuffle", c.i32(0), c.i32(0))
    c.set(op.results[0], loop.results)


def _memoized(read: Callable[[Value], Value]) -> Callable[[Value], Value]:
    known: dict[Value, Value] = {}

    def once(index: Value) -> Value:
        if index not in known:
            known[index] = read(index)
        return known[index]

    return once


@lowers(SIMT, ttgir.WarpGroupDotWaitOp)
def warp_group_dot_wait(c: Context, op: Any) -> None:
    for source, result in zip(op.inputs, op.results, strict=True):
        found = c.values[source]
        in_memory = isinstance(found, Memory)
        c.values[result] = (
            Memory(found.address, result.type, found.origin) if in_memory else found
        )
