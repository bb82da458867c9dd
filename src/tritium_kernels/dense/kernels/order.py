"""Running sums, sorted rows, counts of equal intervals."""

from __future__ import annotations

import tritium
import tritium.language as tl
from tritium_kernels.dense.kernels.common import tile, wide
from tritium_kernels.moe_kernels.topk import ordered


@tritium.jit
def cumsum_rows(
    x_ptr, y_ptr, rows, columns, x_stride, y_stride, REVERSE: tl.constexpr, ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Sums up to each element, or from it on: block by block, with what came before."""
    row = tl.program_id(0) * ROWS
    blocks = tl.cdiv(columns, BLOCK)
    kind = x_ptr.dtype.element_ty
    before = tl.zeros((ROWS, 1), kind if kind.is_int() or kind == tl.float64 else tl.float32)
    for i in range(blocks):
        start = (blocks - 1 - i if REVERSE else i) * BLOCK
        offsets, mask = tile(row, rows, start, columns, x_stride, ROWS, BLOCK)
        x = tl.load(x_ptr + offsets, mask=mask, other=0)
        x = x if kind.is_int() else wide(x)
        y = tl.cumsum(x, 1, reverse=REVERSE) + before
        before += tl.sum(x, 1, dtype=x.dtype)[:, None]
        offsets, mask = tile(row, rows, start, columns, y_stride, ROWS, BLOCK)
        tl.store(y_ptr + offsets, y.to(kind), mask=mask)


@tritium.jit
def sort_rows(
    x_ptr, y_ptr, i_ptr, rows, columns, x_stride, DESCENDING: tl.constexpr, ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Each element and its column are one key, as in `topk`: equal elements stay in order. Both
    zeros are equal; NaN is larger than any number."""
    row = tl.program_id(0) * ROWS
    offsets, mask = tile(row, rows, 0, columns, x_stride, ROWS, BLOCK)
    x = tl.load(x_ptr + offsets, mask=mask, other=0)
    if x.dtype.is_int():
        bits = x.to(tl.int32).to(tl.uint32, bitcast=True) ^ 0x80000000
    else:
        bits = ordered(tl.where(x == 0, 0.0, x.to(tl.float32)))
    bits = (~bits if DESCENDING else bits).to(tl.uint64)
    c = tl.arange(0, BLOCK)[None, :]
    # Columns past the last come after all elements: their numbers are larger.
    key = (tl.where(mask, bits, 0xFFFFFFFF) << 32) | c.to(tl.uint64)
    index = (tl.sort(key, 1) & 0xFFFFFFFF).to(tl.int32)
    r = row.to(tl.int64) + tl.arange(0, ROWS)[:, None]
    inside = (r < rows) & (c < columns)
    y = tl.load(x_ptr + r * x_stride + index, mask=inside, other=0)
    tl.store(y_ptr + r * columns + c, y, mask=inside)
    tl.store(i_ptr + r * columns + c, index.to(tl.int64), mask=inside)


@tritium.jit
def histogram_flat(
    x_ptr, y_ptr, n, low: tl.float64, high: tl.float64, bins, BINS: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Counts of `bins` equal intervals from low to high; high itself is in the last."""
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = wide(tl.load(x_ptr + i, mask=i < n, other=0))
    least, most = low.to(x.dtype), high.to(x.dtype)
    # A NaN is in no interval.
    inside = (i < n) & (x >= least) & (x <= most)
    place = tl.where(inside, (x - least) * (bins / (most - least)), 0.0).to(tl.int32)
    counts = tl.histogram(tl.minimum(place, bins - 1), BINS, mask=inside)
    b = tl.arange(0, BINS)
    tl.atomic_add(y_ptr + b, counts, mask=(b < bins) & (counts > 0), sem="relaxed")
