"""Attention of blocks of queries and keys, forward.

A query at row i of L stands at position i + S - L among S keys: the last query sees the last key.
It sees keys from position - left to position + right. Keys are walked over in three parts: blocks
that the left edge cuts, whole blocks, blocks that the right edge or the end cuts; the middle part
has no mask.
"""

from __future__ import annotations

import tritium
import tritium.language as tl

LOG2E = tl.constexpr(1.4426950408889634)
LN2 = tl.constexpr(0.6931471805599453)


@tritium.jit
def extent(offsets_ptr, b, length):
    """(batch, first row, rows) of sequence b: all rows of its batch, or some of the only batch."""
    zero = (b * 0).to(tl.int64)
    if offsets_ptr is None:
        return b, zero, length
    else:
        start = tl.load(offsets_ptr + b).to(tl.int64)
        return zero, start, (tl.load(offsets_ptr + b + 1).to(tl.int64) - start).to(tl.int32)


@tritium.jit
def load_block(
    ptr, rows, stride, count, D: tl.constexpr, DP: tl.constexpr, MASKED: tl.constexpr
):
    """Rows of D elements, zeros up to DP columns and past `count` rows (only where MASKED)."""
    c = tl.arange(0, DP)
    places = ptr + rows.to(tl.int64)[:, None] * stride + c[None, :]
    if MASKED:
        mask = rows[:, None] < count
        if D != DP:
            mask &= c[None, :] < D
        return tl.load(places, mask=mask, other=0.0)
    elif D != DP:
        return tl.load(places, mask=c[None, :] < D, other=0.0)
    else:
        return tl.load(places)


