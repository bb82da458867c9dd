"""Tensors with element types that torch has no name for, over memory that torch holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch

from tritium_kernels.errors import check_given, check_kind, check_sizes, refuse
from tritium_kernels.tensor_details import dtype as types
from tritium_kernels.tensor_details.dtype import DataType
from tritium_kernels.tensor_details.layout_details.base import Layout
from tritium_kernels.tensor_details.layout_details.strided import StridedLayout

_TORCH = {
    types.UINT8: torch.uint8, types.FP8_E4M3FN: torch.float8_e4m3fn,
    types.FP8_E4M3FNUZ: torch.float8_e4m3fnuz, types.FP8_E5M2: torch.float8_e5m2,
    types.BF16: torch.bfloat16, types.FP16: torch.float16, types.FP32: torch.float32,
    types.FP64: torch.float64, types.INT16: torch.int16, types.INT32: torch.int32,
    types.INT64: torch.int64,
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
    """The memory of a tensor: a torch tensor of words, with its strides, and what they hold."""

    data: torch.Tensor
    layout: Layout

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
        """The strides in words of the storage."""
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


def _element_shape(data: torch.Tensor, dtype: DataType) -> list[int]:
    """The shape of the elements in a torch tensor, packed along its adjacent dimension."""
    sizes = list(data.shape)
    bits = data.element_size() * 8
    if sizes and dtype.bitwidth < bits:
        packed = StridedLayout.of(data).major_dim
        sizes[packed] = sizes[packed] * bits // dtype.bitwidth
    return sizes


def wrap_torch_tensor(
    torch_tensor: torch.Tensor, dtype: DataType | None = None,
    shape: Sequence[int] | None = None, shape_max: Sequence[int] | None = None,
    layout: Layout | None = None,
) -> Tensor:  # fmt: skip
    """A torch tensor's memory as elements of `dtype`; of torch's type if none is given.

    `layout`: how they lie there; if not given, by strides, packed along the adjacent dimension.
    """
    op = "wrap_torch_tensor"
    check_given(op, torch.Tensor, torch_tensor=torch_tensor)
    check_kind(op, DataType, dtype=dtype)
    check_kind(op, Layout, layout=layout)
    for name, sizes in (("shape", shape), ("shape_max", shape_max)):
        if sizes is not None:
            check_sizes(op, name, sizes)
    dtype = torch_dtype_to_dtype(torch_tensor.dtype) if dtype is None else dtype
    if shape is None:
        if layout is not None and not isinstance(layout, StridedLayout):
            raise refuse(op, "shape", "is None", f"one, for {layout.name}")
        shape = _element_shape(torch_tensor, dtype)
    shape = tuple(shape)
    storage = Storage(torch_tensor, StridedLayout.of(torch_tensor) if layout is None else layout)
    return Tensor(storage, dtype, shape, shape if shape_max is None else tuple(shape_max))


def convert_layout(tensor: Tensor, layout: Layout, **layout_transformation_kwargs: Any) -> Tensor:
    """The tensor in another layout.

    `layout_transformation_kwargs`: further arguments of the layout's `make_transformation`.
    """
    check_given("convert_layout", Tensor, tensor=tensor)
    check_given("convert_layout", Layout, layout=layout)
    if tensor.dtype.bitwidth < 4:
        raise refuse("convert_layout", "tensor", f"has elements {tensor.dtype}", "4 bits or more")
    old = tensor.storage.layout
    if old.can_preserve_storage_as(layout):
        return tensor
    packed = tensor.dtype == types.FP4
    plain = old.make_transformation(tensor.shape, packed).unswizzle_data(tensor.data)
    way = layout.make_transformation(tensor.shape, packed, **layout_transformation_kwargs)
    storage = Storage(way.swizzle_data(plain), layout)
    return Tensor(storage, tensor.dtype, tensor.shape, tensor.shape_max)


def empty(
    shape: Sequence[int], dtype: DataType, device: str | torch.device,
    layout: Layout | None = None, allow_implicit_conversion: bool = False,
) -> Tensor:  # fmt: skip
    """Memory for a tensor; elements come as they are.

    `allow_implicit_conversion`: layouts that no strides describe are made by converting one that
    they do; without it they are refused.
    """
    check_sizes("empty", "shape", shape)
    check_given("empty", DataType, dtype=dtype)
    check_kind("empty", Layout, layout=layout)
    layout = StridedLayout() if layout is None else layout
    sizes = list(shape)
    if dtype == types.FP4:
        if not sizes or sizes[-1] % 2:
            found = f"is {tuple(sizes)}"
            raise refuse("empty", "shape", found, "an even number of FP4 in the last dimension")
        sizes[-1] //= 2
        word = torch.uint8
    else:
        word = dtype_to_torch_dtype(dtype)
    plain = wrap_torch_tensor(
        torch.empty(sizes, dtype=word, device=device), dtype, tuple(shape), layout=StridedLayout()
    )
    if not isinstance(layout, StridedLayout) and not allow_implicit_conversion:
        accepted = "a StridedLayout, or allow_implicit_conversion"
        raise refuse("empty", "layout", f"is {layout.name}", accepted)
    return convert_layout(plain, layout)
