"""Rearrangements of a value that is also used as it is: code grows with the number of stages, and
does not double in each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tritium
import tritium.language as tl

N = 256


@tritium.jit
def gathers(p, o, STAGES: tl.constexpr):
    i = tl.arange(0, 256)
    x = tl.load(p + i)
    for s in tl.static_range(STAGES):
        x = 0.5 * (x + tl.gather(x, i ^ (1 << s % 8), 0))
    tl.store(o + i, x)


@tritium.jit
def thrice(p, o, STAGES: tl.constexpr):
    i = tl.arange(0, 256)
    x = tl.load(p + i)
    for s in tl.static_range(STAGES):
        x = 0.25 * (2 * x + tl.gather(x, i ^ (1 << s % 8), 0) + tl.flip(x, 0))
    tl.store(o + i, x)


@tritium.jit
def permutes(p, o, STAGES: tl.constexpr):
    i = tl.arange(0, 256)
    x = tl.load(p + i)
    for _ in tl.static_range(STAGES):
        x = 0.5 * (x + tl.reshape(tl.permute(tl.reshape(x, (4, 8, 8)), (2, 0, 1)), (256,)))
    tl.store(o + i, x)


@tritium.jit
def splits(p, o, STAGES: tl.constexpr):
    i = tl.arange(0, 256)
    x = tl.load(p + i)
    for _ in tl.static_range(STAGES):
        a, b = tl.split(tl.reshape(x, (128, 2)))
        x = tl.reshape(tl.join(0.5 * (a + b), 0.5 * (a - b)), (256,))
        x = tl.reshape(tl.trans(tl.reshape(x, (128, 2))), (256,))
    tl.store(o + i, x)


@tritium.jit
def scans(p, o, STAGES: tl.constexpr):
    """Sums of all elements up to each, by Hillis and Steele."""
    i = tl.arange(0, 256)
    x = tl.load(p + i)
    for s in tl.static_range(STAGES):
        d = 1 << s % 8
        x = x + tl.where(i >= d, tl.gather(x, tl.maximum(i - d, 0), 0), 0.0)
        x = x * 0.5
    tl.store(o + i, x)


@tritium.jit
def bitonic(p, o, STAGES: tl.constexpr):
    i = tl.arange(0, 256)
    x = tl.load(p + i)
    for s in tl.static_range(STAGES):
        d = 1 << s % 8
        y = tl.gather(x, i ^ d, 0)
        x = tl.where((i & d) == 0, tl.minimum(x, y), tl.maximum(x, y))
    tl.store(o + i, x)


@tritium.jit
def in_loops(p, o, STAGES: tl.constexpr):
    i = tl.arange(0, 256)
    x = tl.load(p + i)
    for s in tl.static_range(STAGES):
        for _ in range(2):
            x = 0.5 * (x + tl.gather(x, i ^ (1 << s % 8), 0))
            x = 0.5 * (x + tl.flip(x, 0))
    tl.store(o + i, x)


def _numpy(name: str, x: Any, stages: int) -> Any:
    i = np.arange(N)
    for s in range(stages):
        d = 1 << s % 8
        if name == "gathers":
            x = 0.5 * (x + x[i ^ d])
        elif name == "thrice":
            x = 0.25 * (2 * x + x[i ^ d] + x[::-1])
        elif name == "permutes":
            x = 0.5 * (x + x.reshape(4, 8, 8).transpose(2, 0, 1).reshape(N))
        elif name == "splits":
            a, b = x[0::2], x[1::2]
            x = np.stack([0.5 * (a + b), 0.5 * (a - b)], 1).reshape(128, 2).T.reshape(N)
        elif name == "scans":
            x = 0.5 * (x + np.where(i >= d, x[np.maximum(i - d, 0)], 0))
        elif name == "bitonic":
            x = np.where(i & d == 0, np.minimum(x, x[i ^ d]), np.maximum(x, x[i ^ d]))
        else:
            for _ in range(2):
                x = 0.5 * (x + x[i ^ d])
                x = 0.5 * (x + x[::-1])
    return x


KERNELS = (gathers, thrice, permutes, splits, scans, bitonic, in_loops)


@pytest.mark.every(4)
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.__name__)
def test_code_grows_with_the_number_of_stages(kernel: Any) -> None:
    x = np.random.default_rng(0).standard_normal(N).astype(np.float32)
    sizes: list[int] = []
    for stages in (6, 12):
        out = np.zeros_like(x)
        compiled = kernel[(1,)](x, out, STAGES=stages)
        wanted = _numpy(kernel.__name__, x.astype(np.float64), stages)
        np.testing.assert_allclose(out, wanted, rtol=1e-4, atol=1e-5)
        sizes.append(len(compiled.asm["llir"]))
    assert sizes[1] < 2.5 * sizes[0], sizes
