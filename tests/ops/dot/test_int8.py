"""Products of int8 on CPUs: all numbers, any order of axes, short and long sums."""

from __future__ import annotations

import numpy as np
import pytest

import tritium
import tritium.language as tl

pytestmark = pytest.mark.cpu


@tritium.jit
def product(
    a, b, c, trips, am, ak, bk, bn, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr
):  # fmt: skip
    rows, columns, depth = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    total = tl.zeros((M, N), tl.int32)
    a_at = a + rows[:, None] * am + depth[None, :] * ak
    b_at = b + depth[:, None] * bk + columns[None, :] * bn
    for _ in range(trips):
        total = tl.dot(tl.load(a_at), tl.load(b_at), total, out_dtype=tl.int32)
        a_at += K * ak
        b_at += K * bk
    tl.store(c + rows[:, None] * N + columns[None, :], total)


@pytest.mark.every(2)
@pytest.mark.covering(1)
@pytest.mark.parametrize("shape", [(16, 16, 16), (64, 64, 64), (2, 64, 32), (4, 16, 64),
                                   (128, 32, 16), (32, 4, 32), (8, 128, 8)])  # fmt: skip
@pytest.mark.parametrize("turned", ["", "a", "b", "ab"])
@pytest.mark.parametrize("trips", [1, 5, 40])
def test_all_numbers_and_orders(shape: tuple[int, int, int], turned: str, trips: int) -> None:
    m, n, k = shape
    rng = np.random.default_rng(trips)
    a = rng.integers(-128, 128, (m, k * trips)).astype(np.int8)
    b = rng.integers(-128, 128, (k * trips, n)).astype(np.int8)
    a[0], b[:, 0] = -128, -128
    a[-1], b[:, -1] = 127, 127
    held_a = np.ascontiguousarray(a.T if "a" in turned else a)
    held_b = np.ascontiguousarray(b.T if "b" in turned else b)
    steps = (1, m) if "a" in turned else (k * trips, 1)
    steps += (1, k * trips) if "b" in turned else (n, 1)
    out = np.zeros((m, n), np.int32)
    product[(1,)](held_a, held_b, out, trips, *steps, m, n, k)
    np.testing.assert_array_equal(out, a.astype(np.int64) @ b.astype(np.int64))
