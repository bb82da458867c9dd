"""Gluon programs, each with a check against NumPy: `check(launch)`; see `support.launcher`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.gluon.support import Launch
from tritium.experimental import gluon
from tritium.experimental.gluon import language as gl

_LAYOUTS = (
    gl.BlockedLayout([1], [32], [4], [0]),
    gl.BlockedLayout([4], [32], [4], [0]),
    gl.BlockedLayout([8], [32], [4], [0]),
    gl.SliceLayout(1, gl.BlockedLayout([2, 2], [8, 4], [2, 2], [1, 0])),
    gl.DistributedLinearLayout([[1], [2]], [[4], [8], [16], [32], [64]], [[128], [256]], [], [512]),
    gl.CoalescedLayout(),
)


@gluon.jit
def copy_kernel(src, out, n, layout: gl.constexpr, BLOCK: gl.constexpr):
    offsets = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, layout)
    gl.store(out + offsets, gl.load(src + offsets, mask=offsets < n), mask=offsets < n)


def copies(launch: Launch) -> None:
    source = np.arange(1300, dtype=np.float32)
    for layout in _LAYOUTS:
        out = np.zeros_like(source)
        launch(copy_kernel, (4,), source, out, 1200, layout=layout, BLOCK=512)
        np.testing.assert_array_equal(out[:1200], source[:1200])
        assert not out[1200:].any()


@gluon.jit
def transpose_kernel(src, out, M: gl.constexpr, N: gl.constexpr):
    rows: gl.constexpr = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0])
    columns: gl.constexpr = gl.BlockedLayout([4, 1], [8, 4], [1, 4], [0, 1])
    i = gl.arange(0, M, gl.SliceLayout(1, rows))[:, None]
    j = gl.arange(0, N, gl.SliceLayout(0, rows))[None, :]
    x = gl.convert_layout(gl.load(src + i * N + j), columns)
    i = gl.arange(0, M, gl.SliceLayout(1, columns))[:, None]
    j = gl.arange(0, N, gl.SliceLayout(0, columns))[None, :]
    gl.store(out + j * M + i, x)


def transposes(launch: Launch) -> None:
    source = np.arange(64 * 32, dtype=np.float32).reshape(64, 32)
    out = np.zeros((32, 64), np.float32)
    launch(transpose_kernel, (1,), source, out, M=64, N=32)
    np.testing.assert_array_equal(out, source.T)


@gluon.jit
def softmax_kernel(src, out, N: gl.constexpr, layout: gl.constexpr):
    i = gl.program_id(0) * 16 + gl.arange(0, 16, gl.SliceLayout(1, layout))
    j = gl.arange(0, N, gl.SliceLayout(0, layout))
    offsets = i[:, None] * N + j[None, :]
    x = gl.load(src + offsets)
    x = gl.exp(x - gl.max(x, 1)[:, None])
    gl.store(out + offsets, x / gl.sum(x, axis=1)[:, None])


def softmax(launch: Launch) -> None:
    source = np.random.default_rng(0).standard_normal((32, 64), np.float32)
    exps = np.exp(source - source.max(1, keepdims=True))
    wanted = exps / exps.sum(1, keepdims=True)
    for layout in (gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0]),
                   gl.BlockedLayout([2, 1], [2, 16], [1, 4], [0, 1])):  # fmt: skip
        out = np.zeros_like(source)
        launch(softmax_kernel, (2,), source, out, N=64, layout=layout)
        np.testing.assert_allclose(out, wanted, rtol=1e-5, atol=1e-7)


@gluon.jit
def auto_kernel(src, out, layout: gl.constexpr):
    i = gl.arange(0, 16)[:, None]
    j = gl.arange(0, 32)[None, :]
    offsets = gl.set_auto_layout(i * 32 + j, layout)
    x = gl.load(src + offsets) + gl.full([16, 32], 2.0, gl.float32)
    total = gl.zeros([16], gl.float32, gl.SliceLayout(1, layout))
    for _ in range(3):
        total += gl.sum(x, 1)
    gl.store(out + gl.arange(0, 16), total)


def automatic_layouts(launch: Launch) -> None:
    source = np.arange(16 * 32, dtype=np.float32).reshape(16, 32)
    out = np.zeros(16, np.float32)
    layout = gl.BlockedLayout([1, 2], [8, 4], [1, 4], [1, 0])
    launch(auto_kernel, (1,), source, out, layout=layout)
    np.testing.assert_allclose(out, 3 * (source + 2).sum(1))


@gluon.jit
def shapes_kernel(src, out, layout: gl.constexpr):
    i = gl.arange(0, 32, gl.SliceLayout(1, layout))[:, None]
    j = gl.arange(0, 16, gl.SliceLayout(0, layout))[None, :]
    offsets = i * 16 + j
    x = gl.load(src + offsets)
    pairs = gl.join(x, -x)  # 32 x 16 x 2
    a, b = gl.split(gl.permute(gl.reshape(gl.permute(pairs, (0, 2, 1)), (32, 2, 16)), (0, 2, 1)))
    gl.static_assert(a.type.layout == gl.SliceLayout(2, pairs.type.layout))
    gl.store(out + offsets, gl.convert_layout(a - 2 * b, layout, assert_trivial=True))


def shapes(launch: Launch) -> None:
    source = np.arange(32 * 16, dtype=np.int32).reshape(32, 16)
    out = np.zeros_like(source)
    launch(shapes_kernel, (1,), source, out,
           layout=gl.BlockedLayout([1, 2], [8, 4], [4, 1], [1, 0]))  # fmt: skip
    np.testing.assert_array_equal(out, 3 * source)


@gluon.jit
def scale(x, factor: gl.constexpr):
    return x * factor


@gluon.jit
def helpers_kernel(src, out, layout: gl.constexpr):
    i = gl.arange(0, 128, layout)
    x = scale(gl.load(src + i), 3)
    if gl.program_id(0) == 0:
        x = scale(x, 2)
    gl.store(out + i, gl.where(x > 100, gl.cumsum(x, 0), gl.zeros_like(x)))


def helpers(launch: Launch) -> None:
    source, out = np.arange(128, dtype=np.int32), np.zeros(128, np.int32)
    launch(helpers_kernel, (1,), source, out, layout=gl.BlockedLayout([1], [32], [4], [0]))
    scaled = source * 6
    np.testing.assert_array_equal(out, np.where(scaled > 100, scaled.cumsum(), 0))


@gluon.jit
def counted_kernel(out, num_warps: gl.constexpr):
    i = gl.arange(0, 256, gl.BlockedLayout([1], [32], [num_warps], [0]))
    gl.store(out + i, i * gl.num_warps())


def parameters_that_are_options(launch: Launch) -> None:
    for warps in (4, 8, 4):
        out = np.zeros(256, np.int32)
        launch(counted_kernel, (1,), out, num_warps=warps)
        np.testing.assert_array_equal(out, np.arange(256) * warps)


@gluon.jit
def places_kernel(src, out, layout: gl.constexpr):
    i = gl.arange(0, 16, gl.SliceLayout(1, layout))
    j = gl.arange(0, 32, gl.SliceLayout(0, layout))
    x = gl.load(src + i[:, None] * 32 + j[None, :])
    best, place = gl.max(x, axis=1, return_indices=True)
    gl.store(out + i, best * 32 + place)
    gl.store(out + 16 + j, gl.min(x, axis=0, return_indices=True)[1])


def places_of_the_largest(launch: Launch) -> None:
    source = np.random.default_rng(9).integers(0, 20, (16, 32)).astype(np.int32)
    wanted = np.concatenate([source.max(1) * 32 + source.argmax(1), source.argmin(0)])
    for layout in (gl.BlockedLayout([1, 2], [4, 8], [2, 2], [1, 0]),
                   gl.BlockedLayout([2, 1], [8, 4], [1, 4], [0, 1])):  # fmt: skip
        out = np.zeros(48, np.int32)
        launch(places_kernel, (1,), source, out, layout=layout)
        np.testing.assert_array_equal(out, wanted)


@gluon.jit
def fp4_kernel(src, rows_out, columns_out, layout: gl.constexpr):
    i = gl.arange(0, 16, gl.SliceLayout(1, layout))
    j = gl.arange(0, 32, gl.SliceLayout(0, layout))
    x = gl.load(src + i[:, None] * 32 + j[None, :])
    y = gl.fp4_to_fp(x, gl.float16, axis=1)
    i = gl.arange(0, 16, gl.SliceLayout(1, y.type.layout))
    j = gl.arange(0, 64, gl.SliceLayout(0, y.type.layout))
    gl.store(rows_out + i[:, None] * 64 + j[None, :], y.to(gl.float32))
    z = gl.fp4_to_fp(x, gl.bfloat16, axis=0)
    i = gl.arange(0, 32, gl.SliceLayout(1, z.type.layout))
    j = gl.arange(0, 32, gl.SliceLayout(0, z.type.layout))
    gl.store(columns_out + i[:, None] * 32 + j[None, :], z.to(gl.float32))


def numbers_of_four_bits(launch: Launch) -> None:
    source = np.arange(512).astype(np.uint8).reshape(16, 32)
    values = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)
    values = np.concatenate([values, -values])
    pairs = values[np.stack([source & 15, source >> 4], -1)]
    rows, columns = np.zeros((16, 64), np.float32), np.zeros((32, 32), np.float32)
    launch(fp4_kernel, (1,), source, rows, columns,
           layout=gl.BlockedLayout([1, 2], [4, 8], [2, 2], [1, 0]))  # fmt: skip
    np.testing.assert_array_equal(rows, pairs.reshape(16, 64))
    np.testing.assert_array_equal(columns, pairs.transpose(0, 2, 1).reshape(32, 32))


PROGRAMS: dict[str, Any] = {
    check.__name__: check
    for check in (copies, transposes, softmax, automatic_layouts, shapes, helpers,
                  parameters_that_are_options, places_of_the_largest,
                  numbers_of_four_bits)
}  # fmt: skip
"""The programs that need no more than threads and shared memory."""
