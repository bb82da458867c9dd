"""Layouts of scales and of FP4 values inside of kernels: their inverses, and copies of slices."""

from __future__ import annotations

import tritium
import tritium.language as tl
from tritium.language.target_info import is_cuda

SWIZZLE_SIZE_OUTER = tl.constexpr(128)
SWIZZLE_SIZE_INNER = tl.constexpr(4)
SWIZZLE_SIZE_LANE = tl.constexpr(32)
SWIZZLE_SIZE_HALF = tl.constexpr(2)
SWIZZLE_ALIGN_INNER = tl.constexpr(8)
CDNA4_ROWS = tl.constexpr(32)
GFX1250_ROWS = tl.constexpr(128)


@tritium.jit
def _blackwell_place(
    base, block, rows, cols, stride_outer, stride_inner, stride_half, stride_lane,
    SIZE_OUTER: tl.constexpr, SIZE_INNER: tl.constexpr, SIZE_LANE: tl.constexpr,
    SIZE_HALF: tl.constexpr, INDEX_TYPE: tl.constexpr,
):  # fmt: skip
    """Pointers to the scales `cols` of rows `rows`, rows counted from block `block` on."""
    row = rows % SIZE_OUTER
    # Bytes of a lane: the scales of each of its rows, which are SIZE_LANE apart.
    LANE_BYTES: tl.constexpr = SIZE_OUTER // SIZE_LANE * SIZE_INNER
    byte = (row % SIZE_LANE) * LANE_BYTES + (row // SIZE_LANE) * SIZE_INNER + cols % SIZE_INNER
    HALF_BYTES: tl.constexpr = SIZE_OUTER * SIZE_INNER // SIZE_HALF
    outer = (block + rows // SIZE_OUTER).to(INDEX_TYPE) * stride_outer
    inner = (cols // SIZE_INNER).to(INDEX_TYPE) * stride_inner
    return base + outer + inner + byte // HALF_BYTES * stride_half + byte % HALF_BYTES * stride_lane


@tritium.jit
def swizzle_mx_scale_bw_store_ptr(
    base, rows, cols, leading_idx, n_cols, stride_outer, stride_inner, stride_half, stride_lane,
    SIZE_OUTER: tl.constexpr = SWIZZLE_SIZE_OUTER, SIZE_INNER: tl.constexpr = SWIZZLE_SIZE_INNER,
    SIZE_LANE: tl.constexpr = SWIZZLE_SIZE_LANE, SIZE_HALF: tl.constexpr = SWIZZLE_SIZE_HALF,
    INDEX_TYPE: tl.constexpr = tl.int64,
):  # fmt: skip
    """Pointers to the scales `rows`, along k, of the columns `cols` of matrix `leading_idx` of b.

    `n_cols`: columns of each matrix. b's columns are the rows of the storage's blocks.
    """
    block = leading_idx * tl.cdiv(n_cols, SIZE_OUTER)
    return _blackwell_place(
        base, block, cols, rows, stride_outer, stride_inner, stride_half, stride_lane, SIZE_OUTER,
        SIZE_INNER, SIZE_LANE, SIZE_HALF, INDEX_TYPE,
    )  # fmt: skip


@tritium.jit
def swizzle_act_mx_scale_bw_store_ptr(
    base, rows, cols, leading_m_block, stride_outer, stride_inner, stride_half, stride_lane,
    SIZE_OUTER: tl.constexpr = SWIZZLE_SIZE_OUTER, SIZE_INNER: tl.constexpr = SWIZZLE_SIZE_INNER,
    SIZE_LANE: tl.constexpr = SWIZZLE_SIZE_LANE, SIZE_HALF: tl.constexpr = SWIZZLE_SIZE_HALF,
    INDEX_TYPE: tl.constexpr = tl.int64,
):  # fmt: skip
    """Pointers to the scales `cols` of the rows `rows` of a slice of a whose first block is
    `leading_m_block`."""
    return _blackwell_place(
        base, leading_m_block, rows, cols, stride_outer, stride_inner, stride_half, stride_lane,
        SIZE_OUTER, SIZE_INNER, SIZE_LANE, SIZE_HALF, INDEX_TYPE,
    )  # fmt: skip


@tritium.jit
def _unswizzle_blackwell(
    x, SIZE_OUTER: tl.constexpr, SIZE_INNER: tl.constexpr, SIZE_LANE: tl.constexpr
):
    OUTER: tl.constexpr = x.shape[0]
    COLUMNS: tl.constexpr = x.shape[1] // SIZE_OUTER
    PARTS: tl.constexpr = SIZE_OUTER // SIZE_LANE
    x = tl.reshape(x, (OUTER, COLUMNS // SIZE_INNER, SIZE_LANE, PARTS, SIZE_INNER))
    return tl.reshape(tl.permute(x, (0, 3, 2, 1, 4)), (OUTER * SIZE_OUTER, COLUMNS))


@tritium.jit
def unswizzle_mx_scale_bw(
    x, SIZE_OUTER: tl.constexpr = SWIZZLE_SIZE_OUTER, SIZE_INNER: tl.constexpr = SWIZZLE_SIZE_INNER,
    SIZE_LANE: tl.constexpr = SWIZZLE_SIZE_LANE, ALIGN_INNER: tl.constexpr = SWIZZLE_ALIGN_INNER,
):  # fmt: skip
    """Scales (columns of b, scales) of blocks (outer, bytes of the inner blocks)."""
    tl.static_assert(ALIGN_INNER % SIZE_INNER == 0)
    return _unswizzle_blackwell(x, SIZE_OUTER, SIZE_INNER, SIZE_LANE)


@tritium.jit
def unswizzle_act_mx_scale_bw(
    x, SIZE_OUTER: tl.constexpr = SWIZZLE_SIZE_OUTER, SIZE_INNER: tl.constexpr = SWIZZLE_SIZE_INNER,
    SIZE_LANE: tl.constexpr = SWIZZLE_SIZE_LANE,
):  # fmt: skip
    """Scales (rows of a, scales) of blocks (outer, bytes of the inner blocks)."""
    return _unswizzle_blackwell(x, SIZE_OUTER, SIZE_INNER, SIZE_LANE)


@tritium.jit
def unswizzle_mx_scale_cdna4(
    x, BLOCK_N: tl.constexpr, MX_SCALE_BLOCK_K: tl.constexpr,
    N_PRESHUFFLE_FACTOR: tl.constexpr = CDNA4_ROWS,
):  # fmt: skip
    """Scales (BLOCK_N columns of b, MX_SCALE_BLOCK_K scales) of a block of the storage."""
    ROWS: tl.constexpr = BLOCK_N // N_PRESHUFFLE_FACTOR
    x = tl.reshape(x, (ROWS, MX_SCALE_BLOCK_K // 8, 4, N_PRESHUFFLE_FACTOR // 2, 2, 2))
    return tl.reshape(tl.permute(x, (0, 5, 3, 1, 4, 2)), (BLOCK_N, MX_SCALE_BLOCK_K))


@tritium.jit
def unswizzle_mx_scale_gfx1250(
    x, BLOCK_N: tl.constexpr, MX_SCALE_BLOCK_K: tl.constexpr,
    N_PRESHUFFLE_FACTOR: tl.constexpr = GFX1250_ROWS,
):  # fmt: skip
    """Scales (BLOCK_N columns of b, MX_SCALE_BLOCK_K scales) of a block of the storage."""
    ROWS: tl.constexpr = BLOCK_N // N_PRESHUFFLE_FACTOR
    x = tl.reshape(x, (ROWS, MX_SCALE_BLOCK_K // 4, N_PRESHUFFLE_FACTOR // 4, 4, 4))
    return tl.reshape(tl.permute(x, (0, 3, 2, 1, 4)), (BLOCK_N, MX_SCALE_BLOCK_K))


@tritium.jit
def unswizzle_mxfp4_scale_hopper(x, mx_axis: tl.constexpr, num_warps: tl.constexpr):
    """Scales of a block (words along k, 4 * columns): k along `mx_axis` of the two dimensions."""
    tl.static_assert(x.shape[1] % 4 == 0 and num_warps % 4 == 0)
    WORDS: tl.constexpr = x.shape[0]
    N: tl.constexpr = x.shape[1] // 4
    x = tl.reshape(x, (WORDS, N, 4))
    if mx_axis % 2 == 0:
        return tl.reshape(tl.permute(x, (0, 2, 1)), (4 * WORDS, N))
    else:
        return tl.reshape(tl.permute(x, (1, 0, 2)), (N, 4 * WORDS))


@tritium.jit
def right_shift_unsigned(x, shift):
    """The bits of 32-bit integers moved to the right; zeros follow."""
    return (x.to(tl.uint32, bitcast=True) >> shift).to(x.dtype, bitcast=True)


@tritium.jit
def mul_bf16x2(a, b):
    """The products of the two bfloat16 in 32-bit words, each rounded once."""
    if is_cuda():
        return tl.inline_asm_elementwise(
            "mul.rn.bf16x2 $0, $1, $2;", "=r,r,r", [a, b], tl.uint32, True, 1
        )
    else:
        a = a.to(tl.uint32, bitcast=True)
        b = b.to(tl.uint32, bitcast=True)
        low = _as_float(a << 16) * _as_float(b << 16)
        high = _as_float(a & 0xFFFF0000) * _as_float(b & 0xFFFF0000)
        low = low.to(tl.bfloat16).to(tl.uint16, bitcast=True).to(tl.uint32)
        high = high.to(tl.bfloat16).to(tl.uint16, bitcast=True).to(tl.uint32)
        return low | (high << 16)


@tritium.jit
def _as_float(bits):
    return bits.to(tl.float32, bitcast=True)


@tritium.jit
def two_bf16(words):
    """The low and the high bfloat16 of words."""
    low = (words & 0xFFFF).to(tl.uint16).to(tl.bfloat16, bitcast=True)
    return low, (words >> 16).to(tl.uint16).to(tl.bfloat16, bitcast=True)


@tritium.jit
def _factor_words(scale):
    """The bfloat16 of E8M0 scales, twice in each 32-bit word."""
    bits = scale.to(tl.uint32) << 7
    # 2**-127 and NaN have no exponent of their own in bfloat16.
    bits = tl.maximum(bits, 0x40) | (((bits + 0x80) >> 9) & 0x40)
    return bits | (bits << 16)


@tritium.jit
def twice(words, HIGH: tl.constexpr):
    """The low or the high half of words, in both halves."""
    if is_cuda():
        ASM: tl.constexpr = "prmt.b32 $0, $1, 0, 0x3232;" if HIGH else "prmt.b32 $0, $1, 0, 0x1010;"
        return tl.inline_asm_elementwise(ASM, "=r,r", [words], tl.uint32, True, 1)
    else:
        half = words >> 16 if HIGH else words & 0xFFFF
        return half | (half << 16)


@tritium.jit
def _factors_of_words(words):
    """The same of the four scales in each word (rows, n): (rows, n, 4)."""
    even, odd = factor_pairs(words)
    # Joins put their axis last: (rows, n, half, odd).
    factors = tl.join(
        tl.join(twice(even, False), twice(even, True)),
        tl.join(twice(odd, False), twice(odd, True)),
    )
    return tl.reshape(factors, (words.shape[0], words.shape[1], 4))


@tritium.jit
def factor_pairs(words):
    """The bfloat16 of the first and third of four scales in each word, and of the others. Two at
    once: 2**-127, zero without its own bit, is where a borrow from bit 15 is, and NaN where a carry
    into it is."""
    even = (words << 7) & 0x7F807F80
    odd = (words >> 1) & 0x7F807F80
    even |= (((0x80008000 - even) | (even + 0x00800080)) >> 9) & 0x00400040
    odd |= (((0x80008000 - odd) | (odd + 0x00800080)) >> 9) & 0x00400040
    return even, odd


@tritium.jit
def mxfp4_to_bf16_triton(x, scale, mx_axis: tl.constexpr):
    """bfloat16 of FP4 values in the layout for Hopper, times their scales.

    Args:
        x: words (k / 128, 16 * n) uint32, or their bytes (k / 128, 64 * n) uint8.
        scale: E8M0, (k / 32, n) or, with `mx_axis` 1, (n, k / 32); or words of four, (k / 128, n)
            uint32, as the layout for Hopper has them; or None. 255 is NaN, 0 is 2**-127.
        mx_axis: the dimension of the result, and of the scales, that runs along k.
    """
    tl.static_assert(mx_axis == 0 or mx_axis == 1 or mx_axis == -1 or mx_axis == -2)
    if x.dtype == tl.uint8:
        split = tl.reshape(x, (x.shape[0], x.shape[1] // 4, 4)).to(tl.uint32)
        x = tl.sum(split << (8 * tl.arange(0, 4).to(tl.uint32))[None, None, :], 2)
    R: tl.constexpr = x.shape[0]
    N: tl.constexpr = x.shape[1] // 16
    factors = scale
    if scale is not None:
        if scale.dtype == tl.uint32:
            factors = _factors_of_words(scale)
        elif mx_axis % 2 == 0:
            factors = tl.permute(tl.reshape(_factor_words(scale), (R, 4, N)), (0, 2, 1))
        else:
            factors = tl.permute(tl.reshape(_factor_words(scale), (N, R, 4)), (1, 0, 2))
    y = _widened(tl.reshape(x, (R, N, 4, 4)), factors)
    if mx_axis % 2 == 0:
        return tl.reshape(tl.permute(y, (0, 3, 4, 5, 2, 6, 1)), (128 * R, N))
    else:
        return tl.reshape(tl.permute(y, (1, 0, 3, 4, 5, 2, 6)), (N, 128 * R))


@tritium.jit
def _widened(x, factors):
    """bfloat16 of words (rows, n, 4, q), each of eight elements, times factors (rows, n, q), or
    None: (rows, n, 4, q, b, the high part of a pair's number, the low one, half)."""
    last = ((x << 1) & 0x80008000) | (right_shift_unsigned(x, 3) & 0x01800180)
    last |= right_shift_unsigned(x, 7) & 0x00400040
    # 2**126 as two bfloat16: what the places of the bits leave out.
    factor = tl.full(x.shape, 0x7E807E80, tl.uint32)
    w0 = mul_bf16x2(x & 0x81C081C0, factor)
    w1 = mul_bf16x2((x << 3) & 0x81C081C0, factor)
    w2 = mul_bf16x2((x << 6) & 0x81C081C0, factor)
    w3 = mul_bf16x2(last, factor)
    if factors is not None:
        factors = tl.broadcast_to(factors[:, :, None, :], x.shape)
        w0 = mul_bf16x2(w0, factors)
        w1 = mul_bf16x2(w1, factors)
        w2 = mul_bf16x2(w2, factors)
        w3 = mul_bf16x2(w3, factors)
    a0, b0 = two_bf16(w0)
    a1, b1 = two_bf16(w1)
    a2, b2 = two_bf16(w2)
    a3, b3 = two_bf16(w3)
    # Joins put their axis last: (row, n, q, b, pair's high part, pair's low part, half).
    even = tl.join(tl.join(a0, a2), tl.join(a1, a3))
    odd = tl.join(tl.join(b0, b2), tl.join(b1, b3))
    return tl.join(even, odd)


@tritium.jit
def widen_half(x, scale, LAST: tl.constexpr):
    """bfloat16 (n, 64) of half of 128 elements along k, the first or the LAST, in the layout for
    Hopper: words (1, n, 4, 2), and words of the four scales (1, n)."""
    even, odd = factor_pairs(scale)
    y = _widened(x, tl.join(twice(even, LAST), twice(odd, LAST)))
    return tl.reshape(tl.permute(y, (1, 0, 3, 4, 5, 2, 6)), (x.shape[1], 64))


@tritium.jit
def load_words(words, going, tile_n, n, HALF: tl.constexpr, F: tl.constexpr):
    """Words of b in the layout for Hopper, of the first or last 64 of 128 elements along k that
    `words` points to: (1, block_n, 4, 2)."""
    quad = tile_n * F.block_n * 4 + tl.arange(0, F.block_n * 4)
    mask = (quad < n * 4)[:, None] & going
    places = words + 2 * HALF + quad[:, None] * 4 + tl.arange(0, 2)[None, :]
    x = tl.load(places, mask=mask, other=0, cache_modifier=F.cache)
    return tl.reshape(x, (1, F.block_n, 4, 2))


@tritium.jit
def load_scale_words(scales, going, tile_n, n, F: tl.constexpr):
    """Words of the four scales of 128 elements along k: (1, block_n). Columns past the last, whose
    values are 0, have the smallest."""
    column = tile_n * F.block_n + tl.arange(0, F.block_n)
    return tl.load(scales + column, mask=(column < n) & going, other=0)[None, :]


@tritium.jit
def _copy_segments(
    source_ptr, target_ptr, slice_sizes_ptr, slice_offs_ptr, block_offs_ptr, block_schedule_ptr, K,
    K_pad, source_m, source_n, target_m, target_n, PAD: tl.constexpr, BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr, N_BLOCKS_PER_COL: tl.constexpr, N_SLICES: tl.constexpr,
    NUM_SMS: tl.constexpr,
):  # fmt: skip
    """Copy each block of a slice from its place among all rows to that of its block, or back."""
    for tile in range(tl.program_id(0), N_BLOCKS_PER_COL * tl.cdiv(K_pad, BLOCK_N), NUM_SMS):
        word = tl.load(block_schedule_ptr + tile % N_BLOCKS_PER_COL)
        if word >= 0:
            z = word & 0xFFFF
            tl.device_assert(z < N_SLICES)
            i = (word >> 16) * BLOCK_M + tl.arange(0, BLOCK_M)
            j = tile // N_BLOCKS_PER_COL * BLOCK_N + tl.arange(0, BLOCK_N).to(tl.int64)
            mask = (i < tl.load(slice_sizes_ptr + z))[:, None] & (j < K)[None, :]
            packed = (tl.load(slice_offs_ptr + z) + i).to(tl.int64)
            aligned = tl.load(block_offs_ptr + z).to(tl.int64) * BLOCK_M + i
            source = packed if PAD else aligned
            target = aligned if PAD else packed
            x = tl.load(source_ptr + source[:, None] * source_m + j[None, :] * source_n, mask=mask)
            tl.store(target_ptr + target[:, None] * target_m + j[None, :] * target_n, x, mask=mask)


@tritium.jit
def pad_segments_kernel(
    data_ptr, out_ptr, slice_sizes_ptr, slice_offs_ptr, block_offs_ptr, block_schedule_ptr, K,
    K_pad, stride_in_m, stride_in_n, stride_out_m, stride_out_n, BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr, N_BLOCKS_PER_COL: tl.constexpr, N_SLICES: tl.constexpr,
    NUM_SMS: tl.constexpr,
):  # fmt: skip
    """Slices of rows, each moved to a multiple of BLOCK_M rows."""
    _copy_segments(
        data_ptr, out_ptr, slice_sizes_ptr, slice_offs_ptr, block_offs_ptr, block_schedule_ptr, K,
        K_pad, stride_in_m, stride_in_n, stride_out_m, stride_out_n, True, BLOCK_M, BLOCK_N,
        N_BLOCKS_PER_COL, N_SLICES, NUM_SMS,
    )  # fmt: skip


@tritium.jit
def unpad_segments_kernel(
    padded_ptr, out_ptr, slice_sizes_ptr, slice_offs_ptr, block_offs_ptr, block_schedule_ptr, K,
    K_pad, stride_pad_m, stride_pad_n, stride_out_m, stride_out_n, BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr, N_BLOCKS_PER_COL: tl.constexpr, N_SLICES: tl.constexpr,
    NUM_SMS: tl.constexpr,
):  # fmt: skip
    """The inverse of `pad_segments_kernel`."""
    _copy_segments(
        padded_ptr, out_ptr, slice_sizes_ptr, slice_offs_ptr, block_offs_ptr, block_schedule_ptr, K,
        K_pad, stride_pad_m, stride_pad_n, stride_out_m, stride_out_n, False, BLOCK_M, BLOCK_N,
        N_BLOCKS_PER_COL, N_SLICES, NUM_SMS,
    )  # fmt: skip
