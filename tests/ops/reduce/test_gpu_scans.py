"""Scans on a GPU, against torch."""

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
def scans(x, o, M: tl.constexpr, N: tl.constexpr, AXIS: tl.constexpr, REVERSE: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(o + at, tl.cumsum(tl.load(x + at), AXIS, reverse=REVERSE))


@pytest.mark.parametrize("shape", [(1, 4), (2, 512), (64, 64), (128, 8), (1, 4096), (4, 1)])
@pytest.mark.parametrize("warps", [1, 4, 8])
def test_scans(torch: Any, shape: tuple[int, int], warps: int):
    x = torch.randint(-50, 50, shape, dtype=torch.int32, device="cuda")
    for axis in (0, 1):
        for reverse in (False, True):
            o = torch.zeros_like(x)
            scans[(1,)](x, o, *shape, AXIS=axis, REVERSE=reverse, num_warps=warps)
            want = x.flip(axis).cumsum(axis).flip(axis) if reverse else x.cumsum(axis)
            assert torch.equal(o, want.to(torch.int32)), (axis, reverse)
