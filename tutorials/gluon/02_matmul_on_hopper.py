"""Gluon tutorial 02: a matrix product on Hopper.

Hopper's tensor cores (wgmma) read their operands from shared memory, and a copy engine (TMA) brings
them there. Both work on their own: a thread starts them and goes on. A fast kernel keeps both busy.
This tutorial writes such a kernel twice: first one in which all warps start copies ahead of the
products, then one in which a warp does nothing but load, and eight others nothing but multiply.

The kernels run on an H100 or H200. Elsewhere they run in the interpreter, which does asynchronous
work as late as the program allows: take one of the waits away and it says which access came too
early, at which line.

    python tutorials/gluon/02_matmul_on_hopper.py
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import tritium
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
from tritium.experimental.gluon.nvidia.hopper import TensorDescriptor
from tritium.target import GPUTarget

sys.path.insert(0, str(Path(__file__).parents[1]))
from arrays import empty, fetch, on_gpu, place

if not on_gpu():
    tritium.knobs.runtime.interpret = True

# ---------------------------------------------------------------------------------------------
# Barriers that count bytes
#
# An mbarrier is a word of shared memory. A *phase* of it ends when as many threads have arrived as
# it was initialized for and all expected bytes are there; then the next begins. `expect` arrives
# and says how many bytes the copies will bring. `wait` takes the parity of the phase: 0 for the
# first, 1 for the second, 0 again for the third.
#
# Memory for several blocks is a ring. `ring.index(i)` is the i-th of them, for an `i` that is known
# only when the kernel runs.


@gluon.jit
def ring_of_barriers(count: gl.constexpr, arrivals: gl.constexpr):
    bars = mbarrier.allocate_mbarrier(batch=count)
    for i in gl.static_range(count):
        mbarrier.init(bars.index(i), count=arrivals)
    return bars


@gluon.jit
def start_copies(a, b, row, column, step, lefts, rights, full, pred=True):
    """Start loading the operands of one step; its barrier says when they are there."""
    slot = step % lefts.shape[0]
    bar = full.index(slot)
    mbarrier.expect(bar, a.nbytes_per_cta + b.nbytes_per_cta, pred=pred)
    k = step * a.block_shape[1]
    tma.async_load(a, [row, k], bar, lefts.index(slot), pred=pred)
    tma.async_load(b, [k, column], bar, rights.index(slot), pred=pred)


@gluon.jit
def store_product(out, row, column, acc, memory):
    """Write a block through shared memory."""
    memory.store(acc.to(out.dtype))
    # The engine does not see what threads have written until this fence.
    fence_async_shared()
    tma.async_store(out, [row, column], memory)
    tma.store_wait(0)


# ---------------------------------------------------------------------------------------------
# All warps do all
#
# The loop starts the copies for the step after next, waits for those of its own step, and starts
# the product. `warpgroup_mma_wait(1)` lets that one run on while the next iteration begins, and
# says that the one before has ended: its buffer is the one that the next copies go to.


@gluon.jit
def pipelined(a, b, out, K, STAGES: gl.constexpr):
    lefts = gl.allocate_shared_memory(a.dtype, [STAGES, *a.block_shape], a.layout)
    rights = gl.allocate_shared_memory(b.dtype, [STAGES, *b.block_shape], b.layout)
    full = ring_of_barriers(STAGES, 1)
    M: gl.constexpr = a.block_shape[0]
    N: gl.constexpr = b.block_shape[1]
    row, column = gl.program_id(0) * M, gl.program_id(1) * N
    count = gl.cdiv(K, a.block_shape[1])
    for step in gl.static_range(STAGES - 2):
        start_copies(a, b, row, column, step, lefts, rights, full, pred=step < count)
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [gl.num_warps(), 1], [16, N, 16])
    acc = warpgroup_mma_init(gl.zeros([M, N], gl.float32, layout))
    for step in range(count):
        ahead = step + STAGES - 2
        start_copies(a, b, row, column, ahead, lefts, rights, full, pred=ahead < count)
        slot = step % STAGES
        mbarrier.wait(full.index(slot), step // STAGES & 1)
        acc = warpgroup_mma(lefts.index(slot), rights.index(slot), acc, is_async=True)
        acc = warpgroup_mma_init(warpgroup_mma_wait(1, deps=[acc]))
    acc = warpgroup_mma_wait(0, deps=[acc])
    store_product(out, row, column, acc,
                  gl.allocate_shared_memory(out.dtype, out.block_shape, out.layout))  # fmt: skip


# ---------------------------------------------------------------------------------------------
# Each warp does one thing
#
# `warp_specialize` runs functions at the same time, each in warps of its own. A second ring of
# barriers says which buffers are empty: a consumer arrives when it is done with one, the loader
# waits for it. (A wait for the parity before the first phase ends at once: all buffers are empty at
# the start.) The loader needs few registers, so that consumers can have more.


@gluon.jit
def load(a, b, row, column, count, lefts, rights, full, empty):
    for step in range(count):
        mbarrier.wait(empty.index(step % lefts.shape[0]), step // lefts.shape[0] & 1 ^ 1)
        start_copies(a, b, row, column, step, lefts, rights, full)


@gluon.jit
def multiply(out, row, column, count, lefts, rights, full, empty, memory, half: gl.constexpr):
    """The product of the upper or lower half of the rows."""
    M: gl.constexpr = lefts.shape[1] // 2
    N: gl.constexpr = rights.shape[2]
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [gl.num_warps(), 1], [16, N, 16])
    acc = gl.zeros([M, N], gl.float32, layout)
    for step in range(count):
        slot = step % lefts.shape[0]
        mbarrier.wait(full.index(slot), step // lefts.shape[0] & 1)
        acc = warpgroup_mma(lefts.index(slot).slice(half * M, M), rights.index(slot), acc)
        mbarrier.arrive(empty.index(slot), count=1)
    store_product(out, row + half * M, column, acc, memory)


@gluon.jit
def specialized(a, b, out, K, STAGES: gl.constexpr):
    lefts = gl.allocate_shared_memory(a.dtype, [STAGES, *a.block_shape], a.layout)
    rights = gl.allocate_shared_memory(b.dtype, [STAGES, *b.block_shape], b.layout)
    done = gl.allocate_shared_memory(out.dtype, [2, *out.block_shape], out.layout)
    full, empty = ring_of_barriers(STAGES, 1), ring_of_barriers(STAGES, 2)
    row = gl.program_id(0) * a.block_shape[0]
    column = gl.program_id(1) * b.block_shape[1]
    count = gl.cdiv(K, a.block_shape[1])
    shared = (lefts, rights, full, empty)
    gl.warp_specialize(
        [
            (multiply, (out, row, column, count, *shared, done.index(0), 0)),
            (multiply, (out, row, column, count, *shared, done.index(1), 1)),
            (load, (a, b, row, column, count, *shared)),
        ],
        worker_num_warps=[4, 1],
        worker_num_regs=[232, 24],
    )


# ---------------------------------------------------------------------------------------------
# Launching
#
# A descriptor says where a tensor is and in which blocks, with which layout, it is copied. The
# layout must be the one that the tensor cores want; `get_default_for` has the widest rows.


def described(x, block: list[int]) -> TensorDescriptor:
    """A descriptor of a matrix of float16 in blocks."""
    layout = gl.NVMMASharedLayout.get_default_for(block, gl.float16)
    return TensorDescriptor.from_tensor(x, block, layout)


def arguments(kernel, a, b, out, bm: int, bn: int, bk: int) -> list:
    """The descriptors of a product's operands and result; a consumer stores its own rows."""
    rows = bm // 2 if kernel is specialized else bm
    return [described(a, [bm, bk]), described(b, [bk, bn]), described(out, [rows, bn])]


