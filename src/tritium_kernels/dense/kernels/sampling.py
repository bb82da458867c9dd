"""One column of each row, drawn by the softmax of the row, of its largest elements alone.

Thresholds are found by halving a range of keys (`ordered` of the element): the smallest of the k
largest elements, then that of the largest elements that have the wanted share of probability. Each
pass moves the end of the range to an element, so that few passes are needed. The column drawn is
that of the largest element plus Gumbel noise.
"""

from __future__ import annotations

import tritium
import tritium.language as tl
from tritium_kernels.moe_kernels.topk import ordered, unordered


@tritium.jit
def load_logits(x_ptr, start, columns, factor, BLOCK: tl.constexpr):
    """(x * factor, columns); NaN and what is past the last column have no probability."""
    c = start + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + c, mask=c < columns, other=float("-inf")).to(tl.float32) * factor
    return tl.where(x == x, x, float("-inf")), c


@tritium.jit
def keep_candidates(
    x_ptr, kept_ptr, place_ptr, least, columns, factor, MOST: tl.constexpr, BLOCK: tl.constexpr
):
    """Store the elements from `least` on and their columns, up to MOST; the number of all."""
    count = tl.zeros((), tl.int32)
    for start in range(0, columns, BLOCK):
        x, c = load_logits(x_ptr, start, columns, factor, BLOCK)
        taken = (x >= least).to(tl.int32)
        here = tl.sum(taken, 0)
        if here > 0:
            at = count + tl.cumsum(taken, 0) - 1
            tl.store(kept_ptr + at, x, mask=(taken != 0) & (at < MOST))
            tl.store(place_ptr + at, c, mask=(taken != 0) & (at < MOST))
            count += here
    return count


@tritium.jit
def reached(x_ptr, least, largest, columns, factor, COUNT: tl.constexpr, BLOCK: tl.constexpr):
    """(the number of elements from `least` on, or the sum of their exp, the smallest of them, the
    largest of the others)."""
    sums = tl.zeros((BLOCK,), tl.float32)
    above = tl.full((BLOCK,), float("inf"), tl.float32)
    below = tl.full((BLOCK,), float("-inf"), tl.float32)
    for start in range(0, columns, BLOCK):
        x, _ = load_logits(x_ptr, start, columns, factor, BLOCK)
        sums += tl.where(x >= least, 1.0 if COUNT else tl.exp(x - largest), 0.0)
        above = tl.minimum(above, tl.where(x >= least, x, float("inf")))
        below = tl.maximum(below, tl.where(x >= least, float("-inf"), x))
    return tl.sum(sums, 0), tl.min(above, 0), tl.max(below, 0)


@tritium.jit
def narrowed(low, high, found, above, below, wanted, COUNT: tl.constexpr):
    """The range of keys after the sum of elements in its upper half: see `reached`."""
    enough = found >= wanted
    low = tl.where(enough, ordered(above + 0.0), low)
    if COUNT:  # the elements are known
        high = tl.where(found == wanted, low + 1, high)
    # No element lies between `below` and the middle.
    return low, tl.where(enough, high, tl.maximum(ordered(below + 0.0) + 1, low + 1))


@tritium.jit
def threshold(
    x_ptr, wanted, least, largest, columns, factor, COUNT: tl.constexpr, BLOCK: tl.constexpr
):
    """The smallest of the largest elements that reach `wanted`, from `least` on; `least` if all
    do not."""
    low, high = ordered(least + 0.0), ordered(largest + 0.0) + 1
    while high - low > 1:
        middle = unordered(low + ((high - low) >> 1))
        found, above, below = reached(x_ptr, middle, largest, columns, factor, COUNT, BLOCK)
        low, high = narrowed(low, high, found, above, below, wanted, COUNT)
    return unordered(low)


