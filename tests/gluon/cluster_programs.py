"""Gluon programs for clusters of thread blocks, each with a check against NumPy: `check(launch)`;
see `support.launcher`."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from tests.gluon.support import Launch
from tritium.experimental import gluon
from tritium.experimental.gluon import language as gl
from tritium.experimental.gluon.language.nvidia.hopper import (
    async_store,
    cluster,
    mbarrier,
    tma,
    warpgroup_mma,
)
from tritium.experimental.gluon.nvidia.hopper import TensorDescriptor, TensorDescriptorIm2Col


@gluon.jit
def matmul_kernel(a, b, out, K, cga: gl.constexpr):
    """The blocks have the rows of the left operand, and copies of the right one."""
    M: gl.constexpr = a.block_shape[0]
    N: gl.constexpr = b.block_shape[1]
    BK: gl.constexpr = a.block_shape[1]
    mma: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16], cga)
    left = gl.allocate_shared_memory(a.dtype, [M, BK], a.layout)
    right = gl.allocate_shared_memory(b.dtype, [BK, N], b.layout)
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    cluster.barrier(relaxed=True)
    acc = gl.zeros([M, N], gl.float32, mma)
    for step in range(gl.cdiv(K, BK)):
        mbarrier.expect(bar, a.nbytes_per_cta + b.nbytes_per_cta)
        tma.async_load(a, [gl.program_id(0) * M, step * BK], bar, left)
        tma.async_load(b, [step * BK, 0], bar, right, multicast=True)
        mbarrier.wait(bar, step & 1)
        acc = warpgroup_mma(left, right, acc)
        cluster.barrier()
    mbarrier.invalidate(bar)
    i = gl.program_id(0) * M + gl.arange(0, M, gl.SliceLayout(1, mma))
    j = gl.arange(0, N, gl.SliceLayout(0, mma))
    gl.store(out + i[:, None] * N + j[None, :], acc)


def matmul(launch: Launch) -> None:
    rng = np.random.default_rng(14)
    for blocks in (2, 4):
        rows, cga = 64 * blocks, [[1 << i, 0] for i in range(blocks.bit_length() - 1)]
        a = rng.integers(-4, 5, (2 * rows, 96)).astype(np.float16)
        b = rng.integers(-4, 5, (96, 64)).astype(np.float16)
        out = np.zeros((2 * rows, 64), np.float32)
        left = gl.NVMMASharedLayout(64, 16, 2, cga_layout=cga)
        right = gl.NVMMASharedLayout(128, 16, 2, cga_layout=[[0, 0]] * len(cga))
        made = [TensorDescriptor.from_tensor(a, [rows, 32], left),
                TensorDescriptor.from_tensor(b, [32, 64], right)]  # fmt: skip
        launch(matmul_kernel, (2,), *made, out, 96, cga=cga, num_ctas=blocks)
        np.testing.assert_array_equal(out, a.astype(np.float32) @ b)


@gluon.jit
def start_kernel(out, cga: gl.constexpr, shared: gl.constexpr):
    """The first block starts all of them."""
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0], cga)
    i = gl.arange(0, 256, layout)
    memory = gl.allocate_shared_memory(gl.int32, [256], shared, i)
    go = mbarrier.allocate_mbarrier(batch=2)
    for n in gl.static_range(2):
        mbarrier.init(go.index(n), count=2 - n)
    gl.barrier(cluster=True)
    mbarrier.arrive(go.index(0), count=2, from_cta=0)
    mbarrier.wait(go.index(0), 0)
    mbarrier.arrive(go.index(1))
    mbarrier.wait(go.index(1), 0)
    gl.barrier()
    gl.store(out + i, memory.load(layout) + 1)


def starts(launch: Launch) -> None:
    out = np.zeros(256, np.int32)
    launch(start_kernel, (1,), out, cga=[[1]], num_ctas=2,
           shared=gl.SwizzledSharedLayout(1, 1, 1, [0], [[1]]))  # fmt: skip
    np.testing.assert_array_equal(out, np.arange(1, 257))


@gluon.jit
def exchange_kernel(src, out, rows: gl.constexpr, columns: gl.constexpr, shared: gl.constexpr):
    """Blocks have rows when they load, columns when they store."""
    i = gl.arange(0, 32, gl.SliceLayout(1, rows))[:, None]
    j = gl.arange(0, 64, gl.SliceLayout(0, rows))[None, :]
    memory = gl.allocate_shared_memory(gl.float32, [32, 64], shared)
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    cluster.barrier()
    mbarrier.expect(bar, memory.nbytes_per_cta)
    async_store(memory, gl.load(src + i * 64 + j), bar)
    mbarrier.wait(bar, 0)
    i = gl.arange(0, 32, gl.SliceLayout(1, columns))[:, None]
    j = gl.arange(0, 64, gl.SliceLayout(0, columns))[None, :]
    gl.store(out + i * 64 + j, memory.load(columns) * 2)


def exchanges(launch: Launch) -> None:
    source = np.arange(32 * 64, dtype=np.float32).reshape(32, 64)
    out = np.zeros_like(source)
    launch(exchange_kernel, (1,), source, out, num_ctas=2,
           rows=gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0], [[1, 0]]),
           columns=gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0], [[0, 1]]),
           shared=gl.SwizzledSharedLayout(4, 1, 4, [1, 0], [[0, 1]]))  # fmt: skip
    np.testing.assert_array_equal(out, 2 * source)


@gluon.jit
def reach_kernel(src, out, rows: gl.constexpr, columns: gl.constexpr, shared: gl.constexpr,
                 MEET: gl.constexpr):  # fmt: skip
    """Threads write to, and read from, the memory of the block that has an element."""
    i = gl.arange(0, 32, gl.SliceLayout(1, rows))[:, None]
    j = gl.arange(0, 64, gl.SliceLayout(0, rows))[None, :]
    memory = gl.allocate_shared_memory(src.dtype.element_ty, [32, 64], shared)
    cluster.barrier(relaxed=True)
    memory.store(gl.load(src + i * 64 + j))
    if MEET:
        gl.barrier(cluster=True)
    i = gl.arange(0, 32, gl.SliceLayout(1, columns))[:, None]
    j = gl.arange(0, 64, gl.SliceLayout(0, columns))[None, :]
    gl.store(out + i * 64 + j, memory.load(columns) * 2)


def reaches(launch: Launch) -> None:
    """The memory has parts as the tile that is written, as the one that is read, or as neither; of
    four blocks two have copies of each part."""
    for written, read, kept in (
        ([[1, 0]], [[0, 1]], [[1, 0]]), ([[1, 0]], [[0, 1]], [[0, 1]]),
        ([[0, 0]], [[0, 1]], [[1, 0]]), ([[1, 0], [2, 0]], [[0, 1], [0, 2]], [[0, 0], [0, 1]]),
    ):  # fmt: skip
        for dtype in (np.float32, np.float16):
            source = np.arange(32 * 64, dtype=dtype).reshape(32, 64)
            out = np.zeros_like(source)
            launch(reach_kernel, (1,), source, out, num_ctas=2 ** len(kept), MEET=True,
                   rows=gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0], written),
                   columns=gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0], read),
                   shared=gl.SwizzledSharedLayout(4, 1, 4, [1, 0], kept))  # fmt: skip
            np.testing.assert_array_equal(out, 2 * source)


@gluon.jit
def chosen_kernel(src, out, line: gl.constexpr, shared: gl.constexpr, whole: gl.constexpr):
    """Threads find elements by numbers in the memory of the block that has them."""
    i = gl.arange(0, 256, line)
    x = gl.load(src + i)
    memory = gl.allocate_shared_memory(gl.int32, [256], shared, x)
    sums = gl.allocate_shared_memory(gl.int32, [256], shared, x * 0)
    cluster.barrier()
    turned = memory.gather((i + 100) % 256, 0)
    cluster.barrier()
    memory.scatter(turned * 2, (i * 3 + 1) % 256, 0)
    before = sums.atomic_scatter_add(x, i & 129, 0)
    cluster.barrier()
    gl.store(out + i, memory.load(line))
    gl.store(out + 256 + i, sums.load(line))
    gl.store(out + 512 + i, gl.gather(x, (i + 200) % 256, 0))
    part = gl.arange(0, 64, whole)
    gl.store(out + 768 + part, gl.histogram(x & 63, 64, layout=whole))
    gl.atomic_max(out + 832, gl.max(before, 0))
    cluster.barrier()  # no block ends while others use its memory


def chosen(launch: Launch) -> None:
    """Blocks have parts of the memory, or each has a copy of a part or of all of it."""
    x = np.random.default_rng(3).integers(1, 100, 256).astype(np.int32)
    i = np.arange(256)
    for cga, kept in (
        ([[1]], [[1]]), ([[1], [2]], [[1], [2]]), ([[1], [2]], [[1], [0]]), ([[1]], [[0]]),
    ):  # fmt: skip
        out = np.zeros(833, np.int32)
        launch(chosen_kernel, (1,), x, out, num_ctas=2 ** len(cga),
               line=gl.BlockedLayout([1], [32], [4], [0], cga),
               whole=gl.BlockedLayout([1], [32], [4], [0], [[0]] * len(cga)),
               shared=gl.SwizzledSharedLayout(1, 1, 1, [0], kept))  # fmt: skip
        scattered, sums = np.zeros(256, np.int32), np.zeros(256, np.int32)
        scattered[(i * 3 + 1) % 256] = 2 * x[(i + 100) % 256]
        np.add.at(sums, i & 129, x)
        np.testing.assert_array_equal(out[:256], scattered)
        np.testing.assert_array_equal(out[256:512], sums)
        np.testing.assert_array_equal(out[512:768], x[(i + 200) % 256])
        np.testing.assert_array_equal(out[768:832], np.bincount(x & 63, minlength=64))
        assert 0 < out[832] < sums.max()


@gluon.jit
def load_part(a, b, left, right, full, empty, everywhere, count):
    for step in range(count):
        mbarrier.wait(empty, step & 1 ^ 1)
        mbarrier.wait(everywhere, step & 1 ^ 1)  # in the first block, which copies for both
        mbarrier.expect(full, a.nbytes_per_cta + b.nbytes_per_cta)
        at = gl.program_id(0) * a.block_shape[0]
        tma.async_load(a, [at, step * a.block_shape[1]], full, left)
        tma.async_load(b, [step * a.block_shape[1], 0], full, right, multicast=True)


@gluon.jit
def multiply_part(out, left, right, full, empty, everywhere, count, cga: gl.constexpr):
    M: gl.constexpr = left.shape[0]
    N: gl.constexpr = right.shape[1]
    mma: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16], cga)
    acc = gl.zeros([M, N], gl.float32, mma)
    for step in range(count):
        mbarrier.wait(full, step & 1)
        acc = warpgroup_mma(left, right, acc)
        cluster.barrier()  # of these warps alone
        mbarrier.arrive(empty)
        mbarrier.arrive(everywhere)
    i = gl.program_id(0) * M + gl.arange(0, M, gl.SliceLayout(1, mma))
    j = gl.arange(0, N, gl.SliceLayout(0, mma))
    gl.store(out + i[:, None] * N + j[None, :], acc)


@gluon.jit
def specialized_kernel(a, b, out, K, cga: gl.constexpr, MULTIPLY_FIRST: gl.constexpr):
    """Warps that load and warps that multiply, in each of the blocks."""
    left = gl.allocate_shared_memory(a.dtype, a.block_shape, a.layout)
    right = gl.allocate_shared_memory(b.dtype, b.block_shape, b.layout)
    full, empty = mbarrier.allocate_mbarrier(), mbarrier.allocate_mbarrier()
    everywhere = mbarrier.allocate_mbarrier(two_ctas=True)
    for bar in gl.static_range(3):
        mbarrier.init((full, empty, everywhere)[bar], count=1)
    cluster.barrier(relaxed=True)
    count = gl.cdiv(K, a.block_shape[1])
    loads = (load_part, (a, b, left, right, full, empty, everywhere, count))
    products = (multiply_part, (out, left, right, full, empty, everywhere, count, cga))
    if MULTIPLY_FIRST:
        gl.warp_specialize([products, loads], [1], [24])
    else:
        gl.warp_specialize([loads, products], [4], [160])
    cluster.barrier()  # no block ends while another may tell it that a buffer is empty


def specialized(launch: Launch) -> None:
    rng = np.random.default_rng(15)
    cga = [[1, 0]]
    a = rng.integers(-4, 5, (256, 160)).astype(np.float16)
    b = rng.integers(-4, 5, (160, 64)).astype(np.float16)
    left = gl.NVMMASharedLayout(64, 16, 2, cga_layout=cga)
    right = gl.NVMMASharedLayout(128, 16, 2, cga_layout=[[0, 0]])
    made = [TensorDescriptor.from_tensor(a, [128, 32], left),
            TensorDescriptor.from_tensor(b, [32, 64], right)]  # fmt: skip
    for first in (True, False):
        out = np.zeros((256, 64), np.float32)
        launch(specialized_kernel, (2,), *made, out, 160, cga=cga, MULTIPLY_FIRST=first, num_ctas=2)
        np.testing.assert_array_equal(out, a.astype(np.float32) @ b)


@gluon.jit
def patches_kernel(x, out, start, offsets: gl.constexpr):
    """The blocks have some of the positions of a filter each, and write what they have."""
    memory = gl.allocate_shared_memory(x.dtype, x.block_shape, x.layout)
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    cluster.barrier(relaxed=True)
    begin = gl.load(start + 0)
    at = (begin,)
    for axis in gl.static_range(1, len(x.shape)):
        at = (*at, gl.load(start + axis))
    mbarrier.expect(bar, x.nbytes_per_cta)
    tma.async_load_im2col(x, at, offsets, bar, memory, multicast=True)
    mbarrier.wait(bar, 0)
    mbarrier.invalidate(bar)
    tma.async_store(out, [0, 0], memory)
    tma.store_wait(0)


def patches(launch: Launch) -> None:
    """Positions go on in the next row and image in all blocks, whatever the steps between them."""
    rng = np.random.default_rng(23)
    for shape, lower, upper, steps, start, offsets, cga in (
        ((3, 5, 9, 64), (-1, -1), (-1, -1), (1, 1, 1, 1), (0, 1, -1), (1, 2), [[1, 0]]),
        ((4, 9, 10, 64), (-1, 0), (0, -2), (1, 2, 3, 1), (1, 3, 3), (0, 1), [[1, 0], [2, 0]]),
        ((40, 9, 128), (-2,), (1,), (1, 2, 1), (0, 2), (1,), [[1, 0], [0, 1]]),
        ((2, 4, 3, 6, 64), (-1, -1, 0), (0, -1, -2), (1, 1, 2, 1, 1), (0, -1, 1, 3), (1, 0, 2),
         [[0, 0], [1, 0]]),
    ):  # fmt: skip
        x = rng.integers(-99, 100, shape).astype(np.float16)
        layout = gl.NVMMASharedLayout(128, 16, 2, cga_layout=cga)
        out = np.zeros((32, shape[-1]), x.dtype)
        made = TensorDescriptorIm2Col.from_tensor(
            x, out.shape, layout, element_strides=steps, pixel_box_lower_corner=lower,
            pixel_box_upper_corner=upper,
        )  # fmt: skip
        launch(patches_kernel, (1,), made, TensorDescriptor.from_tensor(out, out.shape, layout),
               np.array([*start, 0], np.int32), offsets=offsets, num_ctas=1 << len(cga))
        axes = [range(0, shape[0], steps[0])] + [
            range(low, n + up, step) for n, low, up, step in
            zip(shape[1:-1], lower, upper, steps[1:-1], strict=True)
        ]  # fmt: skip
        every = list(itertools.product(*axes))
        expected = np.zeros_like(out)
        for row, place in enumerate(every[every.index(start) : every.index(start) + 32]):
            pixel = [p + o for p, o in zip(place, (0, *offsets), strict=True)]
            if all(0 <= p < n for p, n in zip(pixel, shape, strict=False)):
                expected[row] = x[tuple(pixel)]
        np.testing.assert_array_equal(out, expected, str(shape))


PROGRAMS: dict[str, Any] = {
    check.__name__: check
    for check in (matmul, starts, exchanges, reaches, chosen, specialized, patches)
}
"""The programs that sm_90 can run."""
