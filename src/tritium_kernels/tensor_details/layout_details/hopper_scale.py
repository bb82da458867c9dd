"""Scales of FP4 weights for Hopper: four of a column in a word, columns one after the other.

A thread reads the scales of 128 elements of its column at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from tritium_kernels.errors import refuse
from tritium_kernels.moe_kernels.layouts import (
    unswizzle_mxfp4_scale_hopper as unswizzle_mxfp4_scale_hopper,
)
from tritium_kernels.tensor_details.layout_details.base import (
    Layout,
    LayoutTransformation,
    block_of_rows,
    check_bytes,
    last_axis,
    padded,
)


@dataclass(frozen=True)
class HopperMXScaleLayoutTransformation(LayoutTransformation):
    """The storage of scales whose dimension `mx_axis` runs along k, as (..., k / 128, 4 * n)."""

    mx_axis: int
    num_warps: int

    def swizzle_data(self, data: Tensor) -> Tensor:
        check_bytes("HopperMXScaleLayout", data)
        x = data if self.mx_axis == -2 else data.mT
        x = padded(padded(x, -2, 4), -1, 32 * self.num_warps)
        *leading, scales, n = x.shape
        x = x.reshape(*leading, scales // 4, 4, n).mT.reshape(*leading, scales // 4, 4 * n)
        return x.contiguous()

    def unswizzle_data(self, data: Tensor) -> Tensor:
        scales, n = self.shape[-2:] if self.mx_axis == -2 else (self.shape[-1], self.shape[-2])
        *leading, words, _ = data.shape
        columns = data.shape[-1] // 4
        x = data.reshape(*leading, words, columns, 4).mT.reshape(*leading, 4 * words, columns)
        x = x[..., :scales, :n]
        return (x if self.mx_axis == -2 else x.mT).contiguous()


@dataclass(frozen=True)
class HopperMXScaleLayout(Layout):
    """The layout of scales whose dimension `mx_axis` (-2 or -1; 1 and 2 are those of three) runs
    along k.

    `num_warps`: of the programs that read it; columns are padded to what these read at once.
    """

    NAME = "HOPPER_SCALE"
    transformation = HopperMXScaleLayoutTransformation
    mx_axis: int
    num_warps: int = 8

    def __post_init__(self) -> None:
        object.__setattr__(self, "mx_axis", last_axis("HopperMXScaleLayout", self.mx_axis))
        if self.num_warps not in (4, 8):
            raise refuse("HopperMXScaleLayout", "num_warps", f"is {self.num_warps}", "4, 8")

    def swizzle_block_shape(self, block_shape: Sequence[int]) -> list[int]:
        return block_of_rows(block_shape, self.mx_axis, 4)
