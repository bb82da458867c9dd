"""Layouts of the results of AMD's matrix units."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import Any

from tritium.experimental.gluon.language._layouts import DistributedLayout, Layout
from tritium.ir.layouts.amd import AMDMfmaEncoding, AMDWmmaEncoding
from tritium.ir.layouts.encodings import Encoding


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, (list, tuple)) else value  # pyright: ignore


@dataclass(frozen=True)
class AMDMFMALayout(DistributedLayout):
    """The result of MFMA: `version` 2 is gfx90a, 3 gfx942, 4 gfx950; `instr_shape` (M, N, K).
    `transposed`: a thread has neighbours along rows. `element_bitwidth`: of the result."""

    ENCODING = AMDMfmaEncoding
    TAG = "MFMA"
    version: int
    instr_shape: list[int]
    transposed: bool
    warps_per_cta: list[int]
    element_bitwidth: int | None = None
    tiles_per_warp: list[int] | None = None
    cga_layout: list[list[int]] = field(default_factory=list[list[int]])
    __hash__ = Layout.__hash__

    def to_encoding(self) -> Encoding:
        if self.tiles_per_warp is not None and prod(self.tiles_per_warp) != 1:
            raise NotImplementedError("AMDMFMALayout with tiles_per_warp is not built")
        return AMDMfmaEncoding.make(
            version=self.version, warpsPerCTA=tuple(self.warps_per_cta),
            instrShape=tuple(self.instr_shape), isTransposed=self.transposed,
            elementBitWidth=self.element_bitwidth or 32, CGALayout=_tuples(self.cga_layout),
        )  # fmt: skip

    @classmethod
    def _of(cls, encoding: Encoding) -> Any:
        shape, warps = list(encoding.get("instrShape")), list(encoding.get("warpsPerCTA"))
        bits = encoding.get("elementBitWidth")
        return cls(
            encoding.get("version"), shape, encoding.get("isTransposed"), warps,
            None if bits == 32 else bits, cga_layout=encoding.get("CGALayout"),
        )  # fmt: skip

    @property
    def rank(self) -> int:
        return len(self.warps_per_cta)


@dataclass(frozen=True)
class AMDWMMALayout(DistributedLayout):
    """The result of WMMA: `version` 1 is gfx11, 2 gfx12, 3 gfx1250. `warp_bases`: the tiles of
    further warps, for each bit of a warp's number (release 3.6: the number of warps along each
    axis)."""

    ENCODING = AMDWmmaEncoding
    TAG = "WMMA"
    version: int
    transposed: bool
    warp_bases: list[list[int]]
    reg_bases: list[list[int]] | None = None
    instr_shape: list[int] | None = None
    cga_layout: list[list[int]] = field(default_factory=list[list[int]])
    rank: int = 2  # pyright: ignore[reportIncompatibleMethodOverride]
    __hash__ = Layout.__hash__

    def _warps(self) -> tuple[int, ...]:
        """The warps along each axis. Raises `NotImplementedError` where consecutive warps do not
        run along the last axis first."""
        given: Any = self.warp_bases
        if given and isinstance(given[0], int):
            return tuple(given)
        warps, wanted = [1] * self.rank, list[list[int]]()
        for basis in given:
            warps = [max(count, 2 * x) for count, x in zip(warps, basis, strict=True)]
        for axis in reversed(range(self.rank)):
            bits = range(warps[axis].bit_length() - 1)
            wanted += [[1 << i if a == axis else 0 for a in range(self.rank)] for i in bits]
        if wanted != given:
            raise NotImplementedError(f"AMDWMMALayout with warp_bases {given} is not built")
        return tuple(warps)

    def to_encoding(self) -> Encoding:
        if not self.transposed:
            raise NotImplementedError("AMDWMMALayout(transposed=False) is not built")
        if self.reg_bases:
            raise NotImplementedError("AMDWMMALayout with reg_bases is not built")
        return AMDWmmaEncoding.make(
            version=self.version, isTranspose=True, warpsPerCTA=self._warps(),
            instrShape=tuple(self.instr_shape or (16, 16, 16)), CGALayout=_tuples(self.cga_layout),
        )  # fmt: skip

    @classmethod
    def _of(cls, encoding: Encoding) -> Any:
        warps = encoding.get("warpsPerCTA")
        bases = [
            [1 << i if a == axis else 0 for a in range(len(warps))]
            for axis in reversed(range(len(warps)))
            for i in range(warps[axis].bit_length() - 1)
        ]
        return cls(
            encoding.get("version"), True, bases, None, list(encoding.get("instrShape")),
            encoding.get("CGALayout"), len(warps),
        )  # fmt: skip