@tritium.jit
def block_at(
    source, batch, head, first, rows, stride, count, ROWS: tl.constexpr, D: tl.constexpr,
    DP: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """ROWS rows of a head from `first` on: of a descriptor of all heads (zeros past its end), or of
    a pointer to the head's rows."""
    if isinstance(source, tl.tensor_descriptor):
        return source.load([batch, head, first, 0]).reshape(ROWS, DP)
    else:
        return load_block(source, rows, stride, count, D, DP, MASKED)


@tritium.jit
def store_block(ptr, value, rows, stride, count, D: tl.constexpr, DP: tl.constexpr):
    c = tl.arange(0, DP)
    places = ptr + rows.to(tl.int64)[:, None] * stride + c[None, :]
    mask = (rows[:, None] < count) & (c[None, :] < D)
    tl.store(places, value.to(ptr.dtype.element_ty), mask=mask)


@tritium.jit
def visible(position, keys, count, left, right, LEFT: tl.constexpr, RIGHT: tl.constexpr):
    """Which keys each query sees."""
    mask = keys[None, :] < count
    if RIGHT:
        mask &= keys[None, :] <= position[:, None] + right
    if LEFT:
        mask &= keys[None, :] >= position[:, None] - left
    return mask


@tritium.jit
def key_parts(
    first, last, count, left, right, LEFT: tl.constexpr, RIGHT: tl.constexpr, BLOCK: tl.constexpr
):
    """Where the parts of the walk over keys begin and end, for queries at `first` to `last`."""
    begin = tl.maximum(first - left, 0) // BLOCK * BLOCK if LEFT else count * 0
    end = tl.maximum(tl.minimum(count, last + right + 1), 0) if RIGHT else count
    whole = tl.cdiv(tl.maximum(last - left, 0), BLOCK) * BLOCK if LEFT else begin
    cut = tl.maximum(tl.minimum(count, first + right + 1), 0) if RIGHT else count
    cut = tl.maximum(cut // BLOCK * BLOCK, whole)
    return begin, whole, cut, end


@tritium.jit
def kept(seed, b, head, position, keys, dropout):
    """Which probabilities dropout keeps: Philox of (sequence, head, query, key)."""
    zero = position[:, None] * 0 + keys[None, :] * 0
    row = (zero + position[:, None]).to(tl.uint32)
    column = (zero + keys[None, :]).to(tl.uint32)
    zero = zero.to(tl.uint32)
    words = zero + head.to(tl.uint32), zero + b.to(tl.uint32)
    bits, _, _, _ = tl.philox(seed, column, row, words[0], words[1])
    return tl.uint_to_uniform_float(bits) >= dropout


@tritium.jit
def block_scores(
    q, k, scale, b, head, position, keys, aux, SCORE: tl.constexpr
):
    """Scores times log2(e): exponentials are powers of two."""
    scores = tl.dot(q, k.T, input_precision="ieee")
    if SCORE is None:
        return scores * (scale * LOG2E)
    else:
        return SCORE(scores * scale, b, head, position[:, None], keys[None, :], aux) * LOG2E


@tritium.jit
def walk_keys(
    acc, total, largest, q, k, v, kl, vl, scale, b, head, kv_batch, kv_head, position,
    begin, end, count, left, right, seed, dropout, aux,
    MASKED: tl.constexpr, LEFT: tl.constexpr, RIGHT: tl.constexpr, SCORE: tl.constexpr,
    DROPOUT: tl.constexpr, D: tl.constexpr, DV: tl.constexpr, DP: tl.constexpr,
    DVP: tl.constexpr, BLOCK_N: tl.constexpr, STAGES: tl.constexpr, POSITIVE: tl.constexpr,
):  # fmt: skip
    """Take keys `begin` to `end` into account. `k` and `v`: see `block_at`."""
    for start in tl.range(begin, end, BLOCK_N, num_stages=STAGES):
        keys = start + tl.arange(0, BLOCK_N)
        x = block_at(k, kv_batch, kv_head, start, keys, kl, count, BLOCK_N, D, DP, MASKED)
        if MASKED or SCORE is not None or not POSITIVE:
            scores = block_scores(q, x, scale, b, head, position, keys, aux, SCORE)
            if MASKED:
                mask = visible(position, keys, count, left, right, LEFT, RIGHT)
                scores = tl.where(mask, scores, float("-inf"))
            more = tl.maximum(largest, tl.max(scores, 1))
            # A query may have seen no key yet.
            base = tl.where(more == float("-inf"), 0.0, more)
            p = tl.exp2(scores - base[:, None])
        else:
            # The scale multiplies the maximum of a row, and each score in the subtraction.
            scores = tl.dot(q, x.T, input_precision="ieee")
            more = tl.maximum(largest, tl.max(scores, 1) * (scale * LOG2E))
            base = more
            p = tl.exp2(scores * (scale * LOG2E) - base[:, None])
        shrink = tl.exp2(largest - base)
        total = total * shrink + tl.sum(p, 1)
        if DROPOUT:
            p = tl.where(kept(seed, b, head, position, keys, dropout), p / (1 - dropout), 0.0)
        y = block_at(v, kv_batch, kv_head, start, keys, vl, count, BLOCK_N, DV, DVP, MASKED)
        acc = tl.dot(p.to(y.dtype), y, acc * shrink[:, None], input_precision="ieee")
        largest = more
    return acc, total, largest


@tritium.jit
def attention_forward(
    q, k, v, o, lse_ptr, q_offsets, k_offsets, aux, scale, q_length, k_length,
    heads, tiles, left, right, seed, dropout,
    qb, qh, ql, kb, kh, kl, vb, vh, vl, ob, oh, ol, lb, lh,
    GROUP: tl.constexpr, LEFT: tl.constexpr, RIGHT: tl.constexpr, TAIL: tl.constexpr,
    SCORE: tl.constexpr, DROPOUT: tl.constexpr, D: tl.constexpr, DV: tl.constexpr,
    DP: tl.constexpr, DVP: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    STAGES: tl.constexpr, POSITIVE: tl.constexpr,
):  # fmt: skip
    """One tile of queries. q, k, v and o are pointers, or descriptors of (batch, heads, rows, D)
    with blocks of one head; those serve sequences that are no parts of others."""
    pid = tl.program_id(0)
    head = pid // tiles
    b = (head // heads).to(tl.int64)
    h = (head % heads).to(tl.int64)
    batch, first_q, queries = extent(q_offsets, b, q_length)
    _, first_k, count = extent(k_offsets, b, k_length)
    # The longest walks of causal attention are those of the last tiles: they start first.
    row = (tiles - 1 - pid % tiles) * BLOCK_M if RIGHT else (pid % tiles) * BLOCK_M
    if q_offsets is not None and row >= queries:  # a shorter sequence than the longest
        return
    if not isinstance(q, tl.tensor_descriptor):
        q += batch * qb + h * qh + first_q * ql
        k += batch * kb + (h // GROUP) * kh + first_k * kl
        v += batch * vb + (h // GROUP) * vh + first_k * vl
    kv_batch = batch.to(tl.int32)
    kv_head = (h // GROUP).to(tl.int32)
    rows = row + tl.arange(0, BLOCK_M)
    x = block_at(q, kv_batch, h.to(tl.int32), row, rows, ql, queries, BLOCK_M, D, DP, True)
    acc = tl.zeros((BLOCK_M, DVP), tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    largest = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    position = rows + (count - queries)
    first = row + (count - queries)
    last = tl.minimum(row + BLOCK_M, queries) - 1 + (count - queries)
    begin, whole, cut, end = key_parts(first, last, count, left, right, LEFT, RIGHT, BLOCK_N)
    if LEFT:
        acc, total, largest = walk_keys(
            acc, total, largest, x, k, v, kl, vl, scale, b, h, kv_batch, kv_head, position,
            begin, tl.minimum(whole, end), count, left, right, seed, dropout, aux,
            True, LEFT, RIGHT, SCORE, DROPOUT, D, DV, DP, DVP, BLOCK_N, STAGES,
            POSITIVE,
        )  # fmt: skip
    acc, total, largest = walk_keys(
        acc, total, largest, x, k, v, kl, vl, scale, b, h, kv_batch, kv_head, position,
        whole, cut, count, left, right, seed, dropout, aux,
        False, LEFT, RIGHT, SCORE, DROPOUT, D, DV, DP, DVP, BLOCK_N, STAGES,
        POSITIVE,
    )  # fmt: skip
    if TAIL:
        acc, total, largest = walk_keys(
            acc, total, largest, x, k, v, kl, vl, scale, b, h, kv_batch, kv_head, position,
            cut, end, count, left, right, seed, dropout, aux,
            True, LEFT, RIGHT, SCORE, DROPOUT, D, DV, DP, DVP, BLOCK_N, STAGES,
            POSITIVE,
        )  # fmt: skip
    # A query that sees no key gives zeros.
    acc = acc / tl.where(total == 0, 1.0, total)[:, None]
    if isinstance(o, tl.tensor_descriptor):
        block = acc.to(o.dtype).reshape(1, 1, BLOCK_M, DVP)
        o.store([kv_batch, h.to(tl.int32), row, 0], block)
    else:
        o += batch * ob + h * oh + first_q * ol
        store_block(o, acc, rows, ol, queries, DV, DVP)
    lse = (largest + tl.log2(total)) * LN2
    tl.store(lse_ptr + batch * lb + h * lh + first_q + rows, lse, mask=rows < queries)
