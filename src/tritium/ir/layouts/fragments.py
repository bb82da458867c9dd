"""Tiles that `ldmatrix` and `stmatrix` move, read off the map from (register, lane) to offsets.

A warp moves up to four 8x8 matrices of 16-bit elements. A lane gives the address of one row (16
bytes) and has two neighbours of a row (with `trans`: of a column) of each matrix: lane t those of
row t / 4 at 2 (t % 4).

    plain    register bit, lane bits 0, 1 -> 1, 2, 4 elements;  lane bits 2, 3, 4 -> rows
    trans    lane bits 2, 3, 4 -> 1, 2, 4 elements;  register bit, lane bits 0, 1 -> rows
"""

from __future__ import annotations

from dataclasses import dataclass

from tritium.ir.layouts.encodings import LANE, REGISTER, WARP
from tritium.ir.layouts.linear import LinearLayout


@dataclass(frozen=True)
class Matrices:
    """How to move a tile: register bits `pair` (the two elements of a word) and `which` (of the
    four matrices), and the offsets of rows: `rows` by the low three bits of the lane."""

    pair: int
    which: tuple[int, ...]
    rows: tuple[int, ...]
    trans: bool


def find(place: LinearLayout, size: int) -> Matrices | None:
    """How to move a tile of elements of `size` bytes; None if these instructions cannot.

    `place` maps (register, lane, warp, block) to offsets in elements.
    """
    registers, lanes = place.columns_of(REGISTER), place.columns_of(LANE)
    if size != 2 or len(lanes) != 5 or place.free_variables().get(REGISTER, 0):
        return None
    for pair, step in enumerate(registers):
        plain = (step, *lanes[:2]) == (1, 2, 4)
        if not plain and lanes[2:] != (1, 2, 4):
            continue
        rows = lanes[2:] if plain else (step, *lanes[:2])
        others = [b for b in range(len(registers)) if b != pair]
        rest = [*rows, *(registers[b] for b in others), *place.columns_of(WARP)]
        if all(column % 8 == 0 for column in rest):
            return Matrices(pair, tuple(others[:2]), tuple(rows), not plain)
    return None
