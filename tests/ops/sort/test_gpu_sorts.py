"""Sorts, gathers and histograms on a GPU, against torch."""

from __future__ import annotations

from typing import Any

import pytest

import tritium
import tritium.language as tl

pytestmark = pytest.mark.gpu


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch")


@tritium.jit
def sorts(x, o, M: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(o + at, tl.flip(tl.sort(tl.load(x + at)), 1))


@pytest.mark.parametrize("shape", [(1, 4), (2, 64), (16, 32), (1, 512)])
@pytest.mark.parametrize("warps", [4, 8])
def test_sorts(torch: Any, shape: tuple[int, int], warps: int):
    x = torch.randint(-50, 50, shape, dtype=torch.int32, device="cuda")
    o = torch.zeros_like(x)
    sorts[(1,)](x, o, *shape, num_warps=warps)
    assert torch.equal(o, x.sort(1, descending=True).values)


@tritium.jit
def picks(x, i, o, h, M: tl.constexpr, N: tl.constexpr, BINS: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    index = tl.load(i + at)
    tl.store(o + at, tl.gather(tl.load(x + at), index, 1))
    counts = tl.histogram(tl.reshape(index, [M * N]), BINS)
    tl.store(h + tl.arange(0, BINS), counts)


@pytest.mark.parametrize("shape", [(1, 16), (8, 32), (64, 128)])
def test_gather_and_histogram(torch: Any, shape: tuple[int, int]):
    x = torch.randn(shape, device="cuda")
    i = torch.randint(0, shape[1], shape, dtype=torch.int32, device="cuda")
    o, bins = torch.zeros_like(x), shape[1] // 2
    h = torch.zeros(bins, dtype=torch.int32, device="cuda")
    picks[(1,)](x, i, o, h, *shape, BINS=bins)
    assert torch.equal(o, x.gather(1, i.long()))
    counts = torch.bincount(i.flatten(), minlength=2 * bins)[:bins]
    assert torch.equal(h, counts.to(torch.int32))
