"""Sums of a tensor of three dimensions along one, with a mask and factors, and the gradient."""

from __future__ import annotations

from typing import Any, NamedTuple

import tritium
import tritium.language as tl
from tritium_kernels.meta import takes
from tritium_kernels.moe_kernels.flexpoint import float_to_flex
from tritium_kernels.moe_kernels.mxfp import block_of, from_e2m1, from_scale


@tritium.jit
def term_places(r, i, j, stride_r, stride_0, stride_1):
    return r * stride_r + i[:, None] * stride_0 + j[None, :] * stride_1


class ReduceForwardCommonArgs(NamedTuple):
    """Arguments of sums: each tensor's memory, and strides of terms (r), rows (0), columns (1).

    Attributes:
        X, XMx, XFlex, XGlobalScale: terms, their MX scales, two factors of all of them.
        Y, YMx: sums, their MX scales.
        Mask, Scale: of terms; the flags BROADCAST_... say along what they do not vary.
        K, S0, X_S1, Y_S1: terms, rows, columns of x and of y.
        BLOCK_K: terms, where their number is compiled in; 0: it is not.
        POSTPROCESS_FN1, POSTPROCESS_FN2, POSTPROCESS_MX_FN: of the sums, one after the other; the
            last gives (values, MX scales).
        YFlexExpected, YFlexActual, YFlexChecksum, Y_FLEX_SATURATE_INF: see `float_to_flex`.
        ActiveInputCounts: of each row, terms after which all are masked.
        RowIdxs: rows in the order in which programs take them.
        BLOCK_X_S1, BLOCK_Y_S1: columns of a tile of x and of y.
        CHAIN_FACTOR: terms of a step.
        Y_MX_BLOCK_SIZE, Y_VALUE_PACK_FACTOR: columns that share a scale; columns in a byte.
    """

    X: Any
    stride_xr: Any
    stride_x0: Any
    stride_x1: Any
    XMx: Any
    stride_xmxr: Any
    stride_xmx0: Any
    stride_xmx1: Any
    Y: Any
    stride_y0: Any
    stride_y1: Any
    YMx: Any
    stride_ymx0: Any
    stride_ymx1: Any
    Mask: Any
    stride_mr: Any
    stride_m0: Any
    stride_m1: Any
    Scale: Any
    stride_sr: Any
    stride_s0: Any
    stride_s1: Any
    K: Any
    S0: Any
    X_S1: Any
    Y_S1: Any
    BLOCK_K: Any
    POSTPROCESS_FN1: Any
    postprocess_fn1_args: Any
    POSTPROCESS_FN2: Any
    postprocess_fn2_args: Any
    POSTPROCESS_MX_FN: Any
    postprocess_mx_fn_args: Any
    XFlex: Any
    XGlobalScale: Any
    YFlexExpected: Any
    YFlexActual: Any
    YFlexChecksum: Any
    Y_FLEX_SATURATE_INF: Any
    ActiveInputCounts: Any
    RowIdxs: Any
    BROADCAST_R: Any
    BROADCAST_S0: Any
    BROADCAST_S1: Any
    IS_SCALE_NONE: Any
    SCALE_BROADCAST_R: Any
    SCALE_BROADCAST_S0: Any
    SCALE_BROADCAST_S1: Any
    BLOCK_X_S1: Any
    BLOCK_Y_S1: Any
    CHAIN_FACTOR: Any
    Y_MX_BLOCK_SIZE: Any
    Y_VALUE_PACK_FACTOR: Any


@tritium.jit
def load_factor(
    ptr, r, i, j, sr, s0, s1, inside, R: tl.constexpr, S0: tl.constexpr, S1: tl.constexpr
):
    """A mask or a scale of a tile; along what it does not vary it is loaded once."""
    places = ptr if R else ptr + r * sr
    rows = (i * s0)[:, None] if not S0 else (i * 0)[:, None]
    if S1:
        # Rows without a column inside are not looked at.
        return tl.load(places + rows, mask=tl.max(inside.to(tl.int32), 1)[:, None] != 0, other=0)
    else:
        return tl.load(places + rows + (j * s1)[None, :], mask=inside, other=0)


