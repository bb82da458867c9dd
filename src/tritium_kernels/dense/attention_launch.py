"""Configurations of attention, and the launches of its kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

import tritium.language as tl
from tritium_kernels.dense.kernels import attention as forward_kernels
from tritium_kernels.dense.kernels import attention_backward as backward_kernels
from tritium_kernels.dense.score import find
from tritium_kernels.launching.descriptors import describe, is_readable
from tritium_kernels.launching.launch import cdiv, device_class, on, power_of_two, processors

UNLIMITED = -1
"""A side of the window without a limit."""


@dataclass(frozen=True)
class Tiles:
    """Queries and keys of a tile, warps, stages of the pipeline."""

    m: int
    n: int
    warps: int
    stages: int


@dataclass(frozen=True)
class AttentionTable:
    """Tiles of each kernel, by the largest head dimension that they are for. `together`: of the
    kernel for all gradients; for larger dimensions there are two."""

    forward: dict[int, Tiles]
    dk_dv: dict[int, Tiles]
    dq: dict[int, Tiles]
    together: dict[int, Tiles] = field(default_factory=dict[int, Tiles])


_HALF = {
    "hopper": AttentionTable(
        forward={64: Tiles(128, 64, 8, 3), 128: Tiles(128, 128, 8, 2), 256: Tiles(128, 64, 8, 2)},
        dk_dv={64: Tiles(64, 128, 8, 2), 128: Tiles(64, 128, 8, 2), 256: Tiles(32, 64, 8, 1)},
        dq={64: Tiles(128, 64, 8, 2), 128: Tiles(128, 64, 8, 2), 256: Tiles(64, 32, 8, 1)},
        together={64: Tiles(64, 64, 4, 2), 128: Tiles(64, 128, 8, 3)},
    ),
    "gpu": AttentionTable(
        forward={64: Tiles(128, 64, 4, 3), 128: Tiles(64, 64, 4, 2), 256: Tiles(64, 32, 4, 2)},
        dk_dv={64: Tiles(64, 64, 4, 2), 128: Tiles(32, 64, 4, 2), 256: Tiles(32, 32, 4, 1)},
        dq={64: Tiles(64, 64, 4, 2), 128: Tiles(64, 32, 4, 2), 256: Tiles(32, 32, 4, 1)},
    ),
}
_SMALL = {256: Tiles(32, 32, 4, 2)}
_FLOAT = AttentionTable(_SMALL, _SMALL, _SMALL)
"""Products of float32 are done by a GPU's ordinary arithmetic: large tiles are too much code."""

_CPU = {256: Tiles(64, 64, 4, 1)}
_HOST = AttentionTable(_CPU, _CPU, _CPU, {64: Tiles(64, 64, 4, 1), 256: Tiles(64, 128, 4, 1)})

MOST_DIMENSIONS = 256
MOST_TOGETHER, CACHED_BYTES = 8, 8 << 20
"""Heads whose tiles take turns, and bytes of them that the second-level cache is to keep: with more
each tile gains less from the others of its head (H200, `benchmarks/attention_ab.py`)."""


_BY_KEYS = {"dk_dv", "together"}


def _table(device: torch.device, dtype: torch.dtype) -> AttentionTable:
    kind = device_class(device)
    if kind == "cpu":
        return _HOST
    return _FLOAT if dtype == torch.float32 else _HALF[kind]


def _tiles(which: str, q: Tensor, dimension: int, call: Call) -> Tiles:
    """The tiles of a kernel; no more rows of queries than there are, on CPUs nor of keys."""
    return _choose(which, q.device, q.dtype, dimension, call.most_queries, call.most_keys)


@lru_cache(maxsize=4096)
def _choose(
    which: str, device: torch.device, dtype: torch.dtype, dimension: int, queries: int, keys: int
) -> Tiles:
    kind = device_class(device)
    tiles: dict[int, Tiles] = getattr(_table(device, dtype), which)
    found = next(tiles[limit] for limit in sorted(tiles) if limit >= dimension)
    if kind == "cpu":
        found = replace(found, n=min(found.n, max(16, power_of_two(keys))))
    rows = max(1 if kind == "cpu" else 16, power_of_two(queries))
    if rows >= found.m:
        return found
    # Accumulators of kernels for rows of keys do not shrink with the queries.
    return replace(found, m=rows, warps=found.warps if which in _BY_KEYS else 4)


