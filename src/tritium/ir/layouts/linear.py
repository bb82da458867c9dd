"""Linear layouts: maps over GF(2) between hardware positions and tensor coordinates.

A layout maps, say, (register, lane, warp, block) to the coordinates (dim0, dim1) of the element
held there, or (offset, block) of shared memory to those of the element stored there. Every size
is a power of two, and the map is linear in the bits: f(x ^ y) == f(x) ^ f(y). So it is given by
its *bases*, the images of the powers of two of each input, and questions about layouts (is it a
permutation, what do two have in common, how to convert) become linear algebra.

The idea and the terms are those of "Linear Layouts: Robust Code Generation of Efficient Tensor
Computation Using F2" (Zhou et al., 2025).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tritium.ir.layouts import gf2

Dims = tuple[tuple[str, int], ...]
"""Names and sizes in bits, the first in the lowest bits."""


def _log2(size: int, what: str) -> int:
    if size <= 0 or size & (size - 1):
        raise ValueError(f"{what} is {size}; a power of two is required")
    return size.bit_length() - 1


def dims_of(sizes: Mapping[str, int]) -> Dims:
    """Dimensions of these sizes. Raises `ValueError` for a size that is no power of two."""
    return tuple([(name, _log2(size, f"the size of {name}")) for name, size in sizes.items()])


@dataclass(frozen=True)
class LinearLayout:
    """A linear map from named input dimensions to named output dimensions.

    Attributes:
        in_dims, out_dims: the dimensions, sizes as numbers of bits.
        columns: for each input bit, the output bits that it sets; in both, the first dimension is
            in the lowest bits.
    """

    in_dims: Dims
    out_dims: Dims
    columns: tuple[int, ...]

    def __post_init__(self) -> None:
        columns, bits, limit = self.columns, 0, 1
        for _, count in self.in_dims:
            bits += count
        assert len(columns) == bits, f"{len(columns)} columns for {bits} input bits"
        for _, count in self.out_dims:
            limit <<= count
        fits = not columns or (min(columns) >= 0 and max(columns) < limit)
        assert fits, "a basis is out of the output's range"

    # Construction

    @staticmethod
    def of(
        bases: Mapping[str, Sequence[Sequence[int]]], out_dims: Mapping[str, int] | Sequence[str]
    ) -> LinearLayout:
        """The layout of bases: input dimension -> images of 1, 2, 4, ... as coordinates.

        Args:
            out_dims: names with sizes, or names alone: sizes are then just large enough.

        Raises: `ValueError` for sizes that are no powers of two or coordinates out of range.
        """
        names = list(out_dims)
        if not isinstance(out_dims, Mapping):
            largest = [0] * len(names)
            for vectors in bases.values():
                for vector in vectors:
                    largest = [max(a, b) for a, b in zip(largest, vector, strict=True)]
            out_dims = {name: 1 << m.bit_length() for name, m in zip(names, largest, strict=True)}
        outs = dims_of(out_dims)
        columns: list[int] = []
        for name, vectors in bases.items():
            for vector in vectors:
                columns.append(_pack(vector, outs, f"a basis of {name}"))
        ins = tuple((name, len(vectors)) for name, vectors in bases.items())
        return LinearLayout(ins, outs, tuple(columns))

    @staticmethod
    def identity(size: int, in_dim: str, out_dim: str) -> LinearLayout:
        """x -> x."""
        bits = _log2(size, f"the size of {in_dim}")
        columns = tuple(1 << i for i in range(bits))
        return LinearLayout(((in_dim, bits),), ((out_dim, bits),), columns)

    @staticmethod
    def zeros(size: int, in_dim: str, out_dim: str, out_size: int = 1) -> LinearLayout:
        """x -> 0: every position holds the same element."""
        bits, outs = _log2(size, f"the size of {in_dim}"), _log2(out_size, f"the size of {out_dim}")
        return LinearLayout(((in_dim, bits),), ((out_dim, outs),), (0,) * bits)

    @staticmethod
    def empty() -> LinearLayout:
        """The layout without inputs and outputs, neutral for products."""
        return LinearLayout((), (), ())

    # Sizes and access

    @property
    def in_names(self) -> tuple[str, ...]:
        return tuple(n for n, _ in self.in_dims)

    @property
    def out_names(self) -> tuple[str, ...]:
        return tuple(n for n, _ in self.out_dims)

    def in_bits(self, name: str) -> int:
        """log2 of an input's size; 0 for one that the layout lacks."""
        return dict(self.in_dims).get(name, 0)

    def out_bits(self, name: str) -> int:
        """log2 of an output's size; 0 for one that the layout lacks."""
        return dict(self.out_dims).get(name, 0)

    def in_size(self, name: str) -> int:
        return 1 << self.in_bits(name)

    def out_size(self, name: str) -> int:
        return 1 << self.out_bits(name)

    @property
    def total_in_bits(self) -> int:
        return len(self.columns)

    @property
    def total_out_bits(self) -> int:
        return sum(n for _, n in self.out_dims)

    def slice_of(self, name: str) -> range:
        """The positions of an input's bits among the columns."""
        start = 0
        for dim, bits in self.in_dims:
            if dim == name:
                return range(start, start + bits)
            start += bits
        return range(0)

    def columns_of(self, name: str) -> tuple[int, ...]:
        """The columns of one input."""
        place = self.slice_of(name)
        return self.columns[place.start : place.stop]

    def bases(self, name: str) -> list[tuple[int, ...]]:
        """The images of 1, 2, 4, ... of one input, as coordinates."""
        return [_unpack(c, self.out_dims) for c in self.columns_of(name)]

    # Evaluation

    def apply(self, indices: Mapping[str, Any]) -> dict[str, Any]:
        """Coordinates for given positions; inputs left out count as 0.

        Positions may be ints or NumPy integer arrays that broadcast against each other.
        """
        unknown = [name for name in indices if name not in self.in_names]
        if unknown:
            raise KeyError(f"the layout has no input {unknown[0]!r}; it has {self.in_names}")
        flat: Any = 0
        for name, index in indices.items():
            for bit, column in enumerate(self.columns_of(name)):
                flat = flat ^ ((index >> bit & 1) * column)
        result: dict[str, Any] = {}
        shift = 0
        for name, bits in self.out_dims:
            result[name] = (flat >> shift) & ((1 << bits) - 1)
            shift += bits
        return result

    def __call__(self, **indices: int) -> tuple[int, ...]:
        """The coordinates, as ints, for one position."""
        return tuple(int(v) for v in self.apply(indices).values())

    # Properties

    @cached_property
    def rank(self) -> int:
        """The dimension of the image."""
        return gf2.rank(self.columns)

    @property
    def is_surjective(self) -> bool:
        """True if every coordinate is reached."""
        return self.rank == self.total_out_bits

    @property
    def is_injective(self) -> bool:
        """True if no two positions hold the same element."""
        return self.rank == self.total_in_bits

    @property
    def is_invertible(self) -> bool:
        return self.is_injective and self.is_surjective

    def free_variables(self) -> dict[str, int]:
        """For each input a mask of the bits that do not change the image: the element at a
        position with some of them set is also at the position with them cleared (bits whose
        columns depend on those before)."""
        return dict(self._free)

    @cached_property
    def _free(self) -> dict[str, int]:
        echelon = gf2.Echelon()
        dependent = [not echelon.add(c) for c in self.columns]
        return {
            name: sum(1 << i for i, k in enumerate(self.slice_of(name)) if dependent[k])
            for name in self.in_names
        }

    # Algebra

    def __mul__(self, other: LinearLayout) -> LinearLayout:
        """The product: `other` repeated over blocks of the size of `self`. An input or output that
        both have gets self's part in its low bits and other's above."""
        if not self.in_dims and not self.out_dims:
            return other
        ins = _merged(self.in_dims, other.in_dims)
        outs = _merged(self.out_dims, other.out_dims)
        mine = {n: self.columns_of(n) for n in self.in_names}
        theirs = {n: other.columns_of(n) for n in other.in_names}
        columns: list[int] = []
        for name, _ in ins:
            columns += _placed(mine.get(name, ()), self.out_dims, outs)
            columns += _placed(theirs.get(name, ()), other.out_dims, outs, dict(self.out_dims))
        return LinearLayout(ins, outs, tuple(columns))

    def compose(self, outer: LinearLayout) -> LinearLayout:
        """x -> outer(self(x)). The outputs must be the inputs of `outer`, perhaps smaller."""
        if set(self.out_names) != set(outer.in_names):
            raise ValueError(f"cannot compose {self.out_names} with {outer.in_names}")
        for name, bits in self.out_dims:
            if bits > outer.in_bits(name):
                allowed = outer.in_size(name)
                raise ValueError(f"{name} has {1 << bits} values; outer takes {allowed}")
        places = [outer.slice_of(name) for name in self.out_names]
        rows = [
            outer.columns[place[i]]
            for place, (_, bits) in zip(places, self.out_dims, strict=True)
            for i in range(bits)
        ]
        columns = tuple(gf2.apply(rows, c) for c in self.columns)
        return LinearLayout(self.in_dims, outer.out_dims, columns)

    def invert_and_compose(self, outer: LinearLayout) -> LinearLayout:
        """x -> a position p of `outer` with outer(p) == self(x): how to convert between layouts.

        Where several positions of `outer` hold the element, the one with zeros in the redundant
        bits is taken, except that bits which mean the same in both layouts are kept (a lane that
        holds a copy reads from its own lane). Raises `ValueError` if outer does not cover self.
        """
        if set(self.out_names) != set(outer.out_names):
            raise ValueError(f"layouts of {self.out_names} and {outer.out_names}")
        mine = self.transpose_outs(outer.out_names)
        if any(a[1] > b[1] for a, b in zip(mine.out_dims, outer.out_dims, strict=True)):
            raise ValueError("the outer layout is smaller than this one")
        mine = mine.resize_outs({n: 1 << b for n, b in outer.out_dims})
        solutions = gf2.solve(outer.columns, mine.columns)
        if solutions is None:
            raise ValueError("the outer layout does not hold every element of this one")
        start = 0
        for name, bits in mine.in_dims:
            for bit, place in zip(range(bits), outer.slice_of(name), strict=False):
                if mine.columns[start + bit] == outer.columns[place]:
                    solutions[start + bit] = 1 << place
            start += bits
        return LinearLayout(mine.in_dims, outer.in_dims, tuple(solutions))

    def inverse(self) -> LinearLayout:
        """coordinates -> a position that holds them (the one with zeros in redundant bits).
        Raises `ValueError` unless surjective."""
        if not self.is_surjective:
            raise ValueError("only a surjective layout has an inverse")
        targets = [1 << i for i in range(self.total_out_bits)]
        solutions = gf2.solve(self.columns, targets)
        assert solutions is not None
        return LinearLayout(self.out_dims, self.in_dims, tuple(solutions))

    def divide(self, divisor: LinearLayout) -> LinearLayout | None:
        """The quotient q with `divisor * q == self`; None if there is none."""
        columns: list[int] = []
        ins: list[tuple[str, int]] = []
        outs: list[tuple[str, int]] = []
        for name, bits in divisor.out_dims:
            if bits > self.out_bits(name):
                return None
        for name, bits in self.out_dims:
            outs.append((name, bits - divisor.out_bits(name)))
        for name, bits in self.in_dims:
            low = divisor.in_bits(name)
            if low > bits:
                return None
            ins.append((name, bits - low))
            for i, column in enumerate(self.bases(name)):
                coordinates = dict(zip(self.out_names, column, strict=True))
                if i < low:
                    wanted = dict(zip(divisor.out_names, divisor.bases(name)[i], strict=True))
                    if any(c != wanted.get(n, 0) for n, c in coordinates.items()):
                        return None
                    continue
                shifted: list[int] = []
                for n, c in coordinates.items():
                    if c & ((1 << divisor.out_bits(n)) - 1):
                        return None
                    shifted.append(c >> divisor.out_bits(n))
                columns.append(_pack(shifted, tuple(outs), name))
        if any(n not in self.in_names for n in divisor.in_names if divisor.in_bits(n)):
            return None
        return LinearLayout(tuple(ins), tuple(outs), tuple(columns))

    # Reordering and reshaping

    def transpose_outs(self, names: Sequence[str]) -> LinearLayout:
        """The same map with its outputs in another order."""
        if tuple(names) == self.out_names:
            return self
        assert sorted(names) == sorted(self.out_names), (names, self.out_names)
        outs = tuple((n, self.out_bits(n)) for n in names)
        return LinearLayout(self.in_dims, outs, _placed(self.columns, self.out_dims, outs))

    def transpose_ins(self, names: Sequence[str]) -> LinearLayout:
        """The same map with its inputs in another order."""
        assert sorted(names) == sorted(self.in_names), (names, self.in_names)
        ins = tuple((n, self.in_bits(n)) for n in names)
        columns = [c for n in names for c in self.columns_of(n)]
        return LinearLayout(ins, self.out_dims, tuple(columns))

    def rename_outs(self, names: Mapping[str, str]) -> LinearLayout:
        """The same map with outputs renamed."""
        outs = tuple((names.get(n, n), b) for n, b in self.out_dims)
        return LinearLayout(self.in_dims, outs, self.columns)

    def resize_outs(self, sizes: Mapping[str, int]) -> LinearLayout:
        """The same map into larger outputs."""
        outs = tuple((n, _log2(sizes.get(n, 1 << b), f"the size of {n}")) for n, b in self.out_dims)
        if outs == self.out_dims:
            return self
        return LinearLayout(self.in_dims, outs, _placed(self.columns, self.out_dims, outs))

    def flatten_outs(self, name: str = "dim0") -> LinearLayout:
        """The layout with all outputs as one, the first in the lowest bits."""
        return LinearLayout(self.in_dims, ((name, self.total_out_bits),), self.columns)

    def reshape_outs(self, sizes: Mapping[str, int]) -> LinearLayout:
        """The outputs' bits, flattened, cut anew. The total size must be the same."""
        outs = dims_of(sizes)
        assert sum(b for _, b in outs) == self.total_out_bits, (sizes, self.out_dims)
        return LinearLayout(self.in_dims, outs, self.columns)

    def restrict(self, ins: Sequence[str], outs: Sequence[str]) -> LinearLayout:
        """The part of the map between some inputs and some outputs; the others are dropped."""
        out_dims = tuple((n, self.out_bits(n)) for n in outs)
        in_dims = tuple((n, self.in_bits(n)) for n in ins)
        if (in_dims, out_dims) == (self.in_dims, self.out_dims):
            return self
        columns = [c for name in ins for c in self.columns_of(name)]
        return LinearLayout(in_dims, out_dims, _placed(columns, self.out_dims, out_dims))

    def with_columns(self, name: str, columns: Sequence[int]) -> LinearLayout:
        """The map with one input's columns replaced (the input's size becomes their number)."""
        ins = tuple((n, len(columns) if n == name else b) for n, b in self.in_dims)
        everything = [c for n in self.in_names
                      for c in (columns if n == name else self.columns_of(n))]  # fmt: skip
        return LinearLayout(ins, self.out_dims, tuple(everything))

    def __str__(self) -> str:
        lines = [
            f"{name}=[{', '.join('(' + ', '.join(map(str, b)) + ')' for b in self.bases(name))}]"
            for name in self.in_names
        ]
        sizes = ", ".join(f"{n}={1 << b}" for n, b in self.out_dims)
        return f"{{{'; '.join(lines)}}} -> ({sizes})"


