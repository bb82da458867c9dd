"""Copies from global to shared memory that go on while the program computes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Any

from tritium.codegen.gpu.context import Context, layout_of
from tritium.codegen.gpu.memory.access import (
    Facts,
    distinct_registers,
    grouped,
    register_groups,
    to_memory,
)
from tritium.codegen.gpu.memory.shared import gaps_of, neighbour_bits, place_in, shared_pointers
from tritium.codegen.gpu.types import GPU, memory_type
from tritium.codegen.llvm.types import memory_bytes
from tritium.codegen.llvm.writer import Value
from tritium.codegen.registry import lowers
from tritium.ir import types as ir
from tritium.ops import ttgir
from tritium.ops.elementwise import describe
from tritium.ops.ttir import CacheModifier


def are_zero(values: Sequence[Value]) -> bool:
    """True if values are known to have no bit set."""
    return all(v.ref in ("0", "false", "0x0000000000000000", "0xH0000", "0xR0000") for v in values)


def copy_groups(
    axis_info: Facts, address_info: Facts, op: ttgir.ElementCopy
) -> tuple[tuple[int, ...], ...]:
    """The registers of pointers that one instruction is for: neighbours in both memories."""
    pointers, memory = op.pointers, op.memory.type
    tile = layout_of(pointers.type)
    pointee: Any = ir.element_type(pointers.type)
    groups = register_groups(axis_info, address_info, pointers, op.mask, least=op.contiguity)
    place = place_in(tile, memory)
    steps = (groups[0][1 << i].bit_length() - 1 for i in range(len(groups[0]).bit_length() - 1))
    there = neighbour_bits(place, memory_bytes(pointee.pointee), gaps_of(memory))
    pairs = zip(steps, there, strict=False)
    bits = [step for step, _ in takewhile(lambda pair: pair[0] == pair[1], pairs)]
    return grouped(distinct_registers(tile), bits)


@lowers(GPU, ttgir.AsyncCopyGlobalToLocalOp)
def async_copy(c: Context, op: Any) -> None:
    """Each thread copies its elements, 4 to 16 bytes at a time. Where the mask is false, zeros
    are written by the copy itself, or `other` by a store."""
    memory, type = c.memory(op.result), op.src.type
    pointee: Any = ir.element_type(type)
    size, element = memory_bytes(pointee.pointee), memory_type(pointee.pointee)
    tile = layout_of(type)
    place = place_in(tile, memory.type)
    groups = copy_groups(c.axis_info, c.address_info, op)
    owner = c.owner(tile)
    width = len(groups[0])
    copies = c.hardware.async_copies
    if width * size < copies.least_bytes:
        why = (f"copies of {width * size} bytes from {describe(type)} to "
               f"{describe(op.result.type)}; {copies.least_bytes} bytes that lie side by side "
               "in both are the least")  # fmt: skip
        raise c.unsupported(op, why)
    pointers = c.tile(op.src)
    masks = None if op.mask is None else c.tile(op.mask)
    others = None if op.other is None else c.tile(op.other)
    zero = (others is None or are_zero(others)) and copies.fills
    places = shared_pointers(c, memory.address, place, [g[0] for g in groups], element,
                             memory.origin, gaps_of(memory.type))  # fmt: skip
    for group, pointer in zip(groups, places, strict=True):
        mask = None if masks is None else masks[group[0]]
        condition = owner if zero else both(c, mask, owner)
        keep = op.cache is CacheModifier.CA
        filled = mask if zero else None
        copies.copy(c, pointer, pointers[group[0]], width * size, filled, keep, condition,
                    *([op.hints] if op.hints else []))  # fmt: skip
        if not zero and mask is not None:
            unset = both(c, c.f.op("xor", mask, Value("i1", "true")), owner)
            c.hardware.shared.store(c, pointer, rest_of(c, others, group, element), unset)
    c.set(op.results[0], None)


def rest_of(
    c: Context, others: Sequence[Value] | None, group: Sequence[int], element: str
) -> list[Value]:
    """The elements that some registers stand for where the mask is false, as in memory."""
    if others is None:
        return [Value(element, "zeroinitializer")] * len(group)
    return [to_memory(c, others[r]) for r in group]


def both(c: Context, a: Value | None, b: Value | None) -> Value | None:
    """True if both conditions hold; None: always."""
    if a is None or b is None:
        return b if a is None else a
    return c.f.op("and", a, b)


@lowers(GPU, ttgir.AsyncCopyLocalToGlobalOp)
def copy_to_global(c: Context, op: ttgir.AsyncCopyLocalToGlobalOp) -> None:
    """Each thread copies its elements, of as many bytes at a time as the hardware can."""
    copies, memory = c.hardware.async_copies, c.memory(op.src)
    if not copies.stored_bytes:
        raise c.unsupported(op)
    tile, pointers = layout_of(op.dst.type), c.tile(op.dst)
    masks = None if op.mask is None else c.tile(op.mask)
    groups = copy_groups(c.axis_info, c.address_info, op)
    kind, owner = memory.type.element_type, c.owner(tile, of_program=True)
    size = memory_bytes(kind) * len(groups[0])
    if size not in copies.stored_bytes:
        allowed = ", ".join(map(str, copies.stored_bytes))
        raise c.unsupported(op, f"copies of {size} bytes a thread; they are {allowed}")
    places = shared_pointers(c, memory.address, place_in(tile, memory.type), [g[0] for g in groups],
                             memory_type(kind), memory.origin, gaps_of(memory.type))  # fmt: skip
    for group, source in zip(groups, places, strict=True):
        chosen = both(c, None if masks is None else masks[group[0]], owner)
        copies.store(c, pointers[group[0]], source, size, chosen)
    c.set(op.results[0], None)


@lowers(GPU, ttgir.AsyncCommitGroupOp)
def commit(c: Context, op: Any) -> None:
    c.hardware.async_copies.commit(c)
    c.set(op.results[0], None)


@lowers(GPU, ttgir.AsyncWaitOp)
def wait(c: Context, op: Any) -> None:
    """Wait until all but the `num` newest groups of this thread's copies are there."""
    c.hardware.async_copies.wait(c, op.num)
    c.set(op.results[0], None)
