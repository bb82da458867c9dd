"""Softmax and log-softmax of rows, and their gradients."""

from __future__ import annotations

import tritium
import tritium.language as tl
from tritium_kernels.dense.kernels.common import tile, wide, zeros_like_wide


@tritium.jit
def normalized(x, largest, total, LOG: tl.constexpr):
    if LOG:
        return x - largest - tl.log(total)
    else:
        return tl.exp(x - largest) * (1 / total)


@tritium.jit
def finite_or_zero(largest):
    """A row of minus infinities has no largest element to subtract: its result is NaN from 0/0."""
    return tl.where(largest == float("-inf"), 0.0, largest)


@tritium.jit
def softmax_forward(
    x_ptr, y_ptr, rows, columns, x_stride, y_stride,
    LOG: tl.constexpr, WHOLE: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
    EVEN: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * ROWS
    if WHOLE:
        offsets, mask = tile(row, rows, 0, columns, x_stride, ROWS, BLOCK, EVEN)
        x = wide(tl.load(x_ptr + offsets, mask=mask, other=float("-inf")))
        largest = tl.max(x, 1)[:, None]
        total = tl.sum(tl.exp(x - largest), 1)[:, None]
        offsets, mask = tile(row, rows, 0, columns, y_stride, ROWS, BLOCK, EVEN)
        y = normalized(x, largest, total, LOG)
        tl.store(y_ptr + offsets, y.to(y_ptr.dtype.element_ty), mask=mask)
    else:
        most = zeros_like_wide(x_ptr, (ROWS, BLOCK)) - float("inf")
        sums = zeros_like_wide(x_ptr, (ROWS, BLOCK))
        for start in range(0, columns, BLOCK):
            offsets, mask = tile(row, rows, start, columns, x_stride, ROWS, BLOCK, EVEN)
            x = wide(tl.load(x_ptr + offsets, mask=mask, other=float("-inf")))
            more = tl.maximum(most, x, propagate_nan=tl.PropagateNan.ALL)
            base = finite_or_zero(more)
            sums = sums * tl.exp(most - base) + tl.exp(x - base)
            most = more
        largest = tl.max(most, 1)[:, None]
        total = tl.sum(sums * tl.exp(finite_or_zero(most) - largest), 1)[:, None]
        for start in range(0, columns, BLOCK):
            offsets, mask = tile(row, rows, start, columns, x_stride, ROWS, BLOCK, EVEN)
            x = wide(tl.load(x_ptr + offsets, mask=mask, other=float("-inf")))
            offsets, mask = tile(row, rows, start, columns, y_stride, ROWS, BLOCK, EVEN)
            y = normalized(x, largest, total, LOG)
            tl.store(y_ptr + offsets, y.to(y_ptr.dtype.element_ty), mask=mask)


@tritium.jit
def softmax_gradient(y, dy, total, LOG: tl.constexpr):
    if LOG:
        return dy - tl.exp(y) * total
    else:
        return y * (dy - total)


@tritium.jit
def softmax_backward(
    y_ptr, dy_ptr, dx_ptr, rows, columns, y_stride, dy_stride, dx_stride,
    LOG: tl.constexpr, WHOLE: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
    EVEN: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * ROWS
    if WHOLE:
        offsets, mask = tile(row, rows, 0, columns, y_stride, ROWS, BLOCK, EVEN)
        y = wide(tl.load(y_ptr + offsets, mask=mask, other=0.0))
        offsets, mask = tile(row, rows, 0, columns, dy_stride, ROWS, BLOCK, EVEN)
        dy = wide(tl.load(dy_ptr + offsets, mask=mask, other=0.0))
        total = tl.sum(dy if LOG else y * dy, 1)[:, None]
        offsets, mask = tile(row, rows, 0, columns, dx_stride, ROWS, BLOCK, EVEN)
        dx = softmax_gradient(y, dy, total, LOG)
        tl.store(dx_ptr + offsets, dx.to(dx_ptr.dtype.element_ty), mask=mask)
    else:
        sums = zeros_like_wide(y_ptr, (ROWS, BLOCK))
        for start in range(0, columns, BLOCK):
            offsets, mask = tile(row, rows, start, columns, dy_stride, ROWS, BLOCK, EVEN)
            dy = wide(tl.load(dy_ptr + offsets, mask=mask, other=0.0))
            if LOG:
                sums += dy
            else:
                offsets, mask = tile(row, rows, start, columns, y_stride, ROWS, BLOCK, EVEN)
                sums += dy * wide(tl.load(y_ptr + offsets, mask=mask, other=0.0))
        total = tl.sum(sums, 1)[:, None]
        for start in range(0, columns, BLOCK):
            offsets, mask = tile(row, rows, start, columns, y_stride, ROWS, BLOCK, EVEN)
            y = wide(tl.load(y_ptr + offsets, mask=mask, other=0.0))
            offsets, mask = tile(row, rows, start, columns, dy_stride, ROWS, BLOCK, EVEN)
            dy = wide(tl.load(dy_ptr + offsets, mask=mask, other=0.0))
            offsets, mask = tile(row, rows, start, columns, dx_stride, ROWS, BLOCK, EVEN)
            dx = softmax_gradient(y, dy, total, LOG)
            tl.store(dx_ptr + offsets, dx.to(dx_ptr.dtype.element_ty), mask=mask)
