"""How to bring a tile from one distributed layout to another, derived from the two maps.

    none        every thread has its elements, in the same registers
    registers   every thread has its elements, in other registers
    shuffles    every warp has its elements, in other lanes
    shared      through shared memory, in a layout of it that `swizzle` finds
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from tritium.ir.layouts.encodings import BLOCK, LANE, REGISTER, WARP
from tritium.ir.layouts.linear import LinearLayout
from tritium.ir.layouts.swizzle import Access, access, place_of, shared_layout


@dataclass(frozen=True)
class Conversion:
    """A plan.

    Attributes:
        kind: "none", "registers", "shuffles" or "shared"; see the module.
        source_of: the result's (register, lane, warp, block) -> the source's, where the element is.
        memory: for "shared", offset (in elements) -> coordinates; else None.
        write, read: for "shared", how a warp accesses it.
    """

    kind: str
    source_of: LinearLayout
    memory: LinearLayout | None = None
    write: Access | None = None
    read: Access | None = None


@lru_cache(maxsize=256)
def plan(
    source: LinearLayout, result: LinearLayout, element_bytes: int, *, store: bool = False,
    load: bool = False,
) -> Conversion:  # fmt: skip
    """The cheapest way from `source` to `result`, layouts of one tile.

    Args:
        store, load: whether the target has `stmatrix` and `ldmatrix`.

    Raises: `ValueError` if the source does not hold every element of the result.
    """
    found = result.invert_and_compose(source)
    if _keeps(found, source, (LANE, WARP, BLOCK)):
        identity = all(c == 1 << i for i, c in enumerate(found.columns_of(REGISTER)))
        same = identity and source.in_bits(REGISTER) == result.in_bits(REGISTER)
        return Conversion("none" if same else "registers", found)
    if _keeps(found, source, (WARP, BLOCK)):
        return Conversion("shuffles", found)
    return through_memory(source, result, element_bytes, store=store, load=load)


@lru_cache(maxsize=256)
def through_memory(
    source: LinearLayout, result: LinearLayout, element_bytes: int, *, store: bool = False,
    load: bool = False,
) -> Conversion:  # fmt: skip
    """The way through shared memory, which is always open; as `plan`."""
    found = result.invert_and_compose(source)
    memory = shared_layout(source, result, element_bytes, store=store, load=load)
    write, read = (
        access(place_of(side, memory), element_bytes, matrix)
        for side, matrix in ((source, store), (result, load))
    )
    return Conversion("shared", found, memory, write, read)


def _keeps(found: LinearLayout, source: LinearLayout, names: Sequence[str]) -> bool:
    """Whether each element stays in its lane, warp or block, as `names` says: those inputs have an
    effect on themselves alone, and are affected by no other."""
    places = {name: found_place(found, name) for name in found.out_names}
    mask = sum(((1 << len(places[n])) - 1) << places[n].start for n in names)
    position = 0
    for name, bits in found.in_dims:
        for bit in range(bits):
            column = found.columns[position]
            position += 1
            own = 0
            if name in names and bit < len(places[name]):
                own = 1 << places[name].start + bit
                if source.columns_of(name)[bit] == 0:
                    # The source has copies: that of the thread itself will do.
                    column |= own
            if column & mask != own or (name in names and column != own):
                return False
    return True


def found_place(layout: LinearLayout, name: str) -> range:
    """The positions of an output's bits."""
    start = 0
    for out, bits in layout.out_dims:
        if out == name:
            return range(start, start + bits)
        start += bits
    return range(0)
