"""Encodings of the results of AMD's matrix units: MFMA (gfx9) and WMMA (gfx11, gfx12).

Both are used with their operands exchanged, so that they compute the transposed product: a thread
then has neighbours along the rows of the result, which it writes together.
"""

from __future__ import annotations

from typing import Any, ClassVar

from xdsl.irdl import irdl_attr_definition

from tritium.ir.layouts.encodings import (
    CTA,
    LANE,
    REGISTER,
    WARP,
    MatrixEncoding,
    dim,
    identity_nd,
    spread,
)
from tritium.ir.layouts.linear import LinearLayout


class _Transposed(MatrixEncoding):
    """A part of the result that one instruction computes, repeated over warps."""

    def instruction(self, m: str, n: str) -> LinearLayout:
        """What one instruction computes: rows `m`, columns `n`."""
        raise NotImplementedError

    def to_linear(self, shape: tuple[int, ...]) -> LinearLayout:
        rank = len(shape)
        layout = self.instruction(dim(rank - 2), dim(rank - 1))
        layout *= identity_nd(WARP, self.get("warpsPerCTA"), self.warp_order(rank))
        return spread(layout, self.get("CGALayout"), shape)


@irdl_attr_definition
class AMDMfmaEncoding(_Transposed):
    """MFMA: 64 lanes, 16 or 32 rows and columns. Each lane has four neighbours of a row, or (64-bit
    elements) every fourth."""

    name = "ttg.amd_mfma"
    KEYS: ClassVar[tuple[str, ...]] = (
        "version", "warpsPerCTA", *CTA, "instrShape", "isTransposed", "elementBitWidth",
    )  # fmt: skip
    DEFAULTS: ClassVar[dict[str, Any]] = {**CTA, "elementBitWidth": 32}

    def check(self) -> None:
        if not self.get("isTransposed") or self.get("instrShape")[0] not in (16, 32):
            raise ValueError(
                f"#{self.name}: isTransposed = true and an instrShape of 16 or 32 rows are built"
            )

    def instruction(self, m: str, n: str) -> LinearLayout:
        size = self.get("instrShape")[0]
        lanes = LinearLayout.identity(size, LANE, m) * LinearLayout.identity(64 // size, LANE, n)
        if self.get("elementBitWidth") == 64:
            return lanes * LinearLayout.identity(4, REGISTER, n)
        rest = LinearLayout.identity(size * size // 256, REGISTER, n)
        return LinearLayout.identity(4, REGISTER, n) * lanes * rest

    def operand_part(self, left: bool, k: str, outer: str, width: int) -> LinearLayout:
        size = self.get("instrShape")[0]
        return (
            LinearLayout.identity(width, REGISTER, k)
            * LinearLayout.identity(size, LANE, outer)
            * LinearLayout.identity(64 // size, LANE, k)
        )


@irdl_attr_definition
class AMDWmmaEncoding(_Transposed):
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