class Call(NamedTuple):
    """Properties of a call of attention, besides its tensors.

    Attributes:
        scale: of the products of queries and keys.
        left, right: keys that a query sees before and after its position; `UNLIMITED`.
        score: the name of a score function.
        dropout, seed: the probability that a weight is dropped; the seed of the numbers.
        most_queries, most_keys: of the longest sequence.
    """

    scale: float
    left: int
    right: int
    score: str | None
    dropout: float
    seed: int
    most_queries: int
    most_keys: int
    q_offsets: Tensor | None
    k_offsets: Tensor | None
    aux: Tensor | None

    def sequences(self, q: Tensor) -> int:
        return q.shape[0] if self.q_offsets is None else self.q_offsets.numel() - 1

    def scalars(self, q: Tensor, tiles: int) -> tuple[object, ...]:
        """The arguments of kernels between their pointers and their strides."""
        scale, dropout = self.scale, self.dropout
        if q.dtype == torch.float64:  # numbers are arguments of 32 bits
            scale, dropout = tl.constexpr(scale), tl.constexpr(dropout)
        return (
            self.q_offsets, self.k_offsets, self.aux, scale, self.most_queries, self.most_keys,
            q.shape[1], tiles, self.left, self.right, self.seed, dropout,
        )  # fmt: skip

    def constants(self, q: Tensor, k: Tensor, v: Tensor) -> dict[str, object]:
        shape = q.shape
        return _constants(
            shape[1] // k.shape[1], shape[3], v.shape[3], self.left != UNLIMITED,
            self.right != UNLIMITED, find(self.score)[0], self.dropout > 0,
        )  # fmt: skip

    def ragged(self, size: int, block: int) -> bool:
        """True if a sequence may end within a block."""
        return self.q_offsets is not None or size % block != 0


@lru_cache(maxsize=1024)
def _constants(
    group: int, d: int, dv: int, left: bool, right: bool, score: object, dropout: bool
) -> dict[str, object]:
    """The constants that all kernels have; callers change no more than a copy."""
    return {
        "GROUP": group, "LEFT": left, "RIGHT": right, "SCORE": score, "DROPOUT": dropout, "D": d,
        "DV": dv, "DP": max(16, power_of_two(d)), "DVP": max(16, power_of_two(dv)),
    }  # fmt: skip


def with_unit_stride(x: Tensor) -> Tensor:
    return x if x.shape[-1] <= 1 or x.stride(-1) == 1 else x.contiguous()


def rows_of(x: Tensor) -> tuple[int, int, int]:
    """The strides of (batch, heads, rows)."""
    strides = x.stride()
    return strides[0], strides[1], strides[2]


