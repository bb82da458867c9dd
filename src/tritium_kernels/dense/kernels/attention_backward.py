"""Gradients of attention.

With P the probabilities, dO the gradient of the result, delta = rowsum(dO * O), and M the factor of
dropout (0 or 1 / (1 - probability)):

    dV = (P * M).T @ dO     dP = (dO @ V.T) * M     dS = P * (dP - delta)
    dQ = scale * dS @ K     dK = scale * dS.T @ Q

A function of scores stands between S and Q @ K.T: its derivative is applied to dS. One kernel sums
dK and dV over the queries (of all heads that share the keys), another dQ over the keys: nothing is
added atomically, results do not vary from run to run. The copy engine can add: where results may
vary in their last bits, the first kernel adds dQ to float32 memory too, and there is no second one.
On CPUs with enough heads a program takes all keys of a head, and adds dQ up as it goes: the scores
are computed once.
"""

from __future__ import annotations

import tritium
import tritium.language as tl
from tritium_kernels.dense.kernels.attention import (
    LOG2E,
    block_at,
    block_scores,
    extent,
    head_and_tile,
    head_of,
    kept,
    key_parts,
    load_block,
    put_block,
    store_block,
    type_of_sums,
    visible,
)
from tritium_kernels.dense.kernels.common import wide


