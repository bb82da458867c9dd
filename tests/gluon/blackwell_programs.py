"""Gluon programs for sm_100: tensor memory, its products, cluster launch control, each with a check
against NumPy: `check(launch)`; see `support.launcher`."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from tests.gluon.hopper_programs import block_layout
from tests.gluon.support import Launch
from tritium.experimental import gluon
from tritium.experimental.gluon import language as gl
from tritium.experimental.gluon.language.nvidia.blackwell import (
    TensorMemoryLayout,
    TensorMemoryScalesLayout,
    add2,
    allocate_tensor_memory,
    clc,
    fence_async_shared,
    fma2,
    max2,
    mbarrier,
    min2,
    mul2,
    sub2,
    tcgen05_commit,
    tcgen05_copy,
    tcgen05_mma,
    tcgen05_mma_scaled,
    tma,
)
from tritium.experimental.gluon.nvidia.blackwell import TensorDescriptor


@gluon.jit
def store_2d(out, x, N: gl.constexpr):
    layout: gl.constexpr = x.type.layout
    i = gl.arange(0, x.shape[0], gl.SliceLayout(1, layout))
    j = gl.arange(0, x.shape[1], gl.SliceLayout(0, layout))
    gl.store(out + i[:, None] * N + j[None, :], x)


@gluon.jit
def matmul_kernel(a, b, out, K, STAGES: gl.constexpr, TURNED: gl.constexpr):
    """Loads are a block ahead; the product of a block ends while the next one is loaded."""
    M: gl.constexpr = a.block_shape[0]
    BK: gl.constexpr = a.block_shape[1]
    N: gl.constexpr = b.block_shape[0] if TURNED else b.block_shape[1]
    lefts = gl.allocate_shared_memory(a.dtype, [STAGES, M, BK], a.layout)
    rights = gl.allocate_shared_memory(b.dtype, [STAGES, *b.block_shape], b.layout)
    loaded = mbarrier.allocate_mbarrier(batch=STAGES)
    free = mbarrier.allocate_mbarrier(batch=STAGES)
    done = mbarrier.allocate_mbarrier()
    for i in gl.static_range(STAGES):
        mbarrier.init(loaded.index(i), count=1)
        mbarrier.init(free.index(i), count=1)
    mbarrier.init(done, count=1)
    acc = allocate_tensor_memory(gl.float32, [M, N], TensorMemoryLayout([128, N], col_stride=1))
    row, column = gl.program_id(0) * M, gl.program_id(1) * N
    count = gl.cdiv(K, BK)
    for step in range(-1, count):
        ahead = step + 1
        slot = ahead % STAGES
        more = ahead < count
        mbarrier.wait(free.index(slot), (ahead // STAGES & 1) ^ 1, pred=more & (ahead >= STAGES))
        mbarrier.expect(loaded.index(slot), a.nbytes_per_cta + b.nbytes_per_cta, pred=more)
        tma.async_load(a, [row, ahead * BK], loaded.index(slot), lefts.index(slot), pred=more)
        at = [column, ahead * BK] if TURNED else [ahead * BK, column]
        tma.async_load(b, at, loaded.index(slot), rights.index(slot), pred=more)
        if step >= 0:
            own = step % STAGES
            mbarrier.wait(loaded.index(own), step // STAGES & 1)
            right = rights.index(own).permute((1, 0)) if TURNED else rights.index(own)
            tcgen05_mma(lefts.index(own), right, acc, use_acc=step > 0,
                        mbarriers=[free.index(own)])
    tcgen05_commit(done)
    mbarrier.wait(done, 0)
    total = acc.load()
    store_2d(out + row * 256 + column, total, 256)


def products(launch: Launch, turned: bool = False, warps: int = 4) -> None:
    rng = np.random.default_rng(21)
    a = rng.integers(-4, 5, (256, 160)).astype(np.float16)
    b = rng.integers(-4, 5, (160, 256)).astype(np.float16)
    given = np.ascontiguousarray(b.T) if turned else b
    shape = [64, 32] if turned else [32, 64]
    out = np.zeros((256, 256), np.float32)
    left = TensorDescriptor.from_tensor(a, [128, 32], block_layout([128, 32]))
    right = TensorDescriptor.from_tensor(given, shape, block_layout(shape))
    launch(matmul_kernel, (2, 4), left, right, out, 160, STAGES=2, TURNED=turned, num_warps=warps)
    np.testing.assert_array_equal(out, a.astype(np.float32) @ b)


def products_of_transposed_operands(launch: Launch) -> None:
    products(launch, turned=True, warps=8)


@gluon.jit
def chained_kernel(a, b, out, shared: gl.constexpr):
    """`(a @ b) @ b`: the first product, rounded, is the left operand of the second, from tensor
    memory; half of its columns are negated on the way. 256 rows are two blocks."""
    rows: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    i = gl.arange(0, 256, gl.SliceLayout(1, rows))[:, None]
    k = gl.arange(0, 64, gl.SliceLayout(1, rows))[:, None]
    j = gl.arange(0, 64, gl.SliceLayout(0, rows))[None, :]
    left = gl.allocate_shared_memory(a.dtype.element_ty, [256, 64], shared, gl.load(a + i * 64 + j))
    right = gl.allocate_shared_memory(a.dtype.element_ty, [64, 64], shared, gl.load(b + k * 64 + j))
    done = mbarrier.allocate_mbarrier()
    mbarrier.init(done, count=1)
    accs = allocate_tensor_memory(gl.float32, [2, 256, 64], TensorMemoryLayout([128, 64], 1))
    packed: gl.constexpr = TensorMemoryLayout([128, 64], col_stride=1)
    middle = allocate_tensor_memory(a.dtype.element_ty, [256, 64], packed)
    fence_async_shared()
    tcgen05_mma(left, right, accs.index(0), use_acc=False, mbarriers=[done])
    mbarrier.wait(done, 0)
    upper = accs.index(0).slice(32, 32)
    upper.store(-upper.load())
    middle.store(accs.index(0).load().to(a.dtype.element_ty))
    tcgen05_mma(middle, right, accs.index(1), use_acc=False)
    tcgen05_commit(done)
    mbarrier.wait(done, 1)
    store_2d(out, accs.index(1).load(), 64)


def products_of_tensor_memory(launch: Launch) -> None:
    rng = np.random.default_rng(22)
    for dtype in (np.float16, ml_dtypes.bfloat16):
        a, b = (rng.integers(-2, 3, (n, 64)).astype(dtype) for n in (256, 64))
        out = np.zeros((256, 64), np.float32)
        launch(chained_kernel, (1,), a, b, out, shared=gl.NVMMASharedLayout(128, 16))
        first = a.astype(np.float32) @ b.astype(np.float32)
        first[:, 32:] *= -1
        wanted = first.astype(dtype).astype(np.float32) @ b.astype(np.float32)
        np.testing.assert_array_equal(out, wanted)


@gluon.jit
def multiply_steps(lefts, rights, accs, ready, free, count):
    for step in range(count):
        slot = step % 2
        mbarrier.wait(free.index(slot), step // 2 & 1 ^ 1)
        tcgen05_mma(lefts.index(step), rights.index(step), accs.index(slot), use_acc=False,
                    mbarriers=[ready.index(slot)])


@gluon.jit
def add_steps(accs, ready, free, count, out):
    layout: gl.constexpr = accs.index(0).get_reg_layout()
    total = gl.zeros([128, 64], gl.float32, layout)
    for step in range(count):
        slot = step % 2
        mbarrier.wait(ready.index(slot), step // 2 & 1)
        total = total + accs.index(slot).load(layout)
        mbarrier.arrive(free.index(slot), count=1)
    store_2d(out, total, 64)


@gluon.jit
def partitions_kernel(a, b, out, count: gl.constexpr, shared: gl.constexpr):
    """A warp multiplies, four others add up what it leaves in tensor memory."""
    rows: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    i = gl.arange(0, 128, gl.SliceLayout(1, rows))[:, None]
    k = gl.arange(0, 64, gl.SliceLayout(1, rows))[:, None]
    j = gl.arange(0, 64, gl.SliceLayout(0, rows))[None, :]
    lefts = gl.allocate_shared_memory(gl.float16, [count, 128, 64], shared)
    rights = gl.allocate_shared_memory(gl.float16, [count, 64, 64], shared)
    for step in gl.static_range(count):
        lefts.index(step).store(gl.load(a + i * 64 * count + step * 64 + j))
        rights.index(step).store(gl.load(b + (step * 64 + k) * 64 + j))
    fence_async_shared()
    ready = mbarrier.allocate_mbarrier(batch=2)
    free = mbarrier.allocate_mbarrier(batch=2)
    for n in gl.static_range(2):
        mbarrier.init(ready.index(n), count=1)
        mbarrier.init(free.index(n), count=1)
    accs = allocate_tensor_memory(gl.float32, [2, 128, 64], TensorMemoryLayout([128, 64], 1))
    gl.warp_specialize([
        (add_steps, (accs, ready, free, count, out)),
        (multiply_steps, (lefts, rights, accs, ready, free, count)),
    ], [1], [24])  # fmt: skip


def products_of_a_partition(launch: Launch) -> None:
    rng = np.random.default_rng(25)
    a = rng.integers(-4, 5, (128, 192)).astype(np.float16)
    b = rng.integers(-4, 5, (192, 64)).astype(np.float16)
    out = np.zeros((128, 64), np.float32)
    launch(partitions_kernel, (1,), a, b, out, count=3, shared=gl.NVMMASharedLayout(128, 16))
    np.testing.assert_array_equal(out, a.astype(np.float32) @ b)


SCALES = gl.constexpr(gl.SharedLinearLayout(
    [[0, 1], [0, 2], [32, 0], [64, 0], [1, 0], [2, 0], [4, 0], [8, 0], [16, 0]]))  # fmt: skip


@gluon.jit
def scaled_kernel(a, b, a_scales, b_scales, out, packed: gl.constexpr):
    """One side's scales are copied by the tensor cores, the other's stored by threads. `packed`:
    those of 32 rows, 32 apart, lie side by side, as the tensor cores want them."""
    left = gl.allocate_shared_memory(a.dtype, [128, 128], a.layout)
    right = gl.allocate_shared_memory(b.dtype, [128, 128], b.layout)
    bars = mbarrier.allocate_mbarrier(batch=2)
    for i in gl.static_range(2):
        mbarrier.init(bars.index(i), count=1)
    mbarrier.expect(bars.index(0), a.nbytes_per_cta + b.nbytes_per_cta)
    tma.async_load(a, [0, 0], bars.index(0), left)
    tma.async_load(b, [0, 0], bars.index(0), right)
    acc = allocate_tensor_memory(gl.float32, [128, 128], TensorMemoryLayout([128, 128], 1))
    layout: gl.constexpr = TensorMemoryScalesLayout()
    of_left = allocate_tensor_memory(gl.int8, [128, 4], layout)
    of_right = allocate_tensor_memory(gl.int8, [128, 4], layout)
    rows: gl.constexpr = gl.BlockedLayout([1, 4], [32, 1], [4, 1], [1, 0])
    i = gl.arange(0, 128, gl.SliceLayout(1, rows))[:, None]
    k = gl.arange(0, 4, gl.SliceLayout(0, rows))[None, :]
    if packed:
        wide: gl.constexpr = gl.BlockedLayout([1, 4], [8, 4], [4, 1], [1, 0])
        plain: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [1, 0])
        row = gl.arange(0, 32, gl.SliceLayout(1, wide))[:, None]
        loaded = gl.load(a_scales + row * 16 + gl.arange(0, 16, gl.SliceLayout(0, wide))[None, :])
        memory = gl.allocate_shared_memory(gl.int8, [32, 16], plain, loaded)
        staged = memory.reshape((1, 1, 32, 4, 4)).permute((0, 3, 2, 1, 4)).reshape((128, 4))
    else:
        loaded = gl.load(a_scales + i * 4 + k)
        staged = gl.allocate_shared_memory(gl.int8, [128, 4], SCALES, loaded)
    fence_async_shared()
    tcgen05_copy(staged, of_left)
    scales = gl.load(b_scales + i * 4 + k)
    of_right.store(gl.convert_layout(scales, of_right.get_reg_layout()))
    mbarrier.wait(bars.index(0), 0)
    tcgen05_mma_scaled(left, right.permute((1, 0)), acc, of_left, of_right, "e4m3", "e5m2",
                       use_acc=False, mbarriers=[bars.index(1)], mbarrier_preds=[True])
    mbarrier.wait(bars.index(1), 0)
    store_2d(out, acc.load(), 128)


def scaled_products(launch: Launch) -> None:
    rng = np.random.default_rng(23)
    a, b = (rng.integers(-2, 3, (128, 128)) for _ in range(2))
    scales = [rng.integers(125, 130, (128, 4)).astype(np.int8) for _ in range(2)]
    described = []
    for x, dtype, kind in ((a, ml_dtypes.float8_e4m3fn, gl.float8e4nv),
                           (b, ml_dtypes.float8_e5m2, gl.float8e5)):  # fmt: skip
        described.append(TensorDescriptor.from_tensor(
            x.astype(dtype), [128, 128], block_layout([128, 128], kind)))  # fmt: skip
    factors = [np.repeat(2.0 ** (s.view(np.uint8) - 127.0), 32, 1) for s in scales]
    groups = np.ascontiguousarray(scales[0].reshape(4, 32, 4).transpose(1, 0, 2).reshape(32, 16))
    for packed in (False, True):
        out = np.zeros((128, 128), np.float32)
        launch(scaled_kernel, (1,), *described, groups if packed else scales[0], scales[1], out,
               packed=packed)  # fmt: skip
        np.testing.assert_array_equal(out, (a * factors[0]) @ (b * factors[1]).T)


@gluon.jit
def packed_kernel(a, b, a_scales, b_scales, out, COUNT: gl.constexpr,
                  formats: gl.constexpr):  # fmt: skip
    """Operands with two elements a byte, or one of them; `COUNT` scales a row."""
    left = gl.allocate_shared_memory(a.dtype, a.block_shape, a.layout)
    right = gl.allocate_shared_memory(b.dtype, b.block_shape, b.layout)
    bars = mbarrier.allocate_mbarrier(batch=2)
    for i in gl.static_range(2):
        mbarrier.init(bars.index(i), count=1)
    mbarrier.expect(bars.index(0), a.nbytes_per_cta + b.nbytes_per_cta)
    tma.async_load(a, [0, 0], bars.index(0), left)
    tma.async_load(b, [0, 0], bars.index(0), right)
    acc = allocate_tensor_memory(gl.float32, [128, 64], TensorMemoryLayout([128, 64], 1))
    layout: gl.constexpr = TensorMemoryScalesLayout()
    kind: gl.constexpr = a_scales.dtype.element_ty
    of_left = allocate_tensor_memory(kind, [128, COUNT], layout)
    of_right = allocate_tensor_memory(kind, [64, COUNT], layout)
    rows: gl.constexpr = gl.BlockedLayout([1, COUNT], [32, 1], [4, 1], [1, 0])
    k = gl.arange(0, COUNT, gl.SliceLayout(0, rows))[None, :]
    i = gl.arange(0, 128, gl.SliceLayout(1, rows))[:, None]
    j = gl.arange(0, 64, gl.SliceLayout(1, rows))[:, None]
    of_left.store(gl.convert_layout(gl.load(a_scales + i * COUNT + k), of_left.get_reg_layout()))
    of_right.store(gl.convert_layout(gl.load(b_scales + j * COUNT + k), of_right.get_reg_layout()))
    mbarrier.wait(bars.index(0), 0)
    tcgen05_mma_scaled(left, right.permute((1, 0)), acc, of_left, of_right, *formats,
                       use_acc=False, mbarriers=[bars.index(1)])  # fmt: skip
    mbarrier.wait(bars.index(1), 0)
    store_2d(out, acc.load(), 64)


HALVES = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6])


def scaled_products_of_four_bits(launch: Launch) -> None:
    rng = np.random.default_rng(26)
    codes = [rng.integers(0, 16, (rows, 256)).astype(np.uint8) for rows in (128, 64)]
    made = [
        TensorDescriptor.from_tensor((x[:, ::2] | x[:, 1::2] << 4).view(np.int8), [len(x), 128],
                                     block_layout([len(x), 128], gl.int8)) for x in codes
    ]  # fmt: skip
    for run in (32, 16):
        scales = [rng.integers(-2, 3, (len(x), 256 // run)) for x in codes]
        given = [
            (127 + s).astype(np.int8) if run == 32 else np.exp2(s).astype(ml_dtypes.float8_e4m3fn)
            for s in scales
        ]
        out = np.zeros((128, 64), np.float32)
        formats = "e2m1", "e2m1"
        launch(packed_kernel, (1,), *made, *given, out, COUNT=256 // run, formats=formats)
        a, b = (HALVES[x] * np.repeat(np.exp2(s), run, 1)
                for x, s in zip(codes, scales, strict=True))  # fmt: skip
        np.testing.assert_array_equal(out, a @ b.T)


def scaled_products_of_four_and_eight_bits(launch: Launch) -> None:
    rng = np.random.default_rng(27)
    for four_on_the_left in (True, False):
        values, made, scales = list[Any](), list[Any](), list[Any]()
        for side, rows in enumerate((128, 64)):
            scales.append(rng.integers(-2, 3, (rows, 8)))
            if bool(side) != four_on_the_left:
                codes = rng.integers(0, 16, (rows, 256)).astype(np.uint8)
                layout = gl.NVMMASharedLayout.get_default_for([rows, 128], gl.int8, fp4_padded=True)
                packed = (codes[:, ::2] | codes[:, 1::2] << 4).view(np.int8)
                values.append(HALVES[codes])
                made.append(TensorDescriptor.from_tensor(packed, [rows, 128], layout))
            else:
                values.append(rng.integers(-3, 4, (rows, 256)))
                kind = values[-1].astype(ml_dtypes.float8_e4m3fn)
                layout = block_layout([rows, 256], gl.float8e4nv)
                made.append(TensorDescriptor.from_tensor(kind, [rows, 256], layout))
        out, formats = np.zeros((128, 64), np.float32), ("e2m1", "e4m3")
        launch(packed_kernel, (1,), *made, *((127 + s).astype(np.int8) for s in scales), out,
               COUNT=8, formats=formats if four_on_the_left else formats[::-1])  # fmt: skip
        a, b = (x * np.repeat(np.exp2(s), 32, 1) for x, s in zip(values, scales, strict=True))
        np.testing.assert_array_equal(out, a @ b.T)


@gluon.jit
def padded_kernel(codes, b, out):
    """The left operand, of 4 bits, in tensor memory, a byte for each element. Sums are in columns
    that two blocks of a layout share."""
    whole = allocate_tensor_memory(gl.float32, [128, 256], TensorMemoryLayout([128, 128], 1))
    acc = whole.slice(80, 128)
    wide = allocate_tensor_memory(gl.uint8, [128, 128], TensorMemoryLayout([128, 128], 1))
    registers: gl.constexpr = wide.get_reg_layout()
    i = gl.arange(0, 128, gl.SliceLayout(1, registers))[:, None]
    k = gl.arange(0, 128, gl.SliceLayout(0, registers))[None, :]
    wide.store(gl.load(codes + i * 128 + k) << 2)
    layout: gl.constexpr = TensorMemoryLayout([128, 64], 1, fp4_padded=True)
    left = wide.reinterpret(gl.uint8, [128, 64], layout)
    right = gl.allocate_shared_memory(b.dtype, b.block_shape, b.layout)
    bars = mbarrier.allocate_mbarrier(batch=2)
    for n in gl.static_range(2):
        mbarrier.init(bars.index(n), count=1)
    mbarrier.expect(bars.index(0), b.nbytes_per_cta)
    tma.async_load(b, [0, 0], bars.index(0), right)
    scales = allocate_tensor_memory(gl.uint8, [128, 4], TensorMemoryScalesLayout())
    scales.store(gl.full([128, 4], 128, gl.uint8, scales.get_reg_layout()))
    mbarrier.wait(bars.index(0), 0)
    tcgen05_mma_scaled(left, right.permute((1, 0)), acc, scales, scales, "e2m1", "e4m3",
                       use_acc=False, mbarriers=[bars.index(1)])  # fmt: skip
    mbarrier.wait(bars.index(1), 0)
    store_2d(out, acc.load(), 128)


def padded_operands_in_tensor_memory(launch: Launch) -> None:
    rng = np.random.default_rng(28)
    codes = rng.integers(0, 16, (128, 128)).astype(np.uint8)
    b, out = rng.integers(-3, 4, (128, 128)), np.zeros((128, 128), np.float32)
    desc = TensorDescriptor.from_tensor(b.astype(ml_dtypes.float8_e4m3fn), [128, 128],
                                        block_layout([128, 128], gl.float8e4nv))  # fmt: skip
    launch(padded_kernel, (1,), codes, desc, out)
    np.testing.assert_array_equal(out, 4 * HALVES[codes] @ b.T)


@gluon.jit
def copied_kernel(x, out, largest, smallest):
    """A block to tensor memory by the tensor cores, and back with the extremes of its rows."""
    M: gl.constexpr = x.block_shape[0]
    N: gl.constexpr = x.block_shape[1]
    memory = gl.allocate_shared_memory(x.dtype, [M, N], x.layout)
    bars = mbarrier.allocate_mbarrier(batch=2)
    for i in gl.static_range(2):
        mbarrier.init(bars.index(i), count=1)
    mbarrier.expect(bars.index(0), x.nbytes_per_cta)
    tma.async_load(x, [0, 0], bars.index(0), memory)
    mbarrier.wait(bars.index(0), 0)
    acc = allocate_tensor_memory(x.dtype, [M, N], TensorMemoryLayout([128, N], 1))
    tcgen05_copy(memory, acc)
    tcgen05_commit(bars.index(1))
    mbarrier.wait(bars.index(1), 0)
    found, most = acc.load_max()
    _, least = acc.load_min(abs=True)
    layout: gl.constexpr = found.type.layout
    i = gl.arange(0, M, gl.SliceLayout(1, layout))
    store_2d(out, found, N)
    gl.store(largest + i, most)
    gl.store(smallest + i, least)


def copies_to_tensor_memory(launch: Launch) -> None:
    rng = np.random.default_rng(27)
    for shape, dtype, kind in (((128, 64), np.float32, gl.float32), ((256, 32), np.float16,
                                                                     gl.float16)):  # fmt: skip
        x = rng.standard_normal(shape).astype(dtype)
        x[3, 5] = np.nan
        out, largest, smallest = np.zeros_like(x), *np.zeros((2, shape[0]), np.float32)
        desc = TensorDescriptor.from_tensor(x, list(shape), block_layout(list(shape), kind))
        launch(copied_kernel, (1,), desc, out, largest, smallest)
        np.testing.assert_array_equal(out, x)
        np.testing.assert_array_equal(largest, np.nanmax(x, 1))
        np.testing.assert_array_equal(smallest, np.nanmin(np.abs(x), 1))


@gluon.jit
def halves_kernel(a, b, out, BLOCK: gl.constexpr):
    """A product in blocks of 64 rows; its half is added to it by threads, and it is doubled."""
    M: gl.constexpr = a.block_shape[0]
    N: gl.constexpr = b.block_shape[1]
    left = gl.allocate_shared_memory(a.dtype, a.block_shape, a.layout)
    right = gl.allocate_shared_memory(b.dtype, b.block_shape, b.layout)
    bars = mbarrier.allocate_mbarrier(batch=2)
    for i in gl.static_range(2):
        mbarrier.init(bars.index(i), count=1)
    mbarrier.expect(bars.index(0), a.nbytes_per_cta + b.nbytes_per_cta)
    tma.async_load(a, [0, 0], bars.index(0), left)
    tma.async_load(b, [0, 0], bars.index(0), right)
    acc = allocate_tensor_memory(gl.float32, [M, N], TensorMemoryLayout([64, BLOCK], 1))
    mbarrier.wait(bars.index(0), 0)
    tcgen05_mma(left, right, acc, use_acc=False, mbarriers=[bars.index(1)])
    mbarrier.wait(bars.index(1), 0)
    found = acc.load()
    acc.store(found + 0.5 * found)
    tcgen05_mma(left, right, acc, mbarriers=[bars.index(1)])
    mbarrier.wait(bars.index(1), 1)
    store_2d(out, acc.load(), N)


def products_of_64_rows(launch: Launch) -> None:
    rng = np.random.default_rng(28)
    for m, n, block, warps in ((64, 32, 32, 4), (128, 64, 64, 4), (64, 64, 32, 4), (64, 64, 64, 8)):
        a = rng.integers(-4, 5, (m, 64)).astype(np.float16)
        b = rng.integers(-4, 5, (64, n)).astype(np.float16)
        out = np.zeros((m, n), np.float32)
        made = [TensorDescriptor.from_tensor(x, [*x.shape], block_layout([*x.shape]))
                for x in (a, b)]  # fmt: skip
        launch(halves_kernel, (1,), *made, out, BLOCK=block, num_warps=warps)
        np.testing.assert_array_equal(out, 2.5 * (a.astype(np.float32) @ b))


@gluon.jit
def persistent_kernel(out, seen, layout: gl.constexpr):
    """A program does its own work, then that of programs that have not begun."""
    answer = gl.allocate_shared_memory(gl.int64, [2], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    i = gl.arange(0, 128, layout)
    at = gl.program_id(0)
    phase = 0
    more = True
    while more:
        mbarrier.expect(bar, 16)
        clc.try_cancel(answer, bar)
        gl.store(out + at * 128 + i, i + at)
        gl.atomic_add(seen + at, 1)
        mbarrier.wait(bar, phase)
        found = clc.load_result(answer)
        more = found.is_canceled()
        if more:
            at = found.program_id(0)
        phase = phase ^ 1
    mbarrier.invalidate(bar)


def work_of_others(launch: Launch) -> None:
    out, seen = np.zeros((7, 128), np.int32), np.zeros(7, np.int32)
    launch(persistent_kernel, (7,), out, seen, layout=gl.BlockedLayout([1], [32], [4], [0]))
    np.testing.assert_array_equal(out, np.arange(7)[:, None] + np.arange(128))
    np.testing.assert_array_equal(seen, 1)


@gluon.jit
def pairs_kernel(src, out, half_out, layout: gl.constexpr):
    i = gl.arange(0, 512, layout)
    x = gl.load(src + i)
    y = gl.load(src + 511 - i)
    gl.store(out + i, fma2(x, y, mul2(sub2(x, y), add2(x, 1.0))))
    a, b = x.to(gl.float16), y.to(gl.float16)
    gl.store(half_out + i, add2(max2(a, b), mul2(min2(a, b), a)))


def pairs(launch: Launch) -> None:
    x = np.random.default_rng(24).standard_normal(512).astype(np.float32)
    y = x[::-1]
    product = (x - y) * (x + np.float32(1))
    wanted = (x.astype(np.float64) * y + product).astype(np.float32)
    a, b = x.astype(np.float16), y.astype(np.float16)
    for layout in (gl.BlockedLayout([2], [32], [4], [0]), gl.BlockedLayout([1], [32], [4], [0])):
        out, half = np.zeros(512, np.float32), np.zeros(512, np.float16)
        launch(pairs_kernel, (1,), x, out, half, layout=layout)
        np.testing.assert_array_equal(out, wanted)
        np.testing.assert_array_equal(half, np.maximum(a, b) + np.minimum(a, b) * a)


@gluon.jit
def rows_kernel(src, out, rows, others, column, COUNT: gl.constexpr):
    """Rows by their numbers to rows of other numbers, doubled."""
    line: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    tile: gl.constexpr = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0])
    width: gl.constexpr = src.block_shape[1]
    memory = gl.allocate_shared_memory(src.dtype, [COUNT, width], src.layout)
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    mbarrier.expect(bar, COUNT * src.nbytes_per_cta)
    i = gl.arange(0, COUNT, line)
    tma.async_gather(src, gl.load(rows + i), column, bar, memory)
    mbarrier.wait(bar, 0)
    x = memory.load(tile)
    memory.store(x + x)
    fence_async_shared()
    tma.async_scatter(out, gl.load(others + i), column, memory)
    tma.store_wait(0)


def rows_by_their_numbers(launch: Launch) -> None:
    rng = np.random.default_rng(25)
    x, out = rng.integers(-9, 9, (50, 128)).astype(np.float16), np.zeros((60, 128), np.float16)
    rows = rng.integers(0, 50, 32).astype(np.int32)
    others = rng.permutation(60)[:32].astype(np.int32)
    made = [TensorDescriptor.from_tensor(a, [1, 64], block_layout([32, 64])) for a in (x, out)]
    launch(rows_kernel, (1,), *made, rows, others, 64, COUNT=32)
    wanted = np.zeros_like(out)
    wanted[others, 64:] = 2 * x[rows, 64:]
    np.testing.assert_array_equal(out, wanted)


PROGRAMS: dict[str, Any] = {
    check.__name__: check
    for check in (products, products_of_transposed_operands, products_of_tensor_memory,
                  products_of_a_partition, scaled_products, work_of_others, pairs,
                  rows_by_their_numbers, scaled_products_of_four_bits,
                  scaled_products_of_four_and_eight_bits, padded_operands_in_tensor_memory,
                  copies_to_tensor_memory, products_of_64_rows)
}  # fmt: skip
"""The programs that sm_100 can run."""
