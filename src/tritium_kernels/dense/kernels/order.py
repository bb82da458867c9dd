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
def sorted_keys(
    x_ptr, row, rows, start, columns, x_stride, DESCENDING: tl.constexpr, ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Keys in order, of BLOCK columns from `start` on. Each element and its column are one key, as
    in `topk`: equal elements stay in order. Both zeros are equal; NaN is larger than any number."""
    offsets, mask = tile(row, rows, start, columns, x_stride, ROWS, BLOCK)
    x = tl.load(x_ptr + offsets, mask=mask, other=0)
    if x.dtype.is_int():
        bits = x.to(tl.int32).to(tl.uint32, bitcast=True) ^ 0x80000000
    else:
        bits = ordered(tl.where(x == 0, 0.0, x.to(tl.float32)))
    bits = (~bits if DESCENDING else bits).to(tl.uint64)
    c = start + tl.arange(0, BLOCK)[None, :]
    # Columns past the last come after all elements: their numbers are larger.
    return tl.sort((tl.where(mask, bits, 0xFFFFFFFF) << 32) | c.to(tl.uint64), 1)


@tritium.jit
def store_sorted(
    key, x_ptr, y_ptr, i_ptr, row, rows, start, columns, x_stride, ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Store the elements and the columns that BLOCK keys stand for, from column `start` on."""
    c = start + tl.arange(0, BLOCK)[None, :]
    index = (key & 0xFFFFFFFF).to(tl.int32)
    r = row.to(tl.int64) + tl.arange(0, ROWS)[:, None]
    inside = (r < rows) & (c < columns)
    y = tl.load(x_ptr + r * x_stride + index, mask=inside, other=0)
    tl.store(y_ptr + r * columns + c, y, mask=inside)
    tl.store(i_ptr + r * columns + c, index.to(tl.int64), mask=inside)


@tritium.jit
def sort_rows(
    x_ptr, y_ptr, i_ptr, rows, columns, x_stride, DESCENDING: tl.constexpr, ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * ROWS
    key = sorted_keys(x_ptr, row, rows, 0, columns, x_stride, DESCENDING, ROWS, BLOCK)
    store_sorted(key, x_ptr, y_ptr, i_ptr, row, rows, 0, columns, x_stride, ROWS, BLOCK)


@tritium.jit
def sort_runs(
    x_ptr, key_ptr, rows, columns, x_stride, DESCENDING: tl.constexpr, BLOCK: tl.constexpr
):
    """Keys (rows, columns), each BLOCK of them in order."""
    across = tl.cdiv(columns, BLOCK)
    row = tl.program_id(0) // across
    start = tl.program_id(0) % across * BLOCK
    key = sorted_keys(x_ptr, row, rows, start, columns, x_stride, DESCENDING, 1, BLOCK)
    c = start + tl.arange(0, BLOCK)[None, :]
    places = key_ptr + row.to(tl.int64) * columns + c
    tl.store(places, key.to(tl.int64, bitcast=True), mask=c < columns)


@tritium.jit
def merge_runs(source_ptr, target_ptr, columns, run, steps, BLOCK: tl.constexpr):
    """Keys whose runs of `run` are in order become such of twice as many: a key goes on by as many
    places as the other run of the pair has smaller ones. No two keys are equal."""
    across = tl.cdiv(columns, BLOCK)
    first = (tl.program_id(0) // across).to(tl.int64) * columns
    i = tl.program_id(0) % across * BLOCK + tl.arange(0, BLOCK)
    mask = i < columns
    key = tl.load(source_ptr + first + i, mask=mask, other=0).to(tl.uint64, bitcast=True)
    second = i // run % 2 != 0
    other = tl.minimum(tl.where(second, i // run - 1, i // run + 1) * run, columns)
    low = other
    high = tl.minimum(other + run, columns)
    for _ in range(steps):
        apart = low < high
        middle = low + (high - low) // 2
        there = tl.load(source_ptr + first + middle, mask=mask & apart, other=0)
        smaller = apart & (there.to(tl.uint64, bitcast=True) < key)
        low = tl.where(smaller, middle + 1, low)
        high = tl.where(apart & (smaller == 0), middle, high)
    place = tl.where(second, i - run, i) + low - other
    tl.store(target_ptr + first + place, key.to(tl.int64, bitcast=True), mask=mask)


@tritium.jit
def sorted_rows(
    key_ptr, x_ptr, y_ptr, i_ptr, rows, columns, x_stride, BLOCK: tl.constexpr
):
    """Store the elements and the columns of keys in order."""
    across = tl.cdiv(columns, BLOCK)
    row = tl.program_id(0) // across
    start = tl.program_id(0) % across * BLOCK
    c = start + tl.arange(0, BLOCK)[None, :]
    key = tl.load(key_ptr + row.to(tl.int64) * columns + c, mask=c < columns, other=0)
    store_sorted(key, x_ptr, y_ptr, i_ptr, row, rows, start, columns, x_stride, 1, BLOCK)


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