@tritium.jit
def attention_delta(
    o_ptr, do_ptr, lse_ptr, top_ptr, delta_ptr, heads, length, tiles, ob, oh, ol, db, dh, dl, lb,
    lh, tb, th, DV: tl.constexpr, DVP: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """delta = rowsum(O * dO) and top = lse / ln(2) of all rows of the tensors."""
    pid = tl.program_id(0)
    b = (pid // tiles // heads).to(tl.int64)
    h = (pid // tiles % heads).to(tl.int64)
    rows = (pid % tiles) * BLOCK + tl.arange(0, BLOCK)
    o = wide(load_block(o_ptr + b * ob + h * oh, rows, ol, length, DV, DVP, True))
    do = wide(load_block(do_ptr + b * db + h * dh, rows, dl, length, DV, DVP, True))
    delta = tl.sum(o * do, 1)
    lse = tl.load(lse_ptr + b * lb + h * lh + rows, mask=rows < length)
    at = b * tb + h * th + rows
    tl.store(top_ptr + at, lse * LOG2E, mask=rows < length)
    tl.store(delta_ptr + at, delta, mask=rows < length)


@tritium.jit
def numbers_at(
    source, batch, head, first, rows, inside, ROWS: tl.constexpr, MASKED: tl.constexpr
):
    """One number of each of ROWS queries of a head from `first` on: of a descriptor of all heads
    (zeros past its end), or of a pointer to the head's numbers."""
    if isinstance(source, tl.tensor_descriptor):
        return source.load([batch, head, first]).reshape(ROWS)
    elif MASKED:
        return tl.load(source + rows, mask=inside, other=0.0)
    else:
        return tl.load(source + rows)


@tritium.jit
def row_of(source, batch, head, first, batch_stride, head_stride):
    """A head's numbers from `first` on: where they begin, or the descriptor that has all heads."""
    if isinstance(source, tl.tensor_descriptor):
        return source
    else:
        return source + batch * batch_stride + head * head_stride + first


@tritium.jit
def probabilities(
    q, k, top, scale, b, head, position, keys, count, inside, left, right, aux,
    MASKED: tl.constexpr, LEFT: tl.constexpr, RIGHT: tl.constexpr, SCORE: tl.constexpr,
    TRANSPOSED: tl.constexpr,
):  # fmt: skip
    """P, or (TRANSPOSED) its transpose: tensor cores then take it from registers as the left
    operand of sums over queries. `top`: log2(sum(exp(scores))) of the queries."""
    if TRANSPOSED:
        scores = block_scores(k, q, scale, b, head, position, keys, aux, SCORE)
    else:
        scores = block_scores(q, k, scale, b, head, position, keys, aux, SCORE)
    p = tl.exp2(scores - top)
    if MASKED:
        mask = visible(position, keys, count, left, right, LEFT, RIGHT) & inside
        p = tl.where(mask, p, 0.0)
    return p


@tritium.jit
def gradient_of_scores(
    p, keep, q, k, v, do, delta, scale, b, head, position, keys, count, inside, left, right,
    dropout, aux, MASKED: tl.constexpr, LEFT: tl.constexpr, RIGHT: tl.constexpr,
    SCORE_GRADIENT: tl.constexpr, DROPOUT: tl.constexpr, TRANSPOSED: tl.constexpr,
):  # fmt: skip
    """dS before the scale, or (TRANSPOSED) its transpose. `delta`: of the queries, as the axes of
    the scores have them."""
    if TRANSPOSED:
        dp = tl.dot(v, do.T, input_precision="ieee")
    else:
        dp = tl.dot(do, v.T, input_precision="ieee")
    if DROPOUT:
        dp = tl.where(keep, dp / (1 - dropout), 0.0)
    # Here, not by the caller: registers hold it from where its axis is added.
    ds = p * (dp - tl.expand_dims(delta, 0 if TRANSPOSED else 1))
    if SCORE_GRADIENT is not None:
        if TRANSPOSED:
            plain = tl.dot(k, q.T, input_precision="ieee") * scale
        else:
            plain = tl.dot(q, k.T, input_precision="ieee") * scale
        ds = SCORE_GRADIENT(plain, ds, b, head, position, keys, aux)
        if MASKED:
            mask = visible(position, keys, count, left, right, LEFT, RIGHT) & inside
            ds = tl.where(mask, ds, 0.0)
    return ds


@tritium.jit
def add_block(
    target, value, batch, head, first, rows, stride, count, ROWS: tl.constexpr, D: tl.constexpr,
    DP: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """Add to what `block_at` loads: by the copy engine, or where nobody else writes at the time."""
    if isinstance(target, tl.tensor_descriptor):
        target.atomic_add([batch, head, first, 0], value.reshape(1, 1, ROWS, DP))
    else:
        value += load_block(target, rows, stride, count, D, DP, MASKED)
        if MASKED or D != DP:
            store_block(target, value, rows, stride, count, D, DP)
        else:
            c = tl.arange(0, DP)
            tl.store(target + rows.to(tl.int64)[:, None] * stride + c[None, :], value)


@tritium.jit
def walk_queries(
    dk, dv, k, v, q, do, dq, top_ptr, delta_ptr, ql, dl, dql, scale, b, batch, head, keys, begin,
    end, queries, count, left, right, seed, dropout, aux,
    MASKED: tl.constexpr, LEFT: tl.constexpr, RIGHT: tl.constexpr, SCORE: tl.constexpr,
    SCORE_GRADIENT: tl.constexpr, DROPOUT: tl.constexpr, D: tl.constexpr, DV: tl.constexpr,
    DP: tl.constexpr, DVP: tl.constexpr, BLOCK_M: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Add what queries `begin` to `end` contribute. `q`, `do`, `top_ptr`, `delta_ptr`: see
    `block_at`, `numbers_at`. `dq`: None, or memory to which dQ is added, before the scale: see
    `add_block`; if the copy engine adds, a warp of its own starts the other copies.

    Each product stands where its operands are there: dQ before dK, so that dQ is added up while
    tensor cores compute dK.
    """
    for start in tl.range(
        begin, end, BLOCK_M, num_stages=STAGES,
        warp_specialize=isinstance(dq, tl.tensor_descriptor),
    ):  # fmt: skip
        rows = start + tl.arange(0, BLOCK_M)
        x = block_at(q, batch, head, start, rows, ql, queries, BLOCK_M, D, DP, MASKED)
        y = block_at(do, batch, head, start, rows, dl, queries, BLOCK_M, DV, DVP, MASKED)
        top = numbers_at(top_ptr, batch, head, start, rows, rows < queries, BLOCK_M, MASKED)
        delta = numbers_at(delta_ptr, batch, head, start, rows, rows < queries, BLOCK_M, MASKED)
        inside = rows[None, :] < queries
        position = rows[None, :] + (count - queries)
        p = probabilities(
            x, k, top[None, :], scale, b, head, position, keys[:, None], count, inside, left,
            right, aux, MASKED, LEFT, RIGHT, SCORE, True,
        )  # fmt: skip
        weighted, keep = p, None
        if DROPOUT:
            keep = kept(seed, b, head, position, keys[:, None], dropout)
            weighted = tl.where(keep, p / (1 - dropout), 0.0)
        dv = tl.dot(weighted.to(y.dtype), y, dv, input_precision="ieee")
        ds = gradient_of_scores(
            p, keep, x, k, v, y, delta, scale, b, head, position, keys[:, None], count, inside,
            left, right, dropout, aux, MASKED, LEFT, RIGHT, SCORE_GRADIENT, DROPOUT, True,
        ).to(x.dtype)  # fmt: skip
        if dq is not None:
            part = tl.dot(ds.T, k, input_precision="ieee")
        dk = tl.dot(ds, x, dk, input_precision="ieee")
        if dq is not None:
            add_block(dq, part, batch, head, start, rows, dql, queries, BLOCK_M, D, DP, MASKED)
    return dk, dv


@tritium.jit
def query_parts(
    key, queries, count, left, right, LEFT: tl.constexpr, RIGHT: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """The bounds of the parts of the walk over queries, for the block of keys at `key`."""
    shift = count - queries
    last = tl.minimum(key + BLOCK_N, count) - 1
    begin = tl.maximum(key - right - shift, 0) // BLOCK_M * BLOCK_M if RIGHT else count * 0
    end = tl.maximum(tl.minimum(queries, last + left - shift + 1), 0) if LEFT else queries
    whole = tl.cdiv(tl.maximum(last - right - shift, 0), BLOCK_M) * BLOCK_M if RIGHT else begin
    cut = tl.maximum(tl.minimum(queries, key + left - shift + 1), 0) if LEFT else queries
    cut = cut // BLOCK_M * BLOCK_M
    # Where keys end within the block, every part needs the mask.
    cut = tl.maximum(tl.where(key + BLOCK_N > count, 0, cut), whole)
    return begin, whole, cut, end


@tritium.jit
def gradients_of_keys(
    key, b, kv, batch, first_q, queries, first_k, count,
    q, k, v, do, dk_out, dv_out, dq_sum, top_ptr, delta_ptr, aux, scale, left, right, seed, dropout,
    qb, qh, ql, kb, kh, kl, vb, vh, vl, db, dh, dl, tb, th, dkb, dkh, dkl, dvb, dvh, dvl,
    sqb, sqh, sql,
    GROUP: tl.constexpr, LEFT: tl.constexpr, RIGHT: tl.constexpr, TAIL: tl.constexpr,
    SCORE: tl.constexpr, SCORE_GRADIENT: tl.constexpr, DROPOUT: tl.constexpr, D: tl.constexpr,
    DV: tl.constexpr, DP: tl.constexpr, DVP: tl.constexpr, BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """dK and dV of a block of keys, and what it adds to dQ where there is memory for that."""
    z, g = batch.to(tl.int32), kv.to(tl.int32)  # where descriptors are read
    keys = key + tl.arange(0, BLOCK_N)
    k_head = head_of(k, batch, kv, first_k, kb, kh, kl)
    v_head = head_of(v, batch, kv, first_k, vb, vh, vl)
    x = block_at(k_head, z, g, key, keys, kl, count, BLOCK_N, D, DP, True)
    y = block_at(v_head, z, g, key, keys, vl, count, BLOCK_N, DV, DVP, True)
    dk = tl.zeros((BLOCK_N, DP), type_of_sums(x))
    dv = tl.zeros((BLOCK_N, DVP), type_of_sums(x))
    begin, whole, cut, end = query_parts(
        key, queries, count, left, right, LEFT, RIGHT, BLOCK_M, BLOCK_N
    )
    for member in tl.range(GROUP):
        h = (kv * GROUP + member).to(tl.int64)
        q_head = head_of(q, batch, h, first_q, qb, qh, ql)
        do_head = head_of(do, batch, h, first_q, db, dh, dl)
        dq = dq_sum
        if dq is not None:
            dq = head_of(dq_sum, batch, h, first_q, sqb, sqh, sql)
        top = row_of(top_ptr, batch, h, first_q, tb, th)
        delta = row_of(delta_ptr, batch, h, first_q, tb, th)
        head = h.to(tl.int32)
        # Two loops in the loop over heads leave ptxas too few registers to overlap products of 128
        # columns, where a warp of its own loads: one loop then masks all blocks.
        ONE: tl.constexpr = (
            isinstance(dq, tl.tensor_descriptor) and GROUP > 1 and DP >= 128 and (RIGHT or TAIL)
        )
        if RIGHT or ONE:
            dk, dv = walk_queries(
                dk, dv, x, y, q_head, do_head, dq, top, delta, ql, dl, sql, scale, b, z, head, keys,
                begin, end if ONE else tl.minimum(whole, end), queries, count, left, right, seed,
                dropout, aux, True, LEFT, RIGHT, SCORE, SCORE_GRADIENT, DROPOUT, D, DV, DP, DVP,
                BLOCK_M, STAGES,
            )  # fmt: skip
        if not ONE:
            dk, dv = walk_queries(
                dk, dv, x, y, q_head, do_head, dq, top, delta, ql, dl, sql, scale, b, z, head, keys,
                whole, cut, queries, count, left, right, seed, dropout, aux, False, LEFT, RIGHT,
                SCORE, SCORE_GRADIENT, DROPOUT, D, DV, DP, DVP, BLOCK_M, STAGES,
            )  # fmt: skip
        if TAIL and not ONE:
            dk, dv = walk_queries(
                dk, dv, x, y, q_head, do_head, dq, top, delta, ql, dl, sql, scale, b, z, head, keys,
                cut, end, queries, count, left, right, seed, dropout, aux, True, LEFT, RIGHT,
                SCORE, SCORE_GRADIENT, DROPOUT, D, DV, DP, DVP, BLOCK_M, STAGES,
            )  # fmt: skip
    dk_head = head_of(dk_out, batch, kv, first_k, dkb, dkh, dkl)
    dv_head = head_of(dv_out, batch, kv, first_k, dvb, dvh, dvl)
    put_block(dk_head, dk * scale, z, g, key, keys, dkl, count, BLOCK_N, D, DP)
    put_block(dv_head, dv, z, g, key, keys, dvl, count, BLOCK_N, DV, DVP)


@tritium.jit
def attention_dk_dv(
    q, k, v, do, dk_out, dv_out, dq_sum, dq_out, top_ptr, delta_ptr, q_offsets, k_offsets, aux,
    scale, q_length, k_length, heads, tiles, left, right, seed, dropout,
    qb, qh, ql, kb, kh, kl, vb, vh, vl, db, dh, dl, tb, th, dkb, dkh, dkl, dvb, dvh, dvl,
    sqb, sqh, sql,
    GROUP: tl.constexpr, LEFT: tl.constexpr, RIGHT: tl.constexpr, TAIL: tl.constexpr,
    SCORE: tl.constexpr, SCORE_GRADIENT: tl.constexpr, DROPOUT: tl.constexpr, D: tl.constexpr,
    DV: tl.constexpr, DP: tl.constexpr, DVP: tl.constexpr, BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr, STAGES: tl.constexpr, TOGETHER: tl.constexpr,
):  # fmt: skip
    """dK and dV of a block of keys; or, where there is `dq_out` with the strides of `dq_sum`, all
    gradients of the heads that share keys, by a program that takes one block after the other."""
    kv_heads = heads // GROUP
    head, tile = head_and_tile(tl.program_id(0), tiles, TOGETHER)
    b = (head // kv_heads).to(tl.int64)
    kv = (head % kv_heads).to(tl.int64)
    batch, first_q, queries = extent(q_offsets, b, q_length)
    _, first_k, count = extent(k_offsets, b, k_length)
    if dq_out is None:
        key = tile * BLOCK_N
        if k_offsets is not None and key >= count:  # a shorter sequence than the longest
            return
        gradients_of_keys(
            key, b, kv, batch, first_q, queries, first_k, count, q, k, v, do, dk_out, dv_out,
            dq_sum, top_ptr, delta_ptr, aux, scale, left, right, seed, dropout, qb, qh, ql, kb, kh,
            kl, vb, vh, vl, db, dh, dl, tb, th, dkb, dkh, dkl, dvb, dvh, dvl, sqb, sqh, sql, GROUP,
            LEFT, RIGHT, TAIL, SCORE, SCORE_GRADIENT, DROPOUT, D, DV, DP, DVP, BLOCK_M, BLOCK_N,
            STAGES,
        )  # fmt: skip
    else:
        for key in range(0, count, BLOCK_N):
            gradients_of_keys(
                key, b, kv, batch, first_q, queries, first_k, count, q, k, v, do, dk_out, dv_out,
                dq_sum, top_ptr, delta_ptr, aux, scale, left, right, seed, dropout, qb, qh, ql, kb,
                kh, kl, vb, vh, vl, db, dh, dl, tb, th, dkb, dkh, dkl, dvb, dvh, dvl, sqb, sqh, sql,
                GROUP, LEFT, RIGHT, TAIL, SCORE, SCORE_GRADIENT, DROPOUT, D, DV, DP, DVP, BLOCK_M,
                BLOCK_N, STAGES,
            )  # fmt: skip
        for member in range(GROUP):
            places = batch * sqb + (kv * GROUP + member) * sqh + first_q * sql
            for row in range(0, queries, BLOCK_M):
                rows = row + tl.arange(0, BLOCK_M)
                sums = load_block(dq_sum + places, rows, sql, queries, D, DP, True)
                store_block(dq_out + places, sums * scale, rows, sql, queries, D, DP)


@tritium.jit
def walk_keys_back(
    dq, q, do, top, delta, k, v, kl, vl, scale, b, head, kv_batch, kv_head, rows,
    begin, end, queries, count, left, right, seed, dropout, aux,
    MASKED: tl.constexpr, LEFT: tl.constexpr, RIGHT: tl.constexpr, SCORE: tl.constexpr,
    SCORE_GRADIENT: tl.constexpr, DROPOUT: tl.constexpr, D: tl.constexpr, DV: tl.constexpr,
    DP: tl.constexpr, DVP: tl.constexpr, BLOCK_N: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    for start in tl.range(begin, end, BLOCK_N, num_stages=STAGES):
        keys = start + tl.arange(0, BLOCK_N)
        x = block_at(k, kv_batch, kv_head, start, keys, kl, count, BLOCK_N, D, DP, MASKED)
        y = block_at(v, kv_batch, kv_head, start, keys, vl, count, BLOCK_N, DV, DVP, MASKED)
        position = rows[:, None] + (count - queries)
        inside = rows[:, None] < queries
        p = probabilities(
            q, x, top[:, None], scale, b, head, position, keys[None, :], count, inside, left,
            right, aux, MASKED, LEFT, RIGHT, SCORE, False,
        )  # fmt: skip
        keep = kept(seed, b, head, position, keys[None, :], dropout) if DROPOUT else None
        ds = gradient_of_scores(
            p, keep, q, x, y, do, delta, scale, b, head, position, keys[None, :], count, inside,
            left, right, dropout, aux, MASKED, LEFT, RIGHT, SCORE_GRADIENT, DROPOUT, False,
        )  # fmt: skip
        dq = tl.dot(ds.to(x.dtype), x, dq, input_precision="ieee")
    return dq


@tritium.jit
def attention_dq(
    q, k, v, do, dq_out, top_ptr, delta_ptr, q_offsets, k_offsets, aux,
    scale, q_length, k_length, heads, tiles, left, right, seed, dropout,
    qb, qh, ql, kb, kh, kl, vb, vh, vl, db, dh, dl, tb, th, dqb, dqh, dql,
    GROUP: tl.constexpr, LEFT: tl.constexpr, RIGHT: tl.constexpr, TAIL: tl.constexpr,
    SCORE: tl.constexpr, SCORE_GRADIENT: tl.constexpr, DROPOUT: tl.constexpr, D: tl.constexpr,
    DV: tl.constexpr, DP: tl.constexpr, DVP: tl.constexpr, BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr, STAGES: tl.constexpr, TOGETHER: tl.constexpr,
):  # fmt: skip
    head, tile = head_and_tile(tl.program_id(0), tiles, TOGETHER)
    b = (head // heads).to(tl.int64)
    h = (head % heads).to(tl.int64)
    batch, first_q, queries = extent(q_offsets, b, q_length)
    _, first_k, count = extent(k_offsets, b, k_length)
    row = (tiles - 1 - tile) * BLOCK_M if RIGHT else tile * BLOCK_M
    if q_offsets is not None and row >= queries:  # a shorter sequence than the longest
        return
    z, f, g = batch.to(tl.int32), h.to(tl.int32), (h // GROUP).to(tl.int32)
    k_head = head_of(k, batch, h // GROUP, first_k, kb, kh, kl)
    v_head = head_of(v, batch, h // GROUP, first_k, vb, vh, vl)
    q_head = head_of(q, batch, h, first_q, qb, qh, ql)
    do_head = head_of(do, batch, h, first_q, db, dh, dl)
    rows = row + tl.arange(0, BLOCK_M)
    x = block_at(q_head, z, f, row, rows, ql, queries, BLOCK_M, D, DP, True)
    y = block_at(do_head, z, f, row, rows, dl, queries, BLOCK_M, DV, DVP, True)
    statistics = batch * tb + h * th + first_q + rows
    top = tl.load(top_ptr + statistics, mask=rows < queries, other=0.0)
    delta = tl.load(delta_ptr + statistics, mask=rows < queries, other=0.0)
    dq = tl.zeros((BLOCK_M, DP), type_of_sums(x))
    first = row + (count - queries)
    last = tl.minimum(row + BLOCK_M, queries) - 1 + (count - queries)
    begin, whole, cut, end = key_parts(first, last, count, left, right, LEFT, RIGHT, BLOCK_N)
    if LEFT:
        dq = walk_keys_back(
            dq, x, y, top, delta, k_head, v_head, kl, vl, scale, b, h, z, g, rows,
            begin, tl.minimum(whole, end), queries, count, left, right, seed, dropout, aux,
            True, LEFT, RIGHT, SCORE, SCORE_GRADIENT, DROPOUT, D, DV, DP, DVP, BLOCK_N, STAGES,
        )  # fmt: skip
    dq = walk_keys_back(
        dq, x, y, top, delta, k_head, v_head, kl, vl, scale, b, h, z, g, rows,
        whole, cut, queries, count, left, right, seed, dropout, aux,
        False, LEFT, RIGHT, SCORE, SCORE_GRADIENT, DROPOUT, D, DV, DP, DVP, BLOCK_N, STAGES,
    )  # fmt: skip
    if TAIL:
        dq = walk_keys_back(
            dq, x, y, top, delta, k_head, v_head, kl, vl, scale, b, h, z, g, rows,
            cut, end, queries, count, left, right, seed, dropout, aux,
            True, LEFT, RIGHT, SCORE, SCORE_GRADIENT, DROPOUT, D, DV, DP, DVP, BLOCK_N, STAGES,
        )  # fmt: skip
    dq_head = head_of(dq_out, batch, h, first_q, dqb, dqh, dql)
    put_block(dq_head, dq * scale, z, f, row, rows, dql, queries, BLOCK_M, D, DP)
