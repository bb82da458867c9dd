"""Sums of the columns of a bit matrix."""

from __future__ import annotations

import torch

from tritium_kernels.errors import check_choice
from tritium_kernels.launching.launch import cdiv, on
from tritium_kernels.launching.operators import untraced
from tritium_kernels.moe_kernels import metadata as kernels
from tritium_kernels.moe_kernels.metadata import vpopc as vpopc
from tritium_kernels.tensor_details.storage import Tensor


@untraced
def sum_bitmatrix_rows(
    x: Tensor, partials_block_size: int | None = None
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """Elements of each column; with a block size also (blocks of rows, columns), for each block."""
    check_choice("sum_bitmatrix_rows", "partials_block_size", partials_block_size,
                 (None, 1, 2, 4, 8, 16, 32, 64, 128))  # fmt: skip
    rows, columns = x.shape
    part = partials_block_size or 0
    words = x.storage.data
    sums = torch.zeros(columns, dtype=torch.int32, device=words.device)
    partials = None
    if part:
        partials = torch.zeros((cdiv(rows, part), columns), dtype=torch.int32, device=words.device)
    if rows and columns:
        with on("sum_bitmatrix_rows", "x", words):
            kernels.sum_bits[(cdiv(columns, 32),)](
                words, sums, partials, rows, columns, *words.stride(), PARTIAL=part or 128,
                BLOCK=128,
            )  # fmt: skip
    return sums if partials is None else (sums, partials)
