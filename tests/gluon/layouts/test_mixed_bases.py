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


REPEATED = gl.DistributedLinearLayout(
    [[4, 0], [1, 2], [0, 1], [16, 4], [16, 0]], [[8, 0], [2, 0], [32, 0], [4, 8], [0, 2]],
    [[0, 16]], [], [64, 32],
)  # fmt: skip
"""Two bits of registers add 16 to the row: of a slice's registers one is a copy of another, and
with both bits of that with none."""


@gluon.jit
def rows_kernel(src, out, kind: gl.constexpr, layout: gl.constexpr):
    rows: gl.constexpr = gl.SliceLayout(1, layout)
    i, j = gl.arange(0, 64, rows), gl.arange(0, 32, gl.SliceLayout(0, layout))
    if kind == "load":
        x = gl.load(src + i)
    elif kind == "scan":
        x = gl.cumsum(gl.load(src + i), 0)
    elif kind == "atomic":
        x = gl.atomic_add(src + i, 0)
    else:
        plain: gl.constexpr = gl.BlockedLayout([1], [32], [2], [0])
        memory = gl.allocate_shared_memory(
            gl.int32, [64], gl.SwizzledSharedLayout(1, 1, 1, [0]),
            gl.load(src + gl.arange(0, 64, plain)),
        )  # fmt: skip
        x = memory.load(rows)
    at = i[:, None] * 32 + j[None, :]
    gl.store(out + at, x[:, None] + gl.zeros([64, 32], gl.int32, layout))


@pytest.mark.parametrize("kind", ["load", "scan", "atomic", "shared"])
def test_repeated_bits_of_registers(kind: str) -> None:
    source = np.random.default_rng(1).integers(-99, 99, 64).astype(np.int32)
    out = np.zeros((64, 32), np.int32)
    launcher("simt")(rows_kernel, (1,), source, out, kind=kind, layout=REPEATED, num_warps=2)
    wanted = np.cumsum(source) if kind == "scan" else source
    np.testing.assert_array_equal(out, np.repeat(wanted[:, None], 32, 1))
