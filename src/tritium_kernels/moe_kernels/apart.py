"""Products of slices of rows with a matrix each, by programs whose warps have parts of their own
(Hopper): one warp group copies operands for the next steps and tiles, the others multiply, each 64
columns, and widen MXFP4 weights meanwhile. They wait for each other at mbarriers alone.

Products are transposed: columns of the weights are rows of wgmma's left operand, in registers where
they are widened (`layout_details/hopper_value.py`), and rows of x are its columns, so that the last
rows of a slice may be few.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tritium.experimental import gluon
from tritium.experimental.gluon import language as gl
from tritium.experimental.gluon.language.nvidia.ampere import async_copy
from tritium.experimental.gluon.language.nvidia.hopper import (
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)
from tritium_kernels.moe_kernels.layouts import factor_pairs, mul_bf16x2, twice, two_bf16


class Weights(NamedTuple):
    """Words of `HopperMXValueLayout` and of their scales, with strides of matrices and rows in
    words; or a descriptor of blocks (64, 64) of all matrices, one below the other."""

    ptr: Any
    z: Any
    row: Any
    scales: Any
    scale_z: Any
    scale_row: Any


class Target(NamedTuple):
    """The result and its stride of rows; where rows go; the bias of each matrix's columns, its
    factors and those of the result by rows, or None."""

    ptr: Any
    row: Any
    scatter: Any
    bias: Any
    bias_z: Any
    betas: Any
    gammas: Any


@gluon.jit
def list_blocks(sizes, offsets, work, slices, ROWS: gl.constexpr, TAIL: gl.constexpr,
                SLICES: gl.constexpr):
    """The blocks of ROWS rows (of the last: at most TAIL more) of all slices: for each the slice,
    the first row, and how many rows there are from it on; before them how many blocks there are."""
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [gl.num_warps()], [0])
    z = gl.arange(0, SLICES, layout)
    n = gl.load(sizes + z, mask=z < slices, other=0)
    first = gl.load(offsets + z, mask=z < slices, other=0)
    blocks = gl.where(n > 0, gl.maximum(gl.cdiv(n - TAIL, ROWS), 1), 0)
    ends = gl.associative_scan(blocks, 0, add)
    gl.store(work + z * 0, gl.sum(blocks, 0))
    for i in range(gl.max(blocks, 0)):
        at = work + 4 * (1 + ends - blocks + i)
        here = i < blocks
        gl.store(at, z, mask=here)
        gl.store(at + 1, first + i * ROWS, mask=here)
        gl.store(at + 2, n - i * ROWS, mask=here)


@gluon.jit
def add(a, b):
    return a + b


@gluon.jit
def barriers(count: gl.constexpr, arrivals: gl.constexpr):
    bars = gl.allocate_shared_memory(gl.int64, [count, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(count):
        mbarrier.init(bars.index(i), count=arrivals)
    return bars


@gluon.jit
def sources(gather, first, left, rows, columns, x_row):
    """(which rows exist, the places of their elements in a step)."""
    if gather is None:
        source = gl.where(rows < left, first + rows, -1)
    else:
        source = gl.load(gather + first + rows, mask=rows < left, other=-1).to(gl.int32)
    exists = source >= 0
    return exists, gl.where(exists, source, 0)[:, None] * x_row + columns[None, :]


@gluon.jit
def copy_words(w, z, column, k, N, slot, ws, ss, full, GROUPS: gl.constexpr):
    """Words and scales of 128 elements along k, of which each group has 64 columns."""
    wide: gl.constexpr = gl.BlockedLayout([1, 4], [8, 4], [4, 1], [1, 0])
    j = gl.arange(0, 64, gl.SliceLayout(1, wide))[:, None] * 16
    places = j + gl.arange(0, 16, gl.SliceLayout(0, wide))[None, :]
    of_scales = gl.arange(0, 64, gl.BlockedLayout([1], [32], [4], [0]))
    z, row = z.to(gl.int64), (k // 128).to(gl.int64)
    words = w.ptr + z * w.z + row * w.row + column * 16
    scales = w.scales + z * w.scale_z + row * w.scale_row + column
    for i in gl.static_range(GROUPS):
        left = N - column - i * 64
        async_copy.async_load(
            ws.index(slot * GROUPS + i), words + places + i * 1024, mask=places < left * 16
        )
        async_copy.async_load(
            ss.index(slot * GROUPS + i), scales + of_scales + i * 64, mask=of_scales < left
        )
    async_copy.mbarrier_arrive(full, increment_count=False)


@gluon.jit
def copy_operands(
    x, x_row, gather, w, work, K, N, rings, bars, ROWS: gl.constexpr, TAIL: gl.constexpr,
    GROUPS: gl.constexpr, EVEN_K: gl.constexpr,
):  # fmt: skip
    """Copy what the products of all tiles take, as far ahead as there is memory."""
    xs, ts, ws, ss = rings
    x_full, x_empty, w_full, w_empty = bars
    X: gl.constexpr = xs.type.shape[0]
    W: gl.constexpr = ws.type.shape[0] // GROUPS
    layout: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    columns = gl.arange(0, 64, gl.SliceLayout(0, layout))
    rows = gl.arange(0, ROWS, gl.SliceLayout(1, layout))
    more_rows = ROWS + gl.arange(0, TAIL, gl.SliceLayout(1, layout))
    tiles_n = gl.cdiv(N, 64 * GROUPS)
    x_step = 0
    w_step = 0
    for tile in range(gl.program_id(0), gl.load(work) * tiles_n, gl.num_programs(0)):
        at = work + 4 * (1 + tile // tiles_n)
        column = tile % tiles_n * (64 * GROUPS)
        z, first, left = gl.load(at), gl.load(at + 1), gl.load(at + 2)
        exists, places = sources(gather, first, left, rows, columns, x_row)
        more, more_places = sources(gather, first, left, more_rows, columns, x_row)
        ends = (left > ROWS) & (left <= ROWS + TAIL)
        x_ptr = x
        for k in range(0, K, 64):
            slot = w_step % W
            if w.scales is None:
                mbarrier.wait(w_empty.index(slot), w_step // W & 1 ^ 1)
                mbarrier.expect(w_full.index(slot), GROUPS * 64 * 64 * 2)
                for i in gl.static_range(GROUPS):
                    place = [z * K + k, column + i * 64]
                    tma.async_load(
                        w.ptr, place, w_full.index(slot), ws.index(slot * GROUPS + i)
                    )
                w_step += 1
            else:
                if k % 128 == 0:
                    mbarrier.wait(w_empty.index(slot), w_step // W & 1 ^ 1)
                    copy_words(w, z, column, k, N, slot, ws, ss, w_full.index(slot), GROUPS)
                    w_step += 1
            slot = x_step % X
            mbarrier.wait(x_empty.index(slot), x_step // X & 1 ^ 1)
            here, more_here = exists[:, None], more[:, None]
            if not EVEN_K:
                within = (columns < K - k)[None, :]
                here, more_here = here & within, more_here & within
            async_copy.async_load(xs.index(slot), x_ptr + places, mask=here)
            if ends:
                async_copy.async_load(ts.index(slot), x_ptr + more_places, mask=more_here)
            async_copy.mbarrier_arrive(x_full.index(slot), increment_count=False)
            x_ptr += 64
            x_step += 1


@gluon.jit
def widen(x, factors, operand: gl.constexpr):
    """bfloat16 (columns, 64) of words (columns, 4, 2) times factors of this shape."""
    last = ((x << 1) & 0x80008000) | ((x >> 3) & 0x01800180) | ((x >> 7) & 0x00400040)
    by = gl.convert_layout(factors, x.type.layout, assert_trivial=True)
    whole = gl.full_like(x, 0x7E807E80)
    a0, b0 = two_bf16(mul_bf16x2(mul_bf16x2(x & 0x81C081C0, whole), by))
    a1, b1 = two_bf16(mul_bf16x2(mul_bf16x2((x << 3) & 0x81C081C0, whole), by))
    a2, b2 = two_bf16(mul_bf16x2(mul_bf16x2((x << 6) & 0x81C081C0, whole), by))
    a3, b3 = two_bf16(mul_bf16x2(mul_bf16x2(last, whole), by))
    even = gl.join(gl.join(a0, a2), gl.join(a1, a3))
    odd = gl.join(gl.join(b0, b2), gl.join(b1, b3))
    y = gl.permute(gl.join(even, odd), (0, 2, 3, 4, 1, 5))
    return gl.convert_layout(gl.reshape(y, (x.shape[0], 64)), operand, assert_trivial=True)


@gluon.jit
def halves_of(words, scales):
    """The words of both halves along k, and their factors."""
    parts = gl.reshape(words, (words.shape[0], 4, 2, 2))
    first, second = gl.split(gl.permute(parts, (0, 1, 3, 2)))
    even, odd = factor_pairs(scales)
    return (first, gl.join(twice(even, False), twice(odd, False))), (
        second, gl.join(twice(even, True), twice(odd, True)))  # fmt: skip


@gluon.jit
def multiply_half(
    words, factors, xs, ts, x_full, x_empty, acc, tail, step, before, ENDS: gl.constexpr,
):  # fmt: skip
    """Start the products of 64 elements along k, and wait for those `before`, if there are any."""
    X: gl.constexpr = xs.type.shape[0]
    operand: gl.constexpr = gl.DotOperandLayout(0, acc.type.layout, 2)
    w = widen(words, factors, operand)
    slot = step % X
    mbarrier.wait(x_full.index(slot), step // X & 1)
    acc = warpgroup_mma(w, xs.index(slot).permute((1, 0)), acc, is_async=True)
    if ENDS:
        other: gl.constexpr = gl.DotOperandLayout(0, tail.type.layout, 2)
        w = gl.convert_layout(w, other, assert_trivial=True)
        tail = warpgroup_mma(w, ts.index(slot).permute((1, 0)), tail, is_async=True)
        acc, tail = warpgroup_mma_wait(2, deps=[acc, tail])
    else:
        acc = warpgroup_mma_wait(1, deps=[acc])
    mbarrier.arrive(x_empty.index((step + X - 1) % X), count=1, pred=before)
    return acc, tail, step + 1


@gluon.jit
def load_words(ws, ss, w_full, w_empty, w_step, GROUP: gl.constexpr, GROUPS: gl.constexpr):
    """Words and factors of both halves of 128 elements along k."""
    words_layout: gl.constexpr = gl.DistributedLinearLayout(
        [[0, 0, 1], [0, 0, 2], [8, 0, 0]],
        [[0, 1, 0], [0, 2, 0], [1, 0, 0], [2, 0, 0], [4, 0, 0]],
        [[16, 0, 0], [32, 0, 0]], [], [64, 4, 4],
    )  # fmt: skip
    pairs: gl.constexpr = gl.SliceLayout(2, words_layout)
    W: gl.constexpr = ws.type.shape[0] // GROUPS
    slot = w_step % W
    mbarrier.wait(w_full.index(slot), w_step // W & 1)
    words = ws.index(slot * GROUPS + GROUP).reshape((64, 4, 4)).load(words_layout)
    scales = ss.index(slot * GROUPS + GROUP).load(gl.SliceLayout(1, pairs))
    zero = gl.zeros([64, 4], gl.uint32, pairs)
    both = halves_of(words, scales[:, None] | zero)
    mbarrier.arrive(w_empty.index(slot), count=1)
    return both


@gluon.jit
def multiply_widened(
    K, rings, bars, step, w_step, GROUP: gl.constexpr, ENDS: gl.constexpr, ROWS: gl.constexpr,
    TAIL: gl.constexpr, GROUPS: gl.constexpr, ODD: gl.constexpr,
):  # fmt: skip
    """The sums of weights that are widened; with ENDS also of the rows beside the tile's."""
    xs, ts, ws, ss = rings
    x_full, x_empty, w_full, w_empty = bars
    X: gl.constexpr = xs.type.shape[0]
    mma: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, ROWS, 16])
    tail_mma: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, TAIL, 16])
    acc = gl.zeros([64, ROWS], gl.float32, mma)
    tail = gl.zeros([64, TAIL], gl.float32, tail_mma)
    for row in range(gl.cdiv(K, 64) // 2):
        both = load_words(ws, ss, w_full, w_empty, w_step, GROUP, GROUPS)
        w_step += 1
        acc, tail, step = multiply_half(
            both[0][0], both[0][1], xs, ts, x_full, x_empty, acc, tail, step, row > 0, ENDS)
        acc, tail, step = multiply_half(
            both[1][0], both[1][1], xs, ts, x_full, x_empty, acc, tail, step, True, ENDS)
    if ODD:
        both = load_words(ws, ss, w_full, w_empty, w_step, GROUP, GROUPS)
        w_step += 1
        acc, tail, step = multiply_half(
            both[0][0], both[0][1], xs, ts, x_full, x_empty, acc, tail, step, K > 64, ENDS)
    acc, tail = warpgroup_mma_wait(0, deps=[acc, tail])
    mbarrier.arrive(x_empty.index((step + X - 1) % X), count=1)
    return acc, tail, step, w_step


@gluon.jit
def multiply_numbers(
    K, rings, bars, step, w_step, GROUP: gl.constexpr, ENDS: gl.constexpr, ROWS: gl.constexpr,
    TAIL: gl.constexpr, GROUPS: gl.constexpr,
):  # fmt: skip
    xs, ts, ws, _ss = rings
    x_full, x_empty, w_full, w_empty = bars
    X: gl.constexpr = xs.type.shape[0]
    W: gl.constexpr = ws.type.shape[0] // GROUPS
    mma: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, ROWS, 16])
    tail_mma: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, TAIL, 16])
    acc = gl.zeros([64, ROWS], gl.float32, mma)
    tail = gl.zeros([64, TAIL], gl.float32, tail_mma)
    for k in range(gl.cdiv(K, 64)):
        slot = w_step % W
        mbarrier.wait(w_full.index(slot), w_step // W & 1)
        w = ws.index(slot * GROUPS + GROUP).permute((1, 0))
        slot = step % X
        mbarrier.wait(x_full.index(slot), step // X & 1)
        going = warpgroup_mma(w, xs.index(slot).permute((1, 0)), acc, is_async=True)
        if ENDS:
            more = warpgroup_mma(w, ts.index(slot).permute((1, 0)), tail, is_async=True)
            acc, tail = warpgroup_mma_wait(2, deps=[going, more])
        else:
            acc = warpgroup_mma_wait(1, deps=[going])
        mbarrier.arrive(x_empty.index((step + X - 1) % X), count=1, pred=k > 0)
        mbarrier.arrive(w_empty.index((w_step + W - 1) % W), count=1, pred=k > 0)
        step += 1
        w_step += 1
    acc, tail = warpgroup_mma_wait(0, deps=[acc, tail])
    mbarrier.arrive(x_empty.index((step + X - 1) % X), count=1)
    mbarrier.arrive(w_empty.index((w_step + W - 1) % W), count=1)
    return acc, tail, step, w_step


@gluon.jit
def parts_of(acc):
    """The sums in parts of at most 64 rows of the result."""
    if acc.shape[1] <= 64:
        return (acc,)
    else:
        half = gl.reshape(acc, (acc.shape[0], 2, acc.shape[1] // 2))
        left, right = gl.split(gl.permute(half, (0, 2, 1)))
        return parts_of(left) + parts_of(right)


@gluon.jit
def store_part(part, y, done, z, first, left, column, N):
    """Store rows from `first` on, of which `left` are inside, and 64 columns of the result."""
    rows: gl.constexpr = part.shape[1]
    i = gl.arange(0, rows, gl.SliceLayout(0, part.type.layout))
    if y.bias is not None:
        j = column + gl.arange(0, 64, gl.SliceLayout(1, part.type.layout))
        bias = gl.load(y.bias + z * y.bias_z + j, mask=j < N, other=0).to(gl.float32)[:, None]
        if y.betas is not None:
            betas = gl.load(y.betas + first + i, mask=i < left, other=0).to(gl.float32)
            bias = bias * betas[None, :]
        part += bias
    if y.gammas is not None:
        gammas = gl.load(y.gammas + first + i, mask=i < left, other=0).to(gl.float32)
        part *= gammas[None, :]
    memory = done.slice(0, rows, 0)
    memory.store(gl.permute(part, (1, 0)).to(y.ptr.dtype.element_ty))
    layout: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    i = gl.arange(0, rows, gl.SliceLayout(1, layout))
    j = column + gl.arange(0, 64, gl.SliceLayout(0, layout))
    target = (first + i).to(gl.int64)
    inside = i < left
    if y.scatter is not None:
        target = gl.load(y.scatter + first + i, mask=inside, other=-1).to(gl.int64)
        inside = target >= 0
    places = y.ptr + target[:, None] * y.row + j[None, :]
    gl.store(places, memory.load(layout), mask=inside[:, None] & (j < N)[None, :])


@gluon.jit
def sums_of(
    K, rings, bars, x_step, w_step, GROUP: gl.constexpr, ENDS: gl.constexpr, ROWS: gl.constexpr,
    TAIL: gl.constexpr, GROUPS: gl.constexpr, WORDS: gl.constexpr, ODD: gl.constexpr,
):  # fmt: skip
    """The sums of 64 columns of a tile, transposed, those of the rows beside it, and the steps."""
    if WORDS:
        return multiply_widened(
            K, rings, bars, x_step, w_step, GROUP, ENDS, ROWS, TAIL, GROUPS, ODD
        )
    else:
        return multiply_numbers(K, rings, bars, x_step, w_step, GROUP, ENDS, ROWS, TAIL, GROUPS)


@gluon.jit
def multiply(
    y, work, K, N, done, rings, bars, GROUP: gl.constexpr, ROWS: gl.constexpr, TAIL: gl.constexpr,
    GROUPS: gl.constexpr, WORDS: gl.constexpr, ODD: gl.constexpr,
):  # fmt: skip
    """The columns of all tiles that warp group GROUP has."""
    tiles_n = gl.cdiv(N, 64 * GROUPS)
    x_step = 0
    w_step = 0
    for tile in range(gl.program_id(0), gl.load(work) * tiles_n, gl.num_programs(0)):
        at = work + 4 * (1 + tile // tiles_n)
        column = (tile % tiles_n * GROUPS + GROUP) * 64
        z, first, left = gl.load(at), gl.load(at + 1), gl.load(at + 2)
        if (left > ROWS) & (left <= ROWS + TAIL):
            acc, tail, x_step, w_step = sums_of(
                K, rings, bars, x_step, w_step, GROUP, True, ROWS, TAIL, GROUPS, WORDS, ODD
            )
            store_part(tail, y, done, z, first + ROWS, left - ROWS, column, N)
        else:
            acc, tail, x_step, w_step = sums_of(
                K, rings, bars, x_step, w_step, GROUP, False, ROWS, TAIL, GROUPS, WORDS, ODD
            )
        parts = parts_of(acc)
        for p in gl.static_range(len(parts)):
            store_part(parts[p], y, done, z, first + 64 * p, left - 64 * p, column, N)


@gluon.jit
def matmul_apart(
    x, x_row, gather, w, y, work, K, N, ROWS: gl.constexpr, TAIL: gl.constexpr,
    GROUPS: gl.constexpr, X: gl.constexpr, W: gl.constexpr, REGISTERS: gl.constexpr,
    OWN: gl.constexpr, ODD: gl.constexpr, EVEN_K: gl.constexpr,
):  # fmt: skip
    """y = x[gather] @ w of each block of rows that `work` lists, in tiles of ROWS rows, or up to
    TAIL more at the end of a slice, by 64 columns for each of GROUPS warp groups.

    X, W: buffers of x and of the weights. REGISTERS, OWN: of a thread that multiplies, that copies.
    ODD: k has an odd number of steps of 64; EVEN_K: all of them are whole.
    """
    WORDS: gl.constexpr = w.scales is not None
    shared: gl.constexpr = gl.NVMMASharedLayout(128, 16)
    element: gl.constexpr = x.dtype.element_ty
    xs = gl.allocate_shared_memory(element, [X, ROWS, 64], shared)
    ts = gl.allocate_shared_memory(element, [X, TAIL, 64], shared)
    if WORDS:
        plain: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [1, 0])
        flat: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [0])
        ws = gl.allocate_shared_memory(gl.uint32, [W * GROUPS, 64, 16], plain)
        ss = gl.allocate_shared_memory(gl.uint32, [W * GROUPS, 64], flat)
    else:
        ws = gl.allocate_shared_memory(element, [W * GROUPS, 64, 64], shared)
        ss = ws
    done = gl.allocate_shared_memory(y.ptr.dtype.element_ty, [GROUPS, 64, 64], shared)
    rings = xs, ts, ws, ss
    bars = (barriers(X, 128), barriers(X, GROUPS), barriers(W, 128 if WORDS else 1),
            barriers(W, GROUPS))  # fmt: skip
    copying = (copy_operands, (x, x_row, gather, w, work, K, N, rings, bars, ROWS, TAIL, GROUPS,
                               EVEN_K))  # fmt: skip
    form = ROWS, TAIL, GROUPS, WORDS, ODD
    gl.static_assert(GROUPS == 2 or GROUPS == 3)
    if GROUPS == 2:
        gl.warp_specialize([
            (multiply, (y, work, K, N, done.index(0), rings, bars, 0, *form)),
            (multiply, (y, work, K, N, done.index(1), rings, bars, 1, *form)),
            copying,
        ], [4, 4], [REGISTERS, OWN])  # fmt: skip
    else:
        gl.warp_specialize([
            (multiply, (y, work, K, N, done.index(0), rings, bars, 0, *form)),
            (multiply, (y, work, K, N, done.index(1), rings, bars, 1, *form)),
            (multiply, (y, work, K, N, done.index(2), rings, bars, 2, *form)),
            copying,
        ], [4, 4, 4], [REGISTERS, REGISTERS, OWN])  # fmt: skip
