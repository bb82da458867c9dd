"""Gluon products on clusters of thread blocks, which Triton before release 3.9 cannot express."""

from typing import Any

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
from tritium.experimental.gluon.nvidia.hopper import TensorDescriptor


@gluon.jit
def along_curve(number, side):
    """The place of a tile, of `side` times `side` (a power of two), along Hilbert's curve."""
    row, column, size = number * 0, number * 0, number * 0 + 1
    while size < side:
        right, up = number // 2 & 1, (number ^ number // 2) & 1
        if up == 0:
            if right == 1:
                row, column = size - 1 - row, size - 1 - column
            row, column = column, row
        row, column, number, size = row + size * right, column + size * up, number // 4, size * 2
    return row, column


@gluon.jit
def place_of(number, rows, columns, GROUP: gl.constexpr):
    """The place of a tile: groups of `GROUP` rows are gone through column by column; 0: along
    Hilbert's curve, if there are a power of two rows, and columns."""
    if GROUP == 0:
        side = min(rows, columns)
        high, wide = rows // side, columns // side
        row, column = along_curve(number // (high * wide), side)
        inside = number % (high * wide)
        return row * high + inside % high, column * wide + inside // high
    else:
        per_group = GROUP * columns
        first = number // per_group * GROUP
        height = min(rows - first, GROUP)
        inside = number % per_group
        return first + inside % height, inside // height


@gluon.jit
def whole_turns(tiles, SPLIT: gl.constexpr):
    """Tiles that each program computes by itself, at most."""
    if SPLIT:
        return tiles // gl.num_programs(0) - 1
    else:
        return gl.cdiv(tiles - gl.program_id(0), gl.num_programs(0))


@gluon.jit
def first_step(program, tiles, count, SPLIT: gl.constexpr):
    """The first of the steps that a program has of the tiles that are shared out."""
    programs = gl.num_programs(0)
    rest = tiles - (tiles // programs - 1) * programs
    return rest * count * program // programs if SPLIT else 0


@gluon.jit
def works(tiles, count, SPLIT: gl.constexpr):
    """The number of tiles of which a program computes something."""
    turns = whole_turns(tiles, SPLIT)
    if SPLIT:
        begin = first_step(gl.program_id(0), tiles, count, SPLIT)
        end = first_step(gl.program_id(0) + 1, tiles, count, SPLIT)
        return turns + (end - 1) // count - begin // count + 1
    else:
        return turns


@gluon.jit
def work(number, tiles, count, SPLIT: gl.constexpr):
    """(tile, first step, end): `SPLIT` shares out the steps of the last one to two turns. Of these
    a program computes the last tile first, which the next program will need, that of the program
    before last."""
    tile, first, end = gl.program_id(0) + number * gl.num_programs(0), 0, count
    if SPLIT:
        turns = whole_turns(tiles, SPLIT)
        if number >= turns:
            start = first_step(gl.program_id(0), tiles, count, SPLIT)
            stop = first_step(gl.program_id(0) + 1, tiles, count, SPLIT)
            place = (stop - 1) // count - (number - turns)
            tile = turns * gl.num_programs(0) + place
            first, end = max(start - place * count, 0), min(stop - place * count, count)
    return tile, first, end


@gluon.jit
def places_of(part, memory, number):
    """Pointers to where a program keeps a part of sums for the next one."""
    M: gl.constexpr = part.shape[0]
    N: gl.constexpr = part.shape[1]
    layout: gl.constexpr = part.type.layout
    row = gl.arange(0, M, gl.SliceLayout(1, layout))[:, None]
    column = gl.arange(0, N, gl.SliceLayout(0, layout))[None, :]
    return memory + number * (M * N) + row * N + column


@gluon.jit
def load_tiles(
    a, b, lefts, rights, full, empty, tiles, GROUP: gl.constexpr, BLOCKS: gl.constexpr,
    TURNED: gl.constexpr, SPLIT: gl.constexpr,
):  # fmt: skip
    BM: gl.constexpr = a.block_type.shape[0]
    BK: gl.constexpr = a.block_type.shape[1]
    BN: gl.constexpr = b.block_type.shape[1 - TURNED]
    STAGES: gl.constexpr = rights.type.shape[0]
    rows, columns = gl.cdiv(a.shape[0], 2 * BM), gl.cdiv(b.shape[1 - TURNED], BN)
    count = gl.cdiv(a.shape[1], BK)
    step = 0
    for number in range(works(tiles, count, SPLIT)):
        tile, first, end = work(number, tiles, count, SPLIT)
        row, column = place_of(tile, rows, columns, GROUP)
        for k in range(first, end):
            slot = step % STAGES
            mbarrier.wait(empty.index(slot), step // STAGES & 1 ^ 1, scope="cta")
            bar = full.index(slot)
            mbarrier.expect(bar, 2 * a.nbytes_per_cta + b.nbytes_per_cta)
            place = [column * BN, k * BK] if TURNED else [k * BK, column * BN]
            tma.async_load(b, place, bar, rights.index(slot), multicast=BLOCKS > 1,
                           divided=BLOCKS > 1)  # fmt: skip
            for half in gl.static_range(2):
                at = [(2 * row + half) * BM, k * BK]
                tma.async_load(a, at, bar, lefts.index(2 * slot + half))
            step += 1


@gluon.jit
def parts_of(sums, PARTS: gl.constexpr):
    """The columns of a tile in 2 or 4 parts."""
    BM: gl.constexpr = sums.shape[0]
    HALF: gl.constexpr = sums.shape[1] // 2
    halves = gl.split(gl.permute(gl.reshape(sums, (BM, 2, HALF)), (0, 2, 1)))
    if PARTS == 2:
        return halves
    else:
        return parts_of(halves[0], PARTS // 2) + parts_of(halves[1], PARTS // 2)


@gluon.jit
def multiply_tiles(
    K, rows, columns, out, done, lefts, rights, full, empty, tiles, sums, told,
    GROUP: gl.constexpr, BLOCKS: gl.constexpr, layout: gl.constexpr, TURNED: gl.constexpr,
    SPLIT: gl.constexpr, HALF: gl.constexpr,
):  # fmt: skip
    """The upper or lower half of the rows of each tile. The product of a step goes on while the
    next one is waited for; its buffers are empty, in all blocks, when that one has started. Sums of
    a tile's first steps are kept in `sums` for the next program, which is `told`."""
    BM: gl.constexpr = lefts.type.shape[1]
    BK: gl.constexpr = lefts.type.shape[2]
    BN: gl.constexpr = rights.type.shape[2 - TURNED]
    STAGES: gl.constexpr = rights.type.shape[0]
    PART: gl.constexpr = out.block_type.shape[1]
    PARTS: gl.constexpr = BN // PART
    BUFFERS: gl.constexpr = done.type.shape[0] // 2
    count = gl.cdiv(K, BK)
    step, own = 0, 2 * gl.program_id(0) + HALF
    for number in range(works(tiles, count, SPLIT)):
        tile, first, end = work(number, tiles, count, SPLIT)
        row, column = place_of(tile, rows, columns, GROUP)
        acc = gl.zeros([BM, BN], gl.float32, layout)
        for k in range(first, end):
            slot = step % STAGES
            mbarrier.wait(full.index(slot), step // STAGES & 1, scope="cta")
            right = rights.index(slot)
            right = right.permute((1, 0)) if TURNED else right
            going = warpgroup_mma(lefts.index(2 * slot + HALF), right, acc, is_async=True)
            acc = warpgroup_mma_wait(1, deps=[going])
            mbarrier.arrive(empty.index((step + STAGES - 1) % STAGES), pred=k > first,
                            multicast_cta=BLOCKS - 1, scope="cta")  # fmt: skip
            step += 1
        acc = warpgroup_mma_wait(0, deps=[acc])
        mbarrier.arrive(empty.index((step + STAGES - 1) % STAGES), multicast_cta=BLOCKS - 1,
                        scope="cta")  # fmt: skip
        parts = parts_of(acc, PARTS)
        if SPLIT and end < count:
            for i in gl.static_range(PARTS):
                gl.store(places_of(parts[i], sums, own * PARTS + i), parts[i])
            gl.atomic_xchg(told + own, 1, sem="release")
        else:
            if SPLIT and first > 0:
                while gl.atomic_cas(told + own - 2, 1, 0, sem="acquire") == 0:
                    pass
            for i in gl.static_range(PARTS):
                part = parts[i]
                if SPLIT and first > 0:
                    part += gl.load(places_of(part, sums, (own - 2) * PARTS + i))
                tma.store_wait(pendings=BUFFERS - 1)  # the buffer's last store has left it
                memory = done.index(BUFFERS * HALF + i % BUFFERS)
                memory.store(part.to(out.dtype))
                fence_async_shared()
                tma.async_store(out, [(2 * row + HALF) * BM, column * BN + i * PART], memory)
    tma.store_wait(pendings=0)


@gluon.jit
def matmul(
    a, b, out, sums, told, STAGES: gl.constexpr, GROUP: gl.constexpr, BLOCKS: gl.constexpr,
    BUFFERS: gl.constexpr, layout: gl.constexpr, TURNED: gl.constexpr, SPLIT: gl.constexpr = False,
):  # fmt: skip
    """A persistent product on clusters of `BLOCKS` thread blocks. Each has rows of its own, copies
    a share of the right operand for all of them, and has one warp that loads and two warp groups
    that multiply half of its rows each. `TURNED`: with the transpose of `b`. `SPLIT`:
    the last tiles are shared out by steps of K, so that all programs end together; there are more
    tiles than programs. `sums` then has a tile of float32 for each, and `told` two zeros."""
    BM: gl.constexpr = a.block_type.shape[0]
    BN: gl.constexpr = b.block_type.shape[1 - TURNED]
    BK: gl.constexpr = a.block_type.shape[1]
    lefts = gl.allocate_shared_memory(a.dtype, [2 * STAGES, BM, BK], a.layout)
    RIGHT: gl.constexpr = b.block_type.shape
    rights = gl.allocate_shared_memory(b.dtype, [STAGES, RIGHT[0], RIGHT[1]], b.layout)
    shape: gl.constexpr = out.block_type.shape
    done = gl.allocate_shared_memory(out.dtype, [2 * BUFFERS, shape[0], shape[1]], out.layout)
    full = mbarrier.allocate_mbarrier(batch=STAGES)
    empty = mbarrier.allocate_mbarrier(batch=STAGES)
    for i in gl.static_range(STAGES):
        mbarrier.init(full.index(i), count=1)
        mbarrier.init(empty.index(i), count=2 * BLOCKS)
    if BLOCKS > 1:
        cluster.barrier(relaxed=True)  # before another block's copy counts for a barrier here
    rows, columns = gl.cdiv(a.shape[0], 2 * BM), gl.cdiv(b.shape[1 - TURNED], BN)
    tiles = rows * columns
    K = a.shape[1]
    gl.warp_specialize([
        (multiply_tiles, (K, rows, columns, out, done, lefts, rights, full, empty, tiles, sums,
                          told, GROUP, BLOCKS, layout, TURNED, SPLIT, 0)),
        (multiply_tiles, (K, rows, columns, out, done, lefts, rights, full, empty, tiles, sums,
                          told, GROUP, BLOCKS, layout, TURNED, SPLIT, 1)),
        (load_tiles, (a, b, lefts, rights, full, empty, tiles, GROUP, BLOCKS, TURNED, SPLIT)),
    ], [4, 1], [232, 24])  # fmt: skip


def described(tensor: Any, block: list[int], cga: list[list[int]]) -> Any:
    """A descriptor of a matrix in blocks. `cga`: what thread blocks have of each."""
    element = gl.int8 if tensor.dtype.itemsize == 1 else gl.float16  # of which the size counts
    layout = gl.NVMMASharedLayout.get_default_for(block, element, cga_layout=cga)
    return TensorDescriptor.from_tensor(tensor, block, layout)


def arguments(
    a: Any, b: Any, out: Any, blocks: int = 2, parts: int = 2,
    tile: tuple[int, int] | None = None, turned: bool = False, sums: Any = None, told: Any = None,
) -> tuple[list[Any], dict[str, Any]]:  # fmt: skip
    """(descriptors, constants) of a product: 64 rows of each half of a tile for each thread block,
    and all of the right operand. `tile`: columns, and of K; `turned`: with the transpose of `b`.
    `sums`, `told`: memory for tiles that are shared out."""
    bits, (bn, bk) = blocks.bit_length() - 1, tile or (256, 128 // a.dtype.itemsize)
    rows, copies = [[1 << i, 0] for i in range(bits)], [[0, 0]] * bits
    bm = 64 * blocks
    made = [described(a, [bm, bk], rows), described(b, [bn, bk] if turned else [bk, bn], copies),
            described(out, [bm, bn // parts], rows)]  # fmt: skip
    layout = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, bn, 32 // a.dtype.itemsize], rows)
    split = {} if sums is not None else {"sums": None, "told": None}
    return [*made, *([sums, told] if not split else [])], {
        **split, "BLOCKS": blocks, "layout": layout, "BUFFERS": parts // 2, "TURNED": turned,
        "SPLIT": sums is not None, "num_ctas": blocks,
    }  # fmt: skip
