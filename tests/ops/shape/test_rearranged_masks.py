"""Masked loads and gathers whose tile is rearranged, reshaped or reduced before it is stored."""

from typing import Any

import numpy as np
import pytest

import tritium
import tritium.language as tl


@tritium.jit
def split_sum(p, o, n, N: tl.constexpr):
    j = tl.arange(0, N)
    x = tl.load(p + j, mask=j < n, other=0.0)
    a, b = tl.split(tl.reshape(x, (N // 2, 2)))
    tl.store(o + tl.arange(0, N // 2), a + b)


@tritium.jit
def upper_half(p, o, n, N: tl.constexpr):
    j = tl.arange(0, N)
    x = tl.load(p + j, mask=j < n, other=0.0)
    h = tl.arange(0, N // 2)
    tl.store(o + h, tl.gather(x, h + N // 2, 0))


@tritium.jit
def row(p, o, n, N: tl.constexpr):
    j = tl.arange(0, N)[None, :]
    x = tl.load(p + j, mask=j < n, other=0.0)
    tl.store(o + tl.arange(0, N), tl.reshape(x, (N,)))


@pytest.mark.parametrize("size", [64, 128, 256])
def test_a_masked_load_that_is_rearranged(size: int) -> None:
    p = np.arange(1, size + 1, dtype=np.float32)
    for n in (size - size // 4, size // 2, size, 0):
        x = np.where(np.arange(size) < n, p, 0)
        pairs = x[::2] + x[1::2]
        for kernel, wanted in ((split_sum, pairs), (upper_half, x[size // 2 :]), (row, x)):
            out = np.full(wanted.shape, -1, np.float32)
            kernel[(1,)](p, out, n, N=size)
            np.testing.assert_array_equal(out, wanted)


@tritium.jit
def total(x, o, n, M: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(o, tl.sum(tl.load(x + i, mask=i < n, other=0)))


@tritium.jit
def total_of_columns(x, o, m, n, M: tl.constexpr, N: tl.constexpr):
    i, j = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    v = tl.load(x + i * N + j, mask=(i < m) & (j < n), other=0)
    tl.store(o, tl.sum(tl.reshape(v, (M * N,))))


@pytest.mark.parametrize("shape", [(4, 4), (8, 8), (16, 64), (128, 8)])
def test_the_sum_of_a_masked_tile_of_two_dimensions(shape: tuple[int, int]) -> None:
    x = np.arange(1, shape[0] * shape[1] + 1, dtype=np.int32)
    out = np.zeros(1, np.int32)
    for n in (0, 3, x.size // 2 + 1, x.size - 3, x.size):
        total[(1,)](x, out, n, *shape)
        assert out[0] == x[:n].sum()
    for m, n in ((0, 3), (3, 2), (shape[0], shape[1] - 1), (shape[0] - 1, shape[1]), shape):
        total_of_columns[(1,)](x, out, m, n, *shape)
        assert out[0] == x.reshape(shape)[:m, :n].sum()


@tritium.jit
def of_flipped(x, indices, o, M: tl.constexpr, N: tl.constexpr, FLIP: tl.constexpr):
    i = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    v = tl.flip(tl.load(x + i), FLIP)
    tl.store(o + i, tl.gather(v, tl.load(indices + i), 0))


@tritium.jit
def of_joined(x, indices, o, M: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, M)[:, None] * (N // 2) + tl.arange(0, N // 2)[None, :]
    v = tl.reshape(tl.join(tl.load(x + i), tl.load(x + i) * 2), (M, N))
    k = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(o + k, tl.gather(v, tl.load(indices + k), 0))


@tritium.jit
def by_columns(x, indices, o, M: tl.constexpr, N: tl.constexpr):
    i, j = tl.arange(0, M), tl.arange(0, N)
    v = tl.trans(tl.load(x + j[:, None] * M + i[None, :]))
    k = i[:, None] * N + j[None, :]
    tl.store(o + k, tl.gather(v, tl.load(indices + k), 0))


@tritium.jit
def falling_rows(x, o, M: tl.constexpr, N: tl.constexpr):
    i, j = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    v = tl.load(x + i * N + j)
    tl.store(o + i * N + j, tl.gather(v, M - 1 - i + j * 0, 1))


@pytest.mark.covering(1)
@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.float32])
@pytest.mark.parametrize("shape", [(4, 8), (16, 32), (32, 32)])
def test_a_gather_from_a_rearranged_tile(shape: tuple[int, int], dtype: Any) -> None:
    rng = np.random.default_rng(3)
    x = rng.integers(0, 100, shape).astype(dtype)
    indices = rng.integers(0, shape[0], shape).astype(np.int32)
    out = np.zeros_like(x)
    for axis in (0, 1):
        of_flipped[(1,)](x, indices, out, *shape, axis)
        np.testing.assert_array_equal(out, np.take_along_axis(np.flip(x, axis), indices, 0))
    half = x.reshape(-1)[: x.size // 2].reshape(shape[0], -1)
    joined = np.stack([half, half * 2], -1).reshape(shape)
    of_joined[(1,)](x, indices, out, *shape)
    np.testing.assert_array_equal(out, np.take_along_axis(joined, indices, 0))
    by_columns[(1,)](x, indices, out, *shape)
    turned = x.reshape(shape[1], shape[0]).T
    np.testing.assert_array_equal(out, np.take_along_axis(turned, indices, 0))
    falling_rows[(1,)](x, out, *shape)
    rows = np.broadcast_to(np.arange(shape[0])[::-1, None], shape)
    np.testing.assert_array_equal(out, np.take_along_axis(x, rows, 1))
