"""Values of MX weights as bulk copies of Blackwell read them: k is the adjacent dimension."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tritium_kernels.tensor_details.layout_details.base import (
    Layout,
    LayoutTransformation,
    padded,
    up_to,
)
from tritium_kernels.tensor_details.layout_details.torch_utils import repack

ALIGN_BYTES = 64
"""Bytes of a column are a multiple of this: bulk copies widen 64 bytes of FP4 to 128."""


def strides_major_dim_m2(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides of a tensor without gaps whose dimension before the last is adjacent."""
    *leading, k, n = shape
    strides = [1, k]
    size = k * n
    for extent in reversed(leading):
        strides.insert(0, size)
        size *= extent
    return tuple(strides)


@dataclass(frozen=True)
class BlackwellMXValueLayoutTransformation(LayoutTransformation):
    """The storage of values (..., k, n); k is padded with zeros."""

    def swizzle_data(self, data: Tensor) -> Tensor:
        x = padded(repack(data, -1, -2, self.is_fp4), -2, ALIGN_BYTES)
        out = torch.empty_strided(
            x.shape, strides_major_dim_m2(x.shape), dtype=x.dtype, device=x.device
        )
        return out.copy_(x)

    def unswizzle_data(self, data: Tensor) -> Tensor:
        rows = self.shape[-2] // (2 if self.is_fp4 else 1)
        return repack(data[..., :rows, :], -2, -1, self.is_fp4).contiguous()


@dataclass(frozen=True)
class BlackwellMXValueLayout(Layout):
    """The layout of b, (..., k, n): columns one after the other, each a multiple of 64 bytes
    long."""

    NAME = "BLACKWELL_VALUE"
    transformation = BlackwellMXValueLayoutTransformation

    def swizzle_block_shape(self, block_shape: Sequence[int]) -> list[int]:
        *leading, k, n = block_shape
        return [*leading, up_to(k, ALIGN_BYTES), n]
