"""Gluon tutorial 07: copies that go on beside the program.

A load brings data into registers, and whoever needs them waits. With many warps others compute
meanwhile; a kernel that keeps the memory busy with few warps has to ask long before it needs the
answer. Two engines of the GPU take such orders, and both write to shared memory, so that no
register waits for the data:

- `cp.async` (Ampere and later): each thread says which 4 to 16 bytes go where. Orders are put into
  groups, and a thread can wait until all but the newest groups are done;
- the copy engine of Hopper (TMA): one thread says which block of which tensor, and an mbarrier
  counts the bytes. The engine knows the tensor's shape, computes the addresses, and also writes
  blocks back.

    python tutorials/gluon/07_asynchronous_copies.py
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import tritium
from tritium.experimental import gluon
from tritium.experimental.gluon import language as gl
from tritium.experimental.gluon.language.nvidia.ampere import async_copy
from tritium.experimental.gluon.language.nvidia.hopper import mbarrier, tma
from tritium.experimental.gluon.nvidia.hopper import TensorDescriptor
from tritium.target import GPUTarget

sys.path.insert(0, str(Path(__file__).parents[1]))
from arrays import empty, fetch, on_gpu, place

if not on_gpu():
    tritium.knobs.runtime.interpret = True

# ---------------------------------------------------------------------------------------------
# Groups of small copies
#
# A program sums rows of a matrix, piece by piece. `STAGES` pieces have a place in shared memory:
# the one that is summed, and `STAGES - 1` that are on their way. A piece is a group; waiting for
# all but `STAGES - 2` groups is waiting for the oldest.
#
# Groups are counted, so each step must make one, even the last steps, which have nothing to copy:
# their masks are false everywhere.


@gluon.jit
def order(src, row, piece, columns, ring, layout: gl.constexpr):
    """Start copying a piece of rows; it becomes a group."""
    ROWS: gl.constexpr = ring.shape[1]
    WIDTH: gl.constexpr = ring.shape[2]
    i = row + gl.arange(0, ROWS, gl.SliceLayout(1, layout))[:, None]
    j = piece * WIDTH + gl.arange(0, WIDTH, gl.SliceLayout(0, layout))[None, :]
    slot = ring.index(piece % ring.shape[0])
    async_copy.async_load(slot, src + i * columns + j, mask=j < columns)
    async_copy.commit_group()


@gluon.jit
def sum_kernel(src, out, columns, layout: gl.constexpr, ROWS: gl.constexpr, WIDTH: gl.constexpr,
               STAGES: gl.constexpr):
    shared: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [1, 0])
    ring = gl.allocate_shared_memory(gl.float32, [STAGES, ROWS, WIDTH], shared)
    row = gl.program_id(0) * ROWS
    for piece in gl.static_range(STAGES - 1):
        order(src, row, piece, columns, ring, layout)
    total = gl.zeros([ROWS, WIDTH], gl.float32, layout)
    for piece in range(gl.cdiv(columns, WIDTH)):
        async_copy.wait_group(STAGES - 2)
        total += ring.index(piece % STAGES).load(layout)
        order(src, row, piece + STAGES - 1, columns, ring, layout)
    async_copy.wait_group(0)
    gl.store(out + row + gl.arange(0, ROWS, gl.SliceLayout(1, layout)), gl.sum(total, 1))


def sums(x, rows: int = 8, width: int = 128, stages: int = 4):
    """The sum of each row. The number of rows is a multiple of `rows`."""
    out = empty((x.shape[0],), x)
    layout = gl.BlockedLayout([1, 4], [1, 32], [4, 1], [1, 0])
    sum_kernel[(x.shape[0] // rows,)](
        x, out, x.shape[1], layout=layout, ROWS=rows, WIDTH=width, STAGES=stages, num_warps=4
    )
    return out


# ---------------------------------------------------------------------------------------------
# Blocks that never see a register
#
# A copy of a matrix by the copy engine alone. Each program copies blocks `start`, `start + step`,
# ...: loads are `STAGES - 2` blocks ahead of stores. A place in shared memory has two waits in its
# life: for the barrier of the load before its block is stored, and for the store before the next
# load writes there. Stores have no barrier; they are counted like groups. `store_wait(1)` says that
# all but the newest have read their shared memory, so that the place of the block two steps before
# is free while the newest store goes on. Were loads one block further ahead, the interpreter would
# say that memory is written while a store reads it.


@gluon.jit
def place_of(block, across, SHAPE: gl.constexpr):
    return [block // across * SHAPE[0], block % across * SHAPE[1]]


@gluon.jit
def copy_kernel(src, out, down, across, STAGES: gl.constexpr):
    """`down` and `across`: how many blocks the matrix has along each axis."""
    SHAPE: gl.constexpr = src.block_shape
    ring = gl.allocate_shared_memory(src.dtype, [STAGES, *SHAPE], src.layout)
    bars = mbarrier.allocate_mbarrier(batch=STAGES)
    for i in gl.static_range(STAGES):
        mbarrier.init(bars.index(i), count=1)
    start, step = gl.program_id(0), gl.num_programs(0)
    count = gl.cdiv(down * across - start, step)
    for i in range(-(STAGES - 2), count):
        ahead = i + STAGES - 2
        slot, more = ahead % STAGES, ahead < count
        tma.store_wait(1)  # the store of the block that was here before
        mbarrier.expect(bars.index(slot), src.nbytes_per_cta, pred=more)
        at = place_of(start + ahead * step, across, SHAPE)
        tma.async_load(src, at, bars.index(slot), ring.index(slot), pred=more)
        if i >= 0:
            own = i % STAGES
            mbarrier.wait(bars.index(own), i // STAGES & 1)
            tma.async_store(out, place_of(start + i * step, across, SHAPE), ring.index(own))
    tma.store_wait(0)


def described(x, block: list[int]) -> TensorDescriptor:
    """A descriptor of a matrix of float32 in blocks, rows of which are not permuted."""
    layout = gl.NVMMASharedLayout(swizzle_byte_width=0, element_bitwidth=32, rank=2)
    return TensorDescriptor.from_tensor(x, block, layout)


def copy(x, block: tuple[int, int] = (32, 256), stages: int = 4, programs: int = 132):
    """A copy of a matrix of float32."""
    out = empty(x.shape, x)
    down, across = (tritium.cdiv(n, b) for n, b in zip(x.shape, block, strict=True))
    made = described(x, [*block]), described(out, [*block])
    copy_kernel[(min(programs, down * across),)](*made, down, across, STAGES=stages, num_warps=1)
    return out


# ---------------------------------------------------------------------------------------------
# Checks


def check() -> None:
    """Raise `AssertionError` where a result is wrong."""
    rng = np.random.default_rng(0)
    x = rng.integers(-9, 10, (32, 1000)).astype(np.float32)
    np.testing.assert_array_equal(fetch(sums(place(x))), x.sum(1))
    for shape in ((200, 1000), (64, 256)):
        x = rng.standard_normal(shape).astype(np.float32)
        np.testing.assert_array_equal(fetch(copy(place(x), programs=5)), x)


def measure() -> None:
    """Print the bandwidth of both kernels on the GPU, and of torch's copy."""
    from tritium.testing import do_bench

    x = place(np.zeros((16384, 8192), np.float32))
    spare, size = empty(x.shape, x), x.nbytes / 1e6
    for name, run, moved in (("sums", lambda: sums(x), size), ("copy", lambda: copy(x), 2 * size),
                             ("torch's copy", lambda: spare.copy_(x), 2 * size)):  # fmt: skip
        print(f"{name}: {moved / do_bench(run):.0f} GB/s")


