"""Attention, with gradients: causal, windowed, grouped heads, packed sequences, dropout, score
functions."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor

from tritium_kernels.dense import attention_launch
from tritium_kernels.dense.attention_launch import MOST_DIMENSIONS, UNLIMITED, Call
from tritium_kernels.dense.norm import statistics_dtype
from tritium_kernels.dense.score import ScoreModifier, prepare_aux
from tritium_kernels.errors import (
    INTEGERS,
    LONGEST,
    WORDS,
    check_flag,
    check_integer,
    check_like,
    check_number,
    check_range,
    check_rank,
    check_same_dtype,
    check_tensor,
    refuse,
)
from tritium_kernels.launching.operators import autocast, operator
from tritium_kernels.launching.plans import repeated

DTYPES = (torch.float16, torch.bfloat16, torch.float32)
"""Types of paged attention. Attention takes float64 too, on CPUs."""


def _like(x: Tensor, columns: int) -> Tensor:
    """An empty (batch, heads, rows, columns), with heads inside of rows where those of x are."""
    batch, heads, rows, width = x.shape
    _, across, down, _ = x.stride()
    if across < down:
        shape = (batch, rows, heads, columns)
        return torch.empty(shape, dtype=x.dtype, device=x.device).transpose(1, 2)
    if columns == width and x.is_contiguous():
        return torch.empty_like(x)
    return torch.empty(batch, heads, rows, columns, dtype=x.dtype, device=x.device)


@operator("attention")
def attention_op(
    q: Tensor, k: Tensor, v: Tensor, q_offsets: Tensor | None, k_offsets: Tensor | None,
    aux: Tensor | None, scale: float, left: int, right: int, score: str | None, dropout: float,
    seed: int, most_queries: int, most_keys: int,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """(o, lse) of (batch, heads, rows, d); packed sequences are one batch."""
    if q_offsets is not None and k_offsets is not None:
        _check_offsets("q_offsets", q_offsets, q.shape[2], most_queries)
        _check_offsets("k_offsets", k_offsets, k.shape[2], most_keys)
    o = _like(q, v.shape[-1])
    if q_offsets is not None:
        o.zero_()  # rows may belong to no sequence
    lse = torch.empty(*q.shape[:3], dtype=statistics_dtype(q), device=q.device)
    if q_offsets is not None:
        lse.fill_(-torch.inf)
    call = Call(
        scale, left, right, score, dropout, seed, most_queries, most_keys, q_offsets, k_offsets, aux
    )
    attention_launch.forward(q, k, v, o, lse, call)
    return o, lse


@operator("attention_backward")
def attention_backward_op(
    q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, do: Tensor,
    q_offsets: Tensor | None, k_offsets: Tensor | None, aux: Tensor | None, scale: float,
    left: int, right: int, score: str | None, dropout: float, seed: int, most_queries: int,
    most_keys: int,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    dq, dk, dv = (_like(t, t.shape[-1]) for t in (q, k, v))
    if q_offsets is not None:
        for gradient in (dq, dk, dv):
            gradient.zero_()
    call = Call(
        scale, left, right, score, dropout, seed, most_queries, most_keys, q_offsets, k_offsets, aux
    )
    attention_launch.backward(q, k, v, o, lse, do, dq, dk, dv, call)
    return dq, dk, dv


@attention_op.register_fake
def _(q: Tensor, k: Tensor, v: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    lse = torch.empty(q.shape[:3], dtype=statistics_dtype(q), device=q.device)
    return _like(q, v.shape[-1]), lse


@attention_backward_op.register_fake
def _(q: Tensor, k: Tensor, v: Tensor, *_: Any) -> tuple[Tensor, Tensor, Tensor]:
    return _like(q, q.shape[-1]), _like(k, k.shape[-1]), _like(v, v.shape[-1])


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(*inputs[:6], *output)
    ctx.options = inputs[6:]


def _backward(ctx: Any, do: Tensor, *_: Tensor) -> tuple[Any, ...]:
    q, k, v, q_offsets, k_offsets, aux, o, lse = ctx.saved_tensors
    operands = (q, k, v, o, lse, do, q_offsets, k_offsets, aux)
    return *attention_backward_op(*operands, *ctx.options), *(11 * [None])


attention_op.register_autograd(_backward, setup_context=_save)


def _check_heads(op: str, q: Tensor, k: Tensor, v: Tensor, rank: int) -> None:
    axis = 1  # heads
    for name, x in (("q", q), ("k", k), ("v", v)):
        check_tensor(op, name, x)
        if x.dtype == torch.float64 and x.is_cuda:
            accepted = "float16, bfloat16, float32; float64 on CPUs"
            raise refuse(op, name, f"has dtype float64 on {x.device}", accepted)
        check_rank(op, name, x, (rank,))
        check_like(op, name, x, "q", q)
        check_same_dtype(op, name, x, "q", q)
        if not 1 <= x.shape[-1] <= MOST_DIMENSIONS:
            accepted = f"1 to {MOST_DIMENSIONS}"
            raise refuse(op, name, f"has {x.shape[-1]} elements in a head", accepted)
    if k.shape[-1] != q.shape[-1]:
        found = f"has {k.shape[-1]} elements in a head"
        raise refuse(op, "k", found, f"those of q, {q.shape[-1]}")
    if v.shape[:-1] != k.shape[:-1]:
        accepted = f"{tuple(k.shape[:-1])}, then any size"
        raise refuse(op, "v", f"has shape {tuple(v.shape)}", accepted)
    if not k.shape[axis] or q.shape[axis] % k.shape[axis]:
        accepted = f"a number that divides q's, {q.shape[axis]}"
        raise refuse(op, "k", f"has {k.shape[axis]} heads", accepted)


def _check_window(op: str, window: tuple[int, int] | None, causal: bool) -> tuple[int, int]:
    if window is None:
        return UNLIMITED, 0 if causal else UNLIMITED
    accepted = f"(left, right), each from 0 to {LONGEST}, or -1: no limit"
    if not isinstance(cast(Any, window), Sequence) or len(window) != 2:
        raise refuse(op, "window", f"is {window!r}", accepted)
    for side in window:
        if not isinstance(cast(Any, side), INTEGERS) or not UNLIMITED <= side <= LONGEST:
            raise refuse(op, "window", f"is {window}", accepted)
    # Positions would not fit into 32 bits with such a window; no sequence is as long.
    left, right = (UNLIMITED if side >= LONGEST // 2 else side for side in window)
    return left, 0 if causal else right


def _check_scale(op: str, scale: Any, q: Tensor) -> float:
    """The factor of scores; None is 1 / sqrt(d)."""
    if scale is None:
        return q.shape[-1] ** -0.5
    check_number(op, "scale", scale, "a number, or None")
    return float(scale)


def _check_offsets(name: str, offsets: Tensor, rows: int, most: int) -> None:
    """Sequences lie within the rows, and none is longer than `most`; seen without waiting on CPUs
    alone."""
    if offsets.device.type != "cpu":
        return
    op, places = "attention_packed", offsets.tolist()
    if places[0] < 0 or places[-1] > rows:
        found = f"is from {places[0]} to {places[-1]}"
        raise refuse(op, name, found, f"0 to {rows}, the rows of {name[0]}")
    lengths = [end - start for start, end in itertools.pairwise(places)]
    if lengths and min(lengths) < 0:
        raise refuse(op, name, f"is {places}", "numbers that do not fall")
    if lengths and max(lengths) > most:
        limit = "most_queries" if name[0] == "q" else "most_keys"
        accepted = f"{max(lengths)} or more, the length of the longest sequence in {name}"
        raise refuse(op, limit, f"is {most}", accepted)


@repeated
def attention(
    q: Tensor, k: Tensor, v: Tensor, causal: bool = False, scale: float | None = None,
    window: tuple[int, int] | None = None, score: ScoreModifier | None = None,
    aux: Tensor | None = None, dropout: float = 0.0, seed: int = 0,
) -> Tensor:  # fmt: skip
    """softmax(scale * q @ k.T) @ v for each head.

    Args:
        q: (batch, heads, queries, d), any strides.
        k, v: (batch, kv_heads, keys, d) and (..., d of v); kv_heads divides heads: heads of a
            group share keys.
        causal: a query sees no later key. The last query stands at the last key.
        scale: 1 / sqrt(d) if not given.
        window: (left, right): keys that are seen before and after a query's position; -1: all.
        score, aux: a function of scores (see `score`), and the tensor that it reads, which has no
            gradient.
        dropout, seed: weights dropped with this probability; the same seed, the same weights.

    A query that sees no key gives zeros and gets no gradient.
    """
    q, k, v = autocast(q, k, v)
    _check_heads("attention", q, k, v, 4)
    check_flag("attention", causal=causal)
    if k.shape[0] != q.shape[0]:
        raise refuse("attention", "k", f"has {k.shape[0]} batches", f"q's, {q.shape[0]}")
    left, right = _check_window("attention", window, causal)
    aux = prepare_aux("attention", score, aux, q, q.shape[1])
    check_range("attention", "dropout", dropout, 0, 1)
    check_integer("attention", "seed", seed, *WORDS)
    scale = _check_scale("attention", scale, q)
    return attention_op.primary(
        q, k, v, None, None, aux, scale, left, right, None if score is None else score.name,
        float(dropout), seed, q.shape[2], k.shape[2],
    )  # fmt: skip


def attention_packed(
    q: Tensor, k: Tensor, v: Tensor, q_offsets: Tensor, k_offsets: Tensor, most_queries: int,
    most_keys: int, causal: bool = False, scale: float | None = None,
    window: tuple[int, int] | None = None, score: ScoreModifier | None = None,
    aux: Tensor | None = None, dropout: float = 0.0, seed: int = 0,
) -> Tensor:  # fmt: skip
    """`attention` of sequences of different lengths, one after the other.

    Args:
        q: (all queries, heads, d).  k, v: (all keys, kv_heads, d).
        q_offsets, k_offsets: int32 (sequences + 1,): where each sequence begins and the last ends.
        most_queries, most_keys: at least the length of the longest sequence.

    The rest is as in `attention`.
    """
    op = "attention_packed"
    q, k, v = autocast(q, k, v)
    _check_heads(op, q, k, v, 3)
    for name, offsets in (("q_offsets", q_offsets), ("k_offsets", k_offsets)):
        check_tensor(op, name, offsets, (torch.int32,))
        check_rank(op, name, offsets, (1,))
        check_like(op, name, offsets, "q", q)
        if offsets.numel() != q_offsets.numel() or not offsets.numel():
            accepted = "sequences + 1, the same for both"
            raise refuse(op, name, f"has {offsets.numel()} elements", accepted)
    check_flag(op, causal=causal)
    left, right = _check_window(op, window, causal)
    aux = prepare_aux(op, score, aux, q, q.shape[1])
    check_range(op, "dropout", dropout, 0, 1)
    check_integer(op, "seed", seed, *WORDS)
    check_integer(op, "most_queries", most_queries, 0, LONGEST)
    check_integer(op, "most_keys", most_keys, 0, LONGEST)
    scale = _check_scale(op, scale, q)
    heads_first = [t.transpose(0, 1)[None] for t in (q, k, v)]
    o = attention_op.primary(
        *heads_first, q_offsets.contiguous(), k_offsets.contiguous(), aux, scale, left, right,
        None if score is None else score.name, float(dropout), seed, most_queries, most_keys,
    )  # fmt: skip
    return o[0].transpose(0, 1)
