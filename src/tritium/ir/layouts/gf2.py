"""Linear algebra over GF(2) on matrices whose columns are Python ints (bit i is row i)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache


def apply(columns: Sequence[int], vector: int) -> int:
    """The matrix times a vector: the XOR of the columns that the vector's bits select."""
    result = 0
    while vector:
        lowest = vector & -vector
        result ^= columns[lowest.bit_length() - 1]
        vector ^= lowest
    return result


class Echelon:
    """The span of some vectors, as a basis with distinct leading bits; remembers which of the
    given vectors make up each basis vector."""

    def __init__(self, vectors: Sequence[int] = ()):
        self._rows: dict[int, tuple[int, int]] = {}
        self._count = 0
        for vector in vectors:
            self.add(vector)

    def reduce(self, vector: int) -> tuple[int, int]:
        """(what is left of `vector`, the combination of given vectors subtracted from it)."""
        combination = 0
        while vector:
            row = self._rows.get(vector.bit_length())
            if row is None:
                break
            vector ^= row[0]
            combination ^= row[1]
        return vector, combination

    def add(self, vector: int) -> bool:
        """Add a vector; returns whether it was independent of those before it."""
        combination = 1 << self._count
        self._count += 1
        rows = self._rows
        while vector:  # as `reduce`: conversions of layouts add vectors by the thousand
            length = vector.bit_length()
            row = rows.get(length)
            if row is None:
                rows[length] = vector, combination
                return True
            vector ^= row[0]
            combination ^= row[1]
        return False

    @property
    def rank(self) -> int:
        """The dimension of the span."""
        return len(self._rows)


def rank(columns: Sequence[int]) -> int:
    """The dimension of the span of the columns."""
    return Echelon(columns).rank


def solve(columns: Sequence[int], targets: Sequence[int]) -> list[int] | None:
    """For each target t a vector x with `apply(columns, x) == t`; None if there is none for some.

    Columns that depend on earlier ones are not used, so that their coordinates are 0.
    """
    echelon = _echelon(tuple(columns))
    solutions: list[int] = []
    for target in targets:
        rest, combination = echelon.reduce(target)
        if rest:
            return None
        solutions.append(combination)
    return solutions


@lru_cache(maxsize=256)
def _echelon(columns: tuple[int, ...]) -> Echelon:
    """The span of the columns, to reduce by: nothing is added to it."""
    return Echelon(columns)


def kernel(columns: Sequence[int]) -> list[int]:
    """A basis of the vectors that the matrix maps to 0."""
    echelon = Echelon()
    basis: list[int] = []
    for index, column in enumerate(columns):
        if not echelon.add(column):
            basis.append(echelon.reduce(column)[1] ^ (1 << index))
    return basis


def complement(vectors: Sequence[int], size: int) -> list[int]:
    """Unit vectors that, with `vectors`, span all of the `size`-dimensional space."""
    echelon = Echelon(vectors)
    return [1 << i for i in range(size) if echelon.add(1 << i)]


def intersection(first: Sequence[int], second: Sequence[int]) -> list[int]:
    """A basis of the vectors in both spans (Zassenhaus' algorithm)."""
    width = max([v.bit_length() for v in (*first, *second)], default=0)
    echelon = Echelon()
    common: list[int] = []
    for vector in [*((v << width) | v for v in first), *(v << width for v in second)]:
        rest, _ = echelon.reduce(vector)
        if rest and rest >> width == 0:
            common.append(rest)
        echelon.add(vector)
    return common
