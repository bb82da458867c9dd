"""Tiles that `ldmatrix` and `stmatrix` move, read off the map from (register, lane) to offsets.

A warp moves up to four matrices of eight rows of 16 bytes. A lane gives the address of one row and
has one word (4 bytes) of each matrix: lane t the word t % 4 of row t / 4. A word is one element of
32 bits, or neighbours of 16 or 8. With `trans`, for 16 bits only, a lane's two elements are
neighbours of a column: those of row t / 4 of the transposed matrix.

    plain    register bits of the word, lane bits 0, 1 -> 1, 2, 4, ... elements, 16 bytes in all;
             lane bits 2, 3, 4 -> rows
    trans    lane bits 2, 3, 4 -> 1, 2, 4 elements;  register bit, lane bits 0, 1 -> rows

`ds_read_b64_tr_b16` of AMD's gfx950 turns four rows of 16 elements of 16 bits for each 16 lanes:
lane t gives the address of four neighbours, number t % 4 of row t / 4, and gets column t.

    turned   lane bits 0, 1 -> 1, 2 elements;  two register bits, which become lane bits 2, 3 of
             addresses, and all other bits -> multiples of four
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations

from tritium.ir.layouts.encodings import BLOCK, LANE, REGISTER, WARP
from tritium.ir.layouts.linear import LinearLayout

ROW_BYTES, WORD_BYTES = 16, 4


@dataclass(frozen=True)
class Matrices:
    """A way to move a tile by instructions for matrices.

    Attributes:
        word: the register bits of the elements of a word, from its low end.
        which: the register bits of the (up to four) matrices.
        rows: the offsets of rows, by the low three bits of the lane.
        trans: whether matrices are transposed on the way.
    """

    word: tuple[int, ...]
    which: tuple[int, ...]
    rows: tuple[int, ...]
    trans: bool


def turned_rows(place: LinearLayout, size: int, moved: int) -> tuple[int, int] | None:
    """The register bits of the rows of a tile that `ds_read_b64_tr_b16` can turn; None for others.

    `moved`: what else its offsets consist of, such as the sizes of gaps, ORed.
    """
    registers, lanes = place.columns_of(REGISTER), place.columns_of(LANE)
    others = [x for name in (WARP, BLOCK) for x in place.columns_of(name)]
    rest = [*registers, *lanes[2:], *others, moved]
    free = place.free_variables().get(REGISTER, 0)
    rows = [bit for bit in range(len(registers)) if not free >> bit & 1]
    if size != 2 or lanes[:2] != (1, 2) or len(lanes) < 4 or any(x % 4 for x in rest):
        return None
    return (rows[0], rows[1]) if len(rows) > 1 else None


def turned_addresses(place: LinearLayout, rows: tuple[int, int]) -> LinearLayout:
    """The offsets of the neighbours whose addresses the lanes give for `turned_rows`."""
    registers, lanes = place.columns_of(REGISTER), place.columns_of(LANE)
    given = (*lanes[2:4], *(registers[bit] for bit in rows), *lanes[4:])
    rest = [x for name in place.in_names[2:] for x in place.columns_of(name)]
    return LinearLayout(place.in_dims, place.out_dims, (*registers, *given, *rest))


def word_bits(size: int) -> int | None:
    """log2 of the elements of `size` bytes in a word; None for those wider than a word."""
    return (WORD_BYTES // size).bit_length() - 1 if size <= WORD_BYTES else None


def find(place: LinearLayout, size: int) -> Matrices | None:
    """The way to move a tile of elements of `size` bytes; None if these instructions cannot.

    `place` maps (register, lane, warp, block) to offsets in elements.
    """
    registers, lanes = place.columns_of(REGISTER), place.columns_of(LANE)
    inner, row = word_bits(size), ROW_BYTES // size
    if inner is None or len(lanes) != 5 or place.free_variables().get(REGISTER, 0):
        return None
    for word, along, rows, trans in forms(registers, lanes, inner):
        if any(x != 1 << i for i, x in enumerate(along)):
            continue
        others = [b for b in range(len(registers)) if b not in word]
        rest = [*rows, *(registers[b] for b in others)]
        rest += [x for name in (WARP, BLOCK) for x in place.columns_of(name)]
        if all(x % row == 0 for x in rest):
            return Matrices(word, tuple(others[:2]), tuple(rows), trans)
    return None


def forms(
    registers: tuple[int, ...], lanes: tuple[int, ...], inner: int
) -> Iterator[tuple[tuple[int, ...], list[int], list[int], bool]]:
    """(register bits of a word, what lies along a row, what lies across rows, transposed) of each
    form that matrices of 2**inner elements a word can have in these registers and lanes."""
    for word in permutations(range(len(registers)), inner):
        held = [registers[b] for b in word]
        yield word, [*held, *lanes[:2]], list(lanes[2:]), False
        if inner == 1:
            yield word, list(lanes[2:]), [*held, *lanes[:2]], True
