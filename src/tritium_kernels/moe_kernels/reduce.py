"""Sums of a tensor of three dimensions along one, with a mask and factors, and the gradient."""

from __future__ import annotations

import tritium
import tritium.language as tl


@tritium.jit
def term_places(r, i, j, stride_r, stride_0, stride_1):
    return r * stride_r + i[:, None] * stride_0 + j[None, :] * stride_1


@tritium.jit
def reduce_forward(
    x_ptr, y_ptr, mask_ptr, scale_ptr, count, rows, rows_ptr, columns,
    xr, x0, x1, mr, m0, m1, sr, s0, s1, y0, y1,
    FN: tl.constexpr, fn_args, N: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """y[i, j] = FN(sum over r of x[r, i, j] * scale where mask), in float32."""
    across = tl.cdiv(columns, BLOCK)
    pid = tl.program_id(0)
    first = (pid % across) * BLOCK
    i = (pid // across).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    j = first + tl.arange(0, BLOCK).to(tl.int64)
    used = rows if rows_ptr is None else tl.minimum(tl.load(rows_ptr).to(tl.int32), rows)
    inside = (i[:, None] < used) & (j[None, :] < columns)
    acc = tl.zeros((ROWS, BLOCK), tl.float32)
    for r in range(count):
        wanted = inside
        if mask_ptr is not None:
            places = mask_ptr + term_places(r, i, j, mr, m0, m1)
            wanted &= tl.load(places, mask=inside, other=0) != 0
        x = tl.load(x_ptr + term_places(r, i, j, xr, x0, x1), mask=wanted, other=0.0).to(tl.float32)
        if scale_ptr is not None:
            scale = tl.load(scale_ptr + term_places(r, i, j, sr, s0, s1), mask=wanted, other=0.0)
            x *= scale.to(tl.float32)
        acc += x
    if FN is not None:
        acc = FN(acc, *fn_args)
    j = (pid % across) * (BLOCK // N) + tl.arange(0, BLOCK // N)
    places = y_ptr + i[:, None] * y0 + j[None, :].to(tl.int64) * y1
    inside = (i[:, None] < used) & (j[None, :] < columns // N)
    tl.store(places, acc.to(y_ptr.dtype.element_ty), mask=inside)


@tritium.jit
def reduce_backward(
    dy_ptr, dx_ptr, mask_ptr, scale_ptr, count, rows, rows_ptr, columns,
    xr, x0, x1, mr, m0, m1, sr, s0, s1, y0, y1,
    ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """dx[r, i, j] = dy[i, j] * scale where mask, else 0."""
    across = tl.cdiv(columns, BLOCK)
    pid = tl.program_id(0)
    i = (pid // across).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    j = (pid % across).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    used = rows if rows_ptr is None else tl.minimum(tl.load(rows_ptr).to(tl.int32), rows)
    exists = (i[:, None] < rows) & (j[None, :] < columns)
    inside = exists & (i[:, None] < used)
    dy = tl.load(dy_ptr + i[:, None] * y0 + j[None, :] * y1, mask=inside, other=0.0).to(tl.float32)
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
