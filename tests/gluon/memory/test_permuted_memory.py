"""Shared memory seen with its axes in other orders, and parts of such views."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from tests.gluon.support import launcher
from tritium.experimental import gluon
from tritium.experimental.gluon import language as gl

SHAPE = (4, 4, 8)
LAYOUTS = (
    gl.NVMMASharedLayout(0, 32, 3), gl.NVMMASharedLayout(32, 32, 3),
    gl.NVMMASharedLayout(0, 32, 3, transposed=True), gl.SwizzledSharedLayout(2, 1, 2, [1, 2, 0]),
    gl.PaddedSharedLayout.with_identity_for([[8, 4]], list(SHAPE), [2, 0, 1]),
)  # fmt: skip
ORDERS = tuple(itertools.permutations(range(3)))


@gluon.jit
def places(shape: gl.constexpr, layout: gl.constexpr):
    x: gl.constexpr = gl.SliceLayout(1, gl.SliceLayout(2, layout))
    y: gl.constexpr = gl.SliceLayout(0, gl.SliceLayout(2, layout))
    z: gl.constexpr = gl.SliceLayout(0, gl.SliceLayout(1, layout))
    i, j = gl.arange(0, shape[0], x)[:, None, None], gl.arange(0, shape[1], y)[None, :, None]
    return (i * shape[1] + j) * shape[2] + gl.arange(0, shape[2], z)[None, None, :]


@gluon.jit
def permuted_kernel(out, taken, half, shared: gl.constexpr, order: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1, 1, 2], [4, 4, 2], [1, 1, 1], [2, 1, 0])
    memory = gl.allocate_shared_memory(gl.int32, [4, 4, 8], shared)
    memory.store(places(memory.shape, layout))
    turned = memory.permute(order)
    at = places(turned.shape, layout)
    gl.store(out + at, turned.load(layout))
    gl.store(taken + at, turned.gather((at * 5 + 3) % turned.shape[1], 1))
    part = turned.slice(turned.shape[0] // 2, turned.shape[0] // 2, dim=0)
    gl.store(half + places(part.shape, layout), part.load(layout))


@pytest.mark.covering(1)
@pytest.mark.parametrize("how", ["interpreted", "simt"])
@pytest.mark.parametrize("shared", LAYOUTS, ids=range(len(LAYOUTS)))
def test_axes_of_three_in_any_order(how: str, shared: Any) -> None:
    whole = np.arange(np.prod(SHAPE), dtype=np.int32).reshape(SHAPE)
    for order in ORDERS:
        right = whole.transpose(order)
        at = (np.arange(right.size).reshape(right.shape) * 5 + 3) % right.shape[1]
        part = right[right.shape[0] // 2 :]
        out, taken, half = (np.zeros_like(x, order="C") for x in (right, right, part))
        launcher(how)(permuted_kernel, (1,), out, taken, half, shared=shared, order=order,
                      num_warps=1)  # fmt: skip
        np.testing.assert_array_equal(out, right, str(order))
        np.testing.assert_array_equal(taken, np.take_along_axis(right, at, 1), str(order))
        np.testing.assert_array_equal(half, part, str(order))
