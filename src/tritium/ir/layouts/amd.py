"""Encodings of the results of AMD's matrix units: MFMA (gfx9) and WMMA (gfx11, gfx12).

With their operands exchanged they compute the transposed product: a thread then has neighbours
along the rows of the result, which it writes together.
"""

from __future__ import annotations

from typing import Any, ClassVar

from xdsl.irdl import irdl_attr_definition

from tritium.ir.layouts.encodings import (
    CTA,
    LANE,
    REGISTER,
    WARP,
    DotOperandEncoding,
    LinearEncoding,
    MatrixEncoding,
    dim,
    identity_nd,
    linear,
    spread,
)
from tritium.ir.layouts.linear import LinearLayout

SCALED_RUN = 32
"""Elements along K with one scale."""


def scale_encoding(
    result: AMDMfmaEncoding | AMDWmmaEncoding, index: int, shape: tuple[int, ...]
) -> LinearEncoding:
    """The layout of an operand's scales, rows (columns of the right operand) by K, for products of
    a result. A lane has the scale of its part of a row (MFMA), or all of a row's (WMMA), of which
    the lanes of the other half have copies, as they have of operands in version 1."""
    parent, width = result, 1
    if isinstance(result, AMDWmmaEncoding):
        width = result.get("instrShape")[2] // SCALED_RUN
        kept: Any = {k: result.get(k) for k in ("warpsPerCTA", "CGALayout", "isTranspose")}
        parent = AMDWmmaEncoding.make(version=1, **kept)
    operand = DotOperandEncoding.make(opIdx=index, parent=parent, kWidth=width)
    names = [dim(axis) for axis in range(len(shape))]
    exchanged = [*names[:-2], names[-1], names[-2]]
    layout = linear(operand, shape if index == 0 else (*shape[:-2], shape[-1], shape[-2]))
    if index:
        layout = layout.rename_outs(dict(zip(names, exchanged, strict=True)))
    return LinearEncoding.from_layout(layout.transpose_outs(names))


class _Tiled(MatrixEncoding):
    """A part of the result that one instruction computes, repeated over warps."""

    def instruction(self, m: str, n: str) -> LinearLayout:
        """Result of one instruction: rows `m`, columns `n`."""
        raise NotImplementedError

    def to_linear(self, shape: tuple[int, ...]) -> LinearLayout:
        rank = len(shape)
        layout = self.instruction(dim(rank - 2), dim(rank - 1))
        layout *= identity_nd(WARP, self.get("warpsPerCTA"), self.warp_order(rank))
        return spread(layout, self.get("CGALayout"), shape)


@irdl_attr_definition
class AMDMfmaEncoding(_Tiled):
    """MFMA: 64 lanes, 16 or 32 rows and columns. Each lane has four neighbours of a row (of a
    column, if not transposed), or (64-bit elements) every fourth. Of 4 rows and 64 columns (if
    transposed: the other way round) each lane has a column."""

    name = "ttg.amd_mfma"
    KEYS: ClassVar[tuple[str, ...]] = (
        "version", "warpsPerCTA", *CTA, "instrShape", "isTransposed", "elementBitWidth",
    )  # fmt: skip
    DEFAULTS: ClassVar[dict[str, Any]] = {**CTA, "elementBitWidth": 32}

    def check(self) -> None:
        shape, long = tuple(self.get("instrShape")[:2]), (64, 4)
        narrow = long if self.get("isTransposed") else long[::-1]
        if shape not in ((16, 16), (32, 32), narrow):
            raise ValueError(
                f"#{self.name}: instrShape is {shape}; (16, 16), (32, 32) or {narrow} is required"
            )

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
    """WMMA: 32 lanes, 16 rows and columns. A lane has every second element of a row (version 1,
    gfx11, where both halves of a wave hold the same operands), or eight neighbours."""

    name = "ttg.amd_wmma"
    KEYS: ClassVar[tuple[str, ...]] = (
        "version", "isTranspose", "warpsPerCTA", *CTA, "instrShape",
    )  # fmt: skip
    DEFAULTS: ClassVar[dict[str, Any]] = {**CTA, "instrShape": (16, 16, 16)}

    def check(self) -> None:
        if not self.get("isTranspose"):
            raise ValueError(f"#{self.name}: isTranspose = true is built")

    def instruction(self, m: str, n: str) -> LinearLayout:
        rows, halves = LinearLayout.identity(16, LANE, m), LinearLayout.identity(2, LANE, n)
        registers = LinearLayout.identity(8, REGISTER, n)
        return rows * halves * registers if self.get("version") == 1 else registers * rows * halves

    def operand_part(self, left: bool, k: str, outer: str, width: int) -> LinearLayout:
        halves = LinearLayout.zeros if self.get("version") == 1 else LinearLayout.identity
        return (
            LinearLayout.identity(width, REGISTER, k)
            * LinearLayout.identity(16, LANE, outer)
            * halves(2, LANE, k)
        )