@tritium.jit
def load_term(a, r, i, j, inside):
    """Term r of a tile in float32, 0 where it is masked."""
    wanted = inside
    if a.Mask is not None:
        flags = load_factor(a.Mask, r, i, j, a.stride_mr, a.stride_m0, a.stride_m1, inside,
                            a.BROADCAST_R, a.BROADCAST_S0, a.BROADCAST_S1)  # fmt: skip
        wanted = wanted & (flags != 0)
    if a.X.dtype.element_ty == tl.uint8:
        places = a.X + term_places(r, i, j // 2, a.stride_xr, a.stride_x0, a.stride_x1)
        byte = tl.load(places, mask=wanted, other=0)
        x = from_e2m1((byte >> (4 * (j % 2)).to(tl.uint8)[None, :]) & 15)
    else:
        places = a.X + term_places(r, i, j, a.stride_xr, a.stride_x0, a.stride_x1)
        x = tl.load(places, mask=wanted, other=0.0).to(tl.float32)
    if a.XMx is not None:
        s = j // block_of(a.XMx)
        places = a.XMx + term_places(r, i, s, a.stride_xmxr, a.stride_xmx0, a.stride_xmx1)
        x *= from_scale(tl.load(places, mask=wanted, other=0))
    if not a.IS_SCALE_NONE:
        factor = load_factor(
            a.Scale, r, i, j, a.stride_sr, a.stride_s0, a.stride_s1, wanted,
            a.SCALE_BROADCAST_R, a.SCALE_BROADCAST_S0, a.SCALE_BROADCAST_S1,
        ).to(tl.float32)  # fmt: skip
        # A factor of a masked term may be anything.
        x = tl.where(wanted, x * factor, 0.0)
    return x


@tritium.jit
def store_sums(a, y, i, j, inside):
    """Convert sums to what y holds, and store them."""
    if a.POSTPROCESS_MX_FN is not None:
        # Columns past the last have no part in the scale of their block.
        y = tl.where((j + tl.arange(0, a.BLOCK_Y_S1) < a.Y_S1)[None, :], y, 0.0)
        if a.YFlexExpected is not None:
            y /= tl.load(a.YFlexExpected)
        y, scale = a.POSTPROCESS_MX_FN(y, *a.postprocess_mx_fn_args)
        SCALES: tl.constexpr = a.BLOCK_Y_S1 // a.Y_MX_BLOCK_SIZE
        s = j // a.Y_MX_BLOCK_SIZE + tl.arange(0, SCALES)
        places = a.YMx + i[:, None] * a.stride_ymx0 + s[None, :] * a.stride_ymx1
        mask = inside[:, None] & (s * a.Y_MX_BLOCK_SIZE < a.Y_S1)[None, :]
        tl.store(places, scale, mask=mask)
        c = j // a.Y_VALUE_PACK_FACTOR + tl.arange(0, a.BLOCK_Y_S1 // a.Y_VALUE_PACK_FACTOR)
        mask = inside[:, None] & (c * a.Y_VALUE_PACK_FACTOR < a.Y_S1)[None, :]
    else:
        c = j + tl.arange(0, a.BLOCK_Y_S1)
        mask = inside[:, None] & (c < a.Y_S1)[None, :]
        y = float_to_flex(y, a.YFlexExpected, a.YFlexActual, a.YFlexChecksum, mask, a.Y,
                          a.Y_FLEX_SATURATE_INF)  # fmt: skip
    places = a.Y + i[:, None] * a.stride_y0 + c[None, :] * a.stride_y1
    tl.store(places, y.to(a.Y.dtype.element_ty), mask=mask)


@tritium.jit
def reduce_forward(a, rows_ptr, ROWS: tl.constexpr):
    """y[i, j] = FN2(FN1(sum over r of x[r, i, j] * scale where mask)), summed in float32.

    `rows_ptr`: how many rows there are, or None.
    """
    across = tl.cdiv(a.X_S1, a.BLOCK_X_S1)
    pid = tl.program_id(0)
    i = (pid // across).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    j = (pid % across).to(tl.int64) * a.BLOCK_X_S1 + tl.arange(0, a.BLOCK_X_S1)
    used = a.S0 if rows_ptr is None else tl.minimum(tl.load(rows_ptr).to(tl.int32), a.S0)
    if a.RowIdxs is not None:
        i = tl.load(a.RowIdxs + i, mask=i < a.S0, other=a.S0).to(tl.int64)
    inside = (i[:, None] < used) & (j[None, :] < a.X_S1)
    acc = tl.zeros((ROWS, a.BLOCK_X_S1), tl.float32)
    if a.BLOCK_K > 0:
        for r in tl.static_range(a.BLOCK_K):
            acc += load_term(a, r, i, j, inside)
    else:
        count = a.K
        if a.ActiveInputCounts is not None:
            count = tl.max(tl.load(a.ActiveInputCounts + i, mask=i < used, other=0), 0)
        for first in range(0, count, a.CHAIN_FACTOR):
            for c in tl.static_range(a.CHAIN_FACTOR):
                acc += load_term(a, first + c, i, j, inside & (first + c < count))
    if a.XFlex is not None:
        acc *= tl.load(a.XFlex)
    if a.XGlobalScale is not None:
        acc *= tl.load(a.XGlobalScale)
    if a.POSTPROCESS_FN1 is not None:
        acc = a.POSTPROCESS_FN1(acc, *a.postprocess_fn1_args)
    if a.POSTPROCESS_FN2 is not None:
        if takes(a.POSTPROCESS_FN2, "target_dtype"):
            kind: tl.constexpr = a.Y.dtype.element_ty
            acc = a.POSTPROCESS_FN2(acc, *a.postprocess_fn2_args, target_dtype=kind)
        else:
            acc = a.POSTPROCESS_FN2(acc, *a.postprocess_fn2_args)
    store_sums(a, acc, i, (pid % across).to(tl.int64) * a.BLOCK_Y_S1, i < used)


@tritium.jit
def reduce_backward(
    dy_ptr, dx_ptr, mask_ptr, scale_ptr, flex_ptr, sums_ptr, count, rows, rows_ptr, columns,
    xr, x0, x1, mr, m0, m1, sr, s0, s1, y0, y1, DERIVATIVE: tl.constexpr, derivative_args,
    N: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """dx[r, i, j] = ds[i, j] * scale * flex where mask, else 0; ds = DERIVATIVE(sums, dy) or dy.

    N columns of the sums, which have no gaps between rows, make one of y.
    """
    across = tl.cdiv(columns, BLOCK)
    pid = tl.program_id(0)
    i = (pid // across).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    j = (pid % across).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    used = rows if rows_ptr is None else tl.minimum(tl.load(rows_ptr).to(tl.int32), rows)
    exists = (i[:, None] < rows) & (j[None, :] < columns)
    inside = exists & (i[:, None] < used)
    c = (pid % across).to(tl.int64) * (BLOCK // N) + tl.arange(0, BLOCK // N)
    known = (i[:, None] < used) & (c[None, :] < columns // N)
    dy = tl.load(dy_ptr + i[:, None] * y0 + c[None, :] * y1, mask=known, other=0.0).to(tl.float32)
    if DERIVATIVE is not None:
        sums = tl.load(sums_ptr + i[:, None] * columns + j[None, :], mask=inside, other=0.0)
        dy = DERIVATIVE(sums, dy, *derivative_args)
        # Rows that are not computed have no gradient, whatever the function makes of zeros.
        dy = tl.where(inside, dy, 0.0)
    if flex_ptr is not None:
        dy *= tl.load(flex_ptr)
    for r in range(count):
        dx = dy
        if scale_ptr is not None:
            scale = tl.load(scale_ptr + term_places(r, i, j, sr, s0, s1), mask=inside, other=0.0)
            dx = dx * scale.to(tl.float32)
        if mask_ptr is not None:
            wanted = tl.load(mask_ptr + term_places(r, i, j, mr, m0, m1), mask=inside, other=0)
            dx = tl.where(wanted != 0, dx, 0.0)
        places = dx_ptr + term_places(r, i, j, xr, x0, x1)
        tl.store(places, dx.to(dx_ptr.dtype.element_ty), mask=exists)
