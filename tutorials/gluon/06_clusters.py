"""Gluon tutorial 06: clusters of thread blocks.

On Hopper several thread blocks can run as a *cluster*: at the same time, on neighbouring
processors, each with access to the others' shared memory. With `num_ctas=2` a program is such a
cluster of two. Its blocks of data are shared out to the thread blocks: each layout has a
`cga_layout` that says, for each bit of a thread block's number, how many parts further on along
each axis the others have theirs. `[[1, 0]]` is "the second thread block has the lower half of the
rows", `[[0, 0]]` "it has a copy of everything".

Two uses follow: a row that is too long for one thread block, and a product in which two thread
blocks read an operand from memory once for both.

    python tutorials/gluon/06_clusters.py
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import tritium
from tritium.experimental import gluon
from tritium.experimental.gluon import language as gl
from tritium.experimental.gluon.language.nvidia.hopper import (
    cluster,
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
# A row in the registers of several thread blocks
#
# The kernel looks like any other. That the columns are shared out stands in the layout alone, and
# what must be sent from one thread block to another follows from it: here the largest element and
# the sum of each row, which each thread block knows of its own columns only.


@gluon.jit
def softmax_kernel(src, out, columns, layout: gl.constexpr, WIDTH: gl.constexpr):
    j = gl.arange(0, WIDTH, gl.SliceLayout(0, layout))[None, :]
    i = gl.program_id(0) + gl.arange(0, 1, gl.SliceLayout(1, layout))[:, None]
    x = gl.load(src + i * columns + j, j < columns, -float("inf"))
    x = gl.exp(x - gl.max(x, 1, keep_dims=True))
    gl.store(out + i * columns + j, x / gl.sum(x, 1, keep_dims=True), j < columns)


def softmax(x, blocks: int = 4):
    """The softmax of each row, by as many thread blocks a row."""
    rows, columns = x.shape
    width = tritium.next_power_of_2(columns)
    parts = [[0, 1 << bit] for bit in range(blocks.bit_length() - 1)]
    layout = gl.BlockedLayout([1, 4], [1, 32], [1, 4], [1, 0], parts)
    out = empty(x.shape, x)
    softmax_kernel[(rows,)](x, out, columns, layout=layout, WIDTH=width, num_ctas=blocks)
    return out


# ---------------------------------------------------------------------------------------------
# One read for two thread blocks
#
# A product of 256 rows: each thread block has 128 of them and a copy of the right operand, which is
# read once. `multicast=True` makes the first thread block's copy engine write to the shared memory
# of both, and count the bytes for the barriers of both: `nbytes_per_cta` is what each waits for.
#
# Now a copy writes memory that another thread block may still be reading. So before a buffer is
# used again all have to be done with it, which a barrier of the cluster says. The copies of the
# next step are started right after that, and go on while this step's product runs.


@gluon.jit
def start_copies(a, b, row, step, lefts, rights, bars, more):
    slot = step & 1
    K: gl.constexpr = a.block_shape[1]
    mbarrier.expect(bars.index(slot), a.nbytes_per_cta + b.nbytes_per_cta, pred=more)
    tma.async_load(a, [row, step * K], bars.index(slot), lefts.index(slot), pred=more)
    at = [step * K, gl.program_id(1) * b.block_shape[1]]
    tma.async_load(b, at, bars.index(slot), rights.index(slot), pred=more, multicast=True)


@gluon.jit
def matmul_kernel(a, b, out, K, layout: gl.constexpr):
    lefts = gl.allocate_shared_memory(a.dtype, [2, *a.block_shape], a.layout)
    rights = gl.allocate_shared_memory(b.dtype, [2, *b.block_shape], b.layout)
    bars = mbarrier.allocate_mbarrier(batch=2)
    for i in gl.static_range(2):
        mbarrier.init(bars.index(i), count=1)
    cluster.barrier()  # before a copy of another thread block counts for them
    M: gl.constexpr = out.block_shape[0]
    N: gl.constexpr = out.block_shape[1]
    row, count = gl.program_id(0) * M, gl.cdiv(K, a.block_shape[1])
    acc = warpgroup_mma_init(gl.zeros([M, N], gl.float32, layout))
    start_copies(a, b, row, 0, lefts, rights, bars, True)
    for step in range(count):
        cluster.barrier()  # all are done with the other buffer
        start_copies(a, b, row, step + 1, lefts, rights, bars, step + 1 < count)
        slot = step & 1
        mbarrier.wait(bars.index(slot), step // 2 & 1)
        acc = warpgroup_mma(lefts.index(slot), rights.index(slot), acc, is_async=True)
        acc = warpgroup_mma_init(warpgroup_mma_wait(0, deps=[acc]))
    result = warpgroup_mma_wait(0, deps=[acc])
    done = gl.allocate_shared_memory(out.dtype, out.block_shape, out.layout)
    done.store(result.to(out.dtype))
    fence_async_shared()
    tma.async_store(out, [row, gl.program_id(1) * N], done)
    tma.store_wait(0)
    cluster.barrier()  # no thread block ends while another may write to its memory


SPLIT, COPIED = [[1, 0]], [[0, 0]]
"""The rows are shared out to two thread blocks; each has a copy."""


def described(x, block: list[int], cga: list[list[int]]) -> TensorDescriptor:
    """A descriptor of a matrix of float16 in blocks."""
    width = min(2 * block[1], 128)
    return TensorDescriptor.from_tensor(
        x, block, gl.NVMMASharedLayout(width, 16, 2, cga_layout=cga)
    )


def arguments(a, b, out, block: tuple[int, int, int]) -> list:
    """The descriptors of a product's operands and result."""
    m, n, k = block
    left, right = described(a, [m, k], SPLIT), described(b, [k, n], COPIED)
    return [left, right, described(out, [m, n], SPLIT)]


