"""Attention of one query for each sequence to keys in pages, with each sequence's keys split among
programs, and the sum of the parts."""

from __future__ import annotations

import tritium
import tritium.language as tl
from tritium_kernels.dense.kernels.attention import LOG2E
from tritium_kernels.dense.kernels.softmax import finite_or_zero


@tritium.jit
def page_numbers(table_ptr, keys, end, PAGE: tl.constexpr):
    """The pages of keys. With several stages they are read a step before the keys are, whose copies
    do not wait for them then."""
    return tl.load(table_ptr + keys // PAGE, mask=keys < end, other=0).to(tl.int64)


@tritium.jit
def share_of_keys(count, left, split, SPLITS: tl.constexpr, LEFT: tl.constexpr, KEYS: tl.constexpr):
    """The first key of a split, in whole blocks of KEYS, and the end of its keys."""
    first = tl.maximum(count - 1 - left, 0) if LEFT else count * 0
    share = tl.cdiv(tl.cdiv(count - first, SPLITS), KEYS) * KEYS
    begin = first + split * share
    return begin, tl.minimum(begin + share, count)


@tritium.jit
def weighed(scores, total, largest):
    """The weights of scores, the sum and the largest score with them, and the factor of what was
    summed before."""
    more = tl.maximum(largest, tl.max(scores, 1))
    base = finite_or_zero(more)
    p = tl.exp2(scores - base[:, None])
    shrink = tl.exp2(largest - base)
    return p, total * shrink + tl.sum(p, 1), more, shrink


@tritium.jit
def paged_part(
    q_ptr, k_ptr, v_ptr, table_ptr, lengths_ptr, acc_ptr, lse_ptr, scale, kv_heads, left,
    qb, qh, kp, kl, kh, vp, vl, vh, tb,
    PAGE: tl.constexpr, GROUP: tl.constexpr, ROWS: tl.constexpr, HEADS: tl.constexpr,
    SPLITS: tl.constexpr, LEFT: tl.constexpr, D: tl.constexpr, DV: tl.constexpr,
    DP: tl.constexpr, DVP: tl.constexpr, BLOCK_N: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """A share of the keys of one sequence, for HEADS heads of keys and those that share them.

    A tile has the keys of all these heads, key by key as they lie in a page: programs of one head
    would go to each page once for each head. Of a query's products those with keys of other heads
    are dropped, which costs less than the memory takes.
    """
    pid = tl.program_id(0)
    split = pid % SPLITS
    blocks = kv_heads // HEADS
    first_head = pid // SPLITS % blocks * HEADS
    b = (pid // SPLITS // blocks).to(tl.int64)
    count = tl.load(lengths_ptr + b).to(tl.int32)
    KEYS: tl.constexpr = BLOCK_N // HEADS
    begin, end = share_of_keys(count, left, split, SPLITS, LEFT, KEYS)
    member = tl.arange(0, ROWS)
    c = tl.arange(0, DP)
    cv = tl.arange(0, DVP)
    heads = first_head.to(tl.int64) * GROUP + member
    exists = member < HEADS * GROUP
    inside = exists[:, None] & (c[None, :] < D)
    q = tl.load(q_ptr + b * qb + heads[:, None] * qh + c[None, :], mask=inside, other=0.0)
    acc = tl.zeros((ROWS, DVP), tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    largest = tl.full((ROWS,), float("-inf"), tl.float32)
    pair = tl.arange(0, BLOCK_N)
    kv = (first_head + pair % HEADS).to(tl.int64)
    table_ptr += b * tb
    if STAGES > 1:
        number = page_numbers(table_ptr, begin + pair // HEADS, end, PAGE)
    for start in tl.range(begin, end, KEYS, num_stages=STAGES):
        keys = start + pair // HEADS
        seen = keys < end
        if STAGES == 1:
            number = page_numbers(table_ptr, keys, end, PAGE)
        row = (keys % PAGE).to(tl.int64)
        places = k_ptr + (number * kp + row * kl + kv * kh)[:, None] + c[None, :]
        k = tl.load(places, mask=seen[:, None] & (c[None, :] < D), other=0.0)
        scores = tl.dot(q, k.T, input_precision="ieee") * (scale * LOG2E)
        wanted = seen[None, :]
        if HEADS > 1:
            wanted &= (member // GROUP)[:, None] == (pair % HEADS)[None, :]
        scores = tl.where(wanted, scores, float("-inf"))
        p, total, largest, shrink = weighed(scores, total, largest)
        places = v_ptr + (number * vp + row * vl + kv * vh)[:, None] + cv[None, :]
        v = tl.load(places, mask=seen[:, None] & (cv[None, :] < DV), other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc * shrink[:, None], input_precision="ieee")
        if STAGES > 1:
            number = page_numbers(table_ptr, keys + KEYS, end, PAGE)
    acc = acc / tl.where(total == 0, 1.0, total)[:, None]
    part = (b * kv_heads * GROUP + heads) * SPLITS + split
    inside = exists[:, None] & (cv[None, :] < DV)
    tl.store(acc_ptr + part[:, None] * DV + cv[None, :], acc, mask=inside)
    tl.store(lse_ptr + part, largest + tl.log2(total), mask=exists)


@tritium.jit
def paged_sum(
    acc_ptr, lse_ptr, o_ptr, heads, ob, oh,
    SPLITS: tl.constexpr, DV: tl.constexpr, DVP: tl.constexpr,
):  # fmt: skip
    """The parts of one head, each weighted by its share of the sum of exponentials."""
    pid = tl.program_id(0).to(tl.int64)
    b = pid // heads
    h = pid % heads
    split = tl.arange(0, SPLITS)
    c = tl.arange(0, DVP)
    lse = tl.load(lse_ptr + pid * SPLITS + split)
    largest = tl.max(lse, 0)
    weight = tl.exp2(lse - tl.where(largest == float("-inf"), 0.0, largest))
    total = tl.sum(weight, 0)
    places = acc_ptr + (pid * SPLITS + split)[:, None] * DV + c[None, :]
    acc = tl.load(places, mask=c[None, :] < DV, other=0.0)
    o = tl.sum(acc * weight[:, None], 0) / tl.where(total == 0, 1.0, total)
    tl.store(o_ptr + b * ob + h * oh + c, o.to(o_ptr.dtype.element_ty), mask=c < DV)
