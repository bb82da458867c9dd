"""One column of each row, drawn by the softmax of the row, of its largest elements alone.

Thresholds are found by halving the range of keys (`ordered` of the element) 32 times: the largest
key that k elements reach, then the largest that elements of the wanted share of probability reach.
The column drawn is that of the largest element plus Gumbel noise.
"""

from __future__ import annotations

import tritium
import tritium.language as tl
from tritium_kernels.moe_kernels.topk import ordered


@tritium.jit
def load_logits(x_ptr, start, columns, factor, BLOCK: tl.constexpr):
    """(x * factor, keys, columns); NaN and what is past the last column have no probability."""
    c = start + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + c, mask=c < columns, other=float("-inf")).to(tl.float32) * factor
    x = tl.where(x == x, x, float("-inf"))
    return x, ordered(x + 0.0), c


@tritium.jit
def reached(x_ptr, key, least, largest, columns, factor, COUNT: tl.constexpr, BLOCK: tl.constexpr):
    """The number of elements with at least the keys `key` and `least`, or the sum of their exp."""
    sums = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, columns, BLOCK):
        x, keys, _ = load_logits(x_ptr, start, columns, factor, BLOCK)
        part = (x > float("-inf")).to(tl.float32) if COUNT else tl.exp(x - largest)
        sums += tl.where((keys >= key) & (keys >= least), part, 0.0)
    return tl.sum(sums, 0)


@tritium.jit
def threshold(
    x_ptr, wanted, least, largest, columns, factor, COUNT: tl.constexpr, BLOCK: tl.constexpr
):
    """The largest key whose elements reach `wanted`; 0 if none does."""
    key = tl.zeros((), tl.uint32)
    for i in range(32):
        more = key | (tl.full((), 1, tl.uint32) << (31 - i).to(tl.uint32))
        found = reached(x_ptr, more, least, largest, columns, factor, COUNT, BLOCK)
        key = tl.where(found >= wanted, more, key)
    return key


@tritium.jit(do_not_specialize=["seed"])
def sample_rows(
    x_ptr, y_ptr, columns, x_stride, factor, top_k, top_p, seed, GREEDY: tl.constexpr,
    TOP_K: tl.constexpr, TOP_P: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """-1 where no element has a probability."""
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * x_stride
    most = tl.full((BLOCK,), float("-inf"), tl.float32)
    for start in range(0, columns, BLOCK):
        x, _, _ = load_logits(x_ptr, start, columns, factor, BLOCK)
        most = tl.maximum(most, x)
    largest = tl.max(most, 0)
    least = tl.zeros((), tl.uint32)
    if TOP_K:
        least = threshold(x_ptr, top_k, least, largest, columns, factor, True, BLOCK)
    if TOP_P:
        every = reached(x_ptr, least, least, largest, columns, factor, False, BLOCK)
        again = threshold(x_ptr, every * top_p, least, largest, columns, factor, False, BLOCK)
        least = tl.maximum(least, again)
    best = tl.full((BLOCK,), float("-inf"), tl.float32)
    place = tl.full((BLOCK,), -1, tl.int32)
    for start in range(0, columns, BLOCK):
        x, keys, c = load_logits(x_ptr, start, columns, factor, BLOCK)
        if not GREEDY:
            # One infinite element has all of the probability.
            x = tl.where(largest == float("inf"), tl.where(x == largest, 0.0, float("-inf")), x)
            u = tl.rand(seed, row * columns + c)
            x -= tl.log(-tl.log(tl.maximum(u, 1e-38)))
        x = tl.where(keys >= least, x, float("-inf"))
        place = tl.where(x > best, c, place)
        best = tl.maximum(best, x)
    winner = tl.max(best, 0)
    none = largest == float("-inf")
    column = tl.min(tl.where((best == winner) & (place >= 0), place, columns), 0)
    tl.store(y_ptr + row, tl.where(none, -1, column).to(tl.int64))
