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


@tritium.constexpr_function
def type_of_sums(x):
    """The type in which products and sums of elements of x are kept."""
    return tl.float64 if x.dtype == tl.float64 else tl.float32


@tritium.constexpr_function
def least_of(dtype):
    """The least finite number of float64 or float32."""
    return -1.7976931348623157e308 if dtype == tl.float64 else -3.4028234663852886e38


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
def head_of(source, batch, head, first, batch_stride, head_stride, row_stride):
    """A head's rows from `first` on: where they begin, or the descriptor that has all heads."""
    if isinstance(source, tl.tensor_descriptor):
        return source
    else:
        return source + batch * batch_stride + head * head_stride + first * row_stride


@tritium.jit
def put_block(
    target, value, batch, head, first, rows, stride, count, ROWS: tl.constexpr, D: tl.constexpr,
    DP: tl.constexpr,
):  # fmt: skip
    """Store what `block_at` loads."""
    if isinstance(target, tl.tensor_descriptor):
        target.store([batch, head, first, 0], value.to(target.dtype).reshape(1, 1, ROWS, DP))
    else:
        store_block(target, value, rows, stride, count, D, DP)


@tritium.jit
def visible(position, keys, count, left, right, LEFT: tl.constexpr, RIGHT: tl.constexpr):
    """The mask of the keys that each query sees. One of `position` and `keys` is a row, the other a
    column."""
    mask = keys < count
    if RIGHT:
        mask = mask & (keys <= position + right)
    if LEFT:
        mask = mask & (keys >= position - left)
    return mask


