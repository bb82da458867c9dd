"""Bit matrices: the elements of a matrix that are not zero, and their order by row and by
column."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from tritium_kernels.errors import check_given, check_rank, check_tensor, refuse
from tritium_kernels.launching.launch import cdiv, on, power_of_two
from tritium_kernels.launching.operators import untraced
from tritium_kernels.moe_kernels import metadata as kernels
from tritium_kernels.tensor_details.bitmatrix_details.sum_bitmatrix_rows import (
    sum_bitmatrix_rows as sum_bitmatrix_rows,
)
from tritium_kernels.tensor_details.dtype import BIT
from tritium_kernels.tensor_details.storage import Tensor

_BLOCK = 128


@dataclass(frozen=True)
class BitmatrixMetadata:
    """The order of the elements that are not zero.

    Elements are numbered as the list of column numbers has them: row by row, the same number of
    each row. An entry of the list that is no column (-1) is no element.

    Attributes:
        col_sum: int32 (columns,): elements of each column.
        col_sorted_indx: int32 (elements,): the elements in the order of their columns, those of a
            column in the order of rows; -1 past the last.
        row_sorted_indx: int32 (elements,): where each element stands in that order; -1 for none.
    """

    col_sum: torch.Tensor
    col_sorted_indx: torch.Tensor
    row_sorted_indx: torch.Tensor


def _columns(nonzero_indx: torch.Tensor, bitmatrix: Tensor) -> int:
    op = "make_bitmatrix_metadata"
    check_tensor(op, "nonzero_indx", nonzero_indx, (torch.int16, torch.int32, torch.int64))
    check_given(op, Tensor, bitmatrix=bitmatrix)
    if bitmatrix.dtype != BIT:
        raise refuse(op, "bitmatrix", f"has elements {bitmatrix.dtype}", "BIT")
    check_rank(op, "nonzero_indx", nonzero_indx, (2,))
    if nonzero_indx.shape[0] != bitmatrix.shape[0]:
        accepted = f"{bitmatrix.shape[0]}, the rows of bitmatrix"
        raise refuse(op, "nonzero_indx", f"has {nonzero_indx.shape[0]} rows", accepted)
    return bitmatrix.shape[1]


@untraced
def make_bitmatrix_metadata(nonzero_indx: torch.Tensor, bitmatrix: Tensor) -> BitmatrixMetadata:
    """The order of elements, from the column numbers of each row, (rows, elements of a row)."""
    columns = _columns(nonzero_indx, bitmatrix)
    index = nonzero_indx.reshape(-1).contiguous()
    count, device = index.numel(), index.device
    col_sum = torch.zeros(columns, dtype=torch.int32, device=device)
    by_column = torch.full((count,), -1, dtype=torch.int32, device=device)
    by_row = torch.full((count,), -1, dtype=torch.int32, device=device)
    if count and columns:
        blocks, padded = cdiv(count, _BLOCK), power_of_two(columns)
        partial = torch.empty((blocks, columns), dtype=torch.int32, device=device)
        with on("make_bitmatrix_metadata", "nonzero_indx", nonzero_indx):
            kernels.count_columns[(blocks,)](
                index, partial, count, columns, BLOCK=_BLOCK, COLUMNS=padded
            )
            kernels.scan_columns[(1,)](partial, col_sum, blocks, columns, BLOCK=16, COLUMNS=padded)
            kernels.place_elements[(blocks,)](
                index, partial, by_column, by_row, count, columns, BLOCK=_BLOCK
            )
    return BitmatrixMetadata(col_sum, by_column, by_row)


def make_bitmatrix_metadata_torch(
    nonzero_indx: torch.Tensor, bitmatrix: Tensor
) -> BitmatrixMetadata:
    """The same by torch's functions, for comparison."""
    columns = _columns(nonzero_indx, bitmatrix)
    index = nonzero_indx.reshape(-1).long()
    inside = (index >= 0) & (index < columns)
    elements = torch.nonzero(inside).flatten()
    order = elements[torch.argsort(index[elements], stable=True)]
    by_column = torch.full_like(index, -1)
    by_column[: order.numel()] = order
    by_row = torch.full_like(index, -1)
    by_row[order] = torch.arange(order.numel(), device=index.device)
    col_sum = torch.bincount(index[inside], minlength=columns)
    return BitmatrixMetadata(col_sum.int(), by_column.int(), by_row.int())
