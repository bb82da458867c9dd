"""Values of FP4 weights for Hopper, whose tensor cores know no FP4: words that few instructions
widen to bfloat16.

A row has the words of 128 elements along k, sixteen of each column: word 4 * q + b of a column has
the elements 32 * b + 2 * q + {0, 1, 8, 9, 16, 17, 24, 25}. These are what lane q of four holds of
a row of a left operand (PTX, "Register Fragments for wgmma.m64nNk16", as for mma.m16n8k16), so that
nothing moves between threads, and the four words of a lane follow each other. The low half of a
word has the elements with even numbers, the high half the others, each half as

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
    block_of_rows,
    check_bytes,
    last_axis,
    padded,
)
from tritium_kernels.tensor_details.layout_details.torch_utils import pack, unpack

_PLACES = ((15, 8, 7, 6), (12, 5, 4, 3), (9, 2, 1, 0), (14, 11, 10, 13))
"""The bits of the sign, of the exponent's two bits and of the mantissa's, for each of the four
elements in 16 bits."""

_ROW = 128
"""Elements along k in a row of the storage, to a multiple of which data are padded."""

_COLUMNS = {2: 16, 3: 64}
"""Columns of b that are rows of an instruction, to a multiple of which data are padded."""


@dataclass(frozen=True)
class HopperMXValueLayoutTransformation(LayoutTransformation):
    """The storage of values whose dimension `mx_axis` runs along k, as (..., k / 128, 64 * n)
    bytes."""

    mx_axis: int
    mma_version: int

    def swizzle_data(self, data: Tensor) -> Tensor:
        check_bytes("HopperMXValueLayout", data)
        codes = unpack(data, -1)
        codes = codes if self.mx_axis == -2 else codes.mT
        codes = padded(padded(codes, -2, _ROW), -1, _COLUMNS[self.mma_version])
        *leading, k, n = codes.shape
        # Along k: (row, b, pair, q, half).
        codes = codes.reshape(*leading, k // _ROW, 4, 4, 4, 2, n).int()
        halves = torch.zeros((*leading, k // _ROW, 4, 4, 2, n), dtype=torch.int32,
                             device=data.device)  # fmt: skip
        for i, places in enumerate(_PLACES):
            for bit, place in zip((3, 2, 1, 0), places, strict=True):
                halves |= ((codes[..., i, :, :, :] >> bit) & 1) << place
        # Bytes of a word: low and high byte of the low half, then of the high one.
        split = torch.stack([halves & 255, halves >> 8], -1).to(torch.uint8)
        # (row, b, q, half, n, byte) -> (row, n, q, b, half, byte)
        split = split.movedim((-2, -4, -5, -3), (-5, -4, -3, -2))
        return split.reshape(*leading, k // _ROW, _ROW // 2 * n).contiguous()

    def unswizzle_data(self, data: Tensor) -> Tensor:
        k, n = self.shape[-2:] if self.mx_axis == -2 else (self.shape[-1], self.shape[-2])
        *leading, rows, width = data.shape
        columns = width // (_ROW // 2)
        split = data.reshape(*leading, rows, columns, 4, 4, 2, 2).int()
        # (row, n, q, b, half) -> (row, b, q, half, n)
        halves = (split[..., 0] | (split[..., 1] << 8)).movedim((-2, -3, -1, -4), (-4, -3, -2, -1))
        pairs: list[Tensor] = []
        for places in _PLACES:
            bits = zip((3, 2, 1, 0), places, strict=True)
            found = [((halves >> place) & 1) << bit for bit, place in bits]
            pairs.append((found[0] | found[1] | found[2] | found[3]).to(torch.uint8))
        codes = torch.stack(pairs, -4).reshape(*leading, rows * _ROW, columns)[..., :k, :n]
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
        if self.mma_version not in _COLUMNS:
            found = f"is {self.mma_version}"
            raise refuse("HopperMXValueLayout", "mma_version", found, "2, 3")

    def make_transformation(self, shape: Sequence[int], is_fp4: bool) -> LayoutTransformation:
        if not is_fp4:
            raise refuse("HopperMXValueLayout", "is_fp4", "is False", "True")
        return super().make_transformation(shape, is_fp4)

    def swizzle_block_shape(self, block_shape: Sequence[int]) -> list[int]:
        return block_of_rows(block_shape, self.mx_axis, _ROW // 2)