def registers(n: int) -> gl.NVMMADistributedLayout:
    """The layout of sums of n columns."""
    return gl.NVMMADistributedLayout([3, 0], [4, 1], [16, n, 16], SPLIT)


def matmul(a, b, block: tuple[int, int, int] = (256, 128, 64)):
    """a @ b for matrices of float16."""
    (m, k), n = a.shape, b.shape[1]
    out = empty((m, n), a)
    matmul_kernel[(tritium.cdiv(m, block[0]), tritium.cdiv(n, block[1]))](
        *arguments(a, b, out, block), k, layout=registers(block[1]), num_warps=4, num_ctas=2
    )
    return out


# ---------------------------------------------------------------------------------------------
# Checks


def check(m: int = 300, n: int = 200, k: int = 200) -> None:
    """Raise `AssertionError` where a result is wrong."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((3, 5000)).astype(np.float32)
    wanted = np.exp(x - x.max(1, keepdims=True))
    wanted /= wanted.sum(1, keepdims=True)
    np.testing.assert_allclose(fetch(softmax(place(x))), wanted, rtol=1e-5, atol=1e-8)
    a = rng.integers(-3, 4, (m, k)).astype(np.float16)
    b = rng.integers(-3, 4, (k, n)).astype(np.float16)
    wanted = (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float16)
    np.testing.assert_array_equal(fetch(matmul(place(a), place(b))), wanted)


def compiled(block: tuple[int, int, int] = (256, 128, 64)):
    """The product compiled for sm_90."""
    spare = np.zeros((256, 128), np.float16)
    made = arguments(spare[:, :64], spare[:64], spare, block)
    types = {
        name: f"tensordesc<fp16{list(d.block_shape)},{d.layout!r}>"
        for name, d in zip(("a", "b", "out"), made, strict=True)
    }
    kernel = gluon.GluonJITFunction(matmul_kernel.fn)
    source = gluon.GluonASTSource(kernel, {**types, "K": "i32"}, {"layout": registers(block[1])})
    options = {"num_warps": 4, "num_ctas": 2}
    return tritium.compile(source, target=GPUTarget("cuda", 90, 32), options=options)


if __name__ == "__main__":
    code = compiled()
    ptx = code.asm["ptx"]
    print(f"product: {ptx.count('wgmma.mma_async')} wgmma, "
          f"{ptx.count('.multicast::cluster')} copies for two thread blocks, "
          f"{code.metadata.shared} bytes of shared memory")  # fmt: skip
    check()
    print("the results are right")
