"""Gluon programs for sm_100 in clusters: products of two thread blocks, or of one that tell others
of their end; and the register layouts of tensor memory. Each has a check against NumPy:
`check(launch)`; see `support.launcher`."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from tests.gluon.blackwell_programs import store_2d
from tests.gluon.hopper_programs import block_layout
from tests.gluon.support import Launch
from tritium.experimental import gluon
from tritium.experimental.gluon import language as gl
from tritium.experimental.gluon.language.nvidia.blackwell import (
    TensorMemoryLayout,
    TensorMemoryScalesLayout,
    allocate_tensor_memory,
    cluster,
    fence_async_shared,
    mbarrier,
    tcgen05_commit,
    tcgen05_copy,
    tcgen05_mma,
    tcgen05_mma_barrier_count,
    tcgen05_mma_scaled,
    tma,
)
from tritium.experimental.gluon.nvidia.blackwell import TensorDescriptor


@gluon.jit
def matmul_kernel(
    a, b, out, K, BLOCK: gl.constexpr, CGA: gl.constexpr, PAIRS: gl.constexpr, MULTI: gl.constexpr,
    COMMIT: gl.constexpr,
):  # fmt: skip
    """`COMMIT`: the end of products is told of by a commit of its own."""
    M: gl.constexpr = a.block_shape[0]
    BK: gl.constexpr = a.block_shape[1]
    N: gl.constexpr = b.block_shape[1]
    left = gl.allocate_shared_memory(a.dtype, a.block_shape, a.layout)
    right = gl.allocate_shared_memory(b.dtype, b.block_shape, b.layout)
    layout: gl.constexpr = TensorMemoryLayout(BLOCK, 1, CGA, PAIRS)
    acc = allocate_tensor_memory(gl.float32, [M, N], layout)
    loaded = mbarrier.allocate_mbarrier(two_ctas=PAIRS)
    done = mbarrier.allocate_mbarrier()
    mbarrier.init(loaded, count=1)
    mbarrier.init(done, count=tcgen05_mma_barrier_count([left, right], MULTI, PAIRS))
    cluster.barrier(relaxed=True)
    for step in range(gl.cdiv(K, BK)):
        mbarrier.expect(loaded, a.nbytes_per_cta + b.nbytes_per_cta)
        tma.async_load(a, [0, step * BK], loaded, left, multicast=MULTI)
        tma.async_load(b, [step * BK, 0], loaded, right, multicast=MULTI)
        mbarrier.wait(loaded, step & 1, deps=[left, right])
        if COMMIT:
            tcgen05_mma(left, right, acc, use_acc=step > 0)
            tcgen05_commit(done, descs=[left, right])
        else:
            tcgen05_mma(left, right, acc, use_acc=step > 0, multicast=MULTI, mbarriers=[done])
        mbarrier.wait(done, step & 1, deps=[left, right])
    store_2d(out, acc.load(), N)


ROWS, COLUMNS, BOTH = [[1, 0]], [[0, 1]], [[0, 0]]
CASES: dict[str, tuple[Any, Any, Any, tuple[int, int], tuple[int, int], bool]] = {
    "pair": (ROWS, ROWS, COLUMNS, (256, 64), (128, 64), True),
    "64 rows": (ROWS, ROWS, COLUMNS, (128, 64), (64, 64), True),
    "two blocks of rows": (ROWS, ROWS, COLUMNS, (512, 32), (128, 32), True),
    "two pairs": ([*ROWS, [2, 0]], [*ROWS, [2, 0]], COLUMNS + BOTH, (512, 64), (128, 64), True),
    "pairs beside each other": (ROWS + COLUMNS, ROWS + BOTH, [[0, 1], [0, 2]], (256, 128),
                                (128, 64), True),
    "copies": (ROWS, ROWS, BOTH, (256, 64), (128, 64), False),
}  # fmt: skip
"""The parts of blocks of a cluster (of the result, `a` and `b`), the result's shape, the block of
tensor memory, whether products are those of two blocks."""


def arguments(case: str) -> tuple[list[Any], list[Any], dict[str, Any]]:
    """The layouts and shapes of `a` and `b`, and the constants."""
    cga, of_a, of_b, (m, n), block, pairs = CASES[case]
    layouts = [gl.NVMMASharedLayout(64, 16, 2, cga_layout=of_a),
               gl.NVMMASharedLayout(32, 16, 2, cga_layout=of_b)]  # fmt: skip
    shared = [[0, 0]] in ([x] for x in (*of_a, *of_b))
    constants = {"BLOCK": block, "CGA": cga, "PAIRS": pairs, "MULTI": shared, "COMMIT": shared}
    return layouts, [(m, 32), (32, n)], constants


def products(launch: Launch) -> None:
    rng = np.random.default_rng(31)
    for case in CASES:
        layouts, ((m, k), (_, n)), constants = arguments(case)
        a = rng.integers(-4, 5, (m, 3 * k)).astype(np.float16)
        b = rng.integers(-4, 5, (3 * k, n)).astype(np.float16)
        out = np.zeros((m, n), np.float32)
        made = [TensorDescriptor.from_tensor(a, [m, k], layouts[0]),
                TensorDescriptor.from_tensor(b, [k, n], layouts[1])]  # fmt: skip
        blocks = 1 << len(constants["CGA"])
        for commit in {constants["COMMIT"], False}:
            constants["COMMIT"] = commit
            launch(matmul_kernel, (1,), *made, out, 3 * k, **constants, num_ctas=blocks)
            np.testing.assert_array_equal(out, a.astype(np.float32) @ b)


SCALES = gl.constexpr(gl.SharedLinearLayout(
    [[0, 1], [0, 2], [32, 0], [64, 0], [1, 0], [2, 0], [4, 0], [8, 0], [16, 0]],
    [[128, 0]]))  # fmt: skip


@gluon.jit
def scaled_kernel(a, b, a_scales, b_scales, out, rows: gl.constexpr, both: gl.constexpr):
    """Each of two blocks has the scales of its rows, and those of all columns."""
    left = gl.allocate_shared_memory(a.dtype, [256, 128], a.layout)
    right = gl.allocate_shared_memory(b.dtype, [64, 128], b.layout)
    loaded = mbarrier.allocate_mbarrier(two_ctas=True)
    done = mbarrier.allocate_mbarrier()
    mbarrier.init(loaded, count=1)
    mbarrier.init(done, count=1)
    layout: gl.constexpr = TensorMemoryLayout([128, 64], 1, [[1, 0]], True)
    acc = allocate_tensor_memory(gl.float32, [256, 64], layout)
    of_left = allocate_tensor_memory(gl.int8, [256, 4], TensorMemoryScalesLayout([[1, 0]]))
    of_right = allocate_tensor_memory(gl.int8, [64, 4], TensorMemoryScalesLayout([[0, 0]]))
    i = gl.arange(0, 256, gl.SliceLayout(1, rows))[:, None]
    k = gl.arange(0, 4, gl.SliceLayout(0, rows))[None, :]
    staged = gl.allocate_shared_memory(gl.int8, [256, 4], SCALES, gl.load(a_scales + i * 4 + k))
    i = gl.arange(0, 64, gl.SliceLayout(1, both))[:, None]
    k = gl.arange(0, 4, gl.SliceLayout(0, both))[None, :]
    scales = gl.load(b_scales + i * 4 + k)
    of_right.store(gl.convert_layout(scales, of_right.get_reg_layout()))
    fence_async_shared(cluster=True)
    cluster.barrier()
    tcgen05_copy(staged, of_left)
    mbarrier.expect(loaded, a.nbytes_per_cta + b.nbytes_per_cta)
    tma.async_load(a, [0, 0], loaded, left)
    tma.async_load(b, [0, 0], loaded, right)
    mbarrier.wait(loaded, 0)
    tcgen05_mma_scaled(left, right.permute((1, 0)), acc, of_left, of_right, "e4m3", "e4m3",
                       use_acc=False, mbarriers=[done])
    mbarrier.wait(done, 0)
    store_2d(out, acc.load(), 64)


def scaled_products(launch: Launch) -> None:
    rng = np.random.default_rng(32)
    a, b = (rng.integers(-2, 3, (n, 128)) for n in (256, 64))
    scales = [rng.integers(125, 130, (len(x), 4)).astype(np.int8) for x in (a, b)]
    layout = gl.NVMMASharedLayout(128, 8, 2, cga_layout=ROWS)
    made = [TensorDescriptor.from_tensor(x.astype(ml_dtypes.float8_e4m3fn), [*x.shape], layout)
            for x in (a, b)]  # fmt: skip
    out = np.zeros((256, 64), np.float32)
    rows, both = (gl.BlockedLayout([1, 4], [32, 1], [4, 1], [1, 0], c) for c in (ROWS, BOTH))
    launch(scaled_kernel, (1,), *made, *scales, out, rows=rows, both=both, num_ctas=2)
    factors = [np.repeat(2.0 ** (s.view(np.uint8) - 127.0), 32, 1) for s in scales]
    np.testing.assert_array_equal(out, (a * factors[0]) @ (b * factors[1]).T)


@gluon.jit
def registers_kernel(src, out, shared: gl.constexpr, how: gl.constexpr, block: gl.constexpr):
    """A block to tensor memory by one layout, and back by another."""
    M: gl.constexpr = src.block_shape[0]
    N: gl.constexpr = src.block_shape[1]
    staged = gl.allocate_shared_memory(src.dtype, [M, N], src.layout)
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    mbarrier.expect(bar, src.nbytes_per_cta)
    tma.async_load(src, [0, 0], bar, staged)
    mbarrier.wait(bar, 0)
    memory = allocate_tensor_memory(src.dtype, [M, N], TensorMemoryLayout(block, 1))
    memory.store(staged.load(memory.get_reg_layout(instr_variant=how)))
    x = memory.load(memory.get_reg_layout())
    memory.store(x + x)
    store_2d(out, memory.load(memory.get_reg_layout(instr_variant=how)), N)


VARIANTS = ("16x64b", "16x128b", "16x256b", "32x32b_splitn")


def register_layouts(launch: Launch) -> None:
    rng = np.random.default_rng(33)
    for how, warps, shape, block in (*((v, w, (128, 64), (128, 64)) for v in VARIANTS
                                       for w in (4, 8)), ("16x256b", 4, (64, 64), (64, 64)),
                                     ("16x64b", 4, (128, 32), (64, 32))):  # fmt: skip
        for dtype, kind in ((np.float32, gl.float32), (np.float16, gl.float16)):
            x = rng.integers(-9, 9, shape).astype(dtype)
            out, layout = np.zeros_like(x), block_layout([*shape], kind)
            desc = TensorDescriptor.from_tensor(x, [*shape], layout)
            launch(registers_kernel, (1,), desc, out, shared=layout, how=how, block=block,
                   num_warps=warps)  # fmt: skip
            np.testing.assert_array_equal(out, 2 * x)


@gluon.jit
def rows_kernel(src, out, rows, line: gl.constexpr, tile: gl.constexpr, layout: gl.constexpr):
    """Each of two blocks stores half of the rows, which are read once for both."""
    memory = gl.allocate_shared_memory(src.dtype, [32, 64], layout)
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    cluster.barrier(relaxed=True)
    mbarrier.expect(bar, 32 * src.nbytes_per_cta)
    found = gl.load(rows + gl.arange(0, 32, line))
    tma.async_gather(src, found, 64, bar, memory, multicast=True)
    mbarrier.wait(bar, 0)
    store_2d(out, memory.load(tile), 64)


def rows_for_two_blocks(launch: Launch) -> None:
    rng = np.random.default_rng(34)
    x, out = rng.integers(-9, 9, (50, 128)).astype(np.float16), np.zeros((32, 64), np.float16)
    rows = rng.integers(0, 50, 32).astype(np.int32)
    layout = gl.NVMMASharedLayout(128, 16, 2, cga_layout=BOTH)
    launch(rows_kernel, (1,), TensorDescriptor.from_tensor(x, [1, 64], layout), out, rows,
           line=gl.BlockedLayout([1], [32], [4], [0], [[0]]), layout=layout,
           tile=gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0], BOTH), num_ctas=2)  # fmt: skip
    np.testing.assert_array_equal(out, x[rows, 64:])


PROGRAMS: dict[str, Any] = {
    check.__name__: check
    for check in (products, scaled_products, register_layouts, rows_for_two_blocks)
}
