"""Tensors of the kernel library: packed elements, ragged and sparse matrices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch

from tritium.tools.ragged_tma import create_ragged_descriptor
from tritium.tools.tensor_descriptor import TensorDescriptor
from tritium_kernels.errors import check_choice, refuse
from tritium_kernels.tensor_details.bitmatrix import BitmatrixMetadata as BitmatrixMetadata
from tritium_kernels.tensor_details.bitmatrix import (
    make_bitmatrix_metadata as make_bitmatrix_metadata,
)
from tritium_kernels.tensor_details.bitmatrix import (
    make_bitmatrix_metadata_torch as make_bitmatrix_metadata_torch,
)
from tritium_kernels.tensor_details.dtype import BIT as BIT
from tritium_kernels.tensor_details.dtype import FP4 as FP4
from tritium_kernels.tensor_details.layout_details.strided import StridedLayout
from tritium_kernels.tensor_details.ragged_tensor import (
    RaggedTensorMetadata as RaggedTensorMetadata,
)
from tritium_kernels.tensor_details.ragged_tensor import (
    make_ragged_tensor_metadata as make_ragged_tensor_metadata,
)
from tritium_kernels.tensor_details.ragged_tensor import (
    make_ragged_tensor_metadata_torch as make_ragged_tensor_metadata_torch,
)
from tritium_kernels.tensor_details.ragged_tensor import (
    ragged_metadata_fields as ragged_metadata_fields,
)
from tritium_kernels.tensor_details.ragged_tensor import (
    remap_ragged_tensor_metadata as remap_ragged_tensor_metadata,
)
from tritium_kernels.tensor_details.ragged_tensor import (
    remap_ragged_tensor_metadata_torch as remap_ragged_tensor_metadata_torch,
)
from tritium_kernels.tensor_details.storage import Storage as Storage
from tritium_kernels.tensor_details.storage import Tensor as Tensor
from tritium_kernels.tensor_details.storage import convert_layout as convert_layout
from tritium_kernels.tensor_details.storage import dtype_to_torch_dtype as dtype_to_torch_dtype
from tritium_kernels.tensor_details.storage import empty as empty
from tritium_kernels.tensor_details.storage import torch_dtype_to_dtype as torch_dtype_to_dtype
from tritium_kernels.tensor_details.storage import wrap_torch_tensor as wrap_torch_tensor


def is_tma_compliant(tensor: Tensor) -> bool:
    """True if bulk copies can read it: one dimension is adjacent, the address and other strides are
    multiples of 16 bytes, 1 to 5 dimensions, all with elements."""
    data = tensor.data
    if not 1 <= data.ndim <= 5 or not data.numel() or data.data_ptr() % 16:
        return False
    major = StridedLayout.of(data).major_dim % data.ndim
    others = [data.stride(d) for d in range(data.ndim) if d != major]
    return data.stride(major) == 1 and all(s * data.element_size() % 16 == 0 for s in others)


def make_dense_tma(
    tensor: Tensor, block_shape: Sequence[int], is_scale: bool
) -> TensorDescriptor:
    """The descriptor of a tensor's storage, with its adjacent dimension last.

    Args:
        block_shape: of a load, in the storage's order of dimensions; FP4: in bytes.
        is_scale: scales are read as they lie: their adjacent dimension is the last.
    """
    if not is_tma_compliant(tensor):
        found = f"has strides {tensor.stride()} of {tensor.element_size()} bytes"
        accepted = "one stride of 1, the others and the address multiples of 16 bytes"
        raise refuse("make_dense_tma", "tensor", found, accepted)
    data = tensor.data
    major = StridedLayout.of(data).major_dim % data.ndim
    if is_scale and major != data.ndim - 1:
        raise refuse("make_dense_tma", "tensor", f"has strides {tensor.stride()}", "a last of 1")
    order = [*(d for d in range(data.ndim) if d != major), major]
    return TensorDescriptor(
        data, [data.shape[d] for d in order], [data.stride(d) for d in order],
        [block_shape[d] for d in order],
    )  # fmt: skip


def make_tma(
    tensor: Tensor, block_shape: Sequence[int], mode: str, is_scale: bool = False
) -> TensorDescriptor:
    """The descriptor of a tensor for loads and stores of a kind.

    `mode`: "dense"; "gather" or "scatter" (rows one by one: the block is one row high); "ragged"
    (slices of the first dimension: see `tritium.tools.ragged_tma`).
    """
    check_choice("make_tma", "mode", mode, ("dense", "gather", "scatter", "ragged"))
    if mode == "ragged":
        return create_ragged_descriptor(tensor.data, list(block_shape), ragged_dim=0)
    if mode != "dense":
        block_shape = [*(1 for _ in block_shape[:-1]), block_shape[-1]]
    return make_dense_tma(tensor, block_shape, is_scale)


@dataclass(frozen=True)
class SparseMatrix:
    """A sparse matrix with the same number of elements in each row.

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