def _together(call: Call, length: int, *rows: Tensor) -> int:
    """The heads whose tiles take turns on a GPU where tiles of a head differ in their work: as many
    as the cache holds the rows of that their tiles share."""
    if call.right == UNLIMITED or rows[0].device.type == "cpu":
        return 1
    shared = length * sum(t.shape[-1] * t.element_size() for t in rows)
    # A power of two: what is left over of common numbers of heads would end unevenly.
    return 1 << max(1, min(MOST_TOGETHER, CACHED_BYTES // max(1, shared))).bit_length() - 1


def _operands(tensors: Sequence[Tensor], rows: Sequence[int], call: Call) -> tuple[object, ...]:
    """Descriptors of the tensors, with blocks of `rows` rows of a head, if they all can have one;
    they hold whole sequences."""
    if call.q_offsets is not None or not all(map(is_readable, tensors)):
        return (*tensors,)
    return tuple(
        describe(t, (1, 1, count, max(16, power_of_two(t.shape[-1]))))
        for t, count in zip(tensors, rows, strict=True)
    )


def _adds_dq(tensors: Sequence[Tensor], dimension: int, call: Call) -> bool:
    """True if one kernel computes all gradients: dQ by sums whose order varies."""
    return (
        any(limit >= dimension for limit in _table(tensors[0].device, tensors[0].dtype).together)
        and call.q_offsets is None and all(map(is_readable, tensors))
        and tensors[0].shape[-1] % 4 == 0 and not torch.are_deterministic_algorithms_enabled()
    )  # fmt: skip


def _walks_heads(q: Tensor, k: Tensor, call: Call) -> bool:
    """True if each program of a CPU takes all keys of a head: five products of tiles in place of
    the seven of two kernels, if no thread is left without a head for long."""
    if q.device.type != "cpu":
        return False
    heads, threads = call.sequences(q) * k.shape[1], processors(q.device)
    return 5 * threads * cdiv(heads, threads) <= 7 * heads


def forward(q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, call: Call) -> None:
    """Write the result and log(sum(exp(scores))) of each query."""
    if o.numel() == 0 or call.most_queries == 0:
        return
    q, k, v = map(with_unit_stride, (q, k, v))
    tiles = _tiles("forward", q, max(q.shape[-1], v.shape[-1]), call)
    count = cdiv(call.most_queries, tiles.m)
    tail = call.right != UNLIMITED or call.ragged(call.most_keys, tiles.n)
    operands = _operands((q, k, v, o), (tiles.m, tiles.n, tiles.n, tiles.m), call)
    with on("attention", "q", q):
        forward_kernels.attention_forward[(call.sequences(q) * q.shape[1] * count,)](
            *operands, lse, *call.scalars(q, count),
            *(s for t in (q, k, v, o) for s in rows_of(t)), *lse.stride()[:2],
            **call.constants(q, k, v), TAIL=tail, BLOCK_M=tiles.m, BLOCK_N=tiles.n,
            STAGES=tiles.stages, POSITIVE=call.scale > 0,
            TOGETHER=_together(call, call.most_keys, k, v), num_warps=tiles.warps,
        )  # fmt: skip


def backward(
    q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, do: Tensor,
    dq: Tensor, dk: Tensor, dv: Tensor, call: Call,
) -> None:  # fmt: skip
    """Write the gradients of q, k and v."""
    if o.numel() == 0 or k.numel() == 0 or not (call.most_queries and call.most_keys):
        for gradient in (dq, dk, dv):
            gradient.zero_()
        return
    q, k, v, o, do = map(with_unit_stride, (q, k, v, o, do))
    batch, heads, length, _ = q.shape
    padded = cdiv(length, 4) * 4  # rows of whole 16 bytes, for descriptors
    top, delta = lse.new_empty((2, batch, heads, padded))[..., :length]
    strides = [s for t in (q, k, v, do) for s in rows_of(t)] + list(top.stride()[:2])
    constants = {**call.constants(q, k, v), "SCORE_GRADIENT": find(call.score)[1]}
    d = max(q.shape[-1], v.shape[-1])
    with on("attention", "q", q):
        count = cdiv(length, 64)
        backward_kernels.attention_delta[(batch * heads * count,)](
            o, do, lse, top, delta, heads, length, count, *rows_of(o), *rows_of(do),
            *lse.stride()[:2], *top.stride()[:2],
            DV=constants["DV"], DVP=constants["DVP"], BLOCK=64,
        )  # fmt: skip
        walks = _walks_heads(q, k, call)
        kernels = "together" if walks or _adds_dq((q, k, v, do, dk, dv), d, call) else "dk_dv"
        tiles = _tiles(kernels, q, d, call)
        total, sums, numbers = None, None, (top, delta)
        columns, steps = max(16, power_of_two(q.shape[-1])), (0, 0, 0)
        if walks:
            sums = torch.zeros_like(dq, dtype=lse.dtype)
            steps = rows_of(sums)
        elif kernels == "together":
            total = torch.zeros(q.shape, device=q.device)
            sums = describe(total, (1, 1, tiles.m, columns))
            numbers = tuple(describe(t, (1, 1, tiles.m)) for t in numbers)
        count = 1 if walks else cdiv(call.most_keys, tiles.n)
        ragged = call.ragged(call.most_queries, tiles.m) or call.ragged(call.most_keys, tiles.n)
        backward_kernels.attention_dk_dv[(call.sequences(q) * k.shape[1] * count,)](
            *_operands((q, k, v, do, dk, dv), (*(tiles.m, tiles.n, tiles.n) * 2,), call),
            sums, dq if walks else None, *numbers, *call.scalars(q, count), *strides,
            *rows_of(dk), *rows_of(dv), *steps, **constants, TAIL=call.left != UNLIMITED or ragged,
            BLOCK_M=tiles.m, BLOCK_N=tiles.n, STAGES=tiles.stages,
            TOGETHER=_together(call, call.most_queries, q, do), num_warps=tiles.warps,
        )  # fmt: skip
        if total is not None:
            torch.mul(total, call.scale, out=dq)
        if kernels == "together":
            return
        tiles = _tiles("dq", q, d, call)
        count = cdiv(call.most_queries, tiles.m)
        tail = call.right != UNLIMITED or call.ragged(call.most_keys, tiles.n)
        backward_kernels.attention_dq[(call.sequences(q) * heads * count,)](
            *_operands((q, k, v, do, dq), (tiles.m, tiles.n, tiles.n, tiles.m, tiles.m), call),
            top, delta, *call.scalars(q, count), *strides, *rows_of(dq), **constants, TAIL=tail,
            BLOCK_M=tiles.m, BLOCK_N=tiles.n, STAGES=tiles.stages,
            TOGETHER=_together(call, call.most_keys, k, v), num_warps=tiles.warps,
        )  # fmt: skip
