"""Bulk copies between layouts of shared memory, each with a check against NumPy: what the copy
engine writes is where threads read it, whatever the swizzle, the rows and the place of a buffer."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.gluon.support import Launch
from tritium.experimental import gluon
from tritium.experimental.gluon import language as gl
from tritium.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma
from tritium.experimental.gluon.nvidia.hopper import TensorDescriptor

KINDS: dict[int, Any] = {1: gl.int8, 2: gl.float16, 4: gl.float32}


def _numbers(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    return np.random.default_rng(5).integers(-99, 99, shape).astype(dtype)


@gluon.jit
def rows_kernel(source, copy, out, ROWS: gl.constexpr, COLUMNS: gl.constexpr,
                COUNT: gl.constexpr):  # fmt: skip
    """Blocks of rows through one of several buffers each: from the engine to threads, and back."""
    registers: gl.constexpr = gl.BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0])
    ring = gl.allocate_shared_memory(source.dtype, [COUNT, *source.block_shape], source.layout)
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    i = gl.arange(0, ROWS, gl.SliceLayout(1, registers))[:, None]
    j = gl.arange(0, COLUMNS, gl.SliceLayout(0, registers))[None, :]
    for block in gl.static_range(COUNT):
        buffer = ring.index(block)
        mbarrier.expect(bar, source.nbytes_per_cta)
        tma.async_load(source, [block * ROWS, 0], bar, buffer)
        mbarrier.wait(bar, block & 1)
        x = buffer.load(registers)
        gl.store(out + (block * ROWS + i) * COLUMNS + j, x)
        buffer.store(x + x)
        fence_async_shared()
        tma.async_store(copy, [block * ROWS, 0], buffer)
    tma.store_wait(0)


def _rows(launch: Launch, swizzle: int, rows: int, columns: int, dtype: Any) -> None:
    source = _numbers((3 * rows, columns), dtype)
    out, copy = np.zeros_like(source), np.zeros_like(source)
    layout = gl.NVMMASharedLayout(swizzle, 8 * source.itemsize, 2)
    made = [TensorDescriptor.from_tensor(x, [rows, columns], layout) for x in (source, copy)]
    launch(rows_kernel, (1,), *made, out, ROWS=rows, COLUMNS=columns, COUNT=3)
    np.testing.assert_array_equal(out, source)
    np.testing.assert_array_equal(copy, source + source)


def without_swizzle(launch: Launch) -> None:
    for rows, columns, dtype in ((64, 64, np.float16), (16, 8, np.float16), (8, 256, np.int8),
                                 (4, 512, np.float16), (2, 64, np.float32)):  # fmt: skip
        _rows(launch, 0, rows, columns, dtype)


def every_swizzle(launch: Launch) -> None:
    for swizzle in (32, 64, 128):
        _rows(launch, swizzle, 8, 128, np.float16)
        _rows(launch, swizzle, 16, 32, np.float32)


def few_rows(launch: Launch) -> None:
    for rows in (1, 2, 4):
        layout = gl.NVMMASharedLayout.get_default_for([rows, 128], gl.float16)
        _rows(launch, layout.swizzle_byte_width, rows, 128, np.float16)


@gluon.jit
def line_kernel(source, copy, out, SIZE: gl.constexpr, COUNT: gl.constexpr):
    registers: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    ring = gl.allocate_shared_memory(source.dtype, [COUNT, SIZE], source.layout)
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    i = gl.arange(0, SIZE, registers)
    for block in gl.static_range(COUNT):
        buffer = ring.index(block)
        mbarrier.expect(bar, source.nbytes_per_cta)
        tma.async_load(source, [block * SIZE], bar, buffer)
        mbarrier.wait(bar, block & 1)
        x = buffer.load(registers)
        gl.store(out + block * SIZE + i, x)
        buffer.store(x + x)
        fence_async_shared()
        tma.async_store(copy, [block * SIZE], buffer)
    tma.store_wait(0)


def one_axis(launch: Launch) -> None:
    for size, dtype in ((256, np.float16), (64, np.float16), (512, np.int8), (128, np.float32)):
        source = _numbers((3 * size,), dtype)
        out, copy = np.zeros_like(source), np.zeros_like(source)
        layout = gl.NVMMASharedLayout.get_default_for([size], KINDS[source.itemsize])
        made = [TensorDescriptor.from_tensor(x, [size], layout) for x in (source, copy)]
        launch(line_kernel, (1,), *made, out, SIZE=size, COUNT=3)
        np.testing.assert_array_equal(out, source)
        np.testing.assert_array_equal(copy, source + source)


@gluon.jit
def box_kernel(source, out, A: gl.constexpr, B: gl.constexpr, C: gl.constexpr):
    registers: gl.constexpr = gl.BlockedLayout([1, 1, 1], [1, 1, 32], [1, 4, 1], [2, 1, 0])
    ring = gl.allocate_shared_memory(source.dtype, [2, *source.block_shape], source.layout)
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    rows: gl.constexpr = gl.SliceLayout(2, registers)
    i = gl.arange(0, A, gl.SliceLayout(1, rows))[:, None, None]
    j = gl.arange(0, B, gl.SliceLayout(0, rows))[None, :, None]
    k = gl.arange(0, C, gl.SliceLayout(0, gl.SliceLayout(1, registers)))[None, None, :]
    for block in gl.static_range(2):
        mbarrier.expect(bar, source.nbytes_per_cta)
        tma.async_load(source, [block * A, 0, 0], bar, ring.index(block))
        mbarrier.wait(bar, block)
        gl.store(out + ((block * A + i) * B + j) * C + k, ring.index(block).load(registers))


def three_axes(launch: Launch) -> None:
    for swizzle, (a, b, c) in ((0, (2, 4, 64)), (0, (2, 4, 512)), (128, (2, 4, 64)),
                               (128, (4, 2, 128)), (64, (2, 8, 32))):  # fmt: skip
        source = _numbers((2 * a, b, c), np.float16)
        out = np.zeros_like(source)
        layout = gl.NVMMASharedLayout(swizzle, 16, 3)
        made = TensorDescriptor.from_tensor(source, [a, b, c], layout)
        launch(box_kernel, (1,), made, out, A=a, B=b, C=c)
        np.testing.assert_array_equal(out, source)


@gluon.jit
def slice_kernel(source, out, ROWS: gl.constexpr, COLUMNS: gl.constexpr):
    """Blocks are copied to slices of one matrix in shared memory."""
    registers: gl.constexpr = gl.BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0])
    memory = gl.allocate_shared_memory(source.dtype, [2 * ROWS, COLUMNS], source.layout)
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    mbarrier.expect(bar, 2 * source.nbytes_per_cta)
    for block in gl.static_range(2):
        tma.async_load(source, [block * ROWS, 0], bar, memory.slice(block * ROWS, ROWS))
    mbarrier.wait(bar, 0)
    i = gl.arange(0, 2 * ROWS, gl.SliceLayout(1, registers))[:, None]
    j = gl.arange(0, COLUMNS, gl.SliceLayout(0, registers))[None, :]
    gl.store(out + i * COLUMNS + j, memory.load(registers))


def slices(launch: Launch) -> None:
    for swizzle, rows, columns in ((128, 4, 64), (128, 8, 128), (64, 4, 32), (0, 4, 64)):
        source = _numbers((2 * rows, columns), np.float16)
        out = np.zeros_like(source)
        layout = gl.NVMMASharedLayout(swizzle, 16, 2)
        made = TensorDescriptor.from_tensor(source, [rows, columns], layout)
        launch(slice_kernel, (1,), made, out, ROWS=rows, COLUMNS=columns)
        np.testing.assert_array_equal(out, source)


PROGRAMS = {
    f.__name__: f
    for f in (without_swizzle, every_swizzle, few_rows, one_axis, three_axes, slices)
}
