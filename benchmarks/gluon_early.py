"""Gluon products that begin early: the first copies start before the warps of a block part."""

from typing import Any

from benchmarks.gluon_clusters import described, parts_of, place_of
from tritium.experimental import gluon
from tritium.experimental.gluon import language as gl
from tritium.experimental.gluon.language.nvidia.hopper import (
    cluster,
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)


@gluon.jit
def note(times, moment: gl.constexpr):
    """Write down the time, in ns and in cycles, if `times` is memory for that."""
    if times is not None:
        place = times + (gl.program_id(0) * 8 + moment) * 2
        gl.store(place, gl.inline_asm("mov.u64 $0, %globaltimer;", "=l", (), gl.int64))
        gl.store(place + 1, gl.inline_asm("mov.u64 $0, %clock64;", "=l", (), gl.int64))


@gluon.jit
def load_step(
    a, b, lefts, rights, full, slot, row, column, k, SHARED: gl.constexpr, TURNED: gl.constexpr
):
    """Start copying what a step multiplies to a slot that all blocks are done with."""
    BM: gl.constexpr = a.block_type.shape[0]
    BK: gl.constexpr = a.block_type.shape[1]
    BN: gl.constexpr = b.block_type.shape[1 - TURNED]
    bar = full.index(slot)
    mbarrier.expect(bar, 2 * a.nbytes_per_cta + b.nbytes_per_cta)
    for half in gl.static_range(2):
        at = [(2 * row + half) * BM, k * BK]
        tma.async_load(a, at, bar, lefts.index(2 * slot + half), multicast=SHARED, divided=SHARED)
    place = [column * BN, k * BK] if TURNED else [k * BK, column * BN]
    tma.async_load(b, place, bar, rights.index(slot), multicast=SHARED, divided=SHARED)


