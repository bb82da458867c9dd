"""Encodings of the results of AMD's matrix units: MFMA (gfx9) and WMMA (gfx11, gfx12).

With their operands exchanged they compute the transposed product: a thread then has neighbours
along the rows of the result, which it writes together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypeAlias

from xdsl.dialects.builtin import DictionaryAttr
from xdsl.ir import Attribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser

from tritium.ir.layouts.encodings import (
    CTA,
    LANE,
    REGISTER,
    WARP,
    DotOperandEncoding,
    LinearEncoding,
    MatrixEncoding,
    counted,
    decode,
    dim,
    linear,
    spread,
)
from tritium.ir.layouts.linear import LinearLayout

Bases: TypeAlias = Sequence[Sequence[int]]
SCALED_RUN = 32
"""Elements along K with one scale."""


def scale_encoding(
    result: AMDMfmaEncoding | AMDWmmaEncoding, index: int, shape: tuple[int, ...],
    run: int = SCALED_RUN,
) -> LinearEncoding:  # fmt: skip
    """The layout of an operand's scales, rows (columns of the right operand) by K, for products of
    a result. A lane has the scale of its part of a row (MFMA), or all of a row's (WMMA); the other
    half of the lanes has those of the warp's next rows, or copies (always of 16 rows beside 32)."""
    parent, width = result, 1
    if isinstance(result, AMDWmmaEncoding):
        *tile, depth = result.get("instrShape")
        width = depth // run
        kept: Any = {k: result.get(k) for k in (
            "warpsPerCTA", "CGALayout", "isTranspose", "registerBases", "warpBases")}  # fmt: skip
        parent = AMDWmmaEncoding.make(version=1, instrShape=(*tile, width), **kept)
    operand = DotOperandEncoding.make(opIdx=index, parent=parent, kWidth=width)
    names = [dim(axis) for axis in range(len(shape))]
    exchanged = [*names[:-2], names[-1], names[-2]]
    layout = linear(operand, shape if index == 0 else (*shape[:-2], shape[-1], shape[-2]))
    if index:
        layout = layout.rename_outs(dict(zip(names, exchanged, strict=True)))
    layout = layout.transpose_outs(names)
    bases = {name: layout.bases(name) for name in layout.in_names}
    further = [basis for basis in bases[REGISTER] if basis[-2]]
    if further and isinstance(result, AMDWmmaEncoding) and result.fills_lanes(index == 0):
        bases[REGISTER].remove(further[0])
        bases[LANE][-1] = further[0]
    return LinearEncoding.from_layout(
        LinearLayout.of(bases, {name: 1 << bits for name, bits in layout.out_dims})
    )


class _Tiled(MatrixEncoding):
    """A part of the result that one instruction computes, repeated over registers and warps."""

    def instruction(self, m: str, n: str) -> LinearLayout:
        """Result of one instruction: rows `m`, columns `n`."""
        raise NotImplementedError(f"{type(self).__name__}.instruction")

    def tiles(self, rank: int) -> tuple[list[list[int]], list[list[int]]]:
        """The starts of further parts, counted in parts, for each bit of a thread's and of a warp's
        number of them."""
        raise NotImplementedError(f"{type(self).__name__}.tiles")

    def to_linear(self, shape: tuple[int, ...]) -> LinearLayout:
        rank = len(shape)
        layout = self.instruction(dim(rank - 2), dim(rank - 1))
        return spread(self.repeated(layout, rank), self.get("CGALayout"), shape)

    def repeated(self, part: LinearLayout, rank: int, skipped: int | None = None) -> LinearLayout:
        axes = range(rank)
        for axis in axes:
            part *= LinearLayout.identity(1, WARP, dim(axis))
        sizes = [part.out_size(dim(axis)) for axis in axes]
        registers, warps = (
            [[0 if a == skipped else b[a] * sizes[a] for a in axes] for b in bases]
            for bases in self.tiles(rank)
        )  # fmt: skip
        part = part.transpose_outs([dim(axis) for axis in axes])
        bases = {
            REGISTER: [*part.bases(REGISTER), *(b for b in registers if any(b))],
            LANE: part.bases(LANE), WARP: warps,
        }  # fmt: skip
        ends = [1 << max(b[a] for group in bases.values() for b in group).bit_length()
                for a in axes]  # fmt: skip
        found = LinearLayout.of(bases, {dim(a): max(ends[a], sizes[a]) for a in axes})
        # What is left of the tile goes to registers, columns (of operands K) first.
        first = rank - 1 if skipped is None else skipped
        order = [first, *(a for a in reversed(axes) if a != first)]
        return found.transpose_outs([dim(axis) for axis in order])


