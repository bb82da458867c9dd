"""Layer norm and RMS norm of rows, and their gradients.

With h = (x - mean) * rstd (no mean in RMS norm) and g = w * dy:

    y  = h * w + b                      dx = rstd * (g - mean(g) - h * mean(g * h))
    dw = sum of dy * h over the rows    db = sum of dy over the rows

RMS norm has no term mean(g). A mean rounded to a number of its type may be off by more than x is
spread out: x - mean has a mean too, which shift = mean(x - mean) * rstd takes away from h.

Backward, a program takes every P-th tile of rows and keeps its part
of dw and db in registers: x and dy are read once, and nothing is added atomically.
"""

from __future__ import annotations

import tritium
import tritium.language as tl
from tritium_kernels.dense.kernels.common import inside, tile, wide, zeros_like_wide


@tritium.jit
def scaled(h, w_ptr, b_ptr, c, mask):
    """h * w + b, where there are weights and biases."""
    if w_ptr is not None:
        h *= wide(tl.load(w_ptr + c, mask=mask, other=0.0))[None, :]
    if b_ptr is not None:
        h += wide(tl.load(b_ptr + c, mask=mask, other=0.0))[None, :]
    return h


@tritium.jit
def add_both(a, b, c, d):
    return a + c, b + d


@tritium.jit
def first_column(x_ptr, row, rows, stride, ROWS: tl.constexpr):
    offsets, mask = tile(row, rows, 0, 1, stride, ROWS, 1)
    return wide(tl.load(x_ptr + offsets, mask=mask, other=0.0))


@tritium.jit
def distances(x_ptr, offsets, mask, origin):
    """Elements less `origin`; zeros where there are none."""
    return tl.where(mask, wide(tl.load(x_ptr + offsets, mask=mask, other=0.0)) - origin, 0.0)


@tritium.jit
def normalized(x, mean, shift, rstd, MEAN: tl.constexpr):
    """h of elements."""
    return (x - mean) * rstd - shift if MEAN else x * rstd


@tritium.jit
def spread(total, squares, count, eps):
    """(shift, rstd), of the sums of x - mean and of its squares."""
    rest = total / count
    variance = squares / count - rest * rest
    # Rounding may make the variance of equal numbers negative.
    variance = tl.maximum(variance, 0.0, propagate_nan=tl.PropagateNan.ALL)
    rstd = 1 / tl.sqrt(variance + eps.to(variance.dtype))
    return rest * rstd, rstd


@tritium.jit
def store_statistics(
    mean_ptr, rstd_ptr, mean, shift, rstd, row, rows, MEAN: tl.constexpr, ROWS: tl.constexpr
):
    """For the gradients, if any are wanted: behind all means are the shifts."""
    r = row + tl.arange(0, ROWS)
    if MEAN and mean_ptr is not None:
        tl.store(mean_ptr + r, tl.reshape(mean, (ROWS,)), mask=r < rows)
        tl.store(mean_ptr + rows + r, tl.reshape(shift, (ROWS,)), mask=r < rows)
    if rstd_ptr is not None:
        tl.store(rstd_ptr + r, tl.reshape(rstd, (ROWS,)), mask=r < rows)


