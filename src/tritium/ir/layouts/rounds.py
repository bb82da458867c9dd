"""Changes of layout in rounds: each moves a part of the tile through memory of that part's size.

A part is a set of elements on which some functions, sums (over GF(2)) of bits of the coordinates,
have one value. Each thread must have as many elements of each part, in the source and in the
result; which of its registers they are may depend on the thread. Before the first round threads
exchange registers (in themselves), so that all have a part in the same ones; behind the last they
exchange those of the result. Functions that need this on no side, or on one, are chosen first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

from tritium.ir.layouts import gf2
from tritium.ir.layouts.encodings import BLOCK, LANE, REGISTER, WARP
from tritium.ir.layouts.linear import LinearLayout


@dataclass(frozen=True)
class Exchange:
    """Threads swap the registers whose numbers differ in `registers`: those for which the bits of
    the lane that `lanes` selects, and of the warp that `warps` does, are odd in number."""

    registers: int
    lanes: int
    warps: int


@dataclass(frozen=True)
class Side:
    """The source or the result.

    Attributes:
        layout: of a part, when its registers are numbered from 0.
        exchanges: of registers, before the rounds or behind them.
        rounds: the registers of each part.
        origins: in which coordinates of the part those of a round differ from `layout`.
    """

    layout: LinearLayout
    exchanges: tuple[Exchange, ...]
    rounds: tuple[tuple[int, ...], ...]
    origins: tuple[int, ...]


@lru_cache(maxsize=64)
def in_rounds(source: LinearLayout, result: LinearLayout, count: int) -> tuple[Side, Side] | None:
    """The two sides of a change of layout in 2**count rounds; None if there is no such way."""
    result = result.transpose_outs(source.out_names)
    sides = source, result
    if any(any(side.columns_of(BLOCK)) for side in sides):
        return None
    functions = _functions(sides, count)
    if functions is None:
        return None
    starts = gf2.solve([_apply(functions, c) for c in source.columns_of(REGISTER)],
                       [1 << i for i in range(count)])  # fmt: skip
    assert starts is not None
    firsts = [gf2.apply(source.columns_of(REGISTER), start) for start in starts]
    part = _Part(functions, firsts, source.total_out_bits)
    return _side(source, part), _side(result, part)


class _Part:
    """The elements on which the functions are 0, and coordinates for them."""

    def __init__(self, functions: Sequence[int], firsts: Sequence[int], bits: int):
        """`firsts`: an element of each round that is a power of two."""
        self.functions, self._firsts = functions, firsts
        basis = gf2.kernel([_apply(functions, 1 << i) for i in range(bits)])
        self.bits, self._basis = len(basis), basis

    def coordinates(self, element: int) -> int:
        """The coordinates, in the part, of an element as far from the first of its round."""
        for number, first in enumerate(self._firsts):
            if _apply(self.functions, element) >> number & 1:
                element ^= first
        found = gf2.solve(self._basis, [element])
        assert found is not None
        return found[0]


def _functions(sides: Sequence[LinearLayout], count: int) -> list[int] | None:
    """`count` functions, as masks of the bits of coordinates, that registers alone bring to any
    values on both sides."""
    bits, chosen = sides[0].total_out_bits, list[int]()
    masks = [1 << i for i in range(bits)]
    masks += [a | b for a, b in combinations(masks, 2)]
    for mask in sorted(masks, key=lambda m: _cost(sides, m)):
        tried = [*chosen, mask]
        if all(
            gf2.rank([_apply(tried, c) for c in side.columns_of(REGISTER)]) == len(tried)
            for side in sides
        ):
            chosen = tried
            if len(chosen) == count:
                return chosen
    return None


def _cost(sides: Sequence[LinearLayout], mask: int) -> tuple[int, int]:
    """The cost of a function: the sides that exchange registers for it, then the neighbours in
    memory, which are in the lowest registers, that it tears apart."""
    exchanges = sum(
        any(_apply([mask], c) for name in (LANE, WARP) for c in side.columns_of(name))
        for side in sides
    )
    torn = sum(_apply([mask], c) for side in sides for c in side.columns_of(REGISTER)[:2])
    return exchanges, torn


def _side(layout: LinearLayout, part: _Part) -> Side:
    registers, functions = layout.columns_of(REGISTER), part.functions
    values, count = [_apply(functions, c) for c in registers], len(functions)
    starts = gf2.solve(values, [1 << i for i in range(count)])
    assert starts is not None
    inner = gf2.kernel(values)
    exchanges = [
        Exchange(starts[number], *(
            sum(_apply([mask], c) << i for i, c in enumerate(layout.columns_of(name)))
            for name in (LANE, WARP)
        ))
        for number, mask in enumerate(functions)
    ]  # fmt: skip

    def thread(column: int) -> int:
        for number, start in enumerate(starts):
            if _apply(functions, column) >> number & 1:
                column ^= gf2.apply(registers, start)
        return part.coordinates(column)

    columns = {
        REGISTER: [part.coordinates(gf2.apply(registers, k)) for k in inner],
        **{n: [thread(c) for c in layout.columns_of(n)] for n in (LANE, WARP, BLOCK)},
    }
    made = LinearLayout.of(
        {name: [(c,) for c in values] for name, values in columns.items()}, {"dim0": 1 << part.bits}
    )
    firsts = [gf2.apply(starts, number) for number in range(1 << count)]
    rounds = tuple(tuple(first ^ r for r in _span(inner)) for first in firsts)
    origins = tuple(part.coordinates(gf2.apply(registers, first)) for first in firsts)
    return Side(made, tuple(e for e in exchanges if e.lanes or e.warps), rounds, origins)


def _span(basis: Sequence[int]) -> Iterator[int]:
    """All combinations of the vectors, numbered by which they are of."""
    for number in range(1 << len(basis)):
        yield gf2.apply(basis, number)


def _apply(functions: Sequence[int], vector: int) -> int:
    """The values of the functions, as bits."""
    return sum((mask & vector).bit_count() % 2 << i for i, mask in enumerate(functions))
