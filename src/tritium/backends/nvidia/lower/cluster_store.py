"""`ttng.async_shared_store`: stores to the shared memory of the blocks of a cluster, which tell the
barrier there how many bytes have come (st.async)."""

from __future__ import annotations

from typing import Any

from tritium.backends.nvidia.lower.hardware import NVIDIA
from tritium.backends.nvidia.lower.memory import braced
from tritium.codegen.gpu.context import Context, layout_of
from tritium.codegen.gpu.emitter import bits_of, word_type
from tritium.codegen.gpu.memory.access import distinct_registers, grouped, to_memory
from tritium.codegen.gpu.memory.shared import memory_layout
from tritium.codegen.llvm.types import memory_bytes
from tritium.codegen.registry import lowers
from tritium.ir.layouts.encodings import BLOCK, OFFSET, REGISTER
from tritium.ir.layouts.linear import LinearLayout
from tritium.ir.layouts.swizzle import run_bits
from tritium.ops import ttgir

LEAST_BYTES = 4


@lowers(NVIDIA, ttgir.AsyncSharedStoreOp)
def store(c: Context, op: Any) -> None:
    memory, barrier, type = c.memory(op.dst), c.memory(op.barrier), op.src.type
    layout, tile, size = memory_layout(memory.type), layout_of(type), memory_bytes(type)
    if memory.origin or layout.free_variables().get(BLOCK, 0):
        raise c.unsupported(op, "to a slice, or to copies in several blocks")
    place, above = _places(layout, tile)
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
        c.asm("void", text, ",".join([*codes, "~{memory}"]), to, bar, block, *words, *given)


def _places(layout: LinearLayout, tile: LinearLayout) -> tuple[LinearLayout, int]:
    """(register, lane, warp, block) -> offset and, above so many bits, the block that has it."""
    inverse, above = layout.inverse(), layout.in_bits(OFFSET)
    tile = tile.transpose_outs(layout.out_names)

    def column(basis: Any) -> int:
        found = inverse.apply({f"dim{i}": x for i, x in enumerate(basis)})
        return int(found[OFFSET]) | int(found.get(BLOCK, 0)) << above

    bases = {n: [[column(b)] for b in tile.bases(n)] for n in tile.in_names}
    assert REGISTER in bases
    return LinearLayout.of(bases, {OFFSET: 1 << above + layout.in_bits(BLOCK)}), above
