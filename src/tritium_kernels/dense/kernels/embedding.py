"""Rows of a table by number, and the sum of gradients by row number."""

from __future__ import annotations

import tritium
import tritium.language as tl
from tritium_kernels.dense.kernels.common import zeros_like_wide


@tritium.jit
def embedding_forward(
    index_ptr, table_ptr, y_ptr, rows, columns, stride, BLOCK: tl.constexpr
):
    """A program copies BLOCK columns of one row. A number that is no row of the table gives NaN."""
    across = tl.cdiv(columns, BLOCK)
    pid = tl.program_id(0).to(tl.int64)
    at = pid // across
    row = tl.load(index_ptr + at).to(tl.int64)
    inside = (row >= 0) & (row < rows)
    c = (pid % across) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(table_ptr + row * stride + c, mask=inside & (c < columns), other=float("nan"))
    tl.store(y_ptr + at * columns + c, x, mask=c < columns)


@tritium.jit
def embedding_backward_in_turn(
    index_ptr, dy_ptr, dtable_ptr, count, rows, columns, stride, padding, BLOCK: tl.constexpr
):
    """Add the rows of dy to those of the table, BLOCK columns of each, one after the other."""
    c = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    for at in range(count):
        row = tl.load(index_ptr + at).to(tl.int64)
        if (row >= 0) & (row < rows) & (row != padding):
            places = dtable_ptr + row * columns + c
            more = tl.load(dy_ptr + at.to(tl.int64) * stride + c, mask=c < columns, other=0.0)
            tl.store(places, tl.load(places, mask=c < columns) + more, mask=c < columns)


@tritium.jit
def embedding_backward(
    sorted_ptr, order_ptr, dy_ptr, dtable_ptr, count, rows, columns, stride, padding,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """The sum of the rows of dy for one row of the table: of a run of equal sorted numbers.

    The program of a run's first element sums the run, in order; the others have nothing to do.
    """
    across = tl.cdiv(columns, BLOCK)
    pid = tl.program_id(0).to(tl.int64)
    first = pid // across
    c = (pid % across) * BLOCK + tl.arange(0, BLOCK)
    row = tl.load(sorted_ptr + first).to(tl.int64)
    before = tl.load(sorted_ptr + first - 1, mask=first > 0, other=-1).to(tl.int64)
    starts = (first == 0) | (row != before)
    if starts & (row >= 0) & (row < rows) & (row != padding):
        sums = zeros_like_wide(dy_ptr, (BLOCK,))
        at = first
        current = row
        while current == row:
            source = tl.load(order_ptr + at)
            sums += tl.load(dy_ptr + source * stride + c, mask=c < columns, other=0.0)
            at += 1
            current = tl.load(sorted_ptr + at, mask=at < count, other=-1).to(tl.int64)
        places = dtable_ptr + row * columns + c
        tl.store(places, sums.to(dtable_ptr.dtype.element_ty), mask=c < columns)
