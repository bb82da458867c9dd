"""Tensor descriptors made on the host as arguments of native kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import tritium


@dataclass
class Descriptor:
    """Parts of a descriptor that a kernel needs."""

    base: np.ndarray
    shape: list[int]
    strides: list[int]
    block_shape: list[int]
    padding: str = "zero"

    @classmethod
    def of(cls, array: np.ndarray, *block: int) -> Descriptor:
        strides = [s // array.itemsize for s in array.strides]
        return cls(array, list(array.shape), strides, list(block))


@tritium.jit
def move(source: Any, target: Any, row: Any, n: Any) -> None:
    target.store([0, 0], source.load([row, 4]) + n)


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.uint8, np.float16])
def test_blocks_are_moved(dtype: Any) -> None:
    x = (np.arange(32 * 32) % 100).astype(dtype).reshape(32, 32)
    y = np.zeros((16, 32), dtype)[:, :16]
    move[(1,)](Descriptor.of(x, 8, 16), Descriptor.of(y, 8, 16), 2, 5)
    np.testing.assert_array_equal(y[:8], x[2:10, 4:20] + dtype(5))
    assert not y[8:].any()


def test_beyond_the_end_is_zero() -> None:
    x, y = np.ones((10, 16), np.float32), np.zeros((8, 16), np.float32)
    move[(1,)](Descriptor.of(x, 8, 16), Descriptor.of(y, 8, 16), 6, 0)
    expected = np.zeros((8, 16))
    expected[:4, :12] = 1
    np.testing.assert_array_equal(y, expected)


def test_a_read_only_target_is_refused() -> None:
    x, y = np.ones((8, 16), np.float32), np.zeros((8, 16), np.float32)
    y.flags.writeable = False
    with pytest.raises(Exception, match=r"target"):
        move[(1,)](Descriptor.of(x, 8, 16), Descriptor.of(y, 8, 16), 0, 0)





@tritium.jit
def extremes(low: Any, high: Any, source: Any, row: Any) -> None:
    low.atomic_min([0, 0], source.load([row, 0]))
    high.atomic_max([0, 0], source.load([row, 0]))


@pytest.mark.parametrize("dtype", [np.float16, np.int32, np.int64])
def test_smallest_and_largest(dtype: Any) -> None:
    x = (np.random.default_rng(0).integers(-900, 900, (32, 16)) / 8).astype(dtype)
    low, high = np.zeros((8, 16), dtype), np.zeros((8, 16), dtype)
    for row in range(0, 32, 8):
        extremes[(1,)](*(Descriptor.of(a, 8, 16) for a in (low, high, x)), row)
    parts = x.reshape(4, 8, 16)
    np.testing.assert_array_equal(low, np.minimum(parts.min(0), 0))
    np.testing.assert_array_equal(high, np.maximum(parts.max(0), 0))
