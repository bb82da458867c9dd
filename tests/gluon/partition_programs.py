"""Gluon programs whose warps run different code, each with a check against NumPy:
`check(launch)`; see `support.launcher`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.gluon.hopper_programs import block_layout
from tests.gluon.support import Launch
from tritium.experimental import gluon
from tritium.experimental.gluon import language as gl
from tritium.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)
from tritium.experimental.gluon.nvidia.hopper import TensorDescriptor


@gluon.jit
def rows_to(desc, ring, full, empty, count):
    for step in range(count):
        slot = step % ring.shape[0]
        mbarrier.wait(empty.index(slot), step // ring.shape[0] & 1 ^ 1)
        mbarrier.expect(full.index(slot), desc.nbytes_per_cta)
        tma.async_load(desc, [step * desc.block_shape[0], 0], full.index(slot), ring.index(slot))


@gluon.jit
def sum_of(ring, full, empty, count, out, layout: gl.constexpr):
    total = gl.zeros([ring.shape[1]], gl.float32, gl.SliceLayout(1, layout))
    for step in range(count):
        slot = step % ring.shape[0]
        mbarrier.wait(full.index(slot), step // ring.shape[0] & 1)
        total += gl.sum(ring.index(slot).load(layout), 1)
        mbarrier.arrive(empty.index(slot), count=1)
    gl.store(out + gl.arange(0, ring.shape[1], gl.SliceLayout(1, layout)), total)
    return count * 2


@gluon.jit
def barriers(count: gl.constexpr):
    bars = mbarrier.allocate_mbarrier(batch=count)
    for i in gl.static_range(count):
        mbarrier.init(bars.index(i), count=1)
    return bars


@gluon.jit
def sum_kernel(desc, out, rows, STAGES: gl.constexpr):
    ring = gl.allocate_shared_memory(desc.dtype, [STAGES, *desc.block_shape], desc.layout)
    full, empty = barriers(STAGES), barriers(STAGES)
    layout: gl.constexpr = gl.BlockedLayout([1, 2], [1, 32], [gl.num_warps(), 1], [1, 0])
    count = gl.cdiv(rows, desc.block_shape[0])
    twice = gl.warp_specialize(
        [(sum_of, (ring, full, empty, count, out, layout)),
         (rows_to, (desc, ring, full, empty, count))],
        [1], [24])  # fmt: skip
    gl.store(out + desc.block_shape[0], twice.to(gl.float32))


def producer_and_consumer(launch: Launch) -> None:
    source = np.arange(200 * 64, dtype=np.float32).reshape(200, 64) % 97
    out = np.zeros(17, np.float32)
    desc = TensorDescriptor.from_tensor(source, [16, 64], block_layout([16, 64], gl.float32))
    launch(sum_kernel, (1,), desc, out, 200, STAGES=3)
    padded = np.zeros((208, 64), np.float32)
    padded[:200] = source
    np.testing.assert_array_equal(out[:16], padded.reshape(13, 16, 64).sum((0, 2)))
    assert out[16] == 26


@gluon.jit
def load_both(a, b, lefts, rights, full, empty, row, column, count):
    for step in range(count):
        slot = step % lefts.shape[0]
        mbarrier.wait(empty.index(slot), step // lefts.shape[0] & 1 ^ 1)
        mbarrier.expect(full.index(slot), a.nbytes_per_cta + b.nbytes_per_cta)
        k = step * a.block_shape[1]
        tma.async_load(a, [row, k], full.index(slot), lefts.index(slot))
        tma.async_load(b, [k, column], full.index(slot), rights.index(slot))


@gluon.jit
def multiply(lefts, rights, full, empty, out, done, row, column, count, HALF: gl.constexpr):
    """The products of 64 rows, the half `HALF` of a block."""
    mma: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [gl.num_warps(), 1], [16, 64, 16])
    acc = gl.zeros([64, rights.shape[2]], gl.float32, mma)
    for step in range(count):
        slot = step % lefts.shape[0]
        mbarrier.wait(full.index(slot), step // lefts.shape[0] & 1)
        acc = warpgroup_mma(lefts.index(slot).slice(64 * HALF, 64), rights.index(slot), acc,
                            is_async=True)
        acc = warpgroup_mma_wait(0, deps=[acc])
        mbarrier.arrive(empty.index(slot), count=1)
    done.store(acc.to(done.dtype))
    fence_async_shared()
    tma.async_store(out, [row + 64 * HALF, column], done)
    tma.store_wait(0)


@gluon.jit
def product_kernel(a, b, out, K, STAGES: gl.constexpr):
    """One warp loads, two warp groups multiply, each 64 of 128 rows."""
    lefts = gl.allocate_shared_memory(a.dtype, [STAGES, *a.block_shape], a.layout)
    rights = gl.allocate_shared_memory(b.dtype, [STAGES, *b.block_shape], b.layout)
    full = barriers(STAGES)
    empty = mbarrier.allocate_mbarrier(batch=STAGES)
    for i in gl.static_range(STAGES):
        mbarrier.init(empty.index(i), count=2)
    done = gl.allocate_shared_memory(out.dtype, [2, *out.block_shape], out.layout)
    row, column = gl.program_id(0) * 128, gl.program_id(1) * b.block_shape[1]
    count = gl.cdiv(K, a.block_shape[1])
    gl.warp_specialize([
        (multiply, (lefts, rights, full, empty, out, done.index(0), row, column, count, 0)),
        (multiply, (lefts, rights, full, empty, out, done.index(1), row, column, count, 1)),
        (load_both, (a, b, lefts, rights, full, empty, row, column, count)),
    ], [4, 1], [152, 24])  # fmt: skip


def two_consumers(launch: Launch) -> None:
    rng = np.random.default_rng(6)
    a = rng.integers(-4, 5, (200, 160)).astype(np.float16)
    b = rng.integers(-4, 5, (160, 96)).astype(np.float16)
    out = np.zeros((200, 96), np.float16)
    shapes = [[128, 32], [32, 64], [64, 64]]
    made = [TensorDescriptor.from_tensor(x, s, block_layout(s))
            for x, s in zip((a, b, out), shapes, strict=True)]  # fmt: skip
    launch(product_kernel, (2, 2), *made, 160, STAGES=3)
    np.testing.assert_array_equal(out, (a.astype(np.float32) @ b).astype(np.float16))


@gluon.jit
def put(number, full, empty, count, layout: gl.constexpr):
    for step in range(count):
        mbarrier.wait(empty, step & 1 ^ 1)
        number.store(gl.arange(0, 32, layout) + step)
        mbarrier.arrive(full)


@gluon.jit
def take(number, full, empty, count, out, layout: gl.constexpr):
    total = gl.zeros([32], gl.int32, layout)
    for step in range(count):
        mbarrier.wait(full, step & 1)
        total += number.load(layout)
        mbarrier.arrive(empty)
    gl.store(out + gl.arange(0, 32, layout), total)


@gluon.jit
def hand_over_kernel(out, count):
    """Two partitions that wait for nothing but each other, in each of many steps."""
    number = gl.allocate_shared_memory(gl.int32, [32], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    full, empty = mbarrier.allocate_mbarrier(), mbarrier.allocate_mbarrier()
    mbarrier.init(full, count=1)
    mbarrier.init(empty, count=1)
    mine: gl.constexpr = gl.BlockedLayout([1], [32], [gl.num_warps()], [0])
    other: gl.constexpr = gl.BlockedLayout([1], [32], [1], [0])
    gl.warp_specialize([(take, (number, full, empty, count, out, mine)),
                        (put, (number, full, empty, count, other))], [1], [24])  # fmt: skip


def hand_over(launch: Launch) -> None:
    for count in (0, 1, 9):
        out = np.full(32, -1, np.int32)
        launch(hand_over_kernel, (1,), out, count)
        np.testing.assert_array_equal(out, np.arange(32) * count + count * (count - 1) // 2)


@gluon.jit
def running_sums(src, number, full, layout: gl.constexpr):
    rows = gl.arange(0, 32, gl.SliceLayout(1, layout))[:, None]
    columns = gl.arange(0, 32, gl.SliceLayout(0, layout))[None, :]
    number.store(gl.cumsum(gl.load(src + rows * 32 + columns), 0))
    mbarrier.arrive(full)


@gluon.jit
def keep(number, full, out, layout: gl.constexpr):
    mbarrier.wait(full, 0)
    rows = gl.arange(0, 32, gl.SliceLayout(1, layout))[:, None]
    columns = gl.arange(0, 32, gl.SliceLayout(0, layout))[None, :]
    gl.store(out + rows * 32 + columns, number.load(layout))


@gluon.jit
def scan_kernel(src, out):
    """A partition with fewer warps than the kernel scans in a layout that has to be changed."""
    number = gl.allocate_shared_memory(
        gl.int32, [32, 32], gl.SwizzledSharedLayout(1, 1, 1, [1, 0]))
    full = mbarrier.allocate_mbarrier()
    mbarrier.init(full, count=1)
    mine: gl.constexpr = gl.BlockedLayout([1, 4], [4, 8], [gl.num_warps(), 1], [1, 0])
    other: gl.constexpr = gl.BlockedLayout([1, 4], [4, 8], [1, 1], [1, 0])
    gl.warp_specialize([(keep, (number, full, out, mine)),
                        (running_sums, (src, number, full, other))], [1])  # fmt: skip


def scans_of_partitions(launch: Launch) -> None:
    source = np.random.default_rng(2).integers(-99, 99, (32, 32)).astype(np.int32)
    out = np.zeros_like(source)
    launch(scan_kernel, (1,), source, out)
    np.testing.assert_array_equal(out, source.cumsum(0))


PROGRAMS: dict[str, Any] = {
    check.__name__: check
    for check in (producer_and_consumer, two_consumers, hand_over, scans_of_partitions)
}
