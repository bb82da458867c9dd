"""Indices of extremes among NaN, infinities and equal numbers, against NumPy."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tritium
import tritium.language as tl


@tritium.jit
def extremes(x, o, N: tl.constexpr, LEFT: tl.constexpr):
    v = tl.load(x + tl.arange(0, N))
    _, largest = tl.max(v, 0, return_indices=True, return_indices_tie_break_left=LEFT)
    _, smallest = tl.min(v, 0, return_indices=True, return_indices_tie_break_left=LEFT)
    tl.store(o, largest)
    tl.store(o + 1, smallest)


MANY, FEW = (0.4, 0.05, 0.05, 0.2, 0.1, 0.1, 0.1), (0.94, *(0.01,) * 6)


@pytest.mark.parametrize("size", [1, 2, 4, 16, 64, 256, 2048])
def test_nan_is_passed_over(size: int) -> None:
    source = np.random.default_rng(size)
    numbers = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1, 2], np.float32)
    for trial in range(30):
        x = source.choice(numbers, size, p=FEW if trial % 3 == 0 else MANY)
        numbers_only = x[~np.isnan(x)]
        ends = [numbers_only.max(), numbers_only.min()] if numbers_only.size else []
        out = np.full(2, -1, np.int32)
        extremes[(1,)](x, out, N=size, LEFT=True)
        # Not `nanargmax`, which takes NaN for -inf.
        assert [*out] == ([np.flatnonzero(x == end)[0] for end in ends] or [0, 0])
        extremes[(1,)](x, out, N=size, LEFT=False)
        assert not ends or [*x[out]] == ends


@tritium.jit
def largest_at(x, o, N: tl.constexpr):
    tl.store(o, tl.argmax(tl.load(x + tl.arange(0, N)), 0))


def test_the_accumulator_waits_for_one_comparison() -> None:
    """The test of new elements for NaN goes first; their comparison is done under its mask."""
    x, out = np.zeros(1024, np.float32), np.zeros(1, np.int32)
    text = largest_at.warmup(x, out, 1024, grid=(1,), arch="skylake-avx512").asm["asm"]
    loop = re.search(r"^\.L\w+:.*?\n((?:(?!^\.L).*\n)*?.*\tjl\t)", text, re.M)
    assert loop is not None and "vcmpordps" in loop[1] and "korw" not in loop[1], text