@gluon.jit
def load_tiles(
    a, b, lefts, rights, full, empty, tiles, rows, columns, count, GROUP: gl.constexpr,
    SHARED: gl.constexpr, TURNED: gl.constexpr,
):  # fmt: skip
    """All copies but those of a program's first steps, of which each slot has one."""
    STAGES: gl.constexpr = rights.type.shape[0]
    step, first = STAGES, STAGES
    for tile in range(gl.program_id(0), tiles, gl.num_programs(0)):
        row, column = place_of(tile, rows, columns, GROUP)
        for k in range(first, count):
            slot = step % STAGES
            mbarrier.wait(empty.index(slot), step // STAGES & 1 ^ 1, scope="cta")
            load_step(a, b, lefts, rights, full, slot, row, column, k, SHARED, TURNED)
            step += 1
        first = 0


@gluon.jit
def multiply_step(
    lefts, rights, full, step, acc, use_acc, HALF: gl.constexpr, TURNED: gl.constexpr, pred=True
):
    """Start a step's product, once its operands are there; with false `pred` of what is there."""
    STAGES: gl.constexpr = rights.type.shape[0]
    slot = step % STAGES
    mbarrier.wait(full.index(slot), step // STAGES & 1, pred, scope="cta")
    right = rights.index(slot)
    right = right.permute((1, 0)) if TURNED else right
    return warpgroup_mma(lefts.index(2 * slot + HALF), right, acc, use_acc=use_acc, is_async=True)


@gluon.jit
def release(empty, step, BLOCKS: gl.constexpr):
    """Tell all blocks of the cluster that this warp group is done with a step's operands."""
    STAGES: gl.constexpr = empty.type.shape[0]
    mbarrier.arrive(empty.index(step % STAGES), multicast_cta=BLOCKS - 1, scope="cta")


@gluon.jit
def store_tile(acc, out, done, row, column, HALF: gl.constexpr):
    """Store the upper or lower half of a tile in parts of its columns."""
    BM: gl.constexpr = out.block_type.shape[0]
    PART: gl.constexpr = out.block_type.shape[1]
    PARTS: gl.constexpr = acc.shape[1] // PART
    BUFFERS: gl.constexpr = done.type.shape[0] // 2
    parts = (acc,) if PARTS == 1 else parts_of(acc, PARTS)
    for i in gl.static_range(PARTS):
        tma.store_wait(pendings=BUFFERS - 1)  # the buffer's last store has left it
        memory = done.index(BUFFERS * HALF + i % BUFFERS)
        memory.store(parts[i].to(out.dtype))
        fence_async_shared()
        at = [(2 * row + HALF) * BM, column * acc.shape[1] + i * PART]
        tma.async_store(out, at, memory)


@gluon.jit
def store_last_tile(acc, out, rights, empty, count, row, column, HALF: gl.constexpr):
    """Store the upper or lower half of a program's only tile through the right operand of one of
    its last steps, which both warp groups are done with."""
    STAGES: gl.constexpr = rights.type.shape[0]
    step = count - STAGES + HALF
    mbarrier.wait(empty.index(step % STAGES), step // STAGES & 1, scope="cta")
    memory = rights.index(step % STAGES).reinterpret(out.dtype, out.block_type.shape, out.layout)
    memory.store(acc.to(out.dtype))
    fence_async_shared()
    at = [(2 * row + HALF) * out.block_type.shape[0], column * acc.shape[1]]
    tma.async_store(out, at, memory)


@gluon.jit
def multiply_tiles(
    out, done, lefts, rights, full, empty, tiles, rows, columns, count, times,
    GROUP: gl.constexpr, BLOCKS: gl.constexpr, layout: gl.constexpr, TURNED: gl.constexpr,
    AHEAD: gl.constexpr, HALF: gl.constexpr,
):  # fmt: skip
    """The upper or lower half of the rows of each tile. The first step of a tile needs no zeros to
    add to, and a tile's place is computed while that step goes on. `AHEAD`: the next tile's first
    step begins before a tile is stored; behind the last tile it is one that nobody needs."""
    BM: gl.constexpr = lefts.type.shape[1]
    BN: gl.constexpr = rights.type.shape[2 - TURNED]
    zeros = gl.zeros([BM, BN], gl.float32, layout)
    step = 0
    if AHEAD:
        going = multiply_step(lefts, rights, full, step, zeros, False, HALF, TURNED)
        acc = warpgroup_mma_wait(1, deps=[going])
    for tile in range(gl.program_id(0), tiles, gl.num_programs(0)):
        if not AHEAD:
            going = multiply_step(lefts, rights, full, step, zeros, False, HALF, TURNED)
            acc = warpgroup_mma_wait(1, deps=[going])
        if HALF == 0:
            note(times, 2)
        row, column = place_of(tile, rows, columns, GROUP)
        step += 1
        for _ in range(1, count):
            going = multiply_step(lefts, rights, full, step, acc, True, HALF, TURNED)
            acc = warpgroup_mma_wait(1, deps=[going])
            release(empty, step - 1, BLOCKS)
            step += 1
        acc = warpgroup_mma_wait(0, deps=[acc])
        if HALF == 0:
            note(times, 3)
        release(empty, step - 1, BLOCKS)
        if AHEAD:
            sums = warpgroup_mma_wait(0, deps=[acc.to(out.dtype)])
            going = multiply_step(lefts, rights, full, step, zeros, False, HALF, TURNED,
                                  tile + gl.num_programs(0) < tiles)  # fmt: skip
            acc = warpgroup_mma_wait(1, deps=[going])
            store_tile(sums, out, done, row, column, HALF)
        elif done is None:
            store_last_tile(acc, out, rights, empty, count, row, column, HALF)
        else:
            store_tile(acc, out, done, row, column, HALF)
        if HALF == 0:
            note(times, 4)
    if AHEAD:
        warpgroup_mma_wait(0, deps=[acc])
    tma.store_wait(pendings=0)
    if HALF == 0:
        note(times, 5)


@gluon.jit
def matmul(
    a, b, out, times, STAGES: gl.constexpr, GROUP: gl.constexpr, BLOCKS: gl.constexpr,
    BUFFERS: gl.constexpr, layout: gl.constexpr, TURNED: gl.constexpr,
    AHEAD: gl.constexpr = False,
):  # fmt: skip
    """A persistent product on clusters of `BLOCKS` thread blocks, by no more programs than there
    are tiles. One warp loads, two warp groups multiply half of a block's rows each. A program
    starts the copies of its first steps before its warps part. `TURNED`: with the transpose of `b`.
    `times`: memory for the moments at which a program begins, has started its copies, and those of
    `multiply_tiles`; or None."""
    BM: gl.constexpr = a.block_type.shape[0]
    BN: gl.constexpr = b.block_type.shape[1 - TURNED]
    BK: gl.constexpr = a.block_type.shape[1]
    SHARED: gl.constexpr = BLOCKS > 1
    note(times, 0)
    lefts = gl.allocate_shared_memory(a.dtype, [2 * STAGES, BM, BK], a.layout)
    RIGHT: gl.constexpr = b.block_type.shape
    rights = gl.allocate_shared_memory(b.dtype, [STAGES, RIGHT[0], RIGHT[1]], b.layout)
    shape: gl.constexpr = out.block_type.shape
    done = None
    if BUFFERS > 0:
        done = gl.allocate_shared_memory(out.dtype, [2 * BUFFERS, *shape], out.layout)
    full = mbarrier.allocate_mbarrier(batch=STAGES)
    empty = mbarrier.allocate_mbarrier(batch=STAGES)
    rows, columns = gl.cdiv(a.shape[0], 2 * BM), gl.cdiv(b.shape[1 - TURNED], BN)
    for i in gl.static_range(STAGES):
        mbarrier.init(full.index(i), count=1)
        mbarrier.init(empty.index(i), count=2 * BLOCKS)
    row, column = place_of(gl.program_id(0), rows, columns, GROUP)
    if SHARED:
        cluster.barrier(relaxed=True)  # before another block's copy counts for a barrier here
    for slot in gl.static_range(STAGES):
        load_step(a, b, lefts, rights, full, slot, row, column, slot, SHARED, TURNED)
    note(times, 1)
    tiles = rows * columns
    count = max(gl.cdiv(a.shape[1], BK), STAGES)  # copies of what lies behind give zeros
    gl.warp_specialize([
        (multiply_tiles, (out, done, lefts, rights, full, empty, tiles, rows, columns, count, times,
                          GROUP, BLOCKS, layout, TURNED, AHEAD, 0)),
        (multiply_tiles, (out, done, lefts, rights, full, empty, tiles, rows, columns, count, times,
                          GROUP, BLOCKS, layout, TURNED, AHEAD, 1)),
        (load_tiles, (a, b, lefts, rights, full, empty, tiles, rows, columns, count, GROUP, SHARED,
                      TURNED)),
    ], [4, 1], [232, 24])  # fmt: skip


def arguments(
    a: Any, b: Any, out: Any, blocks: int = 1, parts: int = 4,
    tile: tuple[int, int] | None = None, turned: bool = False, buffers: int = 2, times: Any = None,
    ahead: bool = False,
) -> tuple[list[Any], dict[str, Any]]:  # fmt: skip
    """(descriptors, constants) of a product: 64 rows of each half of a tile for each thread block,
    and all of the right operand. `tile`: columns, and of K; `turned`: with the transpose of `b`;
    `buffers`: for parts of each half on their way out; 0 if one part is all of it and each program
    has one tile, by one block. `times`: int64, 16 for each program."""
    bits, (bn, bk) = blocks.bit_length() - 1, tile or (256, 128 // a.dtype.itemsize)
    rows, copies, bm = [[1 << i, 0] for i in range(bits)], [[0, 0]] * bits, 64 * blocks
    made = [described(a, [bm, bk], rows), described(b, [bn, bk] if turned else [bk, bn], copies),
            described(out, [bm, bn // parts], rows)]  # fmt: skip
    layout = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, bn, 32 // a.dtype.itemsize], rows)
    return [*made, *([] if times is None else [times])], {
        **({"times": None} if times is None else {}), "BLOCKS": blocks, "layout": layout,
        "BUFFERS": buffers, "TURNED": turned, "AHEAD": ahead, "num_ctas": blocks,
    }  # fmt: skip