@tritium.jit
def norm_forward(
    x_ptr, w_ptr, b_ptr, y_ptr, mean_ptr, rstd_ptr, rows, columns, x_stride, y_stride,
    eps: tl.float64, MEAN: tl.constexpr, WHOLE: tl.constexpr, ROWS: tl.constexpr,
    BLOCK: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * ROWS
    c = tl.arange(0, BLOCK)
    mean, shift = 0.0, 0.0
    if WHOLE:
        offsets, mask = tile(row, rows, 0, columns, x_stride, ROWS, BLOCK, EVEN)
        x = wide(tl.load(x_ptr + offsets, mask=mask, other=0.0))
        if MEAN:
            mean = tl.sum(x, 1)[:, None] / columns
            x = tl.where(mask, x - mean, 0.0)
            total, squares = tl.reduce((x, x * x), 1, add_both)
            shift, rstd = spread(total[:, None], squares[:, None], columns, eps)
            y = x * rstd - shift
        else:
            rstd = 1 / tl.sqrt(tl.sum(x * x, 1)[:, None] / columns + eps.to(x.dtype))
            y = x * rstd
        y = scaled(y, w_ptr, b_ptr, c, inside(0, columns, BLOCK, EVEN))
        offsets, mask = tile(row, rows, 0, columns, y_stride, ROWS, BLOCK, EVEN)
        tl.store(y_ptr + offsets, y.to(y_ptr.dtype.element_ty), mask=mask)
        # A store before the last use of x would have a CPU copy x.
        store_statistics(mean_ptr, rstd_ptr, mean, shift, rstd, row, rows, MEAN, ROWS)
    else:
        sums = zeros_like_wide(x_ptr, (ROWS, BLOCK))
        if MEAN:
            # Sums x - first, not x: sums of smaller numbers lose fewer digits.
            first = first_column(x_ptr, row, rows, x_stride, ROWS)
            for start in range(0, columns, BLOCK):
                offsets, mask = tile(row, rows, start, columns, x_stride, ROWS, BLOCK, EVEN)
                sums += distances(x_ptr, offsets, mask, first)
            mean = first + tl.sum(sums, 1)[:, None] / columns
        sums = zeros_like_wide(x_ptr, (ROWS, BLOCK))
        squares = zeros_like_wide(x_ptr, (ROWS, BLOCK))
        for start in range(0, columns, BLOCK):
            offsets, mask = tile(row, rows, start, columns, x_stride, ROWS, BLOCK, EVEN)
            x = distances(x_ptr, offsets, mask, mean)
            squares += x * x
            if MEAN:
                sums += x
        total = tl.sum(sums, 1)[:, None]
        shift, rstd = spread(total, tl.sum(squares, 1)[:, None], columns, eps)
        store_statistics(mean_ptr, rstd_ptr, mean, shift, rstd, row, rows, MEAN, ROWS)
        for start in range(0, columns, BLOCK):
            offsets, mask = tile(row, rows, start, columns, x_stride, ROWS, BLOCK, EVEN)
            x = wide(tl.load(x_ptr + offsets, mask=mask, other=0.0))
            h = normalized(x, mean, shift, rstd, MEAN)
            y = scaled(h, w_ptr, b_ptr, start + c, inside(start, columns, BLOCK, EVEN))
            offsets, mask = tile(row, rows, start, columns, y_stride, ROWS, BLOCK, EVEN)
            tl.store(y_ptr + offsets, y.to(y_ptr.dtype.element_ty), mask=mask)


@tritium.jit
def load_rows(
    x_ptr, dy_ptr, w_ptr, mean, shift, rstd, row, rows, start, columns, x_stride, dy_stride,
    MEAN: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    """(h, dy, g) of a tile."""
    offsets, mask = tile(row, rows, start, columns, x_stride, ROWS, BLOCK, EVEN)
    x = wide(tl.load(x_ptr + offsets, mask=mask, other=0.0))
    offsets, mask = tile(row, rows, start, columns, dy_stride, ROWS, BLOCK, EVEN)
    dy = wide(tl.load(dy_ptr + offsets, mask=mask, other=0.0))
    h = tl.where(mask, normalized(x, mean, shift, rstd, MEAN), 0.0)
    c = start + tl.arange(0, BLOCK)
    return h, dy, scaled(dy, w_ptr, None, c, inside(start, columns, BLOCK, EVEN))


@tritium.jit
def gradient_means(
    x_ptr, dy_ptr, w_ptr, mean, shift, rstd, row, rows, columns, x_stride, dy_stride,
    MEAN: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    """(mean(g), mean(g * h)) of rows, in steps of BLOCK columns."""
    sum_g = zeros_like_wide(x_ptr, (ROWS, BLOCK))
    sum_gh = zeros_like_wide(x_ptr, (ROWS, BLOCK))
    for start in range(0, columns, BLOCK):
        h, _, g = load_rows(
            x_ptr, dy_ptr, w_ptr, mean, shift, rstd, row, rows, start, columns, x_stride,
            dy_stride, MEAN, ROWS, BLOCK, EVEN,
        )  # fmt: skip
        sum_g += g
        sum_gh += g * h
    mean_g = tl.sum(sum_g, 1)[:, None] / columns if MEAN else 0.0
    return mean_g, tl.sum(sum_gh, 1)[:, None] / columns


@tritium.jit
def load_statistics(mean_ptr, rstd_ptr, row, rows, MEAN: tl.constexpr, ROWS: tl.constexpr):
    """(mean, shift, rstd), as `store_statistics` has written them."""
    r = row + tl.arange(0, ROWS)[:, None]
    mean, shift = 0.0, 0.0
    if MEAN:
        mean = tl.load(mean_ptr + r, mask=r < rows, other=0.0)
        shift = tl.load(mean_ptr + rows + r, mask=r < rows, other=0.0)
    return mean, shift, tl.load(rstd_ptr + r, mask=r < rows, other=0.0)


@tritium.jit
def norm_backward_whole(
    x_ptr, w_ptr, dy_ptr, mean_ptr, rstd_ptr, dx_ptr, dw_ptr, db_ptr,
    rows, columns, x_stride, dy_stride, dx_stride,
    MEAN: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr, EVEN: tl.constexpr,
    STAGES: tl.constexpr,
):  # fmt: skip
    """dx, and each program's part of dw and db (a row of (programs, columns)). The loads of the
    next rows are under way meanwhile; rows of a tile are added up after the last one."""
    c = tl.arange(0, BLOCK)
    dw = zeros_like_wide(x_ptr, (ROWS, BLOCK))
    db = zeros_like_wide(x_ptr, (ROWS, BLOCK))
    w = None
    if w_ptr is not None:
        w = tl.load(w_ptr + c, mask=inside(0, columns, BLOCK, EVEN), other=0.0)
    step = tl.num_programs(0) * ROWS
    for row in tl.range(tl.program_id(0) * ROWS, rows, step, num_stages=STAGES):
        offsets, mask = tile(row, rows, 0, columns, x_stride, ROWS, BLOCK, EVEN)
        x = tl.load(x_ptr + offsets, mask=mask, other=0.0)
        offsets, mask = tile(row, rows, 0, columns, dy_stride, ROWS, BLOCK, EVEN)
        dy = wide(tl.load(dy_ptr + offsets, mask=mask, other=0.0))
        mean, shift, rstd = load_statistics(mean_ptr, rstd_ptr, row, rows, MEAN, ROWS)
        h = tl.where(mask, normalized(wide(x), mean, shift, rstd, MEAN), 0.0)
        g = dy if w is None else dy * wide(w)[None, :]
        if MEAN:
            sum_gh, sum_g = tl.reduce((g * h, g), 1, add_both)
            dx = g - h * (sum_gh / columns)[:, None] - (sum_g / columns)[:, None]
        else:
            dx = g - h * (tl.sum(g * h, 1) / columns)[:, None]
        if dw_ptr is not None:
            dw += dy * h
        if db_ptr is not None:
            db += dy
        offsets, mask = tile(row, rows, 0, columns, dx_stride, ROWS, BLOCK, EVEN)
        tl.store(dx_ptr + offsets, (dx * rstd).to(dx_ptr.dtype.element_ty), mask=mask)
    part = tl.program_id(0).to(tl.int64) * columns + c
    if dw_ptr is not None:
        tl.store(dw_ptr + part, tl.sum(dw, 0), mask=c < columns)
    if db_ptr is not None:
        tl.store(db_ptr + part, tl.sum(db, 0), mask=c < columns)


@tritium.jit
def norm_backward_walk(
    x_ptr, w_ptr, dy_ptr, mean_ptr, rstd_ptr, dx_ptr, dw_ptr, db_ptr,
    rows, columns, x_stride, dy_stride, dx_stride,
    MEAN: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    """`norm_backward_whole` in steps of BLOCK columns, with the parts of dw and db in memory: for
    processors that have fast memory, and few registers. The parts begin as zeros."""
    part = tl.program_id(0).to(tl.int64) * columns
    for row in range(tl.program_id(0) * ROWS, rows, tl.num_programs(0) * ROWS):
        mean, shift, rstd = load_statistics(mean_ptr, rstd_ptr, row, rows, MEAN, ROWS)
        mean_g, mean_gh = gradient_means(
            x_ptr, dy_ptr, w_ptr, mean, shift, rstd, row, rows, columns, x_stride, dy_stride,
            MEAN, ROWS, BLOCK, EVEN,
        )  # fmt: skip
        for start in range(0, columns, BLOCK):
            h, dy, g = load_rows(
                x_ptr, dy_ptr, w_ptr, mean, shift, rstd, row, rows, start, columns, x_stride,
                dy_stride, MEAN, ROWS, BLOCK, EVEN,
            )  # fmt: skip
            dx = rstd * (g - mean_g - h * mean_gh)
            offsets, mask = tile(row, rows, start, columns, dx_stride, ROWS, BLOCK, EVEN)
            tl.store(dx_ptr + offsets, dx.to(dx_ptr.dtype.element_ty), mask=mask)
            places = part + start + tl.arange(0, BLOCK)
            mask = inside(start, columns, BLOCK, EVEN)
            if dw_ptr is not None:
                before = tl.load(dw_ptr + places, mask=mask, other=0.0)
                tl.store(dw_ptr + places, before + tl.sum(dy * h, 0), mask=mask)
            if db_ptr is not None:
                before = tl.load(db_ptr + places, mask=mask, other=0.0)
                tl.store(db_ptr + places, before + tl.sum(dy, 0), mask=mask)


@tritium.jit
def norm_backward_rows(
    x_ptr, w_ptr, dy_ptr, mean_ptr, rstd_ptr, dx_ptr,
    rows, columns, x_stride, dy_stride, dx_stride,
    MEAN: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    """dx of long rows."""
    row = tl.program_id(0) * ROWS
    mean, shift, rstd = load_statistics(mean_ptr, rstd_ptr, row, rows, MEAN, ROWS)
    mean_g, mean_gh = gradient_means(
        x_ptr, dy_ptr, w_ptr, mean, shift, rstd, row, rows, columns, x_stride, dy_stride,
        MEAN, ROWS, BLOCK, EVEN,
    )  # fmt: skip
    for start in range(0, columns, BLOCK):
        h, _, g = load_rows(
            x_ptr, dy_ptr, w_ptr, mean, shift, rstd, row, rows, start, columns, x_stride,
            dy_stride, MEAN, ROWS, BLOCK, EVEN,
        )  # fmt: skip
        dx = rstd * (g - mean_g - h * mean_gh)
        offsets, mask = tile(row, rows, start, columns, dx_stride, ROWS, BLOCK, EVEN)
        tl.store(dx_ptr + offsets, dx.to(dx_ptr.dtype.element_ty), mask=mask)


@tritium.jit
def norm_backward_columns(
    x_ptr, dy_ptr, mean_ptr, rstd_ptr, dw_ptr, db_ptr, rows, columns, x_stride, dy_stride,
    MEAN: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    """The parts of dw and db that the rows of a program give, for long rows."""
    start = tl.program_id(1) * BLOCK
    c = start + tl.arange(0, BLOCK)
    dw = zeros_like_wide(x_ptr, (BLOCK,))
    db = zeros_like_wide(x_ptr, (BLOCK,))
    for row in range(tl.program_id(0) * ROWS, rows, tl.num_programs(0) * ROWS):
        mean, shift, rstd = load_statistics(mean_ptr, rstd_ptr, row, rows, MEAN, ROWS)
        h, dy, _ = load_rows(
            x_ptr, dy_ptr, None, mean, shift, rstd, row, rows, start, columns, x_stride,
            dy_stride, MEAN, ROWS, BLOCK, EVEN,
        )  # fmt: skip
        dw += tl.sum(dy * h, 0)
        db += tl.sum(dy, 0)
    part = tl.program_id(0).to(tl.int64) * columns + c
    tl.store(dw_ptr + part, dw, mask=inside(start, columns, BLOCK, EVEN))
    if db_ptr is not None:
        tl.store(db_ptr + part, db, mask=inside(start, columns, BLOCK, EVEN))


@tritium.jit
def sum_parts(
    x_ptr, dw_ptr, db_ptr, rows, columns, ROWS: tl.constexpr, BLOCK: tl.constexpr
):
    """Sums of the columns of the parts of dw, and of those of db, which follow."""
    start = tl.program_id(0) * BLOCK
    x_ptr += tl.program_id(1).to(tl.int64) * rows * columns
    sums = zeros_like_wide(x_ptr, (ROWS, BLOCK))
    for row in range(0, rows, ROWS):
        offsets, mask = tile(row, rows, start, columns, columns, ROWS, BLOCK)
        sums += wide(tl.load(x_ptr + offsets, mask=mask, other=0.0))
    c = start + tl.arange(0, BLOCK)
    total = tl.sum(sums, 0).to(dw_ptr.dtype.element_ty)
    if db_ptr is None or tl.program_id(1) == 0:
        tl.store(dw_ptr + c, total, mask=c < columns)
    else:
        tl.store(db_ptr + c, total, mask=c < columns)
