"""Gluon tutorial 04: a persistent matrix product.

A program of tutorial 02 computes one block of the result: between two of them the processor first
stores, then loads, and the tensor cores wait for both. Here as many programs as there are
processors run, each computes one block after the other, and nothing waits at the borders:

- the warp that loads goes on to the next block while the consumers still multiply;
- each consumer hands its result to the copy engine and begins with the next block while the engine
  writes. It does so in two parts, so that memory is left for one more pair of operand buffers.

    python tutorials/gluon/04_persistent_matmul.py
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


@gluon.jit
def ring_of_barriers(count: gl.constexpr, arrivals: gl.constexpr):
    bars = mbarrier.allocate_mbarrier(batch=count)
    for i in gl.static_range(count):
        mbarrier.init(bars.index(i), count=arrivals)
    return bars


# ---------------------------------------------------------------------------------------------
# The order of blocks
#
# Programs that run at the same time should read the same operands, which then are in the cache:
# blocks go down the rows of a group of columns, then to the next group.


@gluon.jit
def block_of(tile, rows, columns, GROUP: gl.constexpr):
    """(row, column) of a block of the result, counted in blocks."""
    in_group = rows * GROUP
    first = tile // in_group * GROUP
    width = gl.minimum(columns - first, GROUP)
    inside = tile % in_group
    return inside // width, first + inside % width


# ---------------------------------------------------------------------------------------------
# Each warp does one thing, block after block
#
# `step` counts the steps of all blocks: the rings of buffers and the phases of their barriers go on
# from one block to the next.


@gluon.jit
def load(a, b, M, N, K, lefts, rights, full, empty, GROUP: gl.constexpr):
    BM: gl.constexpr = a.block_shape[0]
    BN: gl.constexpr = b.block_shape[1]
    rows, columns = gl.cdiv(M, BM), gl.cdiv(N, BN)
    slots: gl.constexpr = lefts.shape[0]
    step = 0
    for tile in range(gl.program_id(0), rows * columns, gl.num_programs(0)):
        row, column = block_of(tile, rows, columns, GROUP)
        for k in range(0, K, a.block_shape[1]):
            slot = step % slots
            mbarrier.wait(empty.index(slot), step // slots & 1 ^ 1)
            bar = full.index(slot)
            mbarrier.expect(bar, a.nbytes_per_cta + b.nbytes_per_cta)
            tma.async_load(a, [row * BM, k], bar, lefts.index(slot))
            tma.async_load(b, [k, column * BN], bar, rights.index(slot))
            step += 1


@gluon.jit
def halves(x):
    """The left and the right columns of a block. Nothing moves: a thread has both."""
    return x.reshape([x.shape[0], 2, x.shape[1] // 2]).permute((0, 2, 1)).split()


@gluon.jit
def multiply(out, M, N, K, lefts, rights, full, empty, memory, half: gl.constexpr,
             GROUP: gl.constexpr):
    """The upper or lower half of the rows of each block."""
    BM: gl.constexpr = lefts.shape[1]
    BN: gl.constexpr = rights.shape[2]
    ROWS: gl.constexpr = BM // 2
    rows, columns = gl.cdiv(M, BM), gl.cdiv(N, BN)
    slots: gl.constexpr = lefts.shape[0]
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BN, 16])
    count = gl.cdiv(K, lefts.shape[2])
    step = 0
    for tile in range(gl.program_id(0), rows * columns, gl.num_programs(0)):
        row, column = block_of(tile, rows, columns, GROUP)
        acc = warpgroup_mma_init(gl.zeros([ROWS, BN], gl.float32, layout))
        for k in range(count):
            slot = step % slots
            mbarrier.wait(full.index(slot), step // slots & 1)
            left = lefts.index(slot).slice(half * ROWS, ROWS)
            acc = warpgroup_mma(left, rights.index(slot), acc, is_async=True)
            # The product before this one is done: its buffer is free.
            acc = warpgroup_mma_init(warpgroup_mma_wait(1, deps=[acc]))
            mbarrier.arrive(empty.index((step + slots - 1) % slots), pred=k > 0)
            step += 1
        result = warpgroup_mma_wait(0, deps=[acc])
        mbarrier.arrive(empty.index((step + slots - 1) % slots))
        parts = halves(result.to(out.dtype))
        for part in gl.static_range(2):
            tma.store_wait(0)  # of the part before, from the same memory
            memory.store(parts[part])
            fence_async_shared()
            at = column * BN + part * (BN // 2)
            tma.async_store(out, [row * BM + half * ROWS, at], memory)
    tma.store_wait(0)


@gluon.jit
def persistent(a, b, out, M, N, K, STAGES: gl.constexpr, GROUP: gl.constexpr):
    lefts = gl.allocate_shared_memory(a.dtype, [STAGES, *a.block_shape], a.layout)
    rights = gl.allocate_shared_memory(b.dtype, [STAGES, *b.block_shape], b.layout)
    done = gl.allocate_shared_memory(out.dtype, [2, *out.block_shape], out.layout)
    full, empty = ring_of_barriers(STAGES, 1), ring_of_barriers(STAGES, 2)
    shared = (lefts, rights, full, empty)
    gl.warp_specialize(
        [
            (multiply, (out, M, N, K, *shared, done.index(0), 0, GROUP)),
            (multiply, (out, M, N, K, *shared, done.index(1), 1, GROUP)),
            (load, (a, b, M, N, K, *shared, GROUP)),
        ],
        worker_num_warps=[4, 1],
        worker_num_regs=[232, 24],
    )


# ---------------------------------------------------------------------------------------------
# Launching: as many programs as the GPU has processors


def described(x, block: list[int]) -> TensorDescriptor:
    """A descriptor of a matrix of float16 in blocks."""
    layout = gl.NVMMASharedLayout.get_default_for(block, gl.float16)
    return TensorDescriptor.from_tensor(x, block, layout)


def arguments(a, b, out, bm: int, bn: int, bk: int) -> list:
    """The descriptors of a product's operands and result; a consumer stores half of its rows'
    columns at once."""
    return [described(a, [bm, bk]), described(b, [bk, bn]), described(out, [bm // 2, bn // 2])]


def programs() -> int:
    """How many programs to run."""
    if not on_gpu():
        return 3
    import torch

    return torch.cuda.get_device_properties(0).multi_processor_count


def matmul(a, b, bm: int = 128, bn: int = 256, bk: int = 64, stages: int = 4, group: int = 8):
    """a @ b for matrices of float16."""
    (m, k), n = a.shape, b.shape[1]
    out = empty((m, n), a)
    tiles = tritium.cdiv(m, bm) * tritium.cdiv(n, bn)
    persistent[(min(tiles, programs()),)](
        *arguments(a, b, out, bm, bn, bk), m, n, k, STAGES=stages, GROUP=group, num_warps=4
    )
    return out


def check(m: int = 300, n: int = 200, k: int = 200, **blocks: int) -> None:
    """Raise `AssertionError` where a product is wrong; small integers are multiplied exactly."""
    rng = np.random.default_rng(0)
    a = rng.integers(-3, 4, (m, k)).astype(np.float16)
    b = rng.integers(-3, 4, (k, n)).astype(np.float16)
    wanted = (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float16)
    np.testing.assert_array_equal(fetch(matmul(place(a), place(b), **blocks)), wanted)


def compiled(bm: int = 128, bn: int = 256, bk: int = 64, stages: int = 4):
    """The kernel compiled for sm_90."""
    spare = np.zeros((bm, bn * bk), np.float16)
    made = arguments(spare[:, :bk], spare[:bk, :bn], spare[:, :bn], bm, bn, bk)
    types = {
        name: f"tensordesc<fp16{list(d.block_shape)},{d.layout!r}>"
        for name, d in zip(("a", "b", "out"), made, strict=True)
    }
    source = gluon.GluonASTSource(
        gluon.GluonJITFunction(persistent.fn), {**types, "M": "i32", "N": "i32", "K": "i32"},
        {"STAGES": stages, "GROUP": 8},
    )  # fmt: skip
    return tritium.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4})


if __name__ == "__main__":
    code = compiled()
    ptx = code.asm["ptx"]
    print(f"persistent: {ptx.count('wgmma.mma_async')} wgmma, "
          f"{ptx.count('cp.async.bulk.tensor')} bulk copies, "
          f"{code.metadata.shared} bytes of shared memory")  # fmt: skip
    check()
    check(bn=64, group=2)
    print("the products are right")
