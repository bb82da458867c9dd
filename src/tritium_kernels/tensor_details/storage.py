"""Tensors with element types that torch has no name for, over memory that torch holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import torch

from tritium_kernels.errors import refuse
from tritium_kernels.tensor_details import dtype as types
from tritium_kernels.tensor_details.dtype import DataType

_TORCH = {
    types.UINT8: torch.uint8, types.FP8_E4M3FN: torch.float8_e4m3fn,
    types.FP8_E5M2: torch.float8_e5m2, types.BF16: torch.bfloat16, types.FP16: torch.float16,
    types.FP32: torch.float32, types.FP64: torch.float64,
    types.IntegerType(16): torch.int16, types.IntegerType(32): torch.int32,
    types.IntegerType(64): torch.int64,
}  # fmt: skip
_TYPES = {dtype: kind for kind, dtype in _TORCH.items()}


def torch_dtype_to_dtype(dtype: torch.dtype) -> DataType:
    """Our name of an element type of torch."""
    if dtype not in _TYPES:
        accepted = ", ".join(str(known) for known in _TYPES)
        raise refuse("torch_dtype_to_dtype", "dtype", f"is {dtype}", accepted)
    return _TYPES[dtype]


def dtype_to_torch_dtype(dtype: DataType) -> torch.dtype:
    """torch's name of an element type; packed types (BIT, FP4) have none."""
    if dtype not in _TORCH:
        accepted = ", ".join(str(known) for known in _TORCH)
        raise refuse("dtype_to_torch_dtype", "dtype", f"is {dtype}", accepted)
    return _TORCH[dtype]


@dataclass(frozen=True)
class Storage:
    """The memory of a tensor: a torch tensor of words, with its strides."""

    data: torch.Tensor

    @property
    def device(self) -> torch.device:
        return self.data.device


@dataclass(frozen=True)
class Tensor:
    """Elements of a type, of a shape, in words of a storage.

    Attributes:
        storage: bits are words of 32 (rows, words); FP4 has two elements a byte.
        dtype, shape: of the elements.
        shape_max: the shape of what memory is there for.
    """

    storage: Storage
    dtype: DataType
    shape: tuple[int, ...]
    shape_max: tuple[int, ...]

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def device(self) -> torch.device:
        return self.storage.device

    @property
    def data(self) -> torch.Tensor:
        return self.storage.data

    def stride(self, dim: int | None = None) -> int | tuple[int, ...]:
        """In words of the storage."""
        return self.data.stride() if dim is None else self.data.stride(dim)

    def data_ptr(self) -> int:
        return self.data.data_ptr()

    def numel(self) -> int:
        return prod(self.shape)

    def element_size(self) -> int:
        return self.data.element_size()

    def dim(self) -> int:
        return self.ndim

    def size(self, dim: int | None = None) -> int | tuple[int, ...]:
        return self.shape if dim is None else self.shape[dim]


def wrap_torch_tensor(
    torch_tensor: torch.Tensor, dtype: DataType | None = None,
    shape: Sequence[int] | None = None, shape_max: Sequence[int] | None = None,
) -> Tensor:  # fmt: skip
    """A torch tensor's memory as elements of `dtype`; of torch's type if none is given."""
    dtype = torch_dtype_to_dtype(torch_tensor.dtype) if dtype is None else dtype
    if shape is None:
        sizes = list(torch_tensor.shape)
        if sizes:
            packed = torch_tensor.stride().index(1) if 1 in torch_tensor.stride() else -1
            bits = torch_tensor.element_size() * 8
            sizes[packed] = sizes[packed] * bits // dtype.bitwidth
        shape = sizes
    shape = tuple(shape)
    return Tensor(
        Storage(torch_tensor), dtype, shape, shape if shape_max is None else tuple(shape_max)
    )
