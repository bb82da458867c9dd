"""Layouts of shared memory for writing a tile in one distributed layout and reading it in another,
free of bank conflicts where there is such a one; and how many conflicts a layout has.

Shared memory has banks (`target.Banks`): 32 of 4 bytes, say, so that 128 bytes are one *row*. An
access of a warp is done a row at a time: by 8 lanes that move 16 bytes each. It takes one cycle if
no two lanes want different rows of a bank. The differences of the elements that it touches form a
subspace over GF(2), and so do those of the elements of one bank, which the layout's vectors for
rows span: there are no conflicts if they meet in 0 alone. After "Linear Layouts: Robust Code
Generation of Efficient Tensor Computation Using F2" (Zhou et al., 2025).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tritium.ir.layouts import fragments, gf2
from tritium.ir.layouts.encodings import LANE, OFFSET, REGISTER
from tritium.ir.layouts.linear import LinearLayout
from tritium.target import Banks

ANY_BANKS = Banks()
WIDEST_BYTES = 16
"""The most bytes of an access by one thread."""


@dataclass(frozen=True)
class Access:
    """The cost of moving a tile between a warp and shared memory.

    Attributes:
        width: log2 of the elements that a thread moves at once (of the row of a matrix).
        matrices: of `ldmatrix` or `stmatrix`, if they are used.
        instructions: how many there are.
        cycles: how often the banks work for them.
        conflicts: how many of these cycles are because of conflicts.
    """

    width: int
    matrices: fragments.Matrices | None
    instructions: int
    cycles: int
    conflicts: int


def place_of(tile: LinearLayout, memory: LinearLayout) -> LinearLayout:
    """(register, lane, warp, block) -> offset in elements."""
    found = tile.invert_and_compose(memory)
    return found.restrict(found.in_names, [OFFSET])


def run_bits(place: LinearLayout, size: int, most: int = WIDEST_BYTES) -> list[int]:
    """The register bits that are 1, 2, 4, ... elements further in memory, up to `most` bytes."""
    columns, bits = place.columns_of(REGISTER), list[int]()
    while size << len(bits) < most and 1 << len(bits) in columns:
        low = 1 << len(bits)
        if sum(1 for x in place.columns if x & low) != 1:
            break
        bits.append(columns.index(low))
    return bits


def access(place: LinearLayout, size: int, matrix: bool, banks: Banks = ANY_BANKS) -> Access:
    """The accesses of a tile whose elements, of `size` bytes, are at `place`; `matrix`: there are
    instructions for matrices in this direction."""
    found = fragments.find(place, size) if matrix else None
    registers = len(place.columns_of(REGISTER))
    registers -= place.free_variables().get(REGISTER, 0).bit_count()
    if found is not None:
        width = (WIDEST_BYTES // size).bit_length() - 1
        lanes, count = found.rows, 1 << registers - len(found.word)
        instructions = count >> len(found.which)
    else:
        width = len(run_bits(place, size))
        lanes = lanes_at_once(place.columns_of(LANE), width, size, banks)
        instructions = 1 << registers - width
        count = instructions << len(place.columns_of(LANE)) - len(lanes)
    words = [x * size // banks.word_bytes for x in lanes]
    words += [1 << i for i in range(max((size << width) // banks.word_bytes, 1).bit_length() - 1)]
    degree = 1 << gf2.rank(words) - gf2.rank([w % banks.count for w in words])
    return Access(width, found, instructions, count * degree, count * (degree - 1))


def lanes_at_once(lanes: Sequence[int], width: int, size: int, banks: Banks) -> Sequence[int]:
    """The bits of lanes whose accesses of `size << width` bytes are done together: those that move
    a row."""
    return lanes[: (banks.row_bytes // max(size << width, banks.word_bytes)).bit_length() - 1]


def shared_layout(
    source: LinearLayout, result: LinearLayout, size: int, *, store: bool, load: bool,
    banks: Banks = ANY_BANKS,
) -> LinearLayout:
    """A layout (offset -> coordinates) of shared memory for writing a tile of elements of `size`
    bytes in `source` and reading it in `result`: the one that takes the fewest instructions and
    cycles of the banks. `store`, `load`: there is `stmatrix`, `ldmatrix`."""
    result = result.transpose_outs(source.out_names)
    best: tuple[int, LinearLayout] | None = None
    for vector, rows in _candidates(source, result, size, store, load):
        memory = _memory(source, result, size, vector, rows, banks)
        cost = 0
        for side, matrix in ((source, store), (result, load)):
            part = access(place_of(side, memory), size, matrix, banks)
            cost += part.instructions + part.cycles
            if best is not None and cost >= best[0]:
                break
        else:
            best = cost, memory
    assert best is not None
    return best[1]


def _candidates(
    source: LinearLayout, result: LinearLayout, size: int, store: bool, load: bool
) -> Iterator[tuple[list[int], dict[int, tuple[int, ...]]]]:
    """(what lies in 16 neighbouring bytes, the lanes' differences of sides that use matrices)."""
    most = max(WIDEST_BYTES // size, 1).bit_length() - 1
    sides = (source, result)
    registers = [side.columns_of(REGISTER) for side in sides]
    common = gf2.intersection(*registers)[:most]
    yield common, {}
    for own in registers:
        yield _extended(common, own, most), {}
    for number, allowed in ((0, store), (1, load)):
        lanes, inner = sides[number].columns_of(LANE), fragments.word_bits(size)
        if inner is None or not allowed or len(lanes) != 5:
            continue
        others = gf2.Echelon(registers[1 - number])
        for _, vector, rows, _ in fragments.forms(registers[number], lanes, inner):
            known = all(others.reduce(v)[0] == 0 for v in vector)
            if known and gf2.rank([*vector, *rows]) == len(vector) + len(rows):
                yield vector, {number: tuple(rows)}


def _memory(
    source: LinearLayout, result: LinearLayout, size: int, vector: Sequence[int],
    matrices: dict[int, tuple[int, ...]], banks: Banks,
) -> LinearLayout:  # fmt: skip
    """The layout with `vector` in the lowest bits of the offset."""
    total = source.total_out_bits
    # A word of a bank has several narrow elements; whichever they are, they do not conflict.
    word = max(banks.word_bytes // size, 1).bit_length() - 1
    sides = (source, result)
    units = [1 << i for i in range(total)]
    loose = [*result.columns_of(REGISTER), *source.columns_of(REGISTER), *units]
    low = _extended(vector, loose, min(max(word, len(vector)), total))
    lanes: list[list[int]] = []
    for number, side in enumerate(sides):
        together = matrices.get(number)
        if together is None:
            own, width = side.columns_of(REGISTER), 0
            while width < len(vector) and vector[width] in own:
                width += 1
            together = lanes_at_once(side.columns_of(LANE), width, size, banks)
        lanes.append(_extended(low, together, total))
    columns = max(banks.row_bytes // size, 1).bit_length() - 1
    rows = _rows(low, lanes, total, max(total - columns, 0))
    across = _extended([*low, *rows], [*lanes[0], *lanes[1], *units], total)
    across = across[len(low) + len(rows) :]
    return LinearLayout(((OFFSET, total),), source.out_dims, (*low, *across, *rows))


def _extended(basis: Sequence[int], candidates: Sequence[int], size: int) -> list[int]:
    """The basis with independent candidates added, up to `size` vectors."""
    echelon, found = gf2.Echelon(basis), list(basis)
    for vector in candidates:
        if len(found) < size and echelon.add(vector):
            found.append(vector)
    return found


def _rows(vector: Sequence[int], lanes: Sequence[list[int]], size: int, count: int) -> list[int]:
    """`count` vectors, independent of `vector`, that avoid both spaces of lanes where they can:
    made of what neither lanes have, then of sums of one vector of each."""
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
