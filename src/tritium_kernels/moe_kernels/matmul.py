"""Products of a ragged or batched matrix with a matrix for each slice, with rows gathered and
scattered, MX operands and a function of the result."""

from __future__ import annotations

import tritium
import tritium.language as tl


@tritium.jit
def load_tile(ptrs, k, left, ACROSS: tl.constexpr):
    """A tile whose elements from `left` on along k are 0."""
    if ACROSS:
        return tl.load(ptrs, mask=k[None, :] < left, other=0)
    else:
        return tl.load(ptrs, mask=k[:, None] < left, other=0)


@tritium.jit
def matmul(
    a_ptr, b_ptr, y_ptr, bias_ptr, a_scale_ptr, b_scale_ptr, gather_ptr, scatter_ptr, betas_ptr,
    gammas_ptr, offsets_ptr, schedule_ptr, alpha, m, n, k,
    az, am, ak, bz, bk, bn, yz, ym, yn, biasz, biasn, asz, asm, ask, bsz, bsk, bsn,
    FN: tl.constexpr, fn_args, N: tl.constexpr, RAGGED_K: tl.constexpr,
    A_FORMAT: tl.constexpr, B_FORMAT: tl.constexpr, A_PACK: tl.constexpr, B_PACK: tl.constexpr,
    PRECISION: tl.constexpr, EVEN_N: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """One tile of slice z: y = alpha * FN((a @ b + bias * betas) * gammas).

    With a schedule, slices are rows of a. With RAGGED_K they are parts of the sum over k. Otherwise
    the grid's second axis counts batches.
    """
    across = tl.cdiv(n, BLOCK_N)
    pid = tl.program_id(0)
    tile_m = pid // across
    z = tl.program_id(1)
    first = 0
    rows = m
    if schedule_ptr is not None:
        word = tl.load(schedule_ptr + tile_m)
        z = tl.where(word < 0, 0, word & 0xFFFF)
        tile_m = word >> 16
        first = tl.load(offsets_ptr + z)
        rows = tl.where(word < 0, 0, tl.load(offsets_ptr + z + 1) - first)
    z = z.to(tl.int64)
    if RAGGED_K:
        start_k = tl.load(offsets_ptr + z)
        k = tl.load(offsets_ptr + z + 1) - start_k
        a_ptr += start_k.to(tl.int64) * ak
        b_ptr += start_k.to(tl.int64) * bk
    else:
        b_ptr += z * bz
    if schedule_ptr is None and not RAGGED_K:
        a_ptr += z * az
        if a_scale_ptr is not None:
            a_scale_ptr += z * asz
    if rows > 0:
        i = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
        j = (pid % across) * BLOCK_N + tl.arange(0, BLOCK_N)
        inside = i < rows
        place = first + tl.where(inside, i, 0)
        source = place.to(tl.int64)
        if gather_ptr is not None:
            # A row that is gathered from nowhere (-1) is zero.
            source = tl.load(gather_ptr + place).to(tl.int64)
        exists = source >= 0
        source = tl.where(exists, source, 0)
        column = (j if EVEN_N else j % n).to(tl.int64)
        ka = tl.arange(0, BLOCK_K // A_PACK)
        kb = tl.arange(0, BLOCK_K // B_PACK)
        a_ptrs = a_ptr + source[:, None] * am + ka[None, :].to(tl.int64) * ak
        b_ptrs = b_ptr + kb[:, None].to(tl.int64) * bk + column[None, :] * bn
        acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for start in tl.range(0, k, BLOCK_K, num_stages=STAGES):
            x = load_tile(a_ptrs, ka, (k - start) // A_PACK, True)
            w = load_tile(b_ptrs, kb, (k - start) // B_PACK, False)
            if B_FORMAT is None:
                acc = tl.dot(x, w, acc, input_precision=PRECISION)
            else:
                s = start // 32 + tl.arange(0, BLOCK_K // 32)
                used = s[None, :] < tl.cdiv(k, 32)
                x_scale = None
                w_scale = None
                if a_scale_ptr is not None:
                    places = a_scale_ptr + source[:, None] * asm + s[None, :].to(tl.int64) * ask
                    x_scale = tl.load(places, mask=used, other=127)
                if b_scale_ptr is not None:
                    places = b_scale_ptr + z * bsz + column[:, None] * bsn
                    places += s[None, :].to(tl.int64) * bsk
                    w_scale = tl.load(places, mask=used, other=127)
                acc = tl.dot_scaled(x, x_scale, A_FORMAT, w, w_scale, B_FORMAT, acc)
            a_ptrs += (BLOCK_K // A_PACK) * ak
            b_ptrs += (BLOCK_K // B_PACK) * bk
        acc = tl.where(exists[:, None], acc, 0.0)
        if bias_ptr is not None:
            bias = tl.load(bias_ptr + z * biasz + column * biasn).to(tl.float32)[None, :]
            if betas_ptr is not None:
                bias = bias * tl.load(betas_ptr + place).to(tl.float32)[:, None]
            acc += bias
        if gammas_ptr is not None:
            acc *= tl.load(gammas_ptr + place).to(tl.float32)[:, None]
        if FN is not None:
            acc = FN(acc, *fn_args)
        if alpha is not None:
            acc *= alpha
        target = place.to(tl.int64)
        if scatter_ptr is not None:
            target = tl.load(scatter_ptr + place).to(tl.int64)
        if schedule_ptr is None:
            y_ptr += z * yz
        jy = ((pid % across) * (BLOCK_N // N) + tl.arange(0, BLOCK_N // N)).to(tl.int64)
        mask = (inside & (target >= 0))[:, None] & (jy[None, :] < n // N)
        places = y_ptr + target[:, None] * ym + jy[None, :] * yn
        tl.store(places, acc.to(y_ptr.dtype.element_ty), mask=mask)
