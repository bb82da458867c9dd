"""Scales of weights for gfx1250: 128 columns of b by 4 scales in 512 adjacent bytes."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from tritium_kernels.moe_kernels.layouts import (
    unswizzle_mx_scale_gfx1250 as unswizzle_mx_scale_gfx1250,
)
from tritium_kernels.tensor_details.layout_details.preshuffled import (
    PreshuffledLayout,
    PreshuffledTransformation,
)

NON_K_PRESHUFFLE_BLOCK_SIZE = 128


@dataclass(frozen=True)
class GFX1250MXScaleLayoutTransformation(PreshuffledTransformation):
    """A lane's sixteen scales, four of each of four columns 32 apart, are adjacent."""

    ROWS = NON_K_PRESHUFFLE_BLOCK_SIZE
    SCALES = 4

    def _shuffled(self, x: Tensor) -> Tensor:
        batch, n, scales = x.shape
        return x.reshape(batch, n // 128, 4, 32, scales // 4, 4).permute(0, 1, 4, 3, 2, 5)

    def _unshuffled(self, x: Tensor, scales: int) -> Tensor:
        batch, rows, _ = x.shape
        return x.reshape(batch, rows, scales // 4, 32, 4, 4).permute(0, 1, 4, 3, 2, 5)


@dataclass(frozen=True)
class GFX1250MXScaleLayout(PreshuffledLayout):
    """The layout of the scales of b, (..., k / 32, n)."""

    NAME = "GFX1250_SCALE"
    transformation = GFX1250MXScaleLayoutTransformation