def matmul(a, b, kernel=specialized, bm: int = 128, bn: int = 128, bk: int = 64, stages: int = 4):
    """a @ b for matrices of float16."""
    (m, k), n = a.shape, b.shape[1]
    out = empty((m, n), a)
    grid = (tritium.cdiv(m, bm), tritium.cdiv(n, bn))
    kernel[grid](*arguments(kernel, a, b, out, bm, bn, bk), k, STAGES=stages, num_warps=4)
    return out


def check(kernel, m: int = 256, n: int = 192, k: int = 200, **blocks: int) -> None:
    """Raise `AssertionError` where a product is wrong; small integers are multiplied exactly."""
    rng = np.random.default_rng(0)
    a = rng.integers(-3, 4, (m, k)).astype(np.float16)
    b = rng.integers(-3, 4, (k, n)).astype(np.float16)
    wanted = (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float16)
    out = matmul(place(a), place(b), kernel, **blocks)
    np.testing.assert_array_equal(fetch(out), wanted)


# ---------------------------------------------------------------------------------------------
# The machine code, which takes no GPU to look at


def compiled(kernel, bm: int = 128, bn: int = 128, bk: int = 64, stages: int = 4):
    """The kernel compiled for sm_90."""
    spare = np.zeros((bm, bn * bk), np.float16)
    made = arguments(kernel, spare[:, :bk], spare[:bk, :bn], spare[:, :bn], bm, bn, bk)
    types = {
        name: f"tensordesc<fp16{list(d.block_shape)},{d.layout!r}>"
        for name, d in zip(("a", "b", "out"), made, strict=True)
    }
    source = gluon.GluonASTSource(
        gluon.GluonJITFunction(kernel.fn), {**types, "K": "i32"}, {"STAGES": stages}
    )
    return tritium.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4})


if __name__ == "__main__":
    for kernel in (pipelined, specialized):
        code = compiled(kernel)
        ptx = code.asm["ptx"]
        print(f"{kernel.__name__}: {ptx.count('wgmma.mma_async')} wgmma, "
              f"{ptx.count('cp.async.bulk.tensor')} bulk copies, "
              f"{code.metadata.shared} bytes of shared memory")  # fmt: skip
        check(kernel)
    print("the products are right")
