"""Scales as Blackwell's tensor cores read them: 128 rows by 4 scales in 512 adjacent bytes.

The scales of row r are at byte 16 * (r % 32) + 4 * (r // 32) of their block.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tritium_kernels.launching.launch import cdiv, on
from tritium_kernels.launching.operators import untraced
from tritium_kernels.moe_kernels import layouts as kernels
from tritium_kernels.moe_kernels.layouts import pad_segments_kernel as pad_segments_kernel
from tritium_kernels.moe_kernels.layouts import (
    swizzle_act_mx_scale_bw_store_ptr as swizzle_act_mx_scale_bw_store_ptr,
)
from tritium_kernels.moe_kernels.layouts import (
    swizzle_mx_scale_bw_store_ptr as swizzle_mx_scale_bw_store_ptr,
)
from tritium_kernels.moe_kernels.layouts import unpad_segments_kernel as unpad_segments_kernel
from tritium_kernels.moe_kernels.layouts import (
    unswizzle_act_mx_scale_bw as unswizzle_act_mx_scale_bw,
)
from tritium_kernels.moe_kernels.layouts import unswizzle_mx_scale_bw as unswizzle_mx_scale_bw
from tritium_kernels.tensor_details.layout_details.base import (
    Layout,
    LayoutTransformation,
    batched,
    check_bytes,
    padded,
    up_to,
)

SWIZZLE_SIZE_OUTER = 128
SWIZZLE_SIZE_INNER = 4
SWIZZLE_ALIGN_INNER = 8
_BLOCK_N = 32


def swizzle_blocks(x: Tensor) -> Tensor:
    """(batch, rows, scales) -> (1, batch * rows / 128, scales / 4, 2, 256), zeros at the ends."""
    x = padded(padded(x, 1, SWIZZLE_SIZE_OUTER), 2, SWIZZLE_ALIGN_INNER)
    batch, rows, columns = x.shape
    x = x.reshape(batch * rows // 128, 4, 32, columns // 4, 4).permute(0, 3, 2, 1, 4)
    return x.reshape(1, batch * rows // 128, columns // 4, 2, 256).contiguous()


def unswizzle_blocks(data: Tensor, batch: int) -> Tensor:
    """The inverse, with the zeros."""
    outer, inner = data.shape[1:3]
    x = data.reshape(outer, inner, 32, 4, 4).permute(0, 3, 2, 1, 4)
    return x.reshape(batch, outer // max(batch, 1) * 128, inner * 4)


@dataclass(frozen=True)
class BlackwellMXScaleLayoutTransformation(LayoutTransformation):
    """The storage of the scales of b, (..., k / 32, n)."""

    def swizzle_data(self, data: Tensor) -> Tensor:
        check_bytes("BlackwellMXScaleLayout", data, e4m3=True)
        return swizzle_blocks(batched(data.mT))

    def unswizzle_data(self, data: Tensor) -> Tensor:
        *leading, scales, n = self.shape
        x = unswizzle_blocks(data, math.prod(leading))[:, :n, :scales]
        return x.mT.reshape(self.shape).contiguous()


@dataclass(frozen=True)
class BlackwellMXScaleLayout(Layout):
    """The layout of the scales of b, (..., k / 32, n): rows are columns of b."""

    NAME = "BLACKWELL_SCALE"
    transformation = BlackwellMXScaleLayoutTransformation

    def swizzle_block_shape(self, block_shape: Sequence[int]) -> list[int]:
        *_, scales, n = block_shape
        return [1, cdiv(n, SWIZZLE_SIZE_OUTER), cdiv(scales, SWIZZLE_SIZE_INNER), 2, 256]


def _segments(metadata: Any, block: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return (
        metadata.slice_sizes, metadata.slice_offs, metadata.block_offs(block),
        metadata.block_schedule(block),
    )  # fmt: skip


@untraced
def pad_segments_triton(
    data: Tensor, ragged_metadata: Any, block_size_to_align: int, M_pad: int, K: int, K_pad: int
) -> Tensor:
    """(M_pad, K_pad): each slice of the rows of data (rows, K) begins at a multiple of
    `block_size_to_align` rows; the rest is 0."""
    out = torch.zeros((M_pad, K_pad), dtype=data.dtype, device=data.device)
    blocks = M_pad // block_size_to_align
    if data.numel() and blocks:
        programs = blocks * cdiv(K_pad, _BLOCK_N)
        with on("pad_segments_triton", "data", data):
            kernels.pad_segments_kernel[(programs,)](
                data, out, *_segments(ragged_metadata, block_size_to_align), K, K_pad,
                *data.stride(), *out.stride(), BLOCK_M=block_size_to_align, BLOCK_N=_BLOCK_N,
                N_BLOCKS_PER_COL=blocks, N_SLICES=ragged_metadata.n_slices, NUM_SMS=programs,
            )  # fmt: skip
    return out


@untraced
def unpad_segments_triton(
    padded_data: Tensor, ragged_metadata: Any, block_size_to_align: int, M: int, K: int, K_pad: int
) -> Tensor:
    """The inverse: (M, K); rows of no slice are 0."""
    out = torch.zeros((M, K), dtype=padded_data.dtype, device=padded_data.device)
    blocks = padded_data.shape[0] // block_size_to_align
    if out.numel() and blocks:
        programs = blocks * cdiv(K_pad, _BLOCK_N)
        with on("unpad_segments_triton", "padded_data", padded_data):
            kernels.unpad_segments_kernel[(programs,)](
                padded_data, out, *_segments(ragged_metadata, block_size_to_align), K, K_pad,
                *padded_data.stride(), *out.stride(), BLOCK_M=block_size_to_align,
                BLOCK_N=_BLOCK_N, N_BLOCKS_PER_COL=blocks, N_SLICES=ragged_metadata.n_slices,
                NUM_SMS=programs,
            )  # fmt: skip
    return out


@dataclass(frozen=True)
class BlackwellActMXScaleLayoutTransformation(LayoutTransformation):
    """The storage of the scales of a, (rows, k / 32) in slices, or (batches, rows, k / 32).

    Attributes:
        ragged_metadata: of the slices; None: batches.
    """

    ragged_metadata: Any
    ALIGN_K: int = SWIZZLE_ALIGN_INNER
    ALIGN_M: int = SWIZZLE_SIZE_OUTER
    SWIZZLE_K: int = SWIZZLE_SIZE_INNER

    @property
    def added_leading_batch_dim(self) -> bool:
        """True if a dimension of one batch is put before the given ones."""
        return len(self.shape) == 2

    def swizzle_data(self, data: Tensor) -> Tensor:
        check_bytes("BlackwellActMXScaleLayout", data, e4m3=True)
        rows, k = self.shape[-2:]
        if self.ragged_metadata is None:
            return swizzle_blocks(batched(data))
        # What sizes slices have is known on the device alone: there is room for the most blocks.
        blocks = self.ragged_metadata.n_blocks(self.ragged_metadata.n_slices, rows, self.ALIGN_M)
        x = pad_segments_triton(
            data, self.ragged_metadata, self.ALIGN_M, blocks * self.ALIGN_M, k,
            up_to(k, self.ALIGN_K),
        )  # fmt: skip
        return swizzle_blocks(x[None])

    def unswizzle_data(self, data: Tensor) -> Tensor:
        *leading, rows, k = self.shape
        if self.ragged_metadata is None:
            x = unswizzle_blocks(data, math.prod(leading))
            return x[:, :rows, :k].reshape(self.shape).contiguous()
        (x,) = unswizzle_blocks(data, 1)
        return unpad_segments_triton(x, self.ragged_metadata, self.ALIGN_M, rows, k, x.shape[1])


@dataclass(frozen=True, eq=False)
class BlackwellActMXScaleLayout(Layout):
    """The layout of the scales of a: each slice of rows begins with a block of its own."""

    ragged_metadata: Any = None

    NAME = "BLACKWELL_ACT_SCALE"
    transformation = BlackwellActMXScaleLayoutTransformation

    def swizzle_block_shape(self, block_shape: Sequence[int]) -> list[int]:
        *_, rows, scales = block_shape
        return [1, cdiv(rows, SWIZZLE_SIZE_OUTER), cdiv(scales, SWIZZLE_SIZE_INNER), 2, 256]

    def can_preserve_storage_as(self, layout: Layout) -> bool:
        """Metadata are compared as objects: their tensors may be on a device."""
        return (
            isinstance(layout, BlackwellActMXScaleLayout)
            and layout.ragged_metadata is self.ragged_metadata
        )
