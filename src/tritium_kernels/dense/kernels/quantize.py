"""Rows as numbers of 8 bits times a factor, and back."""

from __future__ import annotations

import tritium
import tritium.language as tl
from tritium_kernels.dense.kernels.common import tile


@tritium.jit
def quantize_rows(
    x_ptr, q_ptr, s_ptr, rows, columns, x_stride, MOST: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """scale = largest magnitude / MOST; q = x / scale, to nearest, ties to even."""
    row = tl.program_id(0) * ROWS
    largest = tl.zeros((ROWS, BLOCK), tl.float32)
    for start in range(0, columns, BLOCK):
        offsets, mask = tile(row, rows, start, columns, x_stride, ROWS, BLOCK)
        x = tl.load(x_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
        largest = tl.maximum(largest, tl.abs(x), propagate_nan=tl.PropagateNan.ALL)
    r = row.to(tl.int64) + tl.arange(0, ROWS)
    nan = tl.max((largest != largest).to(tl.int32), 1) != 0
    scale = tl.where(nan, float("nan"), tl.max(largest, 1) / MOST)
    tl.store(s_ptr + r, scale, mask=r < rows)
    usable = (scale > 0) & (scale < float("inf"))
    scale = tl.where(usable, scale, 1.0)[:, None]
    for start in range(0, columns, BLOCK):
        offsets, mask = tile(row, rows, start, columns, x_stride, ROWS, BLOCK)
        x = tl.load(x_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
        y = tl.where(usable[:, None], tl.clamp(x / scale, -MOST, MOST), 0.0)
        if q_ptr.dtype.element_ty == tl.int8:
            y = (y + 12582912.0) - 12582912.0  # 1.5 * 2**23: nothing is left behind the point
        offsets, mask = tile(row, rows, start, columns, columns, ROWS, BLOCK)
        tl.store(q_ptr + offsets, y.to(q_ptr.dtype.element_ty), mask=mask)


@tritium.jit
def dequantize_rows(
    q_ptr, s_ptr, y_ptr, rows, columns, q_stride, ROWS: tl.constexpr, BLOCK: tl.constexpr
):
    row = tl.program_id(0) * ROWS
    r = row.to(tl.int64) + tl.arange(0, ROWS)
    scale = tl.load(s_ptr + r, mask=r < rows, other=0.0)[:, None]
    for start in range(0, columns, BLOCK):
        offsets, mask = tile(row, rows, start, columns, q_stride, ROWS, BLOCK)
        q = tl.load(q_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
        offsets, mask = tile(row, rows, start, columns, columns, ROWS, BLOCK)
        tl.store(y_ptr + offsets, (q * scale).to(y_ptr.dtype.element_ty), mask=mask)
