"""Linear layouts of which a bit moves along several axes or by no power of two, as compiled."""

from __future__ import annotations

import numpy as np
import pytest

from tests.gluon.support import launcher
from tritium.experimental import gluon
from tritium.experimental.gluon import language as gl

TURNED = gl.DistributedLinearLayout(
    [[0, 1], [0, 8], [4, 0]], [[1, 4], [0, 2], [0, 4], [8, 0], [0, 17]], [[2, 1], [0, 16]], [],
    [16, 32],
)  # fmt: skip
"""Neighbours in a thread begin at odd columns in some warps."""
COPIES = gl.DistributedLinearLayout(
    [[0, 1], [0, 8], [4, 0], [8, 0]], [[1, 0], [0, 2], [0, 4], [0, 1], [0, 16]], [[2, 0], [0, 0]],
    [], [16, 32],
)  # fmt: skip
"""Two lanes hold the same pairs of neighbours in either order."""


@gluon.jit
def kernel(src, out, layout: gl.constexpr):
    i = gl.arange(0, 16, gl.SliceLayout(1, layout))
    j = gl.arange(0, 32, gl.SliceLayout(0, layout))
    at = i[:, None] * 32 + j[None, :]
    x = gl.load(src + at)
    gl.store(out + at, x, mask=j[None, :] < 24)
    gl.store(out + 512 + i, gl.sum(x, 1))
    gl.store(out + 528 + j, gl.max(x, 0))


@pytest.mark.parametrize("layout", [TURNED, COPIES])
def test_accesses_and_reductions(layout: gl.DistributedLinearLayout) -> None:
    source = np.random.default_rng(1).integers(-99, 99, (16, 32)).astype(np.int32)
    out = np.zeros(560, np.int32)
    launcher("simt")(kernel, (1,), source, out, layout=layout)
    wanted = np.where(np.arange(32) < 24, source, 0)
    np.testing.assert_array_equal(out[:512].reshape(16, 32), wanted)
    np.testing.assert_array_equal(out[512:528], source.sum(1))
    np.testing.assert_array_equal(out[528:], source.max(0))
