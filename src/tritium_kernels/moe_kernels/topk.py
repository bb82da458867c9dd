"""The k largest of each row, as values, column numbers and bits; and the gradient of the values.

An element and its column are one integer key, so that one sort orders both: the value's bits,
mapped so that integers are ordered as the numbers are, above the column's complement. Equal values
are so ordered by column, the two zeros among them, and NaN comes first.
"""

from __future__ import annotations

import tritium
import tritium.language as tl


@tritium.jit
def ordered(x):
    """float32 as uint32 in the same order; every NaN above infinity."""
    bits = x.to(tl.uint32, bitcast=True)
    bits = tl.where(x != x, 0x7FFFFFFF, bits)
    negative = (bits >> 31) != 0
    return tl.where(negative, ~bits, bits | 0x80000000)


@tritium.jit
def unordered(key):
    """The float32 that `ordered` maps to key."""
    positive = (key >> 31) != 0
    bits = tl.where(positive, key & 0x7FFFFFFF, ~key)
    return bits.to(tl.float32, bitcast=True)


@tritium.jit
def softmax_of_chosen(v, chosen):
    largest = tl.max(tl.where(chosen, v, float("-inf")), 1)[:, None]
    e = tl.where(chosen, tl.exp(v - largest), 0.0)
    return e / tl.sum(e, 1)[:, None]


@tritium.jit
def topk_forward(
    x_ptr, x_stride, v_ptr, i_ptr, bits_ptr, word_stride, rows, rows_ptr, columns,
    SOFTMAX: tl.constexpr, GIVEN: tl.constexpr, K: tl.constexpr, KP: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, ONCE: tl.constexpr, WORDS: tl.constexpr,
):  # fmt: skip
    """Rows from `rows_ptr`'s number on, where there is one, have values 0, columns -1, no bits."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    r = row[:, None]
    used = rows if rows_ptr is None else tl.minimum(tl.load(rows_ptr).to(tl.int32), rows)
    k = tl.arange(0, KP)[None, :]
    chosen = (r < used) & (k < K)
    if GIVEN:
        index = tl.load(i_ptr + r * K + k, mask=chosen, other=-1).to(tl.int32)
        chosen &= (index >= 0) & (index < columns)
        v = tl.load(x_ptr + r * x_stride + index, mask=chosen, other=float("-inf")).to(tl.float32)
    else:
        best = tl.zeros((ROWS, KP), tl.uint64)
        for start in range(0, columns, BLOCK):
            c = start + tl.arange(0, BLOCK)[None, :]
            inside = (r < used) & (c < columns)
            x = tl.load(x_ptr + r * x_stride + c, mask=inside, other=0.0).to(tl.float32)
            # The key 0 is of no element: that of the least number has a column's complement.
            bits = ordered(tl.where(x == 0, 0.0, x))
            key = (bits.to(tl.uint64) << 32) | (0xFFFF - c).to(tl.uint64)
            some = tl.topk(tl.where(inside, key, 0), KP)
            best = some if ONCE else tl.topk(tl.cat(best, some, dim=1), KP)
        index = 0xFFFF - (best & 0xFFFF).to(tl.int32)
        v = unordered((best >> 32).to(tl.uint32))
        index = tl.where(chosen, index, -1)
        tl.store(i_ptr + r * K + k, index.to(i_ptr.dtype.element_ty), mask=(r < rows) & (k < K))
    y = tl.where(chosen, softmax_of_chosen(v, chosen) if SOFTMAX else v, 0.0)
    tl.store(v_ptr + r * K + k, y.to(v_ptr.dtype.element_ty), mask=(r < rows) & (k < K))
    # Words of bits, one column of words after the other. A column is chosen at most once in a row.
    for word in tl.static_range(WORDS):
        bit = tl.where(chosen & (index // 32 == word), 1 << (index % 32), 0)
        tl.store(bits_ptr + word * word_stride + row, tl.sum(bit, 1), mask=row < rows)


@tritium.jit
def topk_backward(
    x_ptr, x_stride, i_ptr, dv_ptr, dx_ptr, dx_stride, rows, rows_ptr, columns,
    SOFTMAX: tl.constexpr, K: tl.constexpr, KP: tl.constexpr, ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """dx, 0 where no element was chosen."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    r = row[:, None]
    used = rows if rows_ptr is None else tl.minimum(tl.load(rows_ptr).to(tl.int32), rows)
    k = tl.arange(0, KP)[None, :]
    chosen = (r < used) & (k < K)
    index = tl.load(i_ptr + r * K + k, mask=chosen, other=-1).to(tl.int32)
    chosen &= (index >= 0) & (index < columns)
    dv = tl.load(dv_ptr + r * K + k, mask=chosen, other=0.0).to(tl.float32)
    if SOFTMAX:
        x = tl.load(x_ptr + r * x_stride + index, mask=chosen, other=float("-inf")).to(tl.float32)
        y = softmax_of_chosen(x, chosen)
        dv = y * (dv - tl.sum(tl.where(chosen, dv * y, 0.0), 1)[:, None])
    for start in range(0, columns, BLOCK):
        c = start + tl.arange(0, BLOCK)
        dx = tl.zeros((ROWS, BLOCK), tl.float32)
        hit = chosen[:, :, None] & (index[:, :, None] == c[None, None, :])
        dx = tl.sum(tl.where(hit, dv[:, :, None], 0.0), 1)
        places = dx_ptr + r * dx_stride + c[None, :]
        tl.store(places, dx.to(dx_ptr.dtype.element_ty), mask=(r < rows) & (c[None, :] < columns))
