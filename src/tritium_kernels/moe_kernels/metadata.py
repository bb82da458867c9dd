"""Sums of bit matrices, the order of their nonzero elements, and the blocks of ragged tensors."""

from __future__ import annotations

import tritium
import tritium.language as tl


@tritium.jit
def count_columns(
    index_ptr, partial_ptr, count, columns, BLOCK: tl.constexpr, COLUMNS: tl.constexpr
):
    """Count how often each column occurs in BLOCK elements of the list; (blocks, columns)."""
    pid = tl.program_id(0).to(tl.int64)
    at = pid * BLOCK + tl.arange(0, BLOCK)
    index = tl.load(index_ptr + at, mask=at < count, other=-1).to(tl.int32)
    inside = (index >= 0) & (index < columns)
    c = tl.arange(0, COLUMNS)
    counts = tl.histogram(tl.where(inside, index, 0), COLUMNS, mask=inside)
    tl.store(partial_ptr + pid * columns + c, counts, mask=c < columns)


@tritium.jit
def scan_columns(
    partial_ptr, sum_ptr, blocks, columns, BLOCK: tl.constexpr, COLUMNS: tl.constexpr
):
    """Replace each block's counts by the place of its first element in the order by column."""
    c = tl.arange(0, COLUMNS)
    inside = c < columns
    total = tl.zeros((COLUMNS,), tl.int32)
    for start in range(0, blocks, BLOCK):
        b = (start + tl.arange(0, BLOCK))[:, None].to(tl.int64)
        mask = (b < blocks) & inside[None, :]
        total += tl.sum(tl.load(partial_ptr + b * columns + c[None, :], mask=mask, other=0), 0)
    tl.store(sum_ptr + c, total, mask=inside)
    base = tl.cumsum(total, 0) - total
    for start in range(0, blocks, BLOCK):
        b = (start + tl.arange(0, BLOCK))[:, None].to(tl.int64)
        mask = (b < blocks) & inside[None, :]
        places = partial_ptr + b * columns + c[None, :]
        counts = tl.load(places, mask=mask, other=0)
        tl.store(places, tl.cumsum(counts, 0) - counts + base[None, :], mask=mask)
        base += tl.sum(counts, 0)


@tritium.jit
def place_elements(
    index_ptr, partial_ptr, by_column_ptr, by_row_ptr, count, columns, BLOCK: tl.constexpr
):
    """Element `at` of the list stands at `by_row[at]` in the order by column; `by_column` is the
    inverse. An element that is no column stands nowhere: -1."""
    pid = tl.program_id(0).to(tl.int64)
    at = pid * BLOCK + tl.arange(0, BLOCK)
    index = tl.load(index_ptr + at, mask=at < count, other=-1).to(tl.int32)
    inside = (index >= 0) & (index < columns)
    i = tl.arange(0, BLOCK)
    earlier = (index[:, None] == index[None, :]) & (i[None, :] < i[:, None])
    rank = tl.sum(earlier.to(tl.int32), 1)
    first = tl.load(partial_ptr + pid * columns + index, mask=inside, other=0)
    place = first + rank
    tl.store(by_column_ptr + place, at.to(tl.int32), mask=inside)
    tl.store(by_row_ptr + at, tl.where(inside, place, -1), mask=at < count)


@tritium.jit
def vpopc(x):
    """The number of the words (..., words) that have each bit: int32 (..., 32)."""
    bits = (tl.expand_dims(x, -1) >> tl.arange(0, 32).to(tl.uint32)) & 1
    return tl.sum(bits.to(tl.int32), len(x.shape) - 1)