@irdl_attr_definition
class AMDMfmaEncoding(_Tiled):
    """MFMA: 64 lanes, 16 or 32 rows and columns. `tilesPerWarp`: how many such parts of a warp are
    neighbours. Each lane has four neighbours of a row (of a
    column, if not transposed), or (64-bit elements) every fourth. Of 4 rows and 64 columns (if
    transposed: the other way round) each lane has a column."""

    name = "ttg.amd_mfma"
    KEYS: ClassVar[tuple[str, ...]] = (
        "version", "warpsPerCTA", *CTA, "instrShape", "isTransposed", "elementBitWidth",
        "tilesPerWarp",
    )  # fmt: skip
    DEFAULTS: ClassVar[dict[str, Any]] = {**CTA, "elementBitWidth": 32, "tilesPerWarp": ()}

    def check(self) -> None:
        shape, long = tuple(self.get("instrShape")[:2]), (64, 4)
        narrow = long if self.get("isTransposed") else long[::-1]
        if shape not in ((16, 16), (32, 32), narrow):
            raise ValueError(
                f"#{self.name}: instrShape is {shape}; (16, 16), (32, 32) or {narrow} is required"
            )

    def tiles(self, rank: int) -> tuple[list[list[int]], list[list[int]]]:
        counts = self.get("tilesPerWarp") or (1,) * rank
        return counted(counts), counted(self.get("warpsPerCTA"), counts)

    def instruction(self, m: str, n: str) -> LinearLayout:
        rows, size = self.get("instrShape")[:2]
        if not self.get("isTransposed"):
            m, n, rows, size = n, m, size, rows
        lanes = LinearLayout.identity(rows, LANE, m) * LinearLayout.identity(64 // rows, LANE, n)
        if self.get("elementBitWidth") == 64:
            return lanes * LinearLayout.identity(4, REGISTER, n)
        rest = LinearLayout.identity(rows * size // 256, REGISTER, n)
        return LinearLayout.identity(4, REGISTER, n) * lanes * rest

    def operand_part(self, left: bool, k: str, outer: str, width: int) -> LinearLayout:
        rows, columns = self.get("instrShape")[:2]
        size = rows if left else columns
        others = LinearLayout.identity if rows == columns else LinearLayout.zeros
        return (
            LinearLayout.identity(width, REGISTER, k)
            * LinearLayout.identity(size, LANE, outer)
            * others(64 // size, LANE, k)
        )


@irdl_attr_definition
class AMDWmmaEncoding(_Tiled):
    """WMMA: 32 lanes, 16 columns, and 16 rows or (gfx1250's 4-bit numbers) 32. A lane has every
    second element of a row (version 1, gfx11, where both halves of a wave hold the same operands),
    or eight neighbours; of a column, if not transposed; of 32 rows, as many of those 16 further.
    `registerBases`, `warpBases`: where further such parts begin, for each bit of their number in a
    warp and of the warp's number; without, `warpsPerCTA` says that."""

    name = "ttg.amd_wmma"
    KEYS: ClassVar[tuple[str, ...]] = (
        "version", "isTranspose", "warpsPerCTA", *CTA, "instrShape", "registerBases", "warpBases",
    )  # fmt: skip
    DEFAULTS: ClassVar[dict[str, Any]] = {
        **CTA, "instrShape": (16, 16, 16), "registerBases": (), "warpBases": (),
    }  # fmt: skip

    @classmethod
    def of_bases(
        cls, registers: Bases, warps: Bases, rank: int, **parameters: Any
    ) -> AMDWmmaEncoding:
        """The encoding whose further parts begin at these bases, counted in parts."""
        counts = tuple(1 << max((b[a] for b in warps), default=0).bit_length() for a in range(rank))
        plain = [list(b) for b in warps] == counted(counts)
        return cls.make(
            warpsPerCTA=counts, registerBases=registers, warpBases=() if plain else warps,
            **parameters,
        )  # fmt: skip

    @classmethod
    def parse_entries(cls, parser: AttrParser) -> Mapping[str, Attribute]:
        """Release 3.9 writes `ctaLayout = {register = [[1, 0]], warp = [[0, 1]]}` in place of the
        counts of warps and the bases."""
        found = dict(super().parse_entries(parser))
        layout = found.pop("ctaLayout", None)
        if not isinstance(layout, DictionaryAttr):
            return found
        bases = {key: decode(value) for key, value in layout.data.items()}
        registers, warps = bases.get(REGISTER, ()), bases.get(WARP, ())
        rank = len((*registers, *warps)[0]) if registers or warps else 2
        rest = {key: decode(value) for key, value in found.items()}
        return cls.of_bases(registers, warps, rank, **rest).parameters_dict.data

    def check(self) -> None:
        shape = tuple(self.get("instrShape")[:2])
        if shape not in ((16, 16), (32, 16)):
            raise ValueError(
                f"#{self.name}: instrShape is {shape}; (16, 16) or (32, 16) is required"
            )

    def rows_of(self, left: bool) -> int:
        """The rows (of the right operand: columns) that an instruction takes of an operand."""
        return self.get("instrShape")[0 if left != bool(self.get("isTranspose")) else 1]

    def fills_lanes(self, left: bool) -> bool:
        """Tell operands for the scales of which both halves of a warp's lanes are needed, or free
        for further rows."""
        return self.rows_of(left) == self.get("instrShape")[0]

    def tiles(self, rank: int) -> tuple[list[list[int]], list[list[int]]]:
        registers, warps = ([[*b] for b in self.get(k)] for k in ("registerBases", "warpBases"))
        return registers, warps or counted(self.get("warpsPerCTA"))

    def instruction(self, m: str, n: str) -> LinearLayout:
        if not self.get("isTranspose"):
            m, n = n, m
        rows, halves = LinearLayout.identity(16, LANE, m), LinearLayout.identity(2, LANE, n)
        registers = LinearLayout.identity(8, REGISTER, n)
        further = LinearLayout.identity(self.get("instrShape")[0] // 16, REGISTER, n)
        if self.get("version") == 1:
            return rows * halves * registers * further
        return registers * rows * halves * further

    def operand_part(self, left: bool, k: str, outer: str, width: int) -> LinearLayout:
        halves = LinearLayout.zeros if self.get("version") == 1 else LinearLayout.identity
        part = (
            LinearLayout.identity(width, REGISTER, k)
            * LinearLayout.identity(16, LANE, outer)
            * halves(2, LANE, k)
        )
        if self.rows_of(left) == 16:
            return part
        rest = max(self.get("instrShape")[2] // (2 * width), 1)
        return part * LinearLayout.identity(rest, REGISTER, k) \
            * LinearLayout.identity(2, REGISTER, outer)  # fmt: skip
