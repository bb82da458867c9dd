"""Gluon programs for sm_90: bulk copies, mbarriers and products by warp groups, each with a check
against NumPy: `check(launch)`; see `support.launcher`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.gluon.support import Launch
from tritium.experimental import gluon
from tritium.experimental.gluon import language as gl
from tritium.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_init,
    warpgroup_mma_wait,
)
from tritium.experimental.gluon.nvidia.hopper import TensorDescriptor, TensorDescriptorIm2Col


def block_layout(shape: list[int], dtype: Any = gl.float16) -> gl.NVMMASharedLayout:
    return gl.NVMMASharedLayout.get_default_for(shape, dtype)


@gluon.jit
def add_kernel(a, b, out):
    left = gl.allocate_shared_memory(a.dtype, a.block_shape, a.layout)
    right = gl.allocate_shared_memory(b.dtype, b.block_shape, b.layout)
    at = [gl.program_id(0) * a.block_shape[0], gl.program_id(1) * a.block_shape[1]]
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    mbarrier.expect(bar, a.nbytes_per_cta + b.nbytes_per_cta)
    tma.async_load(a, at, bar, left)
    tma.async_load(b, at, bar, right)
    mbarrier.wait(bar, 0)
    mbarrier.invalidate(bar)
    layout: gl.constexpr = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0])
    left.store(left.load(layout) + right.load(layout))
    fence_async_shared()
    tma.async_store(out, at, left)
    tma.store_wait(0)


def bulk_copies(launch: Launch) -> None:
    rng = np.random.default_rng(3)
    for dtype, block in ((np.float16, [32, 64]), (np.float32, [64, 16]), (np.int8, [32, 32])):
        a, b = (rng.integers(-9, 9, (100, 160)).astype(dtype) for _ in range(2))
        out = np.zeros_like(a)
        kind = {2: gl.float16, 4: gl.float32, 1: gl.int8}[a.itemsize]
        made = [TensorDescriptor.from_tensor(x, block, block_layout(block, kind))
                for x in (a, b, out)]  # fmt: skip
        grid = -(-100 // block[0]), -(-160 // block[1])
        launch(add_kernel, grid, *made)
        np.testing.assert_array_equal(out, a + b)


@gluon.jit
def ring_kernel(desc, out, rows, STAGES: gl.constexpr):
    """Each block of rows is added up along the rows; loads are `STAGES` blocks ahead."""
    ring = gl.allocate_shared_memory(desc.dtype, [STAGES, *desc.block_shape], desc.layout)
    bars = mbarrier.allocate_mbarrier(batch=STAGES)
    for i in gl.static_range(STAGES):
        mbarrier.init(bars.index(i), count=1)
    registers: gl.constexpr = gl.BlockedLayout([1, 2], [1, 32], [4, 1], [1, 0])
    total = gl.zeros([16], gl.float32, gl.SliceLayout(1, registers))
    count = gl.cdiv(rows, 16)
    for i in gl.static_range(STAGES - 1):
        mbarrier.expect(bars.index(i), desc.nbytes_per_cta, pred=i < count)
        tma.async_load(desc, [i * 16, 0], bars.index(i), ring.index(i), pred=i < count)
    for step in range(count):
        ahead = step + STAGES - 1
        slot = ahead % STAGES
        mbarrier.expect(bars.index(slot), desc.nbytes_per_cta, pred=ahead < count)
        tma.async_load(desc, [ahead * 16, 0], bars.index(slot), ring.index(slot),
                       pred=ahead < count)
        mbarrier.wait(bars.index(step % STAGES), step // STAGES & 1)
        total += gl.sum(ring.index(step % STAGES).load(registers), 1)
    for i in gl.static_range(STAGES):
        mbarrier.invalidate(bars.index(i))
    gl.store(out + gl.arange(0, 16, gl.SliceLayout(1, registers)), total)


@gluon.jit
def made_kernel(src, out, rows, STAGES: gl.constexpr, layout: gl.constexpr):
    desc = tma.make_tensor_descriptor(src, [rows, 64], [64, 1], [16, 64], layout)
    ring_kernel(desc, out, rows, STAGES)


def rings_of_barriers(launch: Launch, made: bool = False) -> None:
    source = np.arange(200 * 64, dtype=np.float32).reshape(200, 64) % 97
    out = np.zeros(16, np.float32)
    layout = block_layout([16, 64], gl.float32)
    if made:
        launch(made_kernel, (1,), source, out, 200, STAGES=3, layout=layout)
    else:
        desc = TensorDescriptor.from_tensor(source, [16, 64], layout)
        launch(ring_kernel, (1,), desc, out, 200, STAGES=3)
    padded = np.zeros((208, 64), np.float32)
    padded[:200] = source
    np.testing.assert_array_equal(out, padded.reshape(13, 16, 64).sum((0, 2)))


def descriptors_of_the_kernel(launch: Launch) -> None:
    rings_of_barriers(launch, made=True)


@gluon.jit
def matmul_kernel(a, b, out, K, STAGES: gl.constexpr, instr_shape: gl.constexpr,
                  TURNED: gl.constexpr):
    M: gl.constexpr = a.block_shape[0]
    N: gl.constexpr = out.block_shape[1]
    BK: gl.constexpr = a.block_shape[1]
    mma: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [gl.num_warps(), 1], instr_shape)
    lefts = gl.allocate_shared_memory(a.dtype, [STAGES, M, BK], a.layout)
    rights = gl.allocate_shared_memory(b.dtype, [STAGES, *b.block_shape], b.layout)
    bars = mbarrier.allocate_mbarrier(batch=STAGES)
    for i in gl.static_range(STAGES):
        mbarrier.init(bars.index(i), count=1)
    row, column = gl.program_id(0) * M, gl.program_id(1) * N
    acc = warpgroup_mma_init(gl.zeros([M, N], gl.float32, mma))
    for step in range(-(STAGES - 2), gl.cdiv(K, BK)):
        ahead = step + STAGES - 2
        slot = ahead % STAGES
        more = ahead * BK < K
        mbarrier.expect(bars.index(slot), a.nbytes_per_cta + b.nbytes_per_cta, pred=more)
        tma.async_load(a, [row, ahead * BK], bars.index(slot), lefts.index(slot), pred=more)
        at = [column, ahead * BK] if TURNED else [ahead * BK, column]
        tma.async_load(b, at, bars.index(slot), rights.index(slot), pred=more)
        if step >= 0:
            own = step % STAGES
            mbarrier.wait(bars.index(own), step // STAGES & 1)
            right = rights.index(own).permute((1, 0)) if TURNED else rights.index(own)
            acc = warpgroup_mma(lefts.index(own), right, acc, is_async=True)
            acc = warpgroup_mma_wait(1, deps=[acc])
            acc = warpgroup_mma_init(acc)
    acc = warpgroup_mma_wait(0, deps=[acc])
    for i in gl.static_range(STAGES):
        mbarrier.invalidate(bars.index(i))
    done = gl.allocate_shared_memory(out.dtype, out.block_shape, out.layout)
    done.store(acc.to(out.dtype))
    fence_async_shared()
    tma.async_store(out, [row, column], done)
    tma.store_wait(pendings=0)


def matmul(launch: Launch, turned: bool = False, warps: int = 4) -> None:
    rng = np.random.default_rng(4)
    m, n, k, block = 200, 160, 96, (64 * warps // 4, 64, 32)
    a = rng.integers(-4, 5, (m, k)).astype(np.float16)
    b = rng.integers(-4, 5, (k, n)).astype(np.float16)
    out = np.zeros((m, n), np.float16)
    given = np.ascontiguousarray(b.T) if turned else b
    shapes = [[block[0], block[2]], [block[1], block[2]] if turned else [block[2], block[1]],
              [block[0], block[1]]]  # fmt: skip
    made = [TensorDescriptor.from_tensor(x, s, block_layout(s))
            for x, s in zip((a, given, out), shapes, strict=True)]  # fmt: skip
    launch(matmul_kernel, (-(-m // block[0]), -(-n // block[1])), *made, k, STAGES=3,
           instr_shape=[16, 64, 16], TURNED=turned, num_warps=warps)  # fmt: skip
    np.testing.assert_array_equal(out, (a.astype(np.float32) @ b).astype(np.float16))


def matmul_of_transposed(launch: Launch) -> None:
    matmul(launch, turned=True)


def matmul_of_two_warp_groups(launch: Launch) -> None:
    matmul(launch, warps=8)


@gluon.jit
def register_kernel(a, b, out, mma: gl.constexpr, layout: gl.constexpr):
    """The left operand in registers; the product of the second half of k alone counts."""
    rows: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    i = gl.arange(0, 64, gl.SliceLayout(1, rows))[:, None]
    j = gl.arange(0, 64, gl.SliceLayout(0, rows))[None, :]
    right = gl.allocate_shared_memory(gl.float16, [64, 64], layout, gl.load(b + i * 64 + j))
    left = gl.allocate_shared_memory(gl.float16, [64, 64], layout, gl.load(a + i * 64 + j))
    fence_async_shared()
    acc = gl.zeros([64, 64], gl.float32, mma)
    operand: gl.constexpr = gl.DotOperandLayout(0, mma, 2)
    acc = warpgroup_mma(left.slice(0, 32, dim=1).load(operand), right.slice(0, 32), acc)
    acc = warpgroup_mma(left.slice(32, 32, dim=1), right.slice(32, 32), acc, use_acc=a is None)
    gl.store(out + i * 64 + j, gl.convert_layout(acc, rows))


def products_of_registers_and_slices(launch: Launch) -> None:
    rng = np.random.default_rng(5)
    a, b = (rng.integers(-4, 5, (64, 64)).astype(np.float16) for _ in range(2))
    out = np.zeros((64, 64), np.float32)
    mma = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])
    launch(register_kernel, (1,), a, b, out, mma=mma, layout=gl.NVMMASharedLayout(128, 16))
    np.testing.assert_array_equal(out, a[:, 32:].astype(np.float32) @ b[32:])


@gluon.jit
def atomic_kernel(out):
    layout: gl.constexpr = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0])
    memory = gl.allocate_shared_memory(out.dtype, out.block_shape, out.layout)
    memory.store(gl.full(out.block_shape, 1, out.dtype, layout))
    fence_async_shared()
    tma.async_atomic_add(out, [0, 0], memory)
    tma.store_wait(0, read_only=False)


def bulk_atomics(launch: Launch) -> None:
    out = np.arange(32 * 32, dtype=np.int32).reshape(32, 32)
    before = out.copy()
    launch(atomic_kernel, (5,), TensorDescriptor.from_tensor(
        out, [32, 32], block_layout([32, 32], gl.int32)))  # fmt: skip
    np.testing.assert_array_equal(out, before + 5)


@gluon.jit
def convolution_kernel(x, w, out, batch_size, P: gl.constexpr, Q: gl.constexpr,
                       filter_size: gl.constexpr, channels: gl.constexpr,
                       steps: gl.constexpr, margin: gl.constexpr):
    """Rows of the product are positions of the filter; k goes over its elements and channels."""
    pixels: gl.constexpr = x.block_shape[0]
    part: gl.constexpr = x.block_shape[1]
    kinds: gl.constexpr = w.block_shape[0]
    mma: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, kinds, 16])
    left = gl.allocate_shared_memory(x.dtype, x.block_shape, x.layout)
    right = gl.allocate_shared_memory(w.dtype, w.block_shape, w.layout)
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    first = gl.program_id(0) * pixels
    image, place = first // (P * Q), first % (P * Q)
    row, column = place // Q * steps - margin, place % Q * steps - margin
    acc = gl.zeros([pixels, kinds], gl.float32, mma)
    phase = 0
    for i in range(filter_size * filter_size):
        for c in range(0, channels, part):
            mbarrier.expect(bar, x.nbytes_per_cta + w.nbytes_per_cta)
            offsets = [(i // filter_size).to(gl.int16), (i % filter_size).to(gl.int16)]
            tma.async_load_im2col(x, [image, row, column, c], offsets, bar, left)
            tma.async_load(w, [0, i * channels + c], bar, right)
            mbarrier.wait(bar, phase)
            phase ^= 1
            acc = warpgroup_mma(left, right.permute((1, 0)), acc)
    mbarrier.invalidate(bar)
    done = gl.allocate_shared_memory(out.dtype, out.block_shape, out.layout)
    done.store(acc.to(out.dtype))
    fence_async_shared()
    tma.async_store(out, [first, 0], done)
    tma.store_wait(0)


def convolved(x: np.ndarray, w: np.ndarray, steps: int, margin: int) -> np.ndarray:
    """(batch, rows, columns, channels) by (kinds, rows, columns, channels)."""
    size = w.shape[1]
    x = np.pad(x, ((0, 0), (margin, margin), (margin, margin), (0, 0))).astype(np.float32)
    windows = np.lib.stride_tricks.sliding_window_view(x, (size, size), axis=(1, 2))
    return np.einsum("npqcrs,krsc->npqk", windows[:, ::steps, ::steps], w.astype(np.float32))


def convolutions(launch: Launch) -> None:
    rng = np.random.default_rng(6)
    for (n, h, wd, c), steps, margin, part in (
        ((2, 7, 9, 64), 1, 1, 64), ((3, 12, 10, 128), 2, 1, 128), ((2, 6, 6, 32), 1, 0, 32),
    ):  # fmt: skip
        x = rng.integers(-3, 4, (n, h, wd, c)).astype(np.float16)
        w = rng.integers(-3, 4, (64, 3, 3, c)).astype(np.float16)
        expected = convolved(x, w, steps, margin)
        _, p, q, _ = expected.shape
        out = np.zeros((n * p * q, 64), np.float16)
        upper = [margin - 2] * 2
        patches = TensorDescriptorIm2Col.from_tensor(
            x, [64, part], block_layout([64, part]), element_strides=[1, steps, steps, 1],
            pixel_box_lower_corner=[-margin] * 2, pixel_box_upper_corner=upper,
        )  # fmt: skip
        made = [TensorDescriptor.from_tensor(a, b, block_layout(b))
                for a, b in ((w.reshape(64, -1), [64, part]), (out, [64, 64]))]  # fmt: skip
        launch(convolution_kernel, (-(-n * p * q // 64),), patches, *made, n, P=p, Q=q,
               filter_size=3, channels=c, steps=steps, margin=margin)  # fmt: skip
        np.testing.assert_array_equal(out, expected.reshape(out.shape).astype(np.float16))


PROGRAMS: dict[str, Any] = {
    check.__name__: check
    for check in (bulk_copies, rings_of_barriers, descriptors_of_the_kernel, matmul,
                  matmul_of_transposed, matmul_of_two_warp_groups,
                  products_of_registers_and_slices, bulk_atomics,
                  convolutions)
}  # fmt: skip
"""The programs that sm_90 can run."""
