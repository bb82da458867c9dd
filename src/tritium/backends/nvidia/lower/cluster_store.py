"""`ttng.async_shared_store`: stores to the shared memory of the blocks of a cluster, which tell the
barrier there how many bytes have come (st.async)."""

from __future__ import annotations

from typing import Any

from tritium.backends.nvidia.lower.hardware import NVIDIA
from tritium.backends.nvidia.lower.memory import braced
from tritium.codegen.gpu.context import Context, layout_of
from tritium.codegen.gpu.emitter import bits_of, word_type
from tritium.codegen.gpu.memory.access import distinct_registers, grouped, to_memory
from tritium.codegen.gpu.memory.shared import copies_in, memory_layout, place_in_blocks
from tritium.codegen.llvm.types import memory_bytes
from tritium.codegen.registry import lowers
from tritium.ir.layouts.swizzle import run_bits
from tritium.ops import ttgir

LEAST_BYTES = 4


@lowers(NVIDIA, ttgir.AsyncSharedStoreOp)
def store(c: Context, op: Any) -> None:
    memory, barrier, type = c.memory(op.dst), c.memory(op.barrier), op.src.type
    layout, tile, size = memory_layout(memory.type), layout_of(type), memory_bytes(type)
    if memory.origin:
        raise c.unsupported(op, "to a slice")
    place, above = place_in_blocks(tile, layout)
    groups = grouped(distinct_registers(tile), run_bits(place, size))
    if len(groups[0]) * size < LEAST_BYTES:
        raise c.unsupported(op, f"of {len(groups[0]) * size} bytes; {LEAST_BYTES} are the least")
    f, owner, values = c.f, c.owner(tile, of_program=True), c.tile(op.src)
    start, bar = c.address(memory.address), c.address(barrier.address)
    for group, at in zip(groups, c.positions(place, [g[0] for g in groups]), strict=True):
        index = f.op("and", at, c.i32((1 << above) - 1))
        to = f.op("add", start, f.op("mul", index, c.i32(size)))
        parts = [to_memory(c, values[r]) for r in group]
        word = word_type(parts[0].type, len(parts))
        words = c.pack(parts, word)
        n, code = len(words), {"i32": "r", "i64": "l"}[word]
        vector = f".v{n}" if n > 1 else ""
        names = braced([f"${i + 3}" for i in range(n)])
        guard = "" if owner is None else f"@${n + 3} "
        text = (
            "{ .reg .b32 to, bar; mapa.shared::cluster.u32 to, $0, $2; "
            f"mapa.shared::cluster.u32 bar, $1, $2; {guard}st.async.weak.shared::cluster."
            f"mbarrier::complete_tx::bytes{vector}.b{bits_of(word)} [to], {names}, [bar]; }}"
        )
        codes = ["r", "r", "r", *[code] * n, *(["b"] if owner is not None else [])]
        block = f.op("lshr", at, c.i32(above))
        given = [] if owner is None else [owner]
        for copy in copies_in(layout):
            target = f.op("xor", block, c.i32(copy)) if copy else block
            c.asm("void", text, ",".join([*codes, "~{memory}"]), to, bar, target, *words, *given)
