"""Histograms beside NumPy: elements that do not count, masks, few and many bins."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tritium
import tritium.language as tl


@tritium.jit
def count(x, wanted, out, N: tl.constexpr, BINS: tl.constexpr, MASKED: tl.constexpr):
    at = tl.arange(0, N)
    value = tl.load(x + at)
    if MASKED:
        found = tl.histogram(value, BINS, mask=tl.load(wanted + at) > 0)
    else:
        found = tl.histogram(value, BINS)
    tl.store(out + tl.arange(0, BINS), found)


@pytest.mark.covering(1)
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int32, np.int64])
@pytest.mark.parametrize(("size", "bins"), [(1, 1), (8, 16), (64, 2), (512, 64), (4096, 1024)])
def test_counts(dtype: Any, size: int, bins: int) -> None:
    rng = np.random.default_rng(size)
    highest = min(bins - 1, np.iinfo(dtype).max)
    x = rng.integers(0, highest, size, endpoint=True).astype(dtype)
    for number, beyond in enumerate((0, 1, size // 8, size)):
        # Of some chunks all elements count, of some a few do, of some none.
        x[:beyond] = rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, beyond, endpoint=True)
        wanted = rng.integers(0, 2, size).astype(np.int8)
        wanted[size // 2 :] = 1
        out = np.full(bins, -1, np.int32)
        count[(1,)](x, wanted, out, size, bins, number % 2)
        kept = x[wanted > 0] if number % 2 else x
        inside = kept[(kept >= 0) & (kept.astype(np.int64) < bins)]
        expected = np.bincount(inside.astype(np.int64), minlength=bins)
        np.testing.assert_array_equal(out, expected)


def test_elements_are_not_tested_one_by_one() -> None:
    x, out = np.zeros(1024, np.int32), np.zeros(64, np.int32)
    text = count.warmup(x, x, out, 1024, 64, 0, grid=(1,)).asm["llir"]
    assert "llvm.vector.reduce.and.v16i1" in text
