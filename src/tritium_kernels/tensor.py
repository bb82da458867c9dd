"""Tensors of the kernel library: packed elements, ragged and sparse matrices."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch

from tritium_kernels.tensor_details.bitmatrix import (
    BitmatrixMetadata as BitmatrixMetadata,
)
from tritium_kernels.tensor_details.bitmatrix import make_bitmatrix_metadata
from tritium_kernels.tensor_details.dtype import BIT as BIT
from tritium_kernels.tensor_details.dtype import FP4 as FP4
from tritium_kernels.tensor_details.ragged_tensor import (
    RaggedTensorMetadata as RaggedTensorMetadata,
)
from tritium_kernels.tensor_details.ragged_tensor import (
    make_ragged_tensor_metadata as make_ragged_tensor_metadata,
)
from tritium_kernels.tensor_details.ragged_tensor import (
    make_ragged_tensor_metadata_torch as make_ragged_tensor_metadata_torch,
)
from tritium_kernels.tensor_details.storage import Storage as Storage
from tritium_kernels.tensor_details.storage import Tensor as Tensor
from tritium_kernels.tensor_details.storage import dtype_to_torch_dtype as dtype_to_torch_dtype
from tritium_kernels.tensor_details.storage import torch_dtype_to_dtype as torch_dtype_to_dtype
from tritium_kernels.tensor_details.storage import wrap_torch_tensor as wrap_torch_tensor


@dataclass(frozen=True)
class SparseMatrix:
    """The same number of elements in each row.

    Attributes:
        indx: (rows, elements): their columns; -1 for none.
        vals: (rows, elements).
        mask: bits (rows, columns): which elements there are.
    """

    indx: torch.Tensor
    vals: torch.Tensor
    mask: Tensor

    @cached_property
    def mask_metadata(self) -> BitmatrixMetadata:
        """The order of the elements by column."""
        return make_bitmatrix_metadata(self.indx, self.mask)


@dataclass(frozen=True)
class RaggedTensor:
    """Slices of different sizes along the first dimension.

    Attributes:
        slice_sizes: int32 (slices,).
        data: all rows, slice by slice.
        metadata: where the slices are.
    """

    slice_sizes: torch.Tensor
    data: torch.Tensor
    metadata: RaggedTensorMetadata