@tritium.jit
def sum_bits(
    x_ptr, sum_ptr, partial_ptr, rows, columns, row_stride, word_stride,
    PARTIAL: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Sums of the columns of a bit matrix, over PARTIAL rows at a time and over all."""
    word = tl.program_id(0)
    PARTS: tl.constexpr = BLOCK // PARTIAL
    column = word * 32 + tl.arange(0, 32)
    total = tl.zeros((32,), tl.int32)
    for start in range(0, rows, BLOCK):
        row = start + tl.arange(0, BLOCK).to(tl.int64)
        places = x_ptr + row * row_stride + word * word_stride
        words = tl.load(places, mask=row < rows, other=0).to(tl.uint32)
        parts = vpopc(tl.reshape(words, (PARTS, PARTIAL)))
        total += tl.sum(parts, 0)
        if partial_ptr is not None:
            part = start // PARTIAL + tl.arange(0, PARTS).to(tl.int64)[:, None]
            mask = (part < tl.cdiv(rows, PARTIAL)) & (column[None, :] < columns)
            tl.store(partial_ptr + part * columns + column[None, :], parts, mask=mask)
    tl.store(sum_ptr + column, total, mask=column < columns)


@tritium.jit
def slice_offsets(
    sizes_ptr, offsets_ptr, blocks_ptr, slices, FIRST_LOG2: tl.constexpr, BLOCK: tl.constexpr
):
    """Program 0: where each slice begins, in rows; program 1 + i: in blocks of 2**(FIRST_LOG2 + i).

    There is one more number than slices: where the last one ends.
    """
    pid = tl.program_id(0)
    size = 1 << (FIRST_LOG2 + tl.maximum(pid - 1, 0))
    target = offsets_ptr if pid == 0 else blocks_ptr + (pid - 1) * (slices + 1)
    total = tl.load(sizes_ptr, mask=slices < 0, other=0).to(tl.int32)
    for start in range(0, slices, BLOCK):
        i = start + tl.arange(0, BLOCK)
        n = tl.load(sizes_ptr + i, mask=i < slices, other=0).to(tl.int32)
        n = tl.where(pid == 0, n, (n + size - 1) // size)
        tl.store(target + i, total + tl.cumsum(n, 0) - n, mask=i < slices)
        total += tl.sum(n, 0)
    tl.store(target + slices, total)


@tritium.jit
def block_schedule(blocks_ptr, schedule_ptr, slices, most, BLOCK: tl.constexpr):
    """(number of the block in its slice << 16) + slice, for each block; -1 for those not used."""
    i = tl.program_id(0)
    kind = tl.program_id(1)
    blocks_ptr += kind * (slices + 1)
    schedule_ptr += kind * most
    first = tl.load(blocks_ptr + i)
    # The program after the last slice marks what no slice uses.
    count = most - first if i == slices else tl.load(blocks_ptr + i + 1, mask=i < slices) - first
    for start in range(0, count, BLOCK):
        b = start + tl.arange(0, BLOCK)
        word = tl.where(i == slices, -1, (b << 16) + i)
        tl.store(schedule_ptr + first + b, word, mask=b < count)


@tritium.jit
def clear_other_rows(
    y_ptr, sizes_ptr, offsets_ptr, slices, rows, columns, row_stride, column_stride,
    ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Write zeros to the rows of a matrix that are in no slice, ROWS of all rows a program."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = row < 0
    for start in range(0, slices, BLOCK):
        i = start + tl.arange(0, BLOCK)
        first = tl.load(offsets_ptr + i, mask=i < slices, other=0)
        end = first + tl.load(sizes_ptr + i, mask=i < slices, other=0)
        found = (row[:, None] >= first[None, :]) & (row[:, None] < end[None, :])
        inside |= tl.max(found.to(tl.int32), 1) > 0
    other = (row < rows) & ~inside
    if tl.max(other.to(tl.int32), 0) > 0:
        for start in range(0, columns, BLOCK):
            j = start + tl.arange(0, BLOCK).to(tl.int64)
            places = row.to(tl.int64)[:, None] * row_stride + j[None, :] * column_stride
            zeros = tl.zeros((ROWS, BLOCK), y_ptr.dtype.element_ty)
            tl.store(y_ptr + places, zeros, mask=other[:, None] & (j < columns)[None, :])
