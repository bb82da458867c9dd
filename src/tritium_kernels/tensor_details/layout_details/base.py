"""Layouts of tensors in memory, and how data gets into and out of them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import torch
from torch import Tensor

from tritium_kernels.errors import dtype_name, refuse


@dataclass(frozen=True)
class LayoutTransformation(ABC):
    """The way of one tensor's data into a layout and out of it.

    Plain data has the elements in the order of their indices, the last one adjacent; two FP4
    elements that are neighbours along the last dimension share a byte.

    Attributes:
        shape: of the elements.
        is_fp4: elements have 4 bits.
    """

    shape: tuple[int, ...]
    is_fp4: bool

    @abstractmethod
    def swizzle_data(self, data: Tensor) -> Tensor:
        """The storage, of plain data."""

    @abstractmethod
    def unswizzle_data(self, data: Tensor) -> Tensor:
        """The plain data, of a storage."""


class Layout(ABC):
    """A layout: values of one class are equal if they order memory in the same way."""

    NAME: ClassVar[str]

    transformation: ClassVar[type[LayoutTransformation]]
    """The class of the layout's transformations; its own attributes are those of the layout."""

    @property
    def name(self) -> str:
        """The layout's name in messages."""
        return self.NAME

    @abstractmethod
    def swizzle_block_shape(self, block_shape: Sequence[int]) -> list[int]:
        """The block of the storage that holds a block of plain data (FP4: of bytes)."""

    def make_transformation(self, shape: Sequence[int], is_fp4: bool) -> LayoutTransformation:
        """The transformation of a tensor of this shape."""
        own: Any = self
        values = (getattr(self, field.name) for field in fields(own))
        return self.transformation(tuple(shape), is_fp4, *values)

    def can_preserve_storage_as(self, layout: Layout) -> bool:
        """True if a storage in this layout is one in the other as it is."""
        return self == layout


def padded(x: Tensor, dim: int, multiple: int) -> Tensor:
    """x with zeros up to a multiple of `multiple` elements along a dimension."""
    missing = -x.shape[dim] % multiple
    if not missing:
        return x
    zeros = list(x.shape)
    zeros[dim] = missing
    return torch.cat([x, x.new_zeros(zeros)], dim)


def batched(x: Tensor) -> Tensor:
    """The tensor with all but its last two dimensions as one."""
    return x.reshape(math.prod(x.shape[:-2]), *x.shape[-2:])


def up_to(n: int, multiple: int) -> int:
    """The least multiple that is not below n."""
    return -(-n // multiple) * multiple


def block_of_rows(block_shape: Sequence[int], mx_axis: int, size: int) -> list[int]:
    """The block of a storage whose rows have `size` bytes of each column, which follow each other
    along k, the axis `mx_axis` (-1 or -2)."""
    *leading, k, n = block_shape
    if mx_axis == -1:
        k, n = n, k
    return [*leading, up_to(k, size) // size, size * n]


def last_axis(layout: str, mx_axis: int) -> int:
    """The axis counted from the last: -1 or -2; 1 and 2 are those of three."""
    if mx_axis not in (-1, -2, 1, 2):
        raise refuse(layout, "mx_axis", f"is {mx_axis}", "-1, -2; of three dimensions 2, 1")
    return mx_axis if mx_axis < 0 else mx_axis - 3


def check_bytes(layout: str, data: Tensor, e4m3: bool = False) -> None:
    """`e4m3`: scales of this type are accepted too."""
    accepted = (torch.uint8, torch.float8_e4m3fn) if e4m3 else (torch.uint8,)
    if data.dtype not in accepted or data.ndim < 2:
        found = f"has dtype {data.dtype} and {data.ndim} dimensions"
        names = " or ".join(dtype_name(dtype) for dtype in accepted)
        raise refuse(layout, "data", found, f"{names}, two dimensions or more")
