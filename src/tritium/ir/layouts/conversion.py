"""How to bring a tile from one distributed layout to another, derived from the two maps.

    none        every thread has its elements, in the same registers
    registers   every thread has its elements, in other registers
    shuffles    every warp has its elements, in other lanes
    shared      through shared memory, with a layout of it that is free of bank conflicts where
                there is one

The choice of shared memory's layout follows "Linear Layouts: Robust Code Generation of Efficient
Tensor Computation Using F2" (Zhou et al., 2025): the difference of two elements that one access of
a warp touches must not lie in the same bank and another row, which is a question of subspaces.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tritium.ir.layouts import gf2
from tritium.ir.layouts.encodings import BLOCK, LANE, OFFSET, REGISTER, WARP
from tritium.ir.layouts.linear import LinearLayout

ROW_BYTES = 128
"""Bytes of the 32 banks together."""
WORD_BYTES = 4
WIDEST_BYTES = 16


@dataclass(frozen=True)
class Conversion:
    """A plan.

    Attributes:
        kind: "none", "registers", "shuffles" or "shared"; see the module.
        source_of: the result's (register, lane, warp, block) -> the source's, where the element is.
        memory: for "shared", offset (in elements) -> coordinates; else None.
        vector: for "shared", how many elements one access of a thread moves.
    """

    kind: str
    source_of: LinearLayout
    memory: LinearLayout | None = None
    vector: int = 1


def plan(source: LinearLayout, result: LinearLayout, element_bytes: int) -> Conversion:
    """The cheapest way from `source` to `result`, layouts of one tile.

    Raises: `ValueError` if the source does not hold every element of the result.
    """
    found = result.invert_and_compose(source)
    if _keeps(found, source, (LANE, WARP, BLOCK)):
        identity = all(c == 1 << i for i, c in enumerate(found.columns_of(REGISTER)))
        same = identity and source.in_bits(REGISTER) == result.in_bits(REGISTER)
        return Conversion("none" if same else "registers", found)
    if _keeps(found, source, (WARP, BLOCK)):
        return Conversion("shuffles", found)
    memory, vector = shared_layout(source, result, element_bytes)
    return Conversion("shared", found, memory, vector)


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


def shared_layout(
    source: LinearLayout, result: LinearLayout, element_bytes: int
) -> tuple[LinearLayout, int]:
    """(layout of shared memory, elements of one access) for writing a tile in `source` and reading
    it in `result`.

    Lanes that access different rows of the same bank at a time wait for each other. With `rows`
    the space of the differences between elements of one bank, and `lanes` that of the differences
    between elements that one access touches, conflicts are absent if they meet in 0 alone. So rows
    are made of what neither lanes have, then of sums of one vector of each.
    """
    result = result.transpose_outs(source.out_names)
    size = source.total_out_bits
    most = max(WIDEST_BYTES // element_bytes, 1).bit_length() - 1
    registers = source.columns_of(REGISTER), result.columns_of(REGISTER)
    vector = gf2.intersection(*registers)[:most]
    width = len(vector)
    # A word of a bank has several narrow elements; whichever they are, they do not conflict.
    word = max(WORD_BYTES // element_bytes, 1).bit_length() - 1
    candidates = [*registers[1], *registers[0], *(1 << i for i in range(size))]
    vector = _extended(vector, candidates, min(max(word, width), size))
    columns = max(ROW_BYTES // element_bytes, 1).bit_length() - 1
    lanes = [
        _extended(vector, layout.columns_of(LANE)[: _lanes_at_once(width, element_bytes)], size)
        for layout in (source, result)
    ]
    rows = _rows(vector, lanes, size, max(size - columns, 0))
    units = [1 << i for i in range(size)]
    banks = _extended([*vector, *rows], [*lanes[0], *lanes[1], *units], size)
    banks = banks[len(vector) + len(rows) :]
    memory = LinearLayout(((OFFSET, size),), source.out_dims, (*vector, *banks, *rows))
    return memory, 1 << width


def _lanes_at_once(width: int, element_bytes: int) -> int:
    """log2 of the lanes whose accesses are done together: those that move 128 bytes, at most 32."""
    access = max(element_bytes << width, WORD_BYTES)
    return min((ROW_BYTES // access).bit_length() - 1, 5)


def _extended(basis: Sequence[int], candidates: Sequence[int], size: int) -> list[int]:
    """The basis with independent candidates added, up to `size` vectors."""
    echelon, found = gf2.Echelon(basis), list(basis)
    for vector in candidates:
        if len(found) < size and echelon.add(vector):
            found.append(vector)
    return found


def _rows(vector: Sequence[int], lanes: Sequence[list[int]], size: int, count: int) -> list[int]:
    """`count` vectors, independent of `vector`, that avoid both spaces of lanes where they can."""
    first, second = lanes
    everything = [*first, *second]
    rows = gf2.complement(everything, size)[:count]
    common = gf2.intersection(first, second)
    mine = _extended(common, first, size)[len(common) :]
    theirs = _extended(common, second, size)[len(common) :]
    rows += [a ^ b for a, b in zip(mine, theirs, strict=False)][: count - len(rows)]
    if len(rows) < count:
        # Conflicts cannot be avoided.
        start = [*vector, *rows]
        rows = _extended(start, [*mine, *theirs, *everything, *(1 << i for i in range(size))],
                         len(vector) + count)[len(vector) :]  # fmt: skip
    return rows
