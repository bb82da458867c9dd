"""Gluon programs that use shared memory, asynchronous copies and tensor cores, each with a check
against NumPy: `check(launch)`; see `support.launcher`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.gluon.support import Launch
from tritium.experimental import gluon
from tritium.experimental.gluon import language as gl
from tritium.experimental.gluon.language.nvidia.ampere import async_copy, mbarrier, mma_v2

ROWS = gl.constexpr(gl.BlockedLayout([1, 4], [8, 4], [4, 1], [1, 0]))
COLUMNS = gl.constexpr(gl.BlockedLayout([4, 1], [4, 8], [1, 4], [0, 1]))


@gluon.jit
def offsets_2d(N: gl.constexpr, shape: gl.constexpr, layout: gl.constexpr):
    i = gl.arange(0, shape[0], gl.SliceLayout(1, layout))[:, None]
    j = gl.arange(0, shape[1], gl.SliceLayout(0, layout))[None, :]
    return i * N + j


@gluon.jit
def round_trip_kernel(src, out, shared: gl.constexpr, a: gl.constexpr, b: gl.constexpr):
    shape: gl.constexpr = [32, 64]
    x = gl.load(src + offsets_2d(64, shape, a))
    memory = gl.allocate_shared_memory(gl.float16, shape, shared, x)
    y = memory.load(b)
    memory.store(x + 1)
    gl.store(out + offsets_2d(64, shape, b), memory.load(b) + y)


def round_trips(launch: Launch) -> None:
    source = (np.arange(32 * 64) % 509).astype(np.float16).reshape(32, 64)
    for shared in (
        gl.SwizzledSharedLayout(1, 1, 1, [1, 0]),
        gl.SwizzledSharedLayout(8, 1, 8, [0, 1]),
        gl.NVMMASharedLayout(128, 16),
        gl.NVMMASharedLayout(64, 16, transposed=True),
        gl.SharedLinearLayout([[0, 1 << i] for i in range(6)] + [[1 << i, 0] for i in range(5)]),
        gl.PaddedSharedLayout.with_identity_for([[64, 8]], [32, 64], [1, 0]),
        gl.PaddedSharedLayout.with_identity_for([[16, 2], [128, 16]], [32, 64], [0, 1]),
    ):
        for a, b in ((ROWS, COLUMNS), (COLUMNS, ROWS)):
            out = np.zeros_like(source)
            launch(round_trip_kernel, (1,), source, out, shared=shared, a=a, b=b)
            np.testing.assert_array_equal(out, 2 * source + 1)


@gluon.jit
def views_kernel(src, out, shared: gl.constexpr, layout: gl.constexpr, half: gl.constexpr):
    memory = gl.allocate_shared_memory(gl.int32, [2, 32, 32], shared)
    offsets = offsets_2d(32, [32, 32], layout)
    for i in range(2):
        memory.index(i).store(gl.load(src + i * 1024 + offsets))
    turned = memory.index(1).permute([1, 0]).load(layout)
    gl.store(out + offsets, turned)
    first = memory.index(0)
    lower = first.slice(16, 16).load(half)  # rows 16 to 31
    right = first.slice(16, 16, dim=1).permute((1, 0)).load(half)
    first.slice(0, 16).slice(0, 16, dim=1).store(
        gl.full([16, 16], -1, gl.int32, gl.BlockedLayout([1, 1], [2, 16], [4, 1], [1, 0])))
    gl.store(out + 1024 + offsets_2d(32, [16, 32], half), lower + right)
    gl.store(out + 1536 + offsets, first.load(layout))


def views(launch: Launch) -> None:
    source = np.arange(2 * 32 * 32, dtype=np.int32).reshape(2, 32, 32)
    padded = gl.PaddedSharedLayout.with_identity_for([[32, 4]], [32, 32], [1, 0])
    for shared in (gl.SwizzledSharedLayout(4, 1, 8, [1, 0]), gl.NVMMASharedLayout(128, 32), padded):
        out = np.zeros(1536 + 1024, np.int32)
        launch(views_kernel, (1,), source, out, shared=shared, layout=ROWS,
               half=gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0]))  # fmt: skip
        np.testing.assert_array_equal(out[:1024].reshape(32, 32), source[1].T)
        wanted = source[0, 16:] + source[0, :, 16:].T
        np.testing.assert_array_equal(out[1024:1536].reshape(16, 32), wanted)
        first = source[0].copy()
        first[:16, :16] = -1
        np.testing.assert_array_equal(out[1536:].reshape(32, 32), first)


@gluon.jit
def reshape_kernel(src, out, shared: gl.constexpr, layout: gl.constexpr):
    x = gl.load(src + offsets_2d(32, [64, 32], ROWS))
    memory = gl.allocate_shared_memory(gl.int16, [64, 32], shared, x)
    rows = memory.reshape((16, 128))
    rows.slice(8, 8).store(rows.slice(0, 8).load(layout) + 1)
    turned = memory.reshape((128, 16)).permute((1, 0))
    gl.store(out + offsets_2d(128, [16, 128], layout), turned.load(layout))


def reshapes(launch: Launch) -> None:
    source = np.arange(64 * 32, dtype=np.int16).reshape(64, 32)
    wanted = source.reshape(16, 128).copy()
    wanted[8:] = wanted[:8] + 1
    wanted = wanted.reshape(128, 16).T
    for shared in (gl.SwizzledSharedLayout(4, 2, 4, [1, 0]), gl.NVMMASharedLayout(64, 16)):
        out = np.zeros((16, 128), np.int16)
        launch(reshape_kernel, (1,), source, out, shared=shared,
               layout=gl.BlockedLayout([1, 8], [2, 16], [4, 1], [1, 0]))  # fmt: skip
        np.testing.assert_array_equal(out, wanted)


@gluon.jit
def permuted_kernel(src, out, shared: gl.constexpr, layout: gl.constexpr, parts: gl.constexpr):
    """Views of which no strides say where elements are: written through, sliced, turned."""
    memory = gl.allocate_shared_memory(gl.int16, [32, 64], shared)
    mixed = memory.reshape((32, 2, 32)).permute((0, 2, 1)).reshape((32, 64))
    mixed.store(gl.load(src + offsets_2d(64, [32, 64], layout)))
    gl.store(out + offsets_2d(64, [32, 64], layout), memory.load(layout))
    part = mixed.slice(8, 8).permute((1, 0)).load(parts)
    gl.store(out + 2048 + offsets_2d(8, [64, 8], parts), part)


def permuted_reshapes(launch: Launch) -> None:
    source = np.arange(32 * 64, dtype=np.int16).reshape(32, 64)
    wanted = source.reshape(32, 32, 2).transpose(0, 2, 1)
    for shared in (gl.SwizzledSharedLayout(4, 2, 4, [1, 0]), gl.NVMMASharedLayout(64, 16)):
        out = np.zeros(2048 + 512, np.int16)
        launch(permuted_kernel, (1,), source, out, shared=shared,
               layout=gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0]),
               parts=gl.BlockedLayout([1, 8], [32, 1], [4, 1], [1, 0]))  # fmt: skip
        np.testing.assert_array_equal(out[:2048], wanted.reshape(-1))
        np.testing.assert_array_equal(out[2048:].reshape(64, 8), source[8:16].T)


@gluon.jit
def unstrided_kernel(src, out, columns: gl.constexpr, layout: gl.constexpr, wide: gl.constexpr):
    """Copies, scattered elements and other types through views that no strides describe."""
    plain: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [1, 0])
    memory = gl.allocate_shared_memory(gl.int16, [2, 64, 32], columns)
    turned = memory.permute((0, 2, 1))  # shape (2, 32, 64)
    first = turned.slice(0, 1).reshape((64, 32))
    second = turned.slice(1, 1).reshape((64, 32))
    at = offsets_2d(32, [64, 32], layout)
    for i in gl.static_range(2):
        async_copy.async_load(first if i == 0 else second, src + i * 2048 + at)
        async_copy.commit_group()
        if i == 1:  # the copy into the first one is in flight
            async_copy.wait_group(1)
            gl.store(out + at, first.load(layout))
    async_copy.wait_group(0)
    gl.barrier()
    second.scatter(gl.full([64, 32], 7, gl.int16, layout), at % 2, axis=1)
    gl.barrier()
    words = second.reinterpret(gl.int32, [64, 16], plain)
    half = offsets_2d(16, [64, 16], wide)
    words.store(words.load(wide) + (half << 16))
    gl.barrier()
    bytes = words.reinterpret(gl.int8, [64, 64], plain).permute((1, 0)).slice(32, 32)
    gl.store(out + 2048 + offsets_2d(64, [32, 64], layout), bytes.load(layout).to(gl.int16))
    gl.store(out + 4096 + at, memory.slice(1, 1).reshape((64, 32)).load(layout))


def unstrided(launch: Launch) -> None:
    source = np.arange(4096, dtype=np.int16).reshape(2, 64, 32)
    out = np.zeros(3 * 2048, np.int16)
    layout = gl.BlockedLayout([1, 2], [8, 4], [4, 1], [1, 0])
    launch(unstrided_kernel, (1,), source, out, columns=gl.SwizzledSharedLayout(1, 1, 1, [1, 2, 0]),
           layout=layout, wide=layout)  # fmt: skip
    np.testing.assert_array_equal(out[:2048], source[0].reshape(-1))
    second = source[1].copy()
    second[:, :2] = 7
    words = second.view(np.int32)
    words += np.arange(1024, dtype=np.int32).reshape(64, 16) << 16
    turned = words.view(np.int8).T[32:].astype(np.int16)
    np.testing.assert_array_equal(out[2048:4096], turned.reshape(-1))
    held = second.reshape(32, 64).T
    np.testing.assert_array_equal(out[4096:], held.reshape(-1))


@gluon.jit
def other_places_kernel(src, out, swizzled: gl.constexpr, layout: gl.constexpr):
    """Memory as it is without the swizzle, written there, and with a swizzle of other elements."""
    plain: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [1, 0])
    at = offsets_2d(64, [64, 64], layout)
    memory = gl.allocate_shared_memory(gl.int16, [64, 64], swizzled, gl.load(src + at))
    bare = memory.reinterpret(gl.int16, [64, 64], plain)
    gl.store(out + at, bare.load(layout))
    bare.slice(32, 32).store(gl.full([32, 64], 5, gl.int16, layout))
    gl.barrier()
    gl.store(out + 4096 + at, memory.load(layout))
    words = memory.reinterpret(gl.int32, [2, 32, 32], gl.NVMMASharedLayout(128, 32)).index(0)
    half = offsets_2d(32, [32, 32], layout)
    gl.store(out + 8192 + half, (words.load(layout) >> 16).to(gl.int16))


def other_places(launch: Launch) -> None:
    source = np.arange(4096, dtype=np.int16).reshape(64, 64)
    out = np.zeros(2 * 4096 + 1024, np.int16)
    launch(other_places_kernel, (1,), source, out, swizzled=gl.NVMMASharedLayout(128, 16),
           layout=ROWS)  # fmt: skip
    row, column = np.indices(source.shape)
    column ^= row % 8 * 8  # which 16 of the 128 bytes of a row
    np.testing.assert_array_equal(out[:4096].reshape(64, 64), source[row, column])
    written = source.copy()
    written[32:] = 5
    np.testing.assert_array_equal(out[4096:8192], written.reshape(-1))
    words = source[:32, 1::2]
    np.testing.assert_array_equal(out[8192:].reshape(32, 32), words)


@gluon.jit
def reshape_one_kernel(out, layout: gl.constexpr):
    plain: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [0])
    five = gl.full([1], 5, gl.int32, gl.SliceLayout(0, layout))
    memory = gl.allocate_shared_memory(gl.int32, [1], plain, five)
    gl.store(out + gl.full([1, 1], 0, gl.int32, layout), memory.reshape((1, 1)).load(layout))


def reshapes_of_one_element(launch: Launch) -> None:
    """Memory of one element has no bases of offsets, in any shape."""
    out = np.zeros(1, np.int32)
    launch(reshape_one_kernel, (1,), out, layout=gl.BlockedLayout([1, 1], [4, 8], [1, 4], [1, 0]))
    assert out[0] == 5


@gluon.jit
def reuse_kernel(src, out, layout: gl.constexpr):
    plain: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [0])
    i = gl.arange(0, 256, layout)
    memory = gl.allocate_shared_memory(gl.int32, [256], plain, gl.load(src + i))
    words = memory.reinterpret(gl.float32, [256], plain)
    gl.store(out + i, words.load(layout))
    memory._keep_alive()


def reuse(launch: Launch) -> None:
    numbers = np.linspace(-1, 1, 256, dtype=np.float32)
    out = np.zeros_like(numbers)
    launch(reuse_kernel, (1,), numbers.view(np.int32), out,
           layout=gl.BlockedLayout([2], [32], [4], [0]))  # fmt: skip
    np.testing.assert_array_equal(out, numbers)


@gluon.jit
def pipeline_kernel(src, out, n, STAGES: gl.constexpr, BLOCK: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([4], [32], [4], [0])
    ring = gl.allocate_shared_memory(
        gl.float32, [STAGES, BLOCK], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    i = gl.arange(0, BLOCK, layout)
    count = gl.cdiv(n, BLOCK)
    for stage in gl.static_range(STAGES - 1):
        at = stage * BLOCK + i
        async_copy.async_load(ring.index(stage), src + at, at < n)
        async_copy.commit_group()
    for step in range(count):
        ahead = (step + STAGES - 1) * BLOCK + i
        async_copy.async_load(ring.index((step + STAGES - 1) % STAGES), src + ahead, ahead < n)
        async_copy.commit_group()
        async_copy.wait_group(STAGES - 1)
        at = step * BLOCK + i
        gl.store(out + at, ring.index(step % STAGES).load(layout) * 2, at < n)
    async_copy.wait_group(0)


def pipelines(launch: Launch) -> None:
    source = np.arange(5000, dtype=np.float32)
    out = np.zeros_like(source)
    launch(pipeline_kernel, (1,), source, out, 5000 - 8, STAGES=3, BLOCK=512)
    np.testing.assert_array_equal(out[:-8], 2 * source[:-8])
    assert not out[-8:].any()


@gluon.jit
def barrier_kernel(src, out, n, BLOCK: gl.constexpr, EACH: gl.constexpr = False):
    """Copies by threads of which a barrier says when they are done; `EACH`: each thread arrives."""
    layout: gl.constexpr = gl.BlockedLayout([4], [32], [4], [0])
    ring = gl.allocate_shared_memory(
        gl.float32, [2, BLOCK], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    bars = mbarrier.allocate_mbarrier(batch=2)
    for i in gl.static_range(2):
        mbarrier.init(bars.index(i), count=128 if EACH else 1)
    i = gl.arange(0, BLOCK, layout)
    for step in range(gl.cdiv(n, BLOCK) + 1):
        slot, at = step % 2, step * BLOCK + i
        async_copy.async_load(ring.index(slot), src + at, at < n)
        async_copy.mbarrier_arrive(bars.index(slot), increment_count=not EACH)
        if not EACH:
            mbarrier.arrive(bars.index(slot))
        if step > 0:
            mbarrier.wait(bars.index(1 - slot), (step - 1) // 2 & 1)
            at -= BLOCK
            gl.store(out + at, ring.index(1 - slot).load(layout) * 2, at < n)


def barriers_of_copies(launch: Launch) -> None:
    source = np.arange(3000, dtype=np.float32)
    for each in (False, True):
        out = np.zeros_like(source)
        launch(barrier_kernel, (1,), source, out, 2992, BLOCK=512, EACH=each)
        np.testing.assert_array_equal(out[:-8], 2 * source[:-8])
        assert not out[-8:].any()


@gluon.jit
def fma_kernel(a, b, out, parent: gl.constexpr, M: gl.constexpr, N: gl.constexpr,
               K: gl.constexpr):
    x, y = gl.load(a + offsets_2d(K, [M, K], ROWS)), gl.load(b + offsets_2d(N, [K, N], ROWS))
    x = gl.convert_layout(x, gl.DotOperandLayout(0, parent, 0))
    y = gl.convert_layout(y, gl.DotOperandLayout(1, parent, 0))
    acc = gl.full([M, N], 1.0, gl.float32, parent)
    gl.store(out + offsets_2d(N, [M, N], parent), gl.dot_fma(x, y, acc))


def products_by_threads(launch: Launch) -> None:
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-4, 5, (32, 32)).astype(np.float32) for _ in range(2))
    out = np.zeros((32, 32), np.float32)
    launch(fma_kernel, (1,), a, b, out, parent=gl.BlockedLayout([2, 2], [4, 8], [4, 1], [1, 0]),
           M=32, N=32, K=32)  # fmt: skip
    np.testing.assert_array_equal(out, a @ b + 1)


@gluon.jit
def mma_kernel(a, b, out, K: gl.constexpr):
    mma: gl.constexpr = gl.NVMMADistributedLayout([2, 0], [2, 2], [16, 8])
    swizzled: gl.constexpr = gl.SwizzledSharedLayout(8, 1, 8, [1, 0])
    acc = gl.zeros([64, 32], gl.float32, mma)
    left = gl.allocate_shared_memory(gl.float16, [64, 32], swizzled)
    right = gl.allocate_shared_memory(gl.float16, [32, 32], swizzled)
    for k in range(0, K, 32):
        async_copy.async_load(left, a + k + offsets_2d(K, [64, 32], ROWS))
        async_copy.async_load(right, b + k * 32 + offsets_2d(32, [32, 32], ROWS))
        async_copy.commit_group()
        async_copy.wait_group(0)
        acc = mma_v2(left.load(gl.DotOperandLayout(0, mma, 2)),
                     right.load(gl.DotOperandLayout(1, mma, 2)), acc)
    gl.store(out + offsets_2d(32, [64, 32], ROWS), gl.convert_layout(acc, ROWS))


def products_on_tensor_cores(launch: Launch) -> None:
    rng = np.random.default_rng(2)
    a = rng.integers(-4, 5, (64, 128)).astype(np.float16)
    b = rng.integers(-4, 5, (128, 32)).astype(np.float16)
    out = np.zeros((64, 32), np.float32)
    launch(mma_kernel, (1,), a, b, out, K=128)
    np.testing.assert_array_equal(out, a.astype(np.float32) @ b.astype(np.float32))


@gluon.jit
def indexed_kernel(src, at, out, counts, shared: gl.constexpr, line: gl.constexpr):
    rows: gl.constexpr = gl.BlockedLayout([1, 1], [4, 8], [4, 1], [1, 0])
    tile = offsets_2d(32, [16, 32], rows)
    memory = gl.allocate_shared_memory(gl.int32, [16, 32], shared, gl.load(src + tile))
    where = gl.load(at + tile)
    found = memory.gather(where, axis=1)
    gl.store(out + tile, found)
    memory.scatter(found + 1, where, axis=1)
    gl.store(out + 512 + tile, memory.load(rows))
    bins = gl.allocate_shared_memory(gl.int32, [64], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    i = gl.arange(0, 64, line)
    bins.store(i * 0)
    j = gl.arange(0, 256, line)
    index = gl.load(src + j) & 63
    before = bins.atomic_scatter_add(1, index, axis=0, mask=j < 200)
    gl.store(counts + j, before)
    gl.store(counts + 256 + i, bins.load(line))
    bins.atomic_scatter_max(j, index, axis=0)
    gl.store(counts + 320 + i, bins.load(line))


def indices(launch: Launch) -> None:
    rng = np.random.default_rng(8)
    source = rng.integers(0, 1000, (16, 32)).astype(np.int32)
    where = np.argsort(rng.random((16, 32)), 1).astype(np.int32)
    found = np.take_along_axis(source, where, 1)
    stored = np.zeros_like(source)
    np.put_along_axis(stored, where, found + 1, 1)
    index = source.reshape(-1)[:256] & 63
    bins = np.bincount(index[:200], minlength=64)
    largest = bins.copy()
    np.maximum.at(largest, index, np.arange(256))
    for shared in (
        gl.SwizzledSharedLayout(2, 1, 4, [0, 1]), gl.NVMMASharedLayout(128, 32),
        gl.PaddedSharedLayout.with_identity_for([[32, 4]], [16, 32], [1, 0]),
    ):  # fmt: skip
        columns = gl.BlockedLayout([1, 2], [8, 4], [2, 2], [0, 1])
        for line in (gl.BlockedLayout([1], [32], [4], [0]), gl.SliceLayout(1, columns)):
            out, counts = np.zeros((2, 16, 32), np.int32), np.zeros(384, np.int32)
            launch(indexed_kernel, (1,), source, where, out, counts, shared=shared, line=line)
            np.testing.assert_array_equal(out, [found, stored])
            np.testing.assert_array_equal(counts[256:320], bins)
            np.testing.assert_array_equal(counts[320:], largest)
            for value in range(64):  # each addition saw another number
                seen = counts[:200][index[:200] == value]
                np.testing.assert_array_equal(np.sort(seen), np.arange(len(seen)))


PROGRAMS: dict[str, Any] = {
    check.__name__: check
    for check in (round_trips, views, reshapes, permuted_reshapes, unstrided, other_places,
                  reshapes_of_one_element, reuse, indices, pipelines, barriers_of_copies,
                  products_by_threads, products_on_tensor_cores)
}  # fmt: skip
"""The programs that sm_80 can run."""
