"""Atomic operations, and meetings of all threads that a program asks for.

A scalar's operation is done by the first thread after all threads have come to it, a tile's by one
of the threads that hold copies of an element. What memory held is handed to the others through
shared memory if it is used.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, TypeAlias

from tritium.codegen.gpu.collective.gather import offsets, row_major
from tritium.codegen.gpu.context import Context, Tile, layout_of
from tritium.codegen.gpu.emitter import bits_of
from tritium.codegen.gpu.hardware import Order
from tritium.codegen.gpu.memory.access import distinct_registers, register_groups, with_copies
from tritium.codegen.gpu.types import GPU, SHARED, value_type
from tritium.codegen.llvm.types import memory_bytes
from tritium.codegen.llvm.writer import Value
from tritium.codegen.registry import lowers
from tritium.ir import types as ir
from tritium.ir.layouts.encodings import BLOCK, LANE, WARP
from tritium.ir.layouts.linear import LinearLayout
from tritium.ops import ttir
from tritium.ops.gpu import BarrierMemory, BarrierOp


def scratch_bytes(op: Any) -> int:
    """Shared memory through which results reach the threads that did not do the operation."""
    if not op.results or op.results[0].first_use is None:
        return 0
    type = op.results[0].type
    if not ir.shape_of(type):
        return 8
    free = layout_of(type).free_variables()
    copies = any(free.get(name, 0) for name in (LANE, WARP, BLOCK))
    return prod(ir.shape_of(type)) * memory_bytes(type) if copies else 0


@lowers(GPU, BarrierOp)
def barrier(c: Context, op: Any) -> None:
    if op.memory == BarrierMemory.LOCAL:
        c.barrier()
    else:
        c.synchronize()


@lowers(GPU, ttir.AtomicRMWOp, scratch=scratch_bytes)
def read_modify_write(c: Context, op: Any) -> None:
    masks = None if op.mask is None else c.tile(op.mask)
    atomics, kind, order = c.hardware.atomics, op.atomic_rmw_op, Order(op.sem, op.scope)

    def update(pointer: Value, operands: list[Value], condition: Value | None) -> Value:
        return atomics.update(c, kind, order, pointer, operands[0], condition)

    def add(pointer: Value, values: list[Value], condition: Value | None) -> list[Value]:
        return atomics.add_several(c, order, pointer, values, condition)

    each(c, op, [c.tile(op.val)], masks, update, add)


@lowers(GPU, ttir.AtomicCASOp, scratch=scratch_bytes)
def compare_and_swap(c: Context, op: Any) -> None:
    atomics, order = c.hardware.atomics, Order(op.sem, op.scope)

    def swap(pointer: Value, operands: list[Value], condition: Value | None) -> Value:
        expected, new = operands
        return atomics.compare_and_swap(c, order, pointer, expected, new, condition)

    each(c, op, [c.tile(op.cmp), c.tile(op.val)], None, swap)


Access: TypeAlias = "Callable[[Value, list[Value], Value | None], Value]"
"""Writes what is done to one element: (address, operands, condition) -> what it gives."""


def each(
    c: Context, op: Any, operands: list[Tile], masks: Tile | None, access: Access,
    several: Callable[[Value, list[Value], Value | None], list[Value]] | None = None,
) -> None:  # fmt: skip
    """`access` for each element, by one thread, or once for a scalar; results for all threads.

    `several`: writes what is done to neighbours that one instruction takes.
    """
    type, pointers = op.ptr.type, c.tile(op.ptr)
    if op.synchronizes:
        c.synchronize()
    if not ir.shape_of(type):
        first = c.first
        condition = first if masks is None else c.f.op("and", first, masks[0])
        old = access(pointers[0], [o[0] for o in operands], condition)
        if op.results:
            c.set(op.results[0], _share(c, op, op.results[0].type, old, first))
        return
    layout = layout_of(type)
    owner = c.owner(layout, of_program=True)
    results: dict[int, Value] = {}
    for group in _groups(c, op):
        first = group[0]
        condition = None if masks is None else masks[first]
        if owner is not None:
            condition = owner if condition is None else c.f.op("and", owner, condition)
        if len(group) == 1 or several is None:
            results[first] = access(pointers[first], [o[first] for o in operands], condition)
        else:
            old = several(pointers[first], [operands[0][r] for r in group], condition)
            results.update(zip(group, old, strict=True))
    if op.results:
        handed_on(c, op, layout, results, owner)


def handed_on(
    c: Context, op: Any, layout: LinearLayout, results: dict[int, Value], owner: Value | None
) -> None:
    """Define an op's result from the results of the distinct registers of the owners."""
    if op in c.offsets:
        results = _spread(c, op, layout, results, owner)
    c.set(op.results[0], with_copies(layout, results))


def _groups(c: Context, op: Any) -> list[tuple[int, ...]]:
    """The registers of an op's tile that one instruction does together."""
    width = c.hardware.atomics.width(op)
    if width == 1:
        return [(r,) for r in distinct_registers(layout_of(op.ptr.type))]
    groups = register_groups(c.axis_info, c.address_info, op.ptr, op.mask)
    return [g[i : i + width] for g in groups for i in range(0, len(g), width)]


def _spread(
    c: Context, op: Any, layout: LinearLayout, results: dict[int, Value], owner: Value | None
) -> dict[int, Value]:
    """The results of the threads that did the operation, in all that hold copies."""
    type = op.results[0].type
    shape, base = ir.shape_of(type), c.shared(c.offsets[op])
    word = f"i{max(8, bits_of(value_type(type)))}"
    places = c.positions(offsets(layout, row_major(shape), prod(shape)), list(results))
    pointers = [c.f.emit(SHARED, f"getelementptr {word}, {base}, {place}") for place in places]
    for pointer, value in zip(pointers, results.values(), strict=True):
        c.hardware.shared.store(c, pointer, [_held(c, value, word)], owner)
    copies = layout.free_variables().get(BLOCK, 0)
    if copies:
        c.synchronize()
        block = c.f.op("and", c.block, c.i32(~copies))
        read = [c.hardware.shared.load_remote(c, p, block, word, 1)[0] for p in pointers]
        c.synchronize()
    else:
        c.barrier()
        read = [c.f.load(word, pointer, memory_bytes(type)) for pointer in pointers]
    return {
        register: _again(c, bits, value.type)
        for (register, value), bits in zip(results.items(), read, strict=True)
    }


def _held(c: Context, value: Value, word: str) -> Value:
    """A result as it is in shared memory."""
    return c.f.cast("zext", value, word) if value.type == "i1" else c.as_type(value, word)


def _again(c: Context, word: Value, type: str) -> Value:
    """A result that was in shared memory."""
    return c.f.cast("trunc", word, type) if type == "i1" else c.as_type(word, type)


def _share(c: Context, op: Any, type: Any, value: Value, first: Value) -> Value:
    """The first thread's value, in all threads."""
    if op not in c.offsets:
        return value
    place = c.shared(c.offsets[op])
    bits = f"i{max(8, bits_of(value.type))}"
    with c.f.when(first, "share", "shared"):
        c.f.store(_held(c, value, bits), place, memory_bytes(type))
    c.synchronize()
    if c.num_ctas == 1:
        return _again(c, c.f.load(bits, place, memory_bytes(type)), value.type)
    read = c.hardware.shared.load_remote(c, place, c.i32(0), bits, 1)[0]
    c.synchronize()
    return _again(c, read, value.type)
