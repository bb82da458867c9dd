"""Tensor descriptors of torch tensors, where the copy engine of the device can read them."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from tritium.tools.tensor_descriptor import TensorDescriptor
from tritium_kernels.launching.launch import device_class

COPY_ENGINES = {"hopper"}
"""The classes of devices (`launch.device_class`) whose engine copies blocks of tensors."""


def is_readable(x: Tensor) -> bool:
    """Whether x's device has an engine that can read blocks of x: elements of at most 2 bytes,
    adjacent along the last axis; the address and the other strides are multiples of 16 bytes."""
    if device_class(x.device) not in COPY_ENGINES or x.data_ptr() % 16:
        return False
    *outer, last = x.stride()
    size = x.itemsize
    if size > 2 or last != 1 or not x.numel():
        return False
    return all(stride > 0 and not stride * size % 16 for stride in outer)


def describe(x: Tensor, block: Sequence[int]) -> TensorDescriptor:
    """A descriptor of x, which has strides as `is_readable` wants, with blocks of this shape."""
    return TensorDescriptor.unchecked(x, list(x.shape), list(x.stride()), list(block))


def blocks_of(x: Tensor, rows: int, columns: int) -> tuple[TensorDescriptor, bool] | None:
    """A descriptor of (batch, m, n) with blocks of (1, rows, columns), and whether it describes the
    transposed matrices; None where there is none."""
    if is_readable(x):
        return describe(x, (1, rows, columns)), False
    if is_readable(x.mT):
        return describe(x.mT, (1, columns, rows)), True
    return None