def _pack(coordinates: Sequence[int], dims: Dims, what: str) -> int:
    value, shift = 0, 0
    for coordinate, (name, bits) in zip(coordinates, dims, strict=True):
        if not 0 <= coordinate < 1 << bits:
            raise ValueError(f"{what}: coordinate {coordinate} of {name} is not below {1 << bits}")
        value |= coordinate << shift
        shift += bits
    return value


def _unpack(value: int, dims: Dims) -> tuple[int, ...]:
    coordinates: list[int] = []
    for _, bits in dims:
        coordinates.append(value & ((1 << bits) - 1))
        value >>= bits
    return tuple(coordinates)


def _merged(first: Dims, second: Dims) -> Dims:
    sizes = dict(first)
    for name, bits in second:
        sizes[name] = sizes.get(name, 0) + bits
    return tuple(sizes.items())


def _placed(
    values: Sequence[int], dims: Dims, into: Dims, above: Mapping[str, int] | None = None
) -> tuple[int, ...]:
    """Packed values of `dims` repacked into `into`, shifted up in each dimension by `above`."""
    starts, moves, shift = dict[str, tuple[int, int]](), list[tuple[int, int, int]](), 0
    for name, bits in dims:
        starts[name] = shift, (1 << bits) - 1
        shift += bits
    shift = 0
    for name, bits in into:
        if name in starts:
            moves.append((*starts[name], shift + (above or {}).get(name, 0)))
        shift += bits
    if all(start == to for start, _, to in moves):  # what is dropped was above, or in a gap
        kept = sum(mask << start for start, mask, _ in moves)
        return tuple([v & kept for v in values])
    placed: list[int] = []
    for v in values:
        moved = 0
        for start, mask, to in moves:
            moved |= (v >> start & mask) << to
        placed.append(moved)
    return tuple(placed)
