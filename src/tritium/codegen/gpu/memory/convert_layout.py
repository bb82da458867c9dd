"""Changes of layout: in registers, by shuffles, or through shared memory, at once or in rounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tritium.codegen.gpu.collective.shuffles import MOST_SHUFFLES, shuffle_count, shuffled
from tritium.codegen.gpu.context import UNUSED, Context, layout_of
from tritium.codegen.gpu.memory.access import distinct_registers, from_memory, grouped, with_copies
from tritium.codegen.gpu.memory.shared import load_tile, store_tile
from tritium.codegen.gpu.shape import in_thread, moved_registers
from tritium.codegen.gpu.types import GPU, memory_type
from tritium.codegen.llvm.types import memory_bytes
from tritium.codegen.llvm.writer import Value
from tritium.codegen.registry import lowers
from tritium.ir import types as ir
from tritium.ir.layouts.conversion import Conversion, plan, through_memory
from tritium.ir.layouts.encodings import OFFSET, REGISTER
from tritium.ir.layouts.linear import LinearLayout
from tritium.ir.layouts.rounds import Exchange, in_rounds
from tritium.ir.layouts.swizzle import ANY_BANKS, run_bits
from tritium.ops import ttgir
from tritium.target import Banks


def conversion_bytes(op: Any) -> int:
    """Shared memory that a change of layout needs, whatever the architecture."""
    if moved_registers(op) is not None:
        return 0
    memory = conversion_of(op).memory
    return 0 if memory is None else memory.in_size(OFFSET) * memory_bytes(op.src.type)


def bytes_in_rounds(op: Any, rounds: int) -> int | None:
    """Shared memory that a change of layout through it needs in `2**rounds` rounds; None where a
    thread's registers cannot be divided so."""
    whole = conversion_bytes(op)
    if not whole or _through_blocks(op):
        return None
    sides = in_rounds(layout_of(op.src.type), layout_of(op.results[0].type), rounds)
    return None if sides is None else sides[0].layout.out_size("dim0") * memory_bytes(op.src.type)


def _through_blocks(op: Any) -> bool:
    return conversion_of(op).kind == "blocks"


@lowers(GPU, ttgir.ConvertLayoutOp, scratch=conversion_bytes, rounds=bytes_in_rounds)
@lowers(GPU, ttgir.InThreadTransposeOp, scratch=conversion_bytes, rounds=bytes_in_rounds)
def convert(c: Context, op: Any) -> None:
    """Renumber registers, shuffle, or go through shared memory: see `ir.layouts.conversion`."""
    if in_thread(c, op):
        return
    if op in c.rounds:
        c.set(op.results[0], _in_rounds(c, op, c.rounds[op]))
        return
    matrices, type = c.hardware.matrices, op.src.type
    found = conversion_of(op, store=matrices.stores, load=matrices.loads, banks=c.hardware.banks)
    if found.written is None or found.found is None:
        c.set(op.results[0], shuffled(c, c.tile(op.src), found.source_of))
        return
    result, base = layout_of(op.results[0].type), c.shared(c.offsets[op])
    store_tile(c, c.tile(op.src), layout_of(type), found.written, base, type)
    if found.kind == "blocks":
        c.synchronize()
        c.set(op.results[0], _load_from_blocks(c, result, found, base, type))
        c.synchronize()
    else:
        c.barrier()
        c.set(op.results[0], load_tile(c, result, found.found, base, op.results[0].type))


def _load_from_blocks(
    c: Context, tile: LinearLayout, found: Conversion, base: Value, type: ir.Type
) -> list[Value]:
    """Read a tile's registers from the shared memory of the blocks that have them."""
    element, size = memory_type(type), memory_bytes(type)
    both, above = found.place_in_blocks()
    groups = grouped(distinct_registers(tile), run_bits(both, size)[:above])
    start, loaded = c.address(base), dict[int, Value]()
    for group, place in zip(groups, c.positions(both, [g[0] for g in groups]), strict=True):
        index = c.f.op("and", place, c.i32((1 << above) - 1))
        address = c.f.op("add", start, c.f.op("mul", index, c.i32(size)))
        block = c.f.op("lshr", place, c.i32(above))
        parts = c.hardware.shared.load_remote(c, address, block, element, len(group))
        loaded.update(zip(group, [from_memory(c, v, type) for v in parts], strict=True))
    return with_copies(tile, loaded)


def conversion_of(
    op: Any, *, store: bool = True, load: bool = True, banks: Banks = ANY_BANKS
) -> Conversion:
    """The way of a change of layout: through shared memory where it would take many shuffles."""
    size = memory_bytes(op.src.type)
    source, result = layout_of(op.src.type), layout_of(op.results[0].type)
    found = plan(source, result, size, store=store, load=load, banks=banks)
    if found.kind == "shuffles" and shuffle_count(found.source_of, size) > MOST_SHUFFLES:
        return through_memory(source, result, size, store=store, load=load, banks=banks)
    return found


def _in_rounds(c: Context, op: Any, count: int) -> list[Value]:
    """A change of layout in 2**count rounds (`ir.layouts.rounds`) through the same memory."""
    matrices, type, out = c.hardware.matrices, op.src.type, op.results[0].type
    sides = in_rounds(layout_of(type), layout_of(out), count)
    assert sides is not None, op
    source, result = sides
    way = through_memory(
        source.layout, result.layout, memory_bytes(type), store=matrices.stores,
        load=matrices.loads, banks=c.hardware.banks,
    )  # fmt: skip
    assert way.memory is not None and way.written is not None and way.found is not None
    offsets, base = way.memory.inverse(), c.shared(c.offsets[op])
    values = list(c.tile(op.src))
    for exchange in source.exchanges:
        values = _exchanged(c, values, exchange)
    found = [UNUSED] * layout_of(out).in_size(REGISTER)
    for number, registers in enumerate(source.rounds):
        if number:
            c.barrier()
        mine = tuple(values[r] for r in registers)
        store_tile(c, mine, source.layout, way.written, base, type)
        c.barrier()
        origin = int(offsets.apply({"dim0": result.origins[number]})[OFFSET])
        parts = load_tile(c, result.layout, way.found, base, out, origin)
        for register, part in zip(result.rounds[number], parts, strict=True):
            found[register] = part
    for exchange in result.exchanges:
        found = _exchanged(c, found, exchange)
    return found


def _exchanged(c: Context, values: Sequence[Value], exchange: Exchange) -> list[Value]:
    """The registers of a thread, in other places in some threads."""
    odd = c.i32(0)
    for index, mask in ((c.lane, exchange.lanes), (c.warp, exchange.warps)):
        if mask:
            columns = [mask >> bit & 1 for bit in range(mask.bit_length())]
            moved = c.linear_map(index, columns)
            assert moved is not None
            odd = c.f.op("xor", odd, moved)
    swap = c.f.icmp("ne", odd, c.i32(0))
    return [c.f.select(swap, values[r ^ exchange.registers], v) for r, v in enumerate(values)]
