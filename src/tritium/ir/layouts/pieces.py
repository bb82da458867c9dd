"""Registers of parts of tiles, where each thread has its own elements of a part."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import product

from tritium.ir.layouts.encodings import LANE, REGISTER
from tritium.ir.layouts.linear import LinearLayout

Place = tuple[int, ...]


def register_coordinates(layout: LinearLayout, lane: int = 0) -> list[Place]:
    """The coordinates of each register's element in a thread of the first warp."""
    found = [tuple([int(x) for x in layout.apply({LANE: lane}).values()])] if lane else \
        [(0,) * len(layout.out_dims)]  # fmt: skip
    for basis in layout.bases(REGISTER):
        found += [tuple([x ^ y for x, y in zip(place, basis, strict=True)]) for place in found]
    return found


def _first_registers(layout: LinearLayout) -> dict[Place, int]:
    places = register_coordinates(layout)
    return {place: register for register, place in reversed(list(enumerate(places)))}


def _check_threads(whole: LinearLayout, part: LinearLayout) -> None:
    """Raise `ValueError` unless a thread's place in the part is that in the whole."""
    others = [name for name in whole.in_names if name != REGISTER]
    if others != [name for name in part.in_names if name != REGISTER] or any(
        whole.bases(name) != part.bases(name) for name in others
    ):
        raise ValueError("lane and warp dim basis must match between source and destination layout")
    for layout, axis in product((whole, part), range(len(whole.out_names))):
        apart = 0
        for name in others:
            for basis in layout.bases(name):
                apart |= basis[axis]
        if any(basis[axis] & apart for basis in layout.bases(REGISTER)):
            raise ValueError(f"threads and registers share digits of coordinates along axis {axis}")


@lru_cache(maxsize=256)
def registers_of_part(whole: LinearLayout, part: LinearLayout, offsets: Place) -> Sequence[int]:
    """For each register of the part that begins at `offsets`, that of the whole with its element.
    Raises `ValueError` where another thread has it."""
    _check_threads(whole, part)
    held = _first_registers(whole)
    found = list[int]()
    for place in register_coordinates(part):
        moved = tuple(start + at for start, at in zip(offsets, place, strict=True))
        if moved not in held:
            raise ValueError(
                f"no source register holds the element for destination index {list(moved)}"
            )
        found.append(held[moved])
    return found


@lru_cache(maxsize=256)
def registers_of_whole(part: LinearLayout, whole: LinearLayout) -> Sequence[tuple[int, int]]:
    """For each register of a whole made of parts in row-major order: the part's number, and the
    register in it. Raises `ValueError` where another thread has the element."""
    _check_threads(whole, part)
    held = _first_registers(part)
    sizes = [1 << bits for _, bits in part.out_dims]
    counts = [(1 << bits) // size for (_, bits), size in zip(whole.out_dims, sizes, strict=True)]
    found = list[tuple[int, int]]()
    for place in register_coordinates(whole):
        number, within = 0, list[int]()
        for at, size, count in zip(place, sizes, counts, strict=True):
            number, within = number * count + at // size, [*within, at % size]
        if (key := tuple(within)) not in held:
            raise ValueError(f"no source register holds the element for destination index "
                             f"{list(place)}")  # fmt: skip
        found.append((number, held[key]))
    return found
