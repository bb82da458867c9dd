"""Accesses to shared memory at positions along an axis that a tile of indices gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tritium.codegen.gpu.context import Context, Memory, layout_of
from tritium.codegen.gpu.hardware import Order
from tritium.codegen.gpu.memory.access import distinct_registers, from_memory, to_memory
from tritium.codegen.gpu.memory.atomic import handed_on, scratch_bytes
from tritium.codegen.gpu.memory.shared import copies_in, gaps_of, in_block, memory_layout, padded
from tritium.codegen.gpu.types import GPU, memory_type
from tritium.codegen.llvm.types import memory_bytes
from tritium.codegen.llvm.writer import Value
from tritium.codegen.registry import lowers
from tritium.ir.layouts.encodings import BLOCK, OFFSET, REGISTER
from tritium.ir.layouts.linear import LinearLayout
from tritium.ops import ttgir
from tritium.ops.ttgir.local_gather import IndexedAccess
from tritium.ops.ttir import MemScope, MemSemantic


def _places(c: Context, op: Any, memory: Memory, registers: Sequence[int]) -> list[Value]:
    """The offsets of the elements of some registers: those that the other axes give, and the one
    that the index gives. Above them is the block that has the element, if that may be another; of
    blocks with copies the one with the bits of its own number."""
    layout, tile = memory_layout(memory.type), layout_of(op.indices.type)
    inverse, above = layout.inverse(), layout.in_bits(OFFSET)
    copies, remote = layout.free_variables().get(BLOCK, 0), _is_remote(c, op)

    def column(place: Mapping[str, int], own: int = 0) -> int:
        found = inverse.apply(dict(place))
        block = int(found.get(BLOCK, 0)) | own & copies if remote else 0
        return int(found[OFFSET]) | block << above

    bases = {
        name: [
            [column({f"dim{i}": x for i, x in enumerate(basis) if i != op.axis},
                    1 << bit if name == BLOCK else 0)]
            for bit, basis in enumerate(tile.bases(name))
        ]
        for name in tile.in_names
    }  # fmt: skip
    others = LinearLayout.of(bases, {OFFSET: 1 << above + layout.in_bits(BLOCK)})
    axis, values, found = f"dim{op.axis}", c.tile(op.indices), list[Value]()
    columns = [column({axis: 1 << bit}) for bit in range(inverse.in_bits(axis))]
    for register, place in zip(registers, c.positions(others, registers), strict=True):
        index = c.f.cast("trunc" if values[register].type == "i64" else "zext",
                         values[register], "i32")  # fmt: skip
        moved = c.linear_map(index, columns)
        found.append(place if moved is None else c.f.op("xor", place, moved))
    return found


def _is_remote(c: Context, op: IndexedAccess) -> bool:
    return c.num_ctas > 1 and op.reaches_blocks


def _pointers(c: Context, op: Any, memory: Memory, registers: Sequence[int]) -> list[Value]:
    """Pointers to the elements of some registers in this block's memory."""
    element, base, found = memory_type(memory.type.element_type), memory.address, list[Value]()
    for at in _places(c, op, memory, registers):
        at = c.f.op("xor", at, c.i32(memory.origin)) if memory.origin else at
        at = padded(c, at, gaps_of(memory.type))
        found.append(c.f.emit(base.type, f"getelementptr {element}, {base}, {at}"))
    return found


def _remote(
    c: Context, op: Any, memory: Memory, registers: Sequence[int]
) -> list[tuple[Value, Value]]:
    """The addresses of the elements of some registers in a block's memory, and these blocks."""
    above = memory_layout(memory.type).in_bits(OFFSET)
    return [in_block(c, memory, at, above) for at in _places(c, op, memory, registers)]


@lowers(GPU, ttgir.LocalGatherOp)
def gather(c: Context, op: Any) -> None:
    memory, type = c.memory(op.src), op.results[0].type
    element, size = memory_type(type), memory_bytes(type)
    registers = range(layout_of(type).in_size(REGISTER))
    if _is_remote(c, op):
        parts = [c.hardware.shared.load_remote(c, address, block, element, 1)[0]
                 for address, block in _remote(c, op, memory, registers)]  # fmt: skip
    else:
        parts = [c.f.load(element, p, size) for p in _pointers(c, op, memory, registers)]
    c.set(op.results[0], [from_memory(c, part, type) for part in parts])


@lowers(GPU, ttgir.LocalScatterOp)
def scatter(c: Context, op: Any) -> None:
    tile, values = layout_of(op.indices.type), c.tile(op.values)
    registers, memory, remote = distinct_registers(tile), c.memory(op.dst), _is_remote(c, op)
    owner = c.owner(tile, of_program=remote)
    if remote:
        copies = copies_in(memory_layout(memory.type))
        places = _remote(c, op, memory, registers)
        for register, (address, block) in zip(registers, places, strict=True):
            for copy in copies:
                to = c.f.op("xor", block, c.i32(copy)) if copy else block
                part = [to_memory(c, values[register])]
                c.hardware.shared.store_remote(c, address, to, part, owner)
        return
    pointers = _pointers(c, op, memory, registers)
    for register, pointer in zip(registers, pointers, strict=True):
        c.hardware.shared.store(c, pointer, [to_memory(c, values[register])], owner)


@lowers(GPU, ttgir.LocalAtomicScatterRMWOp, scratch=scratch_bytes)
def update(c: Context, op: Any) -> None:
    tile, values = layout_of(op.indices.type), c.tile(op.values)
    masks = None if op.mask is None else c.tile(op.mask)
    registers, memory, remote = distinct_registers(tile), c.memory(op.dst), _is_remote(c, op)
    owner, found = c.owner(tile, of_program=remote), dict[int, Value]()
    order = Order(MemSemantic.RELAXED, MemScope.GPU if remote else MemScope.CTA)
    pointers = [[pointer] for pointer in _pointers(c, op, memory, registers)] if not remote else [
        [c.hardware.shared.remote(c, address, c.f.op("xor", block, c.i32(copy)) if copy else block)
         for copy in copies_in(memory_layout(memory.type))]
        for address, block in _remote(c, op, memory, registers)
    ]  # fmt: skip
    for register, copies in zip(registers, pointers, strict=True):
        condition = owner if masks is None else masks[register]
        if masks is not None and owner is not None:
            condition = c.f.op("and", owner, masks[register])
        found[register], *_ = [
            c.hardware.atomics.update(
                c, op.atomic_rmw_op, order, pointer, values[register], condition
            )
            for pointer in copies
        ]
    handed_on(c, op, tile, found, owner)
