"""Layouts of the results of AMD's matrix units."""

from __future__ import annotations

from dataclasses import InitVar, dataclass, field
from math import prod
from typing import Any

from tritium.experimental.gluon.language._layouts import DistributedLayout, Layout
from tritium.ir.layouts.amd import AMDMfmaEncoding, AMDWmmaEncoding
from tritium.ir.layouts.encodings import Encoding, counted
from tritium.language.values.constexpr import unwrap


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
        tiles = tuple(self.tiles_per_warp or ())
        if tiles and len(tiles) != len(self.warps_per_cta):
            raise ValueError(f"tiles_per_warp is {list(tiles)}; one number for each axis of "
                             f"warps_per_cta, {self.warps_per_cta}, is required")  # fmt: skip
        return AMDMfmaEncoding.make(
            version=self.version, warpsPerCTA=tuple(self.warps_per_cta),
            instrShape=tuple(self.instr_shape), isTransposed=self.transposed,
            elementBitWidth=self.element_bitwidth or 32, CGALayout=_tuples(self.cga_layout),
            tilesPerWarp=tiles if prod(tiles) != 1 else (),
        )  # fmt: skip

    @classmethod
    def _of(cls, encoding: Encoding) -> Any:
        shape, warps = list(encoding.get("instrShape")), list(encoding.get("warpsPerCTA"))
        bits = encoding.get("elementBitWidth")
        return cls(
            encoding.get("version"), shape, encoding.get("isTransposed"), warps,
            None if bits == 32 else bits, encoding.get("tilesPerWarp") or None,
            encoding.get("CGALayout"),
        )  # fmt: skip

    @property
    def rank(self) -> int:
        return len(self.warps_per_cta)


@dataclass(frozen=True)
class AMDWMMALayout(DistributedLayout):
    """The result of WMMA: `version` 1 is gfx11, 2 gfx12, 3 gfx1250. `warp_bases`, `reg_bases`: the
    tiles of further warps, and those that each warp has, for each bit of their number; or, in
    release 3.6, `warps_per_cta` and `tiles_per_warp` along each axis."""

    ENCODING = AMDWmmaEncoding
    TAG = "WMMA"
    version: int
    transposed: bool
    warp_bases: list[list[int]] = field(default_factory=list[list[int]])
    reg_bases: list[list[int]] | None = None
    instr_shape: list[int] | None = None
    cga_layout: list[list[int]] = field(default_factory=list[list[int]])
    rank: int = 2  # pyright: ignore[reportIncompatibleMethodOverride]
    warps_per_cta: InitVar[Any] = None
    tiles_per_warp: InitVar[Any] = None
    __hash__ = Layout.__hash__

    def __post_init__(self, warps_per_cta: Any, tiles_per_warp: Any) -> None:
        given: Any = unwrap(self.warp_bases)
        counts, tiles = unwrap(warps_per_cta), unwrap(tiles_per_warp)
        if counts is None and given and isinstance(unwrap(given[0]), int):
            counts = given
        if counts is not None:
            object.__setattr__(self, "warp_bases", counted(counts, tiles))
            object.__setattr__(self, "rank", len(counts))
        if tiles is not None and prod(tiles) > 1:
            object.__setattr__(self, "reg_bases", counted(tiles))
        super().__post_init__()

    def to_encoding(self) -> Encoding:
        given = self.warp_bases
        if any(len(basis) != self.rank for basis in [*given, *(self.reg_bases or ())]):
            raise ValueError(f"{self}: a basis of another rank; {self.rank} is required")
        return AMDWmmaEncoding.of_bases(
            _tuples(self.reg_bases or ()), _tuples(given), self.rank,
            version=self.version, isTranspose=self.transposed,
            instrShape=tuple(self.instr_shape or (16, 16, 16)), CGALayout=_tuples(self.cga_layout),
        )  # fmt: skip

    @classmethod
    def _of(cls, encoding: Encoding) -> Any:
        registers, warps = encoding.get("registerBases"), encoding.get("warpsPerCTA")
        return cls(
            encoding.get("version"), encoding.get("isTranspose"),
            encoding.get("warpBases") or counted(warps), registers or None,
            list(encoding.get("instrShape")), encoding.get("CGALayout"), len(warps),
        )  # fmt: skip
