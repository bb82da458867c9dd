"""Accesses to shared memory at positions along an axis that a tile of indices gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tritium.codegen.gpu.context import Context, layout_of
from tritium.codegen.gpu.hardware import Order
from tritium.codegen.gpu.memory.access import distinct_registers, from_memory, to_memory
from tritium.codegen.gpu.memory.atomic import handed_on, scratch_bytes
from tritium.codegen.gpu.memory.shared import gaps_of, memory_layout, padded
from tritium.codegen.gpu.types import GPU, memory_type
from tritium.codegen.llvm.types import memory_bytes
from tritium.codegen.llvm.writer import Value
from tritium.codegen.registry import lowers
from tritium.ir.layouts.encodings import BLOCK, OFFSET, REGISTER
from tritium.ir.layouts.linear import LinearLayout
from tritium.ops import ttgir
from tritium.ops.ttir import MemScope, MemSemantic


def _pointers(c: Context, op: Any, memory: Any, registers: Sequence[int]) -> list[Value]:
    """Pointers to the elements of some registers: the offsets that the other axes give, and the
    one that the index gives."""
    layout, tile, indices = memory_layout(memory.type), layout_of(op.indices.type), op.indices
    if any(layout.columns_of(BLOCK)) or any(tile.columns_of(BLOCK)):
        raise c.unsupported(op, "in the shared memory of several blocks")
    inverse, axis = layout.inverse(), f"dim{op.axis}"
    bases = {
        name: [[_offset(inverse, basis, op.axis)] for basis in tile.bases(name)]
        for name in tile.in_names
    }
    others = LinearLayout.of(bases, {OFFSET: layout.in_size(OFFSET)})
    bits = range(inverse.in_bits(axis))
    columns = [int(inverse.apply({axis: 1 << bit})[OFFSET]) for bit in bits]
    element, gaps = memory_type(memory.type.element_type), gaps_of(memory.type)
    found: list[Value] = []
    values = c.tile(indices)
    for register, place in zip(registers, c.positions(others, registers), strict=True):
        index = c.f.cast("trunc" if values[register].type == "i64" else "zext",
                         values[register], "i32")  # fmt: skip
        moved = c.linear_map(index, columns)
        at = place if moved is None else c.f.op("xor", place, moved)
        at = c.f.op("xor", at, c.i32(memory.origin)) if memory.origin else at
        at = padded(c, at, gaps)
        base = memory.address
        found.append(c.f.emit(base.type, f"getelementptr {element}, {base}, {at}"))
    return found


def _offset(inverse: LinearLayout, basis: Sequence[int], axis: int) -> int:
    """The offset of an element whose index along `axis` is 0."""
    place = {f"dim{i}": 0 if i == axis else x for i, x in enumerate(basis)}
    return int(inverse.apply(place)[OFFSET])


@lowers(GPU, ttgir.LocalGatherOp)
def gather(c: Context, op: Any) -> None:
    memory, type = c.memory(op.src), op.results[0].type
    element, size = memory_type(type), memory_bytes(type)
    pointers = _pointers(c, op, memory, range(layout_of(type).in_size(REGISTER)))
    c.set(op.results[0], [from_memory(c, c.f.load(element, p, size), type) for p in pointers])


@lowers(GPU, ttgir.LocalScatterOp)
def scatter(c: Context, op: Any) -> None:
    tile, values = layout_of(op.indices.type), c.tile(op.values)
    registers, owner = distinct_registers(tile), c.owner(tile)
    pointers = _pointers(c, op, c.memory(op.dst), registers)
    for register, pointer in zip(registers, pointers, strict=True):
        c.hardware.shared.store(c, pointer, [to_memory(c, values[register])], owner)


@lowers(GPU, ttgir.LocalAtomicScatterRMWOp, scratch=scratch_bytes)
def update(c: Context, op: Any) -> None:
    tile, values = layout_of(op.indices.type), c.tile(op.values)
    masks = None if op.mask is None else c.tile(op.mask)
    registers, owner = distinct_registers(tile), c.owner(tile)
    order, found = Order(MemSemantic.RELAXED, MemScope.CTA), dict[int, Value]()
    pointers = _pointers(c, op, c.memory(op.dst), registers)
    for register, pointer in zip(registers, pointers, strict=True):
        condition = owner if masks is None else masks[register]
        if masks is not None and owner is not None:
            condition = c.f.op("and", owner, masks[register])
        found[register] = c.hardware.atomics.update(
            c, op.atomic_rmw_op, order, pointer, values[register], condition
        )
    handed_on(c, op, tile, found, owner)
