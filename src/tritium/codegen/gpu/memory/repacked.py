"""Loads from shared memory of bytes of two numbers of 4 bits, which they put together along another
axis."""

from __future__ import annotations

from typing import Any

from tritium.codegen.gpu.context import Context, layout_of
from tritium.codegen.gpu.memory.shared import gaps_of, load_tile, place_in
from tritium.codegen.gpu.types import GPU
from tritium.codegen.llvm.writer import const
from tritium.codegen.registry import lowers
from tritium.ir.layouts.encodings import OFFSET, REGISTER
from tritium.ir.layouts.linear import LinearLayout
from tritium.ops import ttgir


def _sources(tile: LinearLayout, packed: int, other: int) -> LinearLayout:
    """The layout of the bytes in memory that a thread needs: register 2 r + i has the number i of
    each byte of register r of the tile."""
    sizes = {n: 1 << bits for n, bits in tile.out_dims}
    names = list(sizes)
    sizes[names[packed]] //= 2
    sizes[names[other]] *= 2

    def moved(basis: tuple[int, ...]) -> list[int]:
        return [x >> 1 if a == packed else x << 1 if a == other else x for a, x in enumerate(basis)]

    bases = {n: [moved(b) for b in tile.bases(n)] for n in tile.in_names}
    bases[REGISTER].insert(0, [int(axis == other) for axis in range(len(names))])
    return LinearLayout.of(bases, sizes)


def _shifts(tile: LinearLayout, packed: int) -> LinearLayout:
    """For each register the bits by which its numbers are moved up in their bytes: 0 or 4."""
    bases = {n: [[4 * (b[packed] & 1)] for b in tile.bases(n)] for n in tile.in_names}
    return LinearLayout.of(bases, {OFFSET: 8})


@lowers(GPU, ttgir.LocalLoadPackedTransposedOp)
def load(c: Context, op: Any) -> None:
    """Each byte of the result is made of two bytes in memory, the same half of each."""
    memory, type = c.memory(op.src), op.results[0].type
    tile, (packed, other) = layout_of(type), op.axes
    sources = _sources(tile, packed, other)
    place = place_in(sources, memory.type)
    bytes = load_tile(c, sources, place, memory.address, type, memory.origin, gaps_of(memory.type))
    shifts = c.positions(_shifts(tile, packed), range(tile.in_size(REGISTER)))
    found = list[Any]()
    for register, shift in enumerate(shifts):
        amount = c.f.cast("trunc", shift, "i8")
        low, high = (
            c.f.op("and", c.f.op("lshr", byte, amount), const("i8", 15))
            for byte in bytes[2 * register : 2 * register + 2]
        )
        found.append(c.f.op("or", low, c.f.op("shl", high, const("i8", 4))))
    c.set(op.results[0], found)
