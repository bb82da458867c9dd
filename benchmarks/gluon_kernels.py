"""The Gluon kernels of the GPU benchmarks, by the names of Triton 3.6, which compiles them too."""

from tritium.experimental import gluon
from tritium.experimental.gluon import language as gl
from tritium.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)
from tritium.experimental.gluon.nvidia.hopper import TensorDescriptor


@gluon.jit
def barriers(count: gl.constexpr, arrivals: gl.constexpr):
    bars = gl.allocate_shared_memory(gl.int64, [count, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(count):
        mbarrier.init(bars.index(i), count=arrivals)
    return bars


@gluon.jit
def copy_block(src, out):
    """A block of rows through shared memory; meanwhile other programs of the processor copy."""
    memory = gl.allocate_shared_memory(src.dtype, src.block_type.shape, src.layout)
    bar = barriers(1, 1).index(0)
    place = [gl.program_id(0) * src.block_type.shape[0], 0]
    mbarrier.expect(bar, src.block_type.nbytes)
    tma.async_copy_global_to_shared(src, place, bar, memory)
    mbarrier.wait(bar, 0)
    tma.async_copy_shared_to_global(out, place, memory)
    tma.store_wait(pendings=0)


@gluon.jit
def tile_of(number, rows, columns, GROUP: gl.constexpr):
    """The place of a tile: groups of `GROUP` rows are gone through column by column."""
    per_group = GROUP * columns
    first = number // per_group * GROUP
    height = min(rows - first, GROUP)
    inside = number % per_group
    return first + inside % height, inside // height


@gluon.jit
def load_tiles(a, b, lefts, rights, full, empty, tiles, GROUP: gl.constexpr):
    BM: gl.constexpr = a.block_type.shape[0]
    BK: gl.constexpr = a.block_type.shape[1]
    BN: gl.constexpr = b.block_type.shape[1]
    STAGES: gl.constexpr = lefts.type.shape[0]
    count = gl.cdiv(a.shape[1], BK)
    step = 0
    for tile in range(gl.program_id(0), tiles, gl.num_programs(0)):
        row, column = tile_of(tile, gl.cdiv(a.shape[0], BM), gl.cdiv(b.shape[1], BN), GROUP)
        for k in range(count):
            slot = step % STAGES
            mbarrier.wait(empty.index(slot), step // STAGES & 1 ^ 1)
            bar = full.index(slot)
            mbarrier.expect(bar, a.block_type.nbytes + b.block_type.nbytes)
            tma.async_copy_global_to_shared(a, [row * BM, k * BK], bar, lefts.index(slot))
            tma.async_copy_global_to_shared(b, [k * BK, column * BN], bar, rights.index(slot))
            step += 1


@gluon.jit
def multiply_tiles(
    K, rows, columns, out, done, lefts, rights, full, empty, tiles, GROUP: gl.constexpr,
    HALF: gl.constexpr,
):  # fmt: skip
    """The upper or lower half of the rows of each tile. The product of a step goes on while the
    next one is waited for; its buffers are empty when that one has started."""
    BM: gl.constexpr = lefts.type.shape[1] // 2
    BK: gl.constexpr = lefts.type.shape[2]
    BN: gl.constexpr = rights.type.shape[2]
    STAGES: gl.constexpr = lefts.type.shape[0]
    PART: gl.constexpr = out.block_type.shape[1]
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BN, 16])
    count = gl.cdiv(K, BK)
    step = 0
    for tile in range(gl.program_id(0), tiles, gl.num_programs(0)):
        row, column = tile_of(tile, rows, columns, GROUP)
        acc = gl.zeros([BM, BN], gl.float32, layout)
        for k in range(count):
            slot = step % STAGES
            mbarrier.wait(full.index(slot), step // STAGES & 1)
            left = lefts.index(slot).slice(HALF * BM, BM, 0)
            going = warpgroup_mma(left, rights.index(slot), acc, is_async=True)
            acc = warpgroup_mma_wait(1, deps=[going])
            mbarrier.arrive(empty.index((step + STAGES - 1) % STAGES), count=1, pred=k > 0)
            step += 1
        acc = warpgroup_mma_wait(0, deps=[acc])
        mbarrier.arrive(empty.index((step + STAGES - 1) % STAGES), count=1)
        halves = gl.split(gl.permute(gl.reshape(acc, (BM, 2, PART)), (0, 2, 1)))
        for i in gl.static_range(2):
            tma.store_wait(pendings=0)  # the store before this one has left the buffer
            done.store(halves[i].to(out.dtype))
            fence_async_shared()
            tma.async_copy_shared_to_global(
                out, [(2 * row + HALF) * BM, column * BN + i * PART], done
            )
    tma.store_wait(pendings=0)


@gluon.jit
def matmul(a, b, out, STAGES: gl.constexpr, GROUP: gl.constexpr):
    """A persistent product: one warp loads, two warp groups multiply, each half of a tile's rows.
    `out` has blocks of half the rows and half the columns of a tile."""
    BM: gl.constexpr = a.block_type.shape[0]
    BN: gl.constexpr = b.block_type.shape[1]
    lefts = gl.allocate_shared_memory(a.dtype, [STAGES, BM, a.block_type.shape[1]], a.layout)
    rights = gl.allocate_shared_memory(b.dtype, [STAGES, b.block_type.shape[0], BN], b.layout)
    shape: gl.constexpr = out.block_type.shape
    done = gl.allocate_shared_memory(out.dtype, [2, shape[0], shape[1]], out.layout)
    full, empty = barriers(STAGES, 1), barriers(STAGES, 2)
    rows, columns = gl.cdiv(a.shape[0], BM), gl.cdiv(b.shape[1], BN)
    tiles = rows * columns
    K = a.shape[1]
    gl.warp_specialize([
        (multiply_tiles, (K, rows, columns, out, done.index(0), lefts, rights, full, empty, tiles,
                          GROUP, 0)),
        (multiply_tiles, (K, rows, columns, out, done.index(1), lefts, rights, full, empty, tiles,
                          GROUP, 1)),
        (load_tiles, (a, b, lefts, rights, full, empty, tiles, GROUP)),
    ], [4, 1], [232, 24])  # fmt: skip


def described(tensor, block):
    """A descriptor of a matrix of float16 in blocks, with the widest rows that these have."""
    layout = gl.NVMMASharedLayout.get_default_for(block, gl.float16)
    return TensorDescriptor.from_tensor(tensor, block, layout)
