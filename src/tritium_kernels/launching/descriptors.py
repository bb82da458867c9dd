"""Tensor descriptors of torch tensors, where the copy engine of the device can read them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from torch import Tensor

from tritium.tools.tensor_descriptor import TensorDescriptor
from tritium_kernels.launching.launch import device_class

COPY_ENGINES = {"hopper"}
"""The classes of devices (`launch.device_class`) whose engine copies blocks of tensors."""


def is_readable(x: Tensor) -> bool:
    """True if x's device has an engine that can read blocks of x: elements of at most 2 bytes,
    adjacent along the last axis; the address and the other strides are multiples of 16 bytes."""
    return _has_engine(x) and _is_regular(x.itemsize, x.shape, x.stride())


def _has_engine(x: Tensor) -> bool:
    """True if x's device has an engine that can read from x's address on."""
    return device_class(x.device) in COPY_ENGINES and not x.data_ptr() % 16


@lru_cache(maxsize=4096)
def _is_regular(size: int, shape: Sequence[int], strides: Sequence[int]) -> bool:
    """True if the engine can read blocks of tensors with elements of `size` bytes."""
    *outer, last = strides
    if size > 2 or last != 1 or 0 in shape:
        return False
    return all(stride > 0 and not stride * size % 16 for stride in outer)


def describe(x: Tensor, block: Sequence[int]) -> TensorDescriptor:
    """A descriptor of x, which has strides as `is_readable` wants, with blocks of this shape."""
    return TensorDescriptor.unchecked(x, list(x.shape), list(x.stride()), list(block))


class _View(NamedTuple):
    """A descriptor without its memory, and whether it describes transposed matrices."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    block: tuple[int, ...]
    transposed: bool


@lru_cache(maxsize=4096)
def _view(
    size: int, shape: tuple[int, ...], strides: tuple[int, ...], rows: int, columns: int
) -> _View | None:
    """The view of matrices by blocks of `rows` and `columns`; kept from call to call, as it takes
    as long to find as a small product."""
    if _is_regular(size, shape, strides):
        return _View(shape, strides, (1, rows, columns), False)
    (batch, m, n), (s, down, across) = shape, strides
    if _is_regular(size, (batch, n, m), (s, across, down)):
        return _View((batch, n, m), (s, across, down), (1, columns, rows), True)
    return None


def blocks_of(x: Tensor, rows: int, columns: int) -> tuple[TensorDescriptor, bool] | None:
    """A descriptor of (batch, m, n) with blocks of (1, rows, columns), and whether it describes the
    transposed matrices; None where there is none."""
    if not _has_engine(x):
        return None
    view = _view(x.itemsize, x.shape, x.stride(), rows, columns)
    if view is None:
        return None
    return TensorDescriptor.unchecked(x, view.shape, view.strides, view.block), view.transposed