@tritium.jit
def key_parts(
    first, last, count, left, right, LEFT: tl.constexpr, RIGHT: tl.constexpr, BLOCK: tl.constexpr
):
    """The bounds of the parts of the walk over keys, for queries at `first` to `last`."""
    begin = tl.maximum(first - left, 0) // BLOCK * BLOCK if LEFT else count * 0
    end = tl.maximum(tl.minimum(count, last + right + 1), 0) if RIGHT else count
    whole = tl.cdiv(tl.maximum(last - left, 0), BLOCK) * BLOCK if LEFT else begin
    cut = tl.maximum(tl.minimum(count, first + right + 1), 0) if RIGHT else count
    cut = tl.maximum(cut // BLOCK * BLOCK, whole)
    return begin, whole, cut, end


@tritium.jit
def kept(seed, b, head, position, keys, dropout):
    """The mask of the probabilities that dropout keeps: Philox of (sequence, head, query, key). One
    of `position` and `keys` is a row, the other a column."""
    zero = position * 0 + keys * 0
    row = (zero + position).to(tl.uint32)
    column = (zero + keys).to(tl.uint32)
    zero = zero.to(tl.uint32)
    words = zero + head.to(tl.uint32), zero + b.to(tl.uint32)
    bits, _, _, _ = tl.philox(seed, column, row, words[0], words[1])
    return tl.uint_to_uniform_float(bits) >= dropout


@tritium.jit
def block_scores(
    x, y, scale, b, head, position, keys, aux, SCORE: tl.constexpr
):
    """Scores times log2(e): exponentials are powers of two. (x, y, position, keys) are (queries,
    keys, a column, a row), or (keys, queries, a row, a column) for the transposed scores."""
    scores = tl.dot(x, y.T, input_precision="ieee")
    if SCORE is None:
        return scores * (scale * LOG2E)
    else:
        return SCORE(scores * scale, b, head, position, keys, aux) * LOG2E


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
        row, column = keys[None, :], position[:, None]
        if MASKED or SCORE is not None or not POSITIVE:
            scores = block_scores(q, x, scale, b, head, column, row, aux, SCORE)
            if MASKED:
                mask = visible(column, row, count, left, right, LEFT, RIGHT)
                scores = tl.where(mask, scores, float("-inf"))
            more = tl.maximum(largest, tl.max(scores, 1))
            # A query may have seen no key yet.
            base = tl.where(more == float("-inf"), 0.0, more)
            p = tl.exp2(scores - base[:, None])
        else:
            # The scale multiplies the maximum of a row, and each score in the subtraction.
            scores = tl.dot(q, x.T, input_precision="ieee")
            more = tl.maximum(largest, tl.max(scores, 1) * (scale * LOG2E))
            base = tl.maximum(more, least_of(more.dtype))  # keys so far may all have scored -inf
            p = tl.exp2(scores * (scale * LOG2E) - base[:, None])
        shrink = tl.exp2(largest - base)
        total = total * shrink + tl.sum(p, 1)
        if DROPOUT:
            p = tl.where(kept(seed, b, head, column, row, dropout), p / (1 - dropout), 0.0)
        y = block_at(v, kv_batch, kv_head, start, keys, vl, count, BLOCK_N, DV, DVP, MASKED)
        acc = tl.dot(p.to(y.dtype), y, acc * shrink[:, None], input_precision="ieee")
        largest = more
    return acc, total, largest


@tritium.jit
def head_and_tile(pid, tiles, TOGETHER: tl.constexpr):
    """The head and the tile of a program: of TOGETHER heads the first tiles, which take longest,
    come before the second ones. Processors that one head's tiles leave idle at the end would be as
    long without work as its longest tile takes."""
    if TOGETHER == 1:
        return pid // tiles, pid % tiles
    else:
        first = pid // (TOGETHER * tiles) * TOGETHER
        heads = tl.minimum(tl.num_programs(0) // tiles - first, TOGETHER)
        within = pid - first * tiles
        return first + within % heads, within // heads


@tritium.jit
def attention_forward(
    q, k, v, o, lse_ptr, q_offsets, k_offsets, aux, scale, q_length, k_length,
    heads, tiles, left, right, seed, dropout,
    qb, qh, ql, kb, kh, kl, vb, vh, vl, ob, oh, ol, lb, lh,
    GROUP: tl.constexpr, LEFT: tl.constexpr, RIGHT: tl.constexpr, TAIL: tl.constexpr,
    SCORE: tl.constexpr, DROPOUT: tl.constexpr, D: tl.constexpr, DV: tl.constexpr,
    DP: tl.constexpr, DVP: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    STAGES: tl.constexpr, POSITIVE: tl.constexpr, TOGETHER: tl.constexpr,
):  # fmt: skip
    """One tile of queries. q, k, v and o are pointers, or descriptors of (batch, heads, rows, D)
    with blocks of one head; those serve sequences that are no parts of others."""
    head, tile = head_and_tile(tl.program_id(0), tiles, TOGETHER)
    b = (head // heads).to(tl.int64)
    h = (head % heads).to(tl.int64)
    batch, first_q, queries = extent(q_offsets, b, q_length)
    _, first_k, count = extent(k_offsets, b, k_length)
    # The longest walks of causal attention are those of the last tiles: they start first.
    row = (tiles - 1 - tile) * BLOCK_M if RIGHT else tile * BLOCK_M
    if q_offsets is not None and row >= queries:  # a shorter sequence than the longest
        return
    z, f, g = batch.to(tl.int32), h.to(tl.int32), (h // GROUP).to(tl.int32)
    q_head = head_of(q, batch, h, first_q, qb, qh, ql)
    k_head = head_of(k, batch, h // GROUP, first_k, kb, kh, kl)
    v_head = head_of(v, batch, h // GROUP, first_k, vb, vh, vl)
    rows = row + tl.arange(0, BLOCK_M)
    x = block_at(q_head, z, f, row, rows, ql, queries, BLOCK_M, D, DP, True)
    SUMS: tl.constexpr = type_of_sums(x)
    acc = tl.zeros((BLOCK_M, DVP), SUMS)
    total = tl.zeros((BLOCK_M,), SUMS)
    largest = tl.full((BLOCK_M,), float("-inf"), SUMS)
    position = rows + (count - queries)
    first = row + (count - queries)
    last = tl.minimum(row + BLOCK_M, queries) - 1 + (count - queries)
    begin, whole, cut, end = key_parts(first, last, count, left, right, LEFT, RIGHT, BLOCK_N)
    if LEFT:
        acc, total, largest = walk_keys(
            acc, total, largest, x, k_head, v_head, kl, vl, scale, b, h, z, g, position,
            begin, tl.minimum(whole, end), count, left, right, seed, dropout, aux,
            True, LEFT, RIGHT, SCORE, DROPOUT, D, DV, DP, DVP, BLOCK_N, STAGES,
            POSITIVE,
        )  # fmt: skip
    acc, total, largest = walk_keys(
        acc, total, largest, x, k_head, v_head, kl, vl, scale, b, h, z, g, position,
        whole, cut, count, left, right, seed, dropout, aux,
        False, LEFT, RIGHT, SCORE, DROPOUT, D, DV, DP, DVP, BLOCK_N, STAGES,
        POSITIVE,
    )  # fmt: skip
    if TAIL:
        acc, total, largest = walk_keys(
            acc, total, largest, x, k_head, v_head, kl, vl, scale, b, h, z, g, position,
            cut, end, count, left, right, seed, dropout, aux,
            True, LEFT, RIGHT, SCORE, DROPOUT, D, DV, DP, DVP, BLOCK_N, STAGES,
            POSITIVE,
        )  # fmt: skip
    # A query that sees no key gives zeros.
    acc = acc / tl.where(total == 0, 1.0, total)[:, None]
    o_head = head_of(o, batch, h, first_q, ob, oh, ol)
    put_block(o_head, acc, z, f, row, rows, ol, queries, BLOCK_M, DV, DVP)
    lse = (largest + tl.log2(total)) * LN2
    tl.store(lse_ptr + batch * lb + h * lh + first_q + rows, lse, mask=rows < queries)