def compiled() -> tuple[str, str]:
    """The PTX of both kernels."""
    sum_ = gluon.GluonJITFunction(sum_kernel.fn)
    layout = gl.BlockedLayout([1, 4], [1, 32], [4, 1], [1, 0])
    constants = {"layout": layout, "ROWS": 8, "WIDTH": 128, "STAGES": 4}
    types = {"src": "*fp32", "out": "*fp32", "columns": "i32"}
    aligned = {(i,): [["tt.divisibility", 16]] for i in range(3)}
    first = gluon.GluonASTSource(sum_, types, constants, aligned)
    block = described(np.zeros((32, 256), np.float32), [32, 256])
    text = f"tensordesc<fp32[32, 256],{block.layout!r}>"
    types = {"src": text, "out": text, "down": "i32", "across": "i32"}
    second = gluon.GluonASTSource(gluon.GluonJITFunction(copy_kernel.fn), types, {"STAGES": 4})
    found = [
        tritium.compile(source, target=GPUTarget("cuda", arch, 32), options={"num_warps": warps})
        for source, arch, warps in ((first, 80, 4), (second, 90, 1))
    ]
    return found[0].asm["ptx"], found[1].asm["ptx"]


if __name__ == "__main__":
    small, large = compiled()
    print(f"sums: {small.count('cp.async.cg.shared.global')} copies of 16 bytes a thread")
    print(f"copy: {large.count('ld.global')} loads, {large.count('cp.async.bulk.tensor')} bulk "
          "copies")  # fmt: skip
    check()
    print("the results are right")
    if on_gpu():
        measure()
