"""Causal linear attention: o_t = scale * sum over s <= t of decay**(t - s) * (q_t . k_s) v_s.

    in a chunk      ((q k^T) * decay**(i - j) where j <= i) v
    from before     decay**(i + 1) * q S        S: the sum of decayed k^T v of all chunks before

A program goes through all chunks with its columns of S in registers. `reverse`: the sum is over
s >= t. The gradients are of this form: dq of (do, v, k); dk, reverse, of (v, do, q); dv, reverse,
of (k, q, do).
"""

from __future__ import annotations

import tritium
import tritium.language as tl


@tritium.jit
def chunk_of(ptr, batch, head, sb, sh, sl, rows, length, columns, width):
    """(addresses, mask) of rows of a chunk; the last dimension is adjacent."""
    base = ptr + batch.to(tl.int64) * sb + head.to(tl.int64) * sh
    mask = (rows < length)[:, None] & (columns < width)[None, :]
    return base + rows[:, None].to(tl.int64) * sl + columns[None, :], mask


@tritium.jit
def walk(
    q_ptr, k_ptr, v_ptr, o_ptr, decay_ptr, qb, qh, ql, kb, kh, kl, vb, vh, vl, ob, oh, ol,
    heads, length, scale, reverse, D: tl.constexpr, DV: tl.constexpr, DP: tl.constexpr,
    BV: tl.constexpr, CHUNK: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    batch = tl.program_id(0) // heads
    head = tl.program_id(0) % heads
    d = tl.arange(0, DP)
    dv = tl.program_id(1) * BV + tl.arange(0, BV)
    i = tl.arange(0, CHUNK)
    # Places are counted in the direction in which chunks come.
    place = CHUNK - 1 - i if reverse else i
    apart = place[:, None] - place[None, :]
    log_decay = 0.0
    if decay_ptr is not None:
        log_decay = tl.log2(tl.load(decay_ptr + head).to(tl.float32))
    inside = tl.where(apart >= 0, tl.exp2(tl.maximum(apart, 0) * log_decay), 0.0)
    from_before = tl.exp2((place + 1) * log_decay)[:, None]
    to_after = tl.exp2((CHUNK - 1 - place) * log_decay)[:, None]
    through = tl.exp2(CHUNK * log_decay)
    state = tl.zeros((DP, BV), tl.float32)
    chunks = tl.cdiv(length, CHUNK)
    for step in range(chunks):
        rows = (chunks - 1 - step if reverse else step) * CHUNK + i
        at, mask = chunk_of(q_ptr, batch, head, qb, qh, ql, rows, length, d, D)
        q = tl.load(at, mask=mask, other=0.0)
        at, mask = chunk_of(k_ptr, batch, head, kb, kh, kl, rows, length, d, D)
        k = tl.load(at, mask=mask, other=0.0)
        at, mask = chunk_of(v_ptr, batch, head, vb, vh, vl, rows, length, dv, DV)
        v = tl.load(at, mask=mask, other=0.0)
        weights = tl.dot(q, tl.trans(k), input_precision=PRECISION) * inside
        o = tl.dot(weights.to(v.dtype), v, input_precision=PRECISION)
        o += from_before * tl.dot(q, state.to(q.dtype), input_precision=PRECISION)
        left = (k * to_after).to(k.dtype)
        state = through * state + tl.dot(tl.trans(left), v, input_precision=PRECISION)
        at, mask = chunk_of(o_ptr, batch, head, ob, oh, ol, rows, length, dv, DV)
        tl.store(at, (o * scale).to(o_ptr.dtype.element_ty), mask=mask)


@tritium.jit
def linear_attention(
    q_ptr, k_ptr, v_ptr, o_ptr, decay_ptr, qb, qh, ql, kb, kh, kl, vb, vh, vl, ob, oh, ol,
    heads, length, scale, D: tl.constexpr, DV: tl.constexpr, DP: tl.constexpr, BV: tl.constexpr,
    CHUNK: tl.constexpr, REVERSE: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    walk(
        q_ptr, k_ptr, v_ptr, o_ptr, decay_ptr, qb, qh, ql, kb, kh, kl, vb, vh, vl, ob, oh, ol,
        heads, length, scale, REVERSE, D, DV, DP, BV, CHUNK, PRECISION,
    )  # fmt: skip


@tritium.jit
def chosen(number, first, second, third):
    return first if number == 0 else (second if number == 1 else third)


@tritium.jit
def linear_attention_gradients(
    q_ptr, k_ptr, v_ptr, do_ptr, dq_ptr, dk_ptr, dv_ptr, decay_ptr, qb, qh, ql, kb, kh, kl,
    vb, vh, vl, gb, gh, gl, ob, oh, ol, heads, length, scale,
    D: tl.constexpr, DP: tl.constexpr, BV: tl.constexpr, CHUNK: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """All gradients, of as many columns each: the grid's last axis tells which."""
    which = tl.program_id(2)
    walk(
        chosen(which, do_ptr, v_ptr, k_ptr), chosen(which, v_ptr, do_ptr, q_ptr),
        chosen(which, k_ptr, q_ptr, do_ptr), chosen(which, dq_ptr, dk_ptr, dv_ptr), decay_ptr,
        chosen(which, gb, vb, kb), chosen(which, gh, vh, kh), chosen(which, gl, vl, kl),
        chosen(which, vb, gb, qb), chosen(which, vh, gh, qh), chosen(which, vl, gl, ql),
        chosen(which, kb, qb, gb), chosen(which, kh, qh, gh), chosen(which, kl, ql, gl),
        ob, oh, ol, heads, length, scale, which > 0, D, D, DP, BV, CHUNK, PRECISION,
    )  # fmt: skip