@tritium.jit
def threshold_of_lanes(x, wanted, largest):
    """`threshold` of the number of elements of a block."""
    low = ordered(tl.full((), float("-inf"), tl.float32))
    high = ordered(largest + 0.0) + 1
    while high - low > 1:
        middle = unordered(low + ((high - low) >> 1))
        found = tl.sum((x >= middle).to(tl.float32), 0)
        above = tl.min(tl.where(x >= middle, x, float("inf")), 0)
        below = tl.max(tl.where(x >= middle, float("-inf"), x), 0)
        low, high = narrowed(low, high, found, above, below, wanted, True)
    return unordered(low)


@tritium.jit
def draw(
    x_ptr, place_ptr, first, columns, factor, largest, top_k, top_p, seed, GREEDY: tl.constexpr,
    TOP_K: tl.constexpr, TOP_P: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Draw one of `columns` elements; returns its column: its place without `place_ptr`. `first`:
    the number of the row's first element."""
    least = tl.full((), float("-inf"), tl.float32)
    if TOP_K:
        least = threshold(x_ptr, top_k, least, largest, columns, factor, True, BLOCK)
    if TOP_P:
        every, _, _ = reached(x_ptr, least, largest, columns, factor, False, BLOCK)
        least = threshold(x_ptr, every * top_p, least, largest, columns, factor, False, BLOCK)
    best = tl.full((BLOCK,), float("-inf"), tl.float32)
    place = tl.full((BLOCK,), -1, tl.int32)
    for start in range(0, columns, BLOCK):
        x, c = load_logits(x_ptr, start, columns, factor, BLOCK)
        if place_ptr is not None:
            c = tl.load(place_ptr + c, mask=c < columns, other=0)
        kept = x >= least
        if not GREEDY:
            # One infinite element has all of the probability.
            x = tl.where(largest == float("inf"), tl.where(x == largest, 0.0, float("-inf")), x)
            u = tl.rand(seed, first + c)
            x -= tl.log(-tl.log(tl.maximum(u, 1e-38)))
        x = tl.where(kept, x, float("-inf"))
        place = tl.where(x > best, c, place)
        best = tl.maximum(best, x)
    winner = tl.max(best, 0)
    last = tl.full((), 0x7FFFFFFF, tl.int32)
    column = tl.min(tl.where((best == winner) & (place >= 0), place, last), 0)
    return tl.where(largest == float("-inf"), -1, column).to(tl.int64)


@tritium.jit(do_not_specialize=["seed"])
def sample_rows(
    x_ptr, y_ptr, kept_ptr, place_ptr, columns, x_stride, factor, top_k, top_p, seed,
    GREEDY: tl.constexpr, TOP_K: tl.constexpr, TOP_P: tl.constexpr, MOST: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """-1 where no element has a probability. Of the largest elements, those that may belong to
    them are put aside first, if they are no more than MOST."""
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * x_stride
    most = tl.full((BLOCK,), float("-inf"), tl.float32)
    for start in range(0, columns, BLOCK):
        x, _ = load_logits(x_ptr, start, columns, factor, BLOCK)
        most = tl.maximum(most, x)
    largest = tl.max(most, 0)
    first = row * columns
    if TOP_K:
        # As many elements as lanes are no less than the k-th largest of the lanes' largest.
        least = threshold_of_lanes(most, top_k, largest)
        kept_ptr += row * MOST
        place_ptr += row * MOST
        count = keep_candidates(x_ptr, kept_ptr, place_ptr, least, columns, factor, MOST, BLOCK)
        if count <= MOST:
            tl.debug_barrier()  # threads read what others stored
            column = draw(
                kept_ptr, place_ptr, first, count, 1.0, largest, top_k, top_p, seed, GREEDY, True,
                TOP_P, BLOCK,
            )  # fmt: skip
        else:
            column = draw(
                x_ptr, None, first, columns, factor, largest, top_k, top_p, seed, GREEDY, True,
                TOP_P, BLOCK,
            )  # fmt: skip
        tl.store(y_ptr + row, column)
    else:
        column = draw(
            x_ptr, None, first, columns, factor, largest, top_k, top_p, seed, GREEDY, False,
            TOP_P, BLOCK,
        )  # fmt: skip
        tl.store(y_ptr + row, column)
