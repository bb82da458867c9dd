"""Loads, stores and atomic operations by a scalar pointer and 32-bit offsets: the hardware checks
offsets against the size of a buffer, so that masked-off elements get one beyond it and need no
branch.

A buffer begins at the pointer where no offset is negative. Else it begins half of the address range
of 32 bits before it, and offsets are moved as far.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

from xdsl.ir import SSAValue

from tritium.codegen.gpu.collective.shuffles import shuffle
from tritium.codegen.gpu.context import Context, layout_of
from tritium.codegen.gpu.hardware import Buffers, Caching, Order
from tritium.codegen.gpu.memory.access import (
    MAX_BYTES,
    distinct_registers,
    from_memory,
    grouped,
    runs,
    to_memory,
    with_copies,
)
from tritium.codegen.gpu.memory.async_copy import are_zero, both, rest_of
from tritium.codegen.gpu.memory.atomic import handed_on, scratch_bytes
from tritium.codegen.gpu.memory.shared import gaps_of, neighbour_bits, place_in, shared_pointers
from tritium.codegen.gpu.types import GPU, memory_type
from tritium.codegen.llvm.types import memory_bytes
from tritium.codegen.llvm.writer import Value
from tritium.codegen.registry import lowers
from tritium.ir import types as ir
from tritium.ir.layouts.encodings import LANE, REGISTER
from tritium.ops import ttgir
from tritium.ops.base import Op
from tritium.ops.ttir import MemSemantic

LARGEST = 0x7FFFFFFF
"""Bytes of a buffer that begins at the pointer."""
BEFORE = 0x80000000 - MAX_BYTES
"""Bytes before the pointer of a buffer that reaches to both sides. Behind its end there is room for
the parts of a wide access, whose offsets do not wrap around."""
BOTH = 0x100000000 - MAX_BYTES


BufferOp: TypeAlias = (
    ttgir.BufferLoadOp | ttgir.BufferStoreOp | ttgir.BufferAtomicRMWOp | ttgir.BufferLoadToLocalOp
)


class _Buffer(NamedTuple):
    """A buffer: as the hardware takes it, the offset of the pointer, an offset beyond its end."""

    resource: Any
    start: int
    beyond: int

    def offset(self, c: Context, index: Value, size: int, condition: Value | None) -> Value:
        """The offset of an element in bytes."""
        place = c.f.op("mul", index, c.i32(size))
        if self.start:
            place = c.f.op("add", place, c.i32(self.start))
        return place if condition is None else c.f.select(condition, place, c.i32(self.beyond))


def _hardware(c: Context, op: Op) -> Buffers:
    if c.hardware.buffers is None:
        raise c.unsupported(op)
    return c.hardware.buffers


def _buffer(c: Context, op: BufferOp | ttgir.BufferAtomicCASOp) -> _Buffer:
    buffers, pointer = _hardware(c, op), c.scalar(op.ptr)
    if c.axis_info(op.offsets).non_negative:
        return _Buffer(buffers.resource(c, pointer, LARGEST), 0, LARGEST + 1)
    first = c.f.emit(pointer.type, f"getelementptr i8, {pointer}, i64 {-BEFORE}")
    return _Buffer(buffers.resource(c, first, BOTH), BEFORE, BOTH)


def _groups(c: Context, op: BufferOp, type: ir.Type) -> tuple[tuple[int, ...], ...]:
    """The registers that one instruction takes: neighbours with one mask, at a multiple of 4 bytes
    (or of their size, if it is less)."""
    size, best = memory_bytes(type), list[int]()
    offsets, info = op.offsets, c.address_info(op.offsets)
    aligned = c.axis_info(op.ptr).divisibility[0]
    for axis, bits in runs(offsets.type, MAX_BYTES // size):
        width = min(1 << len(bits), info.contiguity[axis])
        if op.mask is not None:
            width = min(width, c.axis_info(op.mask).constancy[axis])
        while width > 1 and (aligned | info.divisibility[axis] * size) % min(width * size, 4):
            width //= 2
        if width > 1 << len(best):
            best = bits[: width.bit_length() - 1]
    return grouped(distinct_registers(layout_of(offsets.type)), best)


def _tile(c: Context, value: SSAValue | None) -> Sequence[Value] | None:
    return None if value is None else c.tile(value)


@lowers(GPU, ttgir.BufferLoadOp)
def load(c: Context, op: ttgir.BufferLoadOp) -> None:
    type, found = op.results[0].type, dict[int, Value]()
    element, size, caching = memory_type(type), memory_bytes(type), Caching(op.cache, op.evict)
    offsets, masks, others = c.tile(op.offsets), _tile(c, op.mask), _tile(c, op.other)
    buffer, buffers = _buffer(c, op), _hardware(c, op)
    if others is not None and are_zero(others):
        others = None
    for group in _groups(c, op, type):
        mask = None if masks is None else masks[group[0]]
        place = buffer.offset(c, offsets[group[0]], size, mask)
        loaded = buffers.load(c, buffer.resource, place, element, len(group), caching)
        for register, value in zip(group, loaded, strict=True):
            held = from_memory(c, value, type)
            if others is not None and mask is not None:
                held = c.f.select(mask, held, others[register])
            found[register] = held
    c.set(op.results[0], with_copies(layout_of(type), found))


@lowers(GPU, ttgir.BufferStoreOp)
def store(c: Context, op: ttgir.BufferStoreOp) -> None:
    type, values, offsets = op.value.type, c.tile(op.value), c.tile(op.offsets)
    masks, owner = _tile(c, op.mask), c.owner(layout_of(op.offsets.type), of_program=True)
    buffer, buffers, caching = _buffer(c, op), _hardware(c, op), Caching(op.cache, op.evict)
    for group in _groups(c, op, type):
        condition = _both(c, owner, masks, group[0])
        parts = [to_memory(c, values[r]) for r in group]
        place = buffer.offset(c, offsets[group[0]], memory_bytes(type), condition)
        buffers.store(c, buffer.resource, place, parts, caching)


def memory_of(value: SSAValue) -> ttgir.MemDescType:
    """The type of shared memory."""
    assert isinstance(value.type, ttgir.MemDescType)
    return value.type


def lane_groups(tile: ir.Type, memory: ttgir.MemDescType) -> tuple[tuple[int, ...], ...]:
    """The registers of a tile that one copy of a warp is for: neighbours in shared memory."""
    place = place_in(layout_of(tile), memory)
    bits = neighbour_bits(place, memory_bytes(memory.element_type), gaps_of(memory))
    return grouped(distinct_registers(layout_of(tile)), bits)


class _WarpCopy(NamedTuple):
    """One copy of a warp: the registers of a tile it is for, where its first lane copies to, and
    the lane whose elements a lane copies; None where these are its own."""

    registers: tuple[int, ...]
    first: Value
    source: Value | None


def _check_runs(
    c: Context, op: Op, addresses: SSAValue, group: Sequence[int], mask: SSAValue | None
) -> None:
    """Raise `NotImplementedError` unless the elements that a lane copies at once are known to be
    neighbours in global memory, under one mask."""
    bases, width = layout_of(addresses.type).bases(REGISTER), len(group)
    steps = [bases[r.bit_length() - 1] for r in group if r.bit_count() == 1]
    axis = next((a for a, step in enumerate(steps[0]) if step), 0) if steps else 0
    straight = all(step[axis] == 1 << i == sum(step) for i, step in enumerate(steps))
    if not straight or c.address_info(addresses).contiguity[axis] < width:
        raise c.unsupported(op, f"a lane copies {width} elements at once, which are not known to "
                                "be neighbours in global memory: multiple_of, max_contiguous or "
                                "fewer elements of a thread side by side help")  # fmt: skip
    if mask is not None and c.axis_info(mask).constancy[axis] < width:
        raise c.unsupported(op, f"a lane copies {width} elements at once, whose masks are not "
                                f"known to be equal: a bound that is a multiple of {width} has "
                                "such masks (multiple_of)")  # fmt: skip


def warp_copies(
    c: Context, op: Op, addresses: SSAValue, to: SSAValue, mask: SSAValue | None, known: int = 1
) -> tuple[list[_WarpCopy], Value | None]:
    """The copies of a warp, and whether this thread takes part in them: None where all do, else
    the first lanes of the first of the warps with copies of the same elements. `known`: how many
    neighbours along the fastest axis are known otherwise. Raises `NotImplementedError` where lanes
    fill no neighbouring places."""
    tile, gaps = addresses.type, gaps_of(to.type)
    memory, layout = c.memory(to), layout_of(tile)
    place, groups = place_in(layout, memory.type), lane_groups(tile, memory_of(to))
    if known < len(groups[0]):
        _check_runs(c, op, addresses, groups[0], mask)
    lanes, free = place.columns_of(LANE), layout.free_variables().get(LANE, 0)
    width = len(groups[0]).bit_length() - 1
    owned = {1 << i: column for i, column in enumerate(lanes) if not free >> i & 1}
    end = width + len(owned)
    span = (1 << end) - (1 << width)
    outside = any(column & ~span for column in owned.values())
    outside |= any(column for i, column in enumerate(lanes) if 1 << i not in owned)
    lane_of = None if outside else _inverse({i: column >> width for i, column in owned.items()})
    if lane_of is None or memory.origin:
        raise c.unsupported(op, "lanes whose places are not together")
    if any(interval % (1 << end) for interval, _ in gaps):
        raise c.unsupported(op, f"memory with gaps closer than the {1 << end} elements of a copy "
                                "of a warp")  # fmt: skip
    first = source = place
    filled = [span & 1 << width + i for i in range(len(lanes))]
    for name in place.in_names:
        columns = place.columns_of(name)
        first = first.with_columns(name, [column & ~span for column in columns])
        own = filled if name == LANE else columns
        source = source.with_columns(name, [lane_of((n & span) >> width) for n in own])
    registers = [g[0] for g in groups]
    places = shared_pointers(c, memory.address, first, registers,
                             memory_type(memory.type.element_type), gaps=gaps)  # fmt: skip
    same = [1 << i if column else 0 for i, column in enumerate(filled)]
    moved = any(list(source.columns_of(name)) != same if name == LANE
                else any(source.columns_of(name)) for name in source.in_names)  # fmt: skip
    sources = c.positions(source, registers) if moved else [None] * len(groups)
    copies = [_WarpCopy(*parts) for parts in zip(groups, places, sources, strict=True)]
    return copies, c.owner(place.with_columns(LANE, filled))


def _inverse(images: dict[int, int]) -> Callable[[int], int] | None:
    """The inverse of a linear map of bits, given by the images of bits; None without."""
    solved = dict[int, tuple[int, int]]()  # by the highest bit of the image
    for argument, image in images.items():
        while image and (bit := image.bit_length()) in solved:
            image, argument = image ^ solved[bit][0], argument ^ solved[bit][1]
        if not image:
            return None
        solved[image.bit_length()] = image, argument

    def inverse(image: int) -> int:
        argument = 0
        while image:
            found = solved[image.bit_length()]
            image, argument = image ^ found[0], argument ^ found[1]
        return argument

    return inverse


def copy_by_warps(
    c: Context, op: ttgir.AsyncCopyGlobalToLocalOp, start: Callable[[Value, Value, int], None]
) -> None:
    """Lower copies by which the lanes of a warp fill neighbouring places. `start` writes one, from
    the lane's pointer to the first lane's place; its last argument is the bytes of a lane. A lane
    whose mask is false writes zeros, or the other numbers, itself."""
    pointers, masks = c.tile(op.src), None if op.mask is None else c.tile(op.mask)
    others = None if op.other is None else c.tile(op.other)
    kind = c.memory(op.result).type.element_type
    copies, owner = warp_copies(c, op, op.src, op.result, op.mask, op.contiguity)
    for group, first, source in copies:
        mask, size = None if masks is None else masks[group[0]], memory_bytes(kind) * len(group)
        pointer = pointers[group[0]]
        if source is not None:
            if mask is not None and others is not None and not are_zero(others):
                raise c.unsupported(op, "numbers in place of masked elements, to places in another "
                                        "order than the lanes")  # fmt: skip
            number = c.f.cast("ptrtoint", pointer, "i64")
            pointer = c.f.cast("inttoptr", shuffle(c, number, source), pointer.type)
            mask = None if mask is None else shuffle(c, mask, source)
        with c.f.where(both(c, mask, owner)):
            start(pointer, first, size)
        if mask is not None:
            place = c.byte_offset(first, c.f.op("mul", c.lane, c.i32(size)))
            unset = both(c, c.f.op("xor", mask, Value("i1", "true")), owner)
            c.hardware.shared.store(c, place, rest_of(c, others, group, memory_type(kind)), unset)
    c.set(op.results[0], None)


@lowers(GPU, ttgir.BufferLoadToLocalOp)
def copy(c: Context, op: ttgir.BufferLoadToLocalOp) -> None:
    if op.other is not None and not are_zero(c.tile(op.other)):
        raise c.unsupported(op, "other elements than zeros where the mask is false")
    offsets, masks, caching = c.tile(op.offsets), _tile(c, op.mask), Caching(op.cache, op.evict)
    buffer, buffers = _buffer(c, op), _hardware(c, op)
    size = memory_bytes(memory_of(op.dest).element_type)
    copies, owner = warp_copies(c, op, op.offsets, op.dest, op.mask)
    for group, first, source in copies:
        mask = None if masks is None else masks[group[0]]
        offset = buffer.offset(c, offsets[group[0]], size, mask)
        offset = offset if source is None else shuffle(c, offset, source)
        with c.f.where(owner):
            buffers.copy(c, buffer.resource, offset, first, size * len(group), caching)
    c.set(op.results[0], None)


@lowers(GPU, ttgir.BufferAtomicRMWOp, scratch=scratch_bytes)
def update(c: Context, op: ttgir.BufferAtomicRMWOp) -> None:
    buffers, values, masks = _hardware(c, op), c.tile(op.value), _tile(c, op.mask)
    if str(ir.element_type(op.value.type)) not in buffers.atomics:
        _update_by_pointers(c, op, values, masks)
        return

    def change(resource: Any, place: Value, register: int) -> Value:
        return buffers.update(c, op.atomic_rmw_op, resource, place, values[register])

    _each(c, op, masks, change)


def _update_by_pointers(
    c: Context, op: ttgir.BufferAtomicRMWOp, values: Sequence[Value], masks: Sequence[Value] | None
) -> None:
    """Update elements of a type for which there are no instructions with buffers."""
    layout, offsets, start = layout_of(op.offsets.type), c.tile(op.offsets), c.scalar(op.ptr)
    owner, order = c.owner(layout, of_program=True), Order(op.sem, op.scope)
    element, found = memory_type(op.value.type), dict[int, Value]()
    for register in distinct_registers(layout):
        offset = c.f.cast("sext", offsets[register], "i64")
        pointer = c.f.emit(start.type, f"getelementptr {element}, {start}, {offset}")
        condition = _both(c, owner, masks, register)
        found[register] = c.hardware.atomics.update(
            c, op.atomic_rmw_op, order, pointer, values[register], condition
        )
    handed_on(c, op, layout, found, owner)


@lowers(GPU, ttgir.BufferAtomicCASOp, scratch=scratch_bytes)
def compare_and_swap(c: Context, op: ttgir.BufferAtomicCASOp) -> None:
    buffers, expected, new = _hardware(c, op), c.tile(op.cmp), c.tile(op.val)

    def change(resource: Any, place: Value, register: int) -> Value:
        return buffers.compare_and_swap(c, resource, place, expected[register], new[register])

    _each(c, op, None, change)


def _each(
    c: Context, op: ttgir.BufferAtomicRMWOp | ttgir.BufferAtomicCASOp,
    masks: Sequence[Value] | None, change: Callable[[Any, Value, int], Value],
) -> None:  # fmt: skip
    """Change each element by one thread, in the order of other accesses that the op asks for."""
    layout, offsets = layout_of(op.offsets.type), c.tile(op.offsets)
    owner, size = c.owner(layout, of_program=True), memory_bytes(op.results[0].type)
    buffer, buffers, order = _buffer(c, op), _hardware(c, op), Order(op.sem, op.scope)
    if op.sem in (MemSemantic.RELEASE, MemSemantic.ACQUIRE_RELEASE):
        buffers.fence(c, order, release=True)
    found = dict[int, Value]()
    for register in distinct_registers(layout):
        condition = _both(c, owner, masks, register)
        place = buffer.offset(c, offsets[register], size, condition)
        found[register] = change(buffer.resource, place, register)
    if op.sem in (MemSemantic.ACQUIRE, MemSemantic.ACQUIRE_RELEASE):
        buffers.fence(c, order, release=False)
    handed_on(c, op, layout, found, owner)


def _both(
    c: Context, owner: Value | None, masks: Sequence[Value] | None, register: int
) -> Value | None:
    """The condition under which a thread accesses the element of a register."""
    if masks is None or owner is None:
        return owner if masks is None else masks[register]
    return c.f.op("and", owner, masks[register])
