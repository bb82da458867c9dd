"""`ttng.async_shared_store`: stores to the shared memory of the blocks of a cluster, which tell the
barrier there how many bytes have come (st.async)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tritium.backends.nvidia.lower.hardware import NVIDIA
from tritium.backends.nvidia.lower.memory import braced
from tritium.codegen.gpu.context import Context, layout_of
from tritium.codegen.gpu.emitter import bits_of, word_type
from tritium.codegen.gpu.memory.access import distinct_registers, grouped, to_memory
from tritium.codegen.gpu.memory.shared import copies_in, memory_layout, place_in_blocks
from tritium.codegen.llvm.types import memory_bytes
from tritium.codegen.llvm.writer import Value
from tritium.codegen.registry import lowers
from tritium.ir.layouts.swizzle import run_bits
from tritium.ops import ttgir

LEAST_BYTES = 4


@lowers(NVIDIA, ttgir.AsyncSharedStoreOp)
def store(c: Context, op: Any) -> None:
    owner = c.owner(layout_of(op.src.type), of_program=True)
    bar = c.address(c.memory(op.barrier).address)
    for to, words, block in stores(c, op):
        n, word = len(words), words[0].type
        vector = f".v{n}" if n > 1 else ""
        names = braced([f"${i + 3}" for i in range(n)])
        guard = "" if owner is None else f"@${n + 3} "
        text = (
            "{ .reg .b32 to, bar; mapa.shared::cluster.u32 to, $0, $2; "
            f"mapa.shared::cluster.u32 bar, $1, $2; {guard}st.async.weak.shared::cluster."
            f"mbarrier::complete_tx::bytes{vector}.b{bits_of(word)} [to], {names}, [bar]; }}"
        )
        codes = ["r", "r", "r", *[{"i32": "r", "i64": "l"}[word]] * n]
        given = [] if owner is None else [owner]
        constraints = ",".join([*codes, *["b"] * len(given), "~{memory}"])
        c.asm("void", text, constraints, to, bar, block, *words, *given)


def stores(c: Context, op: Any) -> Iterator[tuple[Value, list[Value], Value]]:
    """(the address as in this block's memory, words, the block that gets them) of each store."""
    memory, type = c.memory(op.dst), op.src.type
    layout, tile, size = memory_layout(memory.type), layout_of(type), memory_bytes(type)
    if memory.origin:
        raise c.unsupported(op, "to a slice")
    place, above = place_in_blocks(tile, layout)
    groups = grouped(distinct_registers(tile), run_bits(place, size))
    if len(groups[0]) * size < LEAST_BYTES:
        raise c.unsupported(op, f"of {len(groups[0]) * size} bytes; {LEAST_BYTES} are the least")
    f, values, start = c.f, c.tile(op.src), c.address(memory.address)
    for group, at in zip(groups, c.positions(place, [g[0] for g in groups]), strict=True):
        index = f.op("and", at, c.i32((1 << above) - 1))
        to = f.op("add", start, f.op("mul", index, c.i32(size)))
        parts = [to_memory(c, values[r]) for r in group]
        words = c.pack(parts, word_type(parts[0].type, len(parts)))
        block = f.op("lshr", at, c.i32(above))
        for copy in copies_in(layout):
            yield to, words, f.op("xor", block, c.i32(copy)) if copy else block
