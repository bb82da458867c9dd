"""Plans of changes from one distributed layout to another, derived from the two maps.

    none        every thread has its elements, in the same registers
    registers   every thread has its elements, in other registers
    shuffles    every warp has its elements, in other lanes
    shared      through shared memory, in a layout of it that `swizzle` finds
    blocks      the same, but what is read may be in the memory of another block of the cluster
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from tritium.ir.layouts.encodings import BLOCK, LANE, OFFSET, REGISTER, WARP
from tritium.ir.layouts.linear import LinearLayout
from tritium.ir.layouts.swizzle import ANY_BANKS, Access, access, place_of, shared_layout
from tritium.target import Banks


@dataclass(frozen=True)
class Conversion:
    """A plan.

    Attributes:
        kind: "none", "registers", "shuffles", "shared" or "blocks"; see the module.
        source_of: the result's (register, lane, warp, block) -> the source's, where the element is.
        memory: for the last two, offset (in elements) -> coordinates within what a block has of the
            tile; else None.
        write, read: how a warp accesses it.
        written, found: (register, lane, warp, block) -> offset, of source and result.
    """

    kind: str
    source_of: LinearLayout
    memory: LinearLayout | None = None
    write: Access | None = None
    read: Access | None = None
    written: LinearLayout | None = None
    found: LinearLayout | None = None

    def place_in_blocks(self) -> tuple[LinearLayout, int]:
        """For "blocks", (register, lane, warp, block) of the result -> offset | block << bits; and
        these bits."""
        assert self.found is not None
        offset, block = self.found, self.source_of.restrict(self.source_of.in_names, [BLOCK])
        bits = max(offset.out_bits(OFFSET), 8)  # a step to another block is no small one
        columns = zip(offset.columns, block.columns, strict=True)
        return LinearLayout(
            offset.in_dims, ((OFFSET, bits + block.out_bits(BLOCK)),),
            tuple(o | b << bits for o, b in columns),
        ), bits  # fmt: skip


@lru_cache(maxsize=256)
def plan(
    source: LinearLayout, result: LinearLayout, element_bytes: int, *, store: bool = False,
    load: bool = False, banks: Banks = ANY_BANKS,
) -> Conversion:  # fmt: skip
    """The cheapest way from `source` to `result`, layouts of one tile.

    Args:
        store, load: whether the target has `stmatrix` and `ldmatrix`.
        banks: of shared memory; how much of it is needed does not depend on them.

    Raises: `ValueError` if the source does not hold every element of the result.
    """
    found = result.invert_and_compose(source)
    if _keeps(found, source, (LANE, WARP, BLOCK)):
        identity = all(c == 1 << i for i, c in enumerate(found.columns_of(REGISTER)))
        same = identity and source.in_bits(REGISTER) == result.in_bits(REGISTER)
        return Conversion("none" if same else "registers", found)
    if _keeps(found, source, (WARP, BLOCK)):
        return Conversion("shuffles", found)
    return through_memory(source, result, element_bytes, store=store, load=load, banks=banks)


@lru_cache(maxsize=256)
def through_memory(
    source: LinearLayout, result: LinearLayout, element_bytes: int, *, store: bool = False,
    load: bool = False, banks: Banks = ANY_BANKS,
) -> Conversion:  # fmt: skip
    """The way through shared memory, which is always open; as `plan`."""
    found = result.invert_and_compose(source)
    stays, result = _stays_in_block(found, source), result.transpose_outs(source.out_names)
    shared = _shared_bits(source, result if stays else None)
    source, result = _without_bits(source, shared), _without_bits(result, shared)
    memory = shared_layout(
        source, result if stays else source, element_bytes, store=store, load=load and stays,
        banks=banks,
    )  # fmt: skip
    places = [place_of(side, memory) for side in (source, result)]
    write, read = (
        access(place, element_bytes, matrix, banks)
        for place, matrix in zip(places, (store, load and stays), strict=True)
    )
    return Conversion("shared" if stays else "blocks", found, memory, write, read, *places)


def _stays_in_block(found: LinearLayout, source: LinearLayout) -> bool:
    """True if each block of the cluster has the elements itself that it needs."""
    place, blocks = found_place(found, BLOCK), list(found.slice_of(BLOCK))
    copied = [c == 0 for c in source.columns_of(BLOCK)]
    for position, column in enumerate(found.columns):
        to = column >> place.start & (1 << len(place)) - 1
        own = blocks.index(position) if position in blocks else None
        if own is None and to:
            return False
        if own is not None and to != 1 << own and (to or not copied[own]):
            return False
    return True


def _shared_bits(source: LinearLayout, result: LinearLayout | None) -> int:
    """The bits of coordinates that blocks alone choose, in the source and (if given) alike in the
    result: memory that each block has for itself does without them."""
    bits = 0
    others = [c for n in source.in_names if n != BLOCK for c in source.columns_of(n)]
    for number, column in enumerate(source.columns_of(BLOCK)):
        alone = column and not column & (column - 1) and not any(c & column for c in others)
        if result is not None and alone:
            mine = result.columns_of(BLOCK)[number]
            rest = list(result.columns)
            rest.remove(mine)
            alone = mine == column and not any(c & column for c in rest)
        if alone:
            bits |= column
    return bits


def _without_bits(layout: LinearLayout, bits: int) -> LinearLayout:
    """The map to the other bits of the coordinates, those above moved down."""
    if not bits:
        return layout
    start, outs = 0, list[tuple[str, int]]()
    for name, count in layout.out_dims:
        gone = (bits >> start & (1 << count) - 1).bit_count()
        outs.append((name, count - gone))
        start += count
    kept = [i for i in range(start) if not bits >> i & 1]
    columns = tuple(sum((c >> b & 1) << i for i, b in enumerate(kept)) for c in layout.columns)
    return LinearLayout(layout.in_dims, tuple(outs), columns)


def _keeps(found: LinearLayout, source: LinearLayout, names: Sequence[str]) -> bool:
    """True if each element stays in its lane, warp or block, as `names` says: those inputs have an
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
