"""Sums and differences of ranges that are widened to 64 bits."""

import numpy as np
import pytest

import tritium
import tritium.language as tl


@tritium.jit
def values(o, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(o + i, i.to(tl.int64) + (i % 8).to(tl.int64))


@tritium.jit
def masked(o, n, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(o + i, 1, mask=i.to(tl.int64) + (i % 8).to(tl.int64) < n)


@tritium.jit
def addressed(p, o, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(o + i, tl.load(p + (i.to(tl.int64) + (i % 8).to(tl.int64)) // 2))


@tritium.jit
def row_sums(q):
    x = tl.reshape(tl.arange(0, 128).to(tl.int64), (2, 64)) - tl.arange(0, 64).to(tl.int64)[None, :]
    tl.store(q + tl.arange(0, 2), tl.sum(x, 1))


@tritium.jit
def selected(o, N: tl.constexpr):
    i = tl.arange(0, N)
    other = tl.program_id(0) + tl.zeros((N,), tl.int32) != 0
    tl.store(o + i, i.to(tl.int64) + tl.where(other, (i + 1).to(tl.int64), (i + 100).to(tl.int64)))


@tritium.jit
def scaled(o, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(o + i, (i * (i // 32)).to(tl.int64) + i)


@pytest.mark.parametrize("size", [32, 64, 256])
def test_sums_of_wide_ranges(size: int) -> None:
    i = np.arange(size)
    wide, narrow = np.zeros(size, np.int64), np.zeros(size, np.int32)
    values[(1,)](wide, N=size)
    np.testing.assert_array_equal(wide, i + i % 8)
    masked[(1,)](narrow, 16, N=size)
    np.testing.assert_array_equal(narrow, i + i % 8 < 16)
    p = np.arange(2 * size, dtype=np.int32)
    addressed[(1,)](p, narrow, N=size)
    np.testing.assert_array_equal(narrow, (i + i % 8) // 2)
    selected[(1,)](wide, N=size)
    np.testing.assert_array_equal(wide, 2 * i + 100)
    scaled[(1,)](wide, N=size)
    np.testing.assert_array_equal(wide, i * (i // 32) + i)


def test_the_sum_of_the_difference_of_wide_ranges() -> None:
    q = np.zeros(2, np.int64)
    row_sums[(1,)](q)
    assert q.tolist() == [0, 4096]
