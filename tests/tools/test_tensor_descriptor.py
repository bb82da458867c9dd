"""Descriptors made on the host: what they refuse, and that kernels take them."""

from __future__ import annotations

import numpy as np
import pytest

from tritium.tools.tensor_descriptor import TensorDescriptor


def aligned(shape: tuple[int, ...], dtype: type = np.float32, offset: int = 0) -> np.ndarray:
    """Zeros whose memory starts `offset` bytes past a multiple of 16."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = np.zeros(size + 32, np.uint8)
    start = -memory.__array_interface__["data"][0] % 16 + offset
    return memory[start : start + size].view(dtype).reshape(shape)


def test_of_an_array():
    x = aligned((6, 8))
    made = TensorDescriptor.from_tensor(x, [2, 4])
    assert made == TensorDescriptor(x, (6, 8), [8, 1], [2, 4], "zero")


@pytest.mark.parametrize(
    ("shape", "strides", "block", "padding", "message"),
    [
        ((), (), (), "zero", "rank is 0; 1 to 5 is allowed"),
        ((1,) * 6, (1,) * 6, (1,) * 6, "zero", "rank is 6"),
        ((8, 8), (8, 1), (8,), "zero", "rank mismatch: .* strides 2, block_shape 1"),
        ((8, 8), (6, 1), (8, 8), "zero", r"strides must be 16-byte aligned; strides\[0\] is 6"),
        ((8, 8), (8, 2), (8, 8), "zero", "Last dimension must be contiguous; its stride is 2"),
        ((8, 0), (8, 1), (8, 8), "zero", r"shape must be positive; shape\[1\] is 0"),
        ((8, 8), (8, 1), (8, 3), "zero", "Shape element 1 must be a power of 2; got 3"),
        ((8, 8), (8, 1), (8, 8), "edge", "Illegal value for padding: 'edge'"),
    ],
)
def test_what_is_refused(shape, strides, block, padding, message):
    with pytest.raises(ValueError, match=message):
        TensorDescriptor(aligned((8, 8)), shape, strides, block, padding)


def test_bases_that_are_refused():
    with pytest.raises(AssertionError, match=r"base must be 16-byte aligned; .* 4 bytes past"):
        TensorDescriptor.from_tensor(aligned((4, 4), offset=4), [4, 4])
    with pytest.raises(AssertionError, match="`nan` is only supported for floating point"):
        TensorDescriptor.from_tensor(aligned((4, 4), np.int32), [4, 4], "nan")
    assert TensorDescriptor.from_tensor(aligned((4, 4)), [4, 4], "nan").padding == "nan"
