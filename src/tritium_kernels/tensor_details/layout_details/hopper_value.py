"""Values of FP4 weights for Hopper, whose tensor cores know no FP4: words that few instructions
widen to bfloat16.

A word has eight elements of a column that follow each other along k. Its low half has those with
even numbers, the high half the others, each half as

    bit  15 14 13 12 11 10  9  8  7  6  5  4  3  2  1  0
         s0 s3 m3 s1 e3 e3 s2 e0 e0 m0 e1 e1 m1 e2 e2 m2

so that (word << 3 * i) & 0x81C081C0 are two bfloat16, the elements 2 * i and 2 * i + 1 times
2**-126, for i = 0, 1, 2. The bits of the last two are moved one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tritium_kernels.errors import refuse
from tritium_kernels.moe_kernels.layouts import mul_bf16x2 as mul_bf16x2
from tritium_kernels.moe_kernels.layouts import mxfp4_to_bf16_triton as mxfp4_to_bf16_triton
from tritium_kernels.moe_kernels.layouts import right_shift_unsigned as right_shift_unsigned
from tritium_kernels.tensor_details.layout_details.base import (
    Layout,
    LayoutTransformation,
    block_of_words,
    check_bytes,
    last_axis,
    padded,
)
from tritium_kernels.tensor_details.layout_details.torch_utils import pack, unpack

_PLACES = ((15, 8, 7, 6), (12, 5, 4, 3), (9, 2, 1, 0), (14, 11, 10, 13))
"""The bits of the sign, of the exponent's two bits and of the mantissa's, for each of the four
elements in 16 bits."""

_ALIGN = {2: (16, 32), 3: (64, 64)}
"""(columns, elements along k) of a product's instruction, to multiples of which data are padded."""


@dataclass(frozen=True)
class HopperMXValueLayoutTransformation(LayoutTransformation):
    """The storage of values whose dimension `mx_axis` runs along k, as (..., k / 8, 4 * n)
    bytes."""

    mx_axis: int
    mma_version: int

    def swizzle_data(self, data: Tensor) -> Tensor:
        check_bytes("HopperMXValueLayout", data)
        codes = unpack(data, -1)
        codes = codes if self.mx_axis == -2 else codes.mT
        columns, along = _ALIGN[self.mma_version]
        codes = padded(padded(codes, -2, along), -1, columns)
        *leading, k, n = codes.shape
        codes = codes.reshape(*leading, k // 8, 4, 2, n).int()
        halves = torch.zeros((*leading, k // 8, 2, n), dtype=torch.int32, device=data.device)
        for i, places in enumerate(_PLACES):
            for bit, place in zip((3, 2, 1, 0), places, strict=True):
                halves |= ((codes[..., i, :, :] >> bit) & 1) << place
        # Bytes of a word: low and high byte of the low half, then of the high one.
        split = torch.stack([halves & 255, halves >> 8], -1).to(torch.uint8)
        return split.transpose(-3, -2).reshape(*leading, k // 8, 4 * n).contiguous()

    def unswizzle_data(self, data: Tensor) -> Tensor:
        k, n = self.shape[-2:] if self.mx_axis == -2 else (self.shape[-1], self.shape[-2])
        *leading, words, _ = data.shape
        columns = data.shape[-1] // 4
        split = data.reshape(*leading, words, columns, 2, 2).int()
        halves = (split[..., 0] | (split[..., 1] << 8)).mT
        codes = torch.zeros(
            (*leading, words, 4, *halves.shape[-2:]), dtype=torch.uint8, device=data.device
        )
        for i, places in enumerate(_PLACES):
            for bit, place in zip((3, 2, 1, 0), places, strict=True):
                codes[..., i, :, :] |= (((halves >> place) & 1) << bit).to(torch.uint8)
        codes = codes.reshape(*leading, words * 8, columns)[..., :k, :n]
        return pack(codes if self.mx_axis == -2 else codes.mT, -1).contiguous()


@dataclass(frozen=True)
class HopperMXValueLayout(Layout):
    """The layout of FP4 values whose dimension `mx_axis` (-2 or -1; 1 and 2 are those of three)
    runs along k.

    `mma_version`: of the tensor cores' instructions (2: Ampere, 3: Hopper), to whose sizes data are
    padded.
    """

    NAME = "HOPPER_VALUE"
    transformation = HopperMXValueLayoutTransformation
    mx_axis: int
    mma_version: int = 3

    def __post_init__(self) -> None:
        object.__setattr__(self, "mx_axis", last_axis("HopperMXValueLayout", self.mx_axis))
        if self.mma_version not in _ALIGN:
            found = f"is {self.mma_version}"
            raise refuse("HopperMXValueLayout", "mma_version", found, "2, 3")

    def make_transformation(self, shape: Sequence[int], is_fp4: bool) -> LayoutTransformation:
        if not is_fp4:
            raise refuse("HopperMXValueLayout", "is_fp4", "is False", "True")
        return super().make_transformation(shape, is_fp4)

    def swizzle_block_shape(self, block_shape: Sequence[int]) -> list[int]:
        return block_of_words(block_shape, self.mx_axis)
