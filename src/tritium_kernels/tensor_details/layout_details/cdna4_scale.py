"""Scales of weights for CDNA 4: 32 columns of b by 8 scales in 256 adjacent bytes."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from tritium_kernels.moe_kernels.layouts import unswizzle_mx_scale_cdna4 as unswizzle_mx_scale_cdna4
from tritium_kernels.tensor_details.layout_details.preshuffled import (
    PreshuffledLayout,
    PreshuffledTransformation,
)

NON_K_PRESHUFFLE_BLOCK_SIZE = 32


@dataclass(frozen=True)
class CDNA4MXScaleLayoutTransformation(PreshuffledTransformation):
    """A lane's four scales, those of two columns 16 apart and of two k 4 apart, are adjacent."""

    ROWS = NON_K_PRESHUFFLE_BLOCK_SIZE
    SCALES = 8

    def _shuffled(self, x: Tensor) -> Tensor:
        batch, n, scales = x.shape
        x = x.reshape(batch, n // 32, 2, 16, scales // 8, 2, 4)
        return x.permute(0, 1, 4, 6, 3, 5, 2)

    def _unshuffled(self, x: Tensor, scales: int) -> Tensor:
        batch, rows, _ = x.shape
        x = x.reshape(batch, rows, scales // 8, 4, 16, 2, 2)
        return x.permute(0, 1, 6, 4, 2, 5, 3)


@dataclass(frozen=True)
class CDNA4MXScaleLayout(PreshuffledLayout):
    """The layout of the scales of b, (..., k / 32, n)."""

    NAME = "CDNA4_SCALE"
    transformation = CDNA4MXScaleLayoutTransformation
