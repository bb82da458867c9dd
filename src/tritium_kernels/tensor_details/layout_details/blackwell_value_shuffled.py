"""Values of FP4 weights in tiles: what a program loads at once is adjacent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from tritium_kernels.launching.launch import cdiv
from tritium_kernels.tensor_details.layout_details.base import (
    Layout,
    LayoutTransformation,
    check_bytes,
    padded,
)
from tritium_kernels.tensor_details.layout_details.torch_utils import repack


@dataclass(frozen=True)
class BlackwellMX4ValueShuffledTransformation(LayoutTransformation):
    """The storage of values (..., k, n) as (..., n / block_n, k / block_k, block_n, block_k /
    2)."""

    block_k: int
    block_n: int

    def swizzle_data(self, data: Tensor) -> Tensor:
        check_bytes("BlackwellMX4ValueShuffledLayout", data)
        x = repack(data, -1, -2, is_fp4=True)
        x = padded(padded(x, -2, self.block_k // 2), -1, self.block_n)
        *leading, k, n = x.shape
        x = x.reshape(
            *leading, k // (self.block_k // 2), self.block_k // 2, n // self.block_n, self.block_n
        )
        order = (*range(len(leading)), -2, -4, -1, -3)
        return x.permute(order).contiguous()

    def unswizzle_data(self, data: Tensor) -> Tensor:
        leading = data.ndim - 4
        x = data.permute((*range(leading), -3, -1, -4, -2))
        x = x.flatten(-4, -3).flatten(-2, -1)
        k, n = self.shape[-2:]
        return repack(x[..., : k // 2, :n], -2, -1, is_fp4=True).contiguous()


@dataclass(frozen=True)
class BlackwellMX4ValueShuffledLayout(Layout):
    """The layout of FP4 weights (..., k, n): tiles of `block_k` by `block_n` elements, k adjacent
    in them."""

    block_k: int = 128
    block_n: int = 256

    NAME = "BLACKWELL_VALUE_SHUFFLED"
    transformation = BlackwellMX4ValueShuffledTransformation

    def swizzle_block_shape(self, block_shape: Sequence[int]) -> list[int]:
        *leading, k, n = block_shape
        tiles = [cdiv(n, self.block_n), cdiv(2 * k, self.block_k)]
        return [*leading, *tiles, self.block_n, self.block_k // 2]
