"""Loads at addresses that are data, of elements smaller than what the processor gathers."""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.support.agreement import run_all
from tests.support.launching import tl
from tritium.runtime.jit import JITFunction

pytestmark = pytest.mark.cpu

DTYPES = (np.int8, np.uint8, np.bool_, np.int16, np.uint16, np.float16, ml_dtypes.bfloat16,
          ml_dtypes.float8_e5m2, np.int32, np.float64)  # fmt: skip


def by_index(x, index, out, N: tl.constexpr):
    i = tl.arange(0, N)
    at = tl.load(index + i)
    tl.store(out + i, tl.load(x + at))
    tl.store(out + N + i, tl.load(x + at * (i % 3 != 0), mask=i % 3 != 0))
    other = tl.full([N], 1, tl.int32).to(x.dtype.element_ty)
    tl.store(out + 2 * N + i, tl.load(x + at, mask=at > 20, other=other))


def values(dtype: Any, count: int) -> np.ndarray:
    codes = np.random.default_rng(0).integers(0, 256, 8 * count, np.uint8)
    if dtype is np.bool_:
        return (codes[:count] & 1).astype(np.bool_)
    return codes.view(dtype)[:count]


@pytest.mark.covering(1)
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("size", [1, 4, 64])
def test_every_dtype(dtype: Any, size: int) -> None:
    """All bits, at every place within four bytes."""
    x = values(dtype, 64)
    index = np.random.default_rng(1).integers(0, 64, size).astype(np.int32)
    out = np.zeros((3, size), dtype)
    found = run_all(by_index, x=x, index=index, out=out, N=size)["out"]
    assert found[0].tobytes() == x[index].tobytes()


def masked(x, index, out, n, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.load(x + tl.load(index + i), mask=i < n))


@pytest.mark.parametrize("dtype", [np.int8, np.int16], ids=lambda d: d.__name__)
def test_no_byte_beyond_the_page(dtype: Any) -> None:
    """Wherever an array lies in its words, and however few elements it has."""
    page, libc = mmap.PAGESIZE, ctypes.CDLL(None)
    memory = mmap.mmap(-1, 3 * page)
    data = np.frombuffer(memory, np.uint8)
    for number in (0, 2):
        place = ctypes.c_void_p(data.ctypes.data + number * page)
        assert libc.mprotect(place, ctypes.c_size_t(page), 0) == 0
    kernel, size = JITFunction(masked)[(1,)], np.dtype(dtype).itemsize
    for count in (1, 2, 3, 5, 8):
        index = np.random.default_rng(count).integers(0, count, 32).astype(np.int32)
        for shift in range(4):  # arrays that are not aligned, too
            start = page + shift
            last = 2 * page - shift - count * size
            for n, first in ((32, start), (7, start), (0, start), (32, last), (7, last)):
                x = data[first : first + count * size].view(dtype)
                x[:] = np.arange(count) + 100
                out, wild = np.zeros(32, dtype), index.copy()
                wild[n:] = 1 << 20
                kernel(x, wild, out, n, 32)
                np.testing.assert_array_equal(out[:n], x[index[:n]])
                assert not out[n:].any()
    del x, data, memory


def from_the_middle(x, index, y, out, N: tl.constexpr):
    i = tl.arange(0, N)
    at = tl.load(index + i)
    tl.store(out + at, tl.load(x + at))
    tl.store(y + i, tl.gather(tl.load(x + i), at, 0))


@pytest.mark.covering(1)
@pytest.mark.parametrize("dtype", [np.int8, np.float16, np.float32, np.float64])
@pytest.mark.parametrize("size", [2, 64])
def test_offsets_before_the_pointer(dtype: Any, size: int) -> None:
    """Lanes that are accessed one by one add signed offsets; the last store to an address wins."""
    x, out = values(dtype, 2 * size), np.zeros(2 * size, dtype)
    index = np.random.default_rng(2).integers(-size, size, size).astype(np.int32)
    y, kernel = np.zeros(size, dtype), JITFunction(from_the_middle)[(1,)]
    kernel(x[size:], index, y, out[size:], size)
    expected = np.zeros_like(out)
    for at in index + size:
        expected[at] = x[at]
    assert out.tobytes() == expected.tobytes()
    assert y.tobytes() == x[size:][index % size].tobytes()
