"""Gluon tutorial 03: attention with consumers that take turns.

softmax(Q K^T) V has two matrix products with a softmax between them. The tensor cores wait while a
softmax is computed, and the other units while the products are. Two groups of warps fill the gaps
of each other: while one multiplies, the other computes its softmax, then they change places
("ping-pong"). A barrier of each group says when it is its turn at the tensor cores.

A warp of its own loads keys and values ahead of both. Tutorial 02 explains its rings of buffers.

    python tutorials/gluon/03_attention_on_hopper.py
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import tritium
from tritium.experimental import gluon
from tritium.experimental.gluon import language as gl
from tritium.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)
from tritium.experimental.gluon.nvidia.hopper import TensorDescriptor
from tritium.target import GPUTarget

sys.path.insert(0, str(Path(__file__).parents[1]))
from arrays import empty, fetch, on_gpu, place

if not on_gpu():
    tritium.knobs.runtime.interpret = True

ROWS = gl.constexpr(64)
"""Of the queries, for each group of four warps: what one instruction takes."""
LOG2_E = gl.constexpr(1.4426950408889634)


@gluon.jit
def ring_of_barriers(count: gl.constexpr, arrivals: gl.constexpr):
    bars = mbarrier.allocate_mbarrier(batch=count)
    for i in gl.static_range(count):
        mbarrier.init(bars.index(i), count=arrivals)
    return bars


# ---------------------------------------------------------------------------------------------
# Loading
#
# Keys and values have rings of their own: a block of keys is free long before the values of the
# same step are.


@gluon.jit
def start_copy(desc, row, ring, full, empty, step):
    slot = step % ring.shape[0]
    mbarrier.wait(empty.index(slot), step // ring.shape[0] & 1 ^ 1)
    mbarrier.expect(full.index(slot), desc.nbytes_per_cta)
    tma.async_load(desc, [row, 0], full.index(slot), ring.index(slot))


@gluon.jit
def load(q, k, v, row, first, count, queries, loaded, keys, values, bars):
    for half in gl.static_range(2):
        mbarrier.expect(loaded.index(half), q.nbytes_per_cta)
        tma.async_load(q, [row + half * ROWS, 0], loaded.index(half), queries.index(half))
    for step in range(count):
        at = first + step * k.block_shape[0]
        start_copy(k, at, keys, bars[0], bars[1], step)
        start_copy(v, at, values, bars[2], bars[3], step)


# ---------------------------------------------------------------------------------------------
# Computing
#
# The online softmax keeps the largest score of each row so far and the sum of the exponentials
# relative to it; when a larger score comes, both the sum and the result so far are scaled down.
# Scores stay as the product gives them: the scale is part of the exponent, where it costs nothing
# (one fused multiplication and addition a score).
#
# In its turn a group starts the scores of step j and, behind them, the product of the weights of
# step j - 1 with the values. Then it is the other group's turn. The softmax of step j begins as
# soon as the scores are there, while the second product goes on.


@gluon.jit
def softmax(scores, best, total, scale):
    """(weights, largest scores, sums, what earlier results are scaled by)."""
    larger = gl.maximum(best, gl.max(scores, axis=1))
    weights = gl.exp2(scores * scale - (larger * scale)[:, None])
    shrink = gl.exp2((best - larger) * scale)
    return weights, larger, total * shrink + gl.sum(weights, axis=1), shrink


@gluon.jit
def masked(scores, row, column):
    """Scores of keys that come after the query are minus infinity."""
    layout: gl.constexpr = scores.type.layout
    i = row + gl.arange(0, scores.shape[0], gl.SliceLayout(1, layout))
    j = column + gl.arange(0, scores.shape[1], gl.SliceLayout(0, layout))
    return gl.where(i[:, None] >= j[None, :], scores, float("-inf"))


@gluon.jit
def attend(out, row, place, scale, count, queries, loaded, keys, values, bars, turns, done,
           me: gl.constexpr, CAUSAL: gl.constexpr):
    """The result of 64 rows. `row`: where they are in memory; `place`: in the sequence."""
    N: gl.constexpr = keys.shape[1]
    D: gl.constexpr = keys.shape[2]
    score: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, N, 16])
    result: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, D, 16])
    operand: gl.constexpr = gl.DotOperandLayout(0, result, 2)
    acc = gl.zeros([ROWS, D], gl.float32, result)
    nothing = gl.zeros([ROWS, N], gl.float32, score)
    best = gl.full([ROWS], float("-inf"), gl.float32, gl.SliceLayout(1, score))
    total = gl.zeros([ROWS], gl.float32, gl.SliceLayout(1, score))
    slots: gl.constexpr = keys.shape[0]
    factor = scale * LOG2_E
    mbarrier.wait(loaded.index(me), 0)

    # The first scores have no weights before them.
    mbarrier.wait(turns.index(me), (me + 1) & 1)
    mbarrier.wait(bars[0].index(0), 0)
    scores = warpgroup_mma(queries.index(me), keys.index(0).permute((1, 0)), nothing,
                           use_acc=False)
    mbarrier.arrive(turns.index(1 - me))
    mbarrier.arrive(bars[1].index(0))
    if CAUSAL and place < N:
        scores = masked(scores, place, 0)
    now, best, total, _ = softmax(scores, best, total, factor)
    weights = gl.convert_layout(now.to(gl.float16), operand)

    for step in range(1, count):
        slot, before = step % slots, (step - 1) % slots
        mbarrier.wait(turns.index(me), (step + me + 1) & 1)
        mbarrier.wait(bars[0].index(slot), step // slots & 1)
        scores = warpgroup_mma(queries.index(me), keys.index(slot).permute((1, 0)), nothing,
                               use_acc=False, is_async=True)
        mbarrier.wait(bars[2].index(before), (step - 1) // slots & 1)
        pending = warpgroup_mma(weights, values.index(before), acc, is_async=True)
        mbarrier.arrive(turns.index(1 - me))
        scores = warpgroup_mma_wait(1, deps=[scores])
        mbarrier.arrive(bars[1].index(slot))
        if CAUSAL and place < (step + 1) * N:
            scores = masked(scores, place, step * N)
        now, best, total, shrink = softmax(scores, best, total, factor)
        acc = warpgroup_mma_wait(0, deps=[pending])
        mbarrier.arrive(bars[3].index(before))
        acc = acc * gl.convert_layout(shrink, gl.SliceLayout(1, result))[:, None]
        weights = gl.convert_layout(now.to(gl.float16), operand)
    last = count - 1
    mbarrier.wait(bars[2].index(last % slots), last // slots & 1)
    acc = warpgroup_mma(weights, values.index(last % slots), acc)
    acc = acc / gl.convert_layout(total, gl.SliceLayout(1, result))[:, None]
    done.store(acc.to(out.dtype))
    fence_async_shared()
    tma.async_store(out, [row, 0], done)
    tma.store_wait(0)


@gluon.jit
def attention(q, k, v, out, length, scale, STAGES: gl.constexpr, CAUSAL: gl.constexpr):
    """A program has 128 queries of a head; heads lie one after the other."""
    head = gl.program_id(1) * length
    at = gl.program_id(0) * 2 * ROWS
    N: gl.constexpr = k.block_shape[0]
    count = gl.cdiv(at + 2 * ROWS, N) if CAUSAL else gl.cdiv(length, N)
    queries = gl.allocate_shared_memory(q.dtype, [2, *q.block_shape], q.layout)
    keys = gl.allocate_shared_memory(k.dtype, [STAGES, *k.block_shape], k.layout)
    values = gl.allocate_shared_memory(v.dtype, [STAGES, *v.block_shape], v.layout)
    done = gl.allocate_shared_memory(out.dtype, [2, *out.block_shape], out.layout)
    loaded, turns = ring_of_barriers(2, 1), ring_of_barriers(2, 1)
    # Of keys: full and empty; of values: full and empty.
    bars = (ring_of_barriers(STAGES, 1), ring_of_barriers(STAGES, 2),
            ring_of_barriers(STAGES, 1), ring_of_barriers(STAGES, 2))  # fmt: skip
    shared = (scale, count, queries, loaded, keys, values, bars, turns)
    gl.warp_specialize(
        [
            (attend, (out, head + at, at, *shared, done.index(0), 0, CAUSAL)),
            (attend, (out, head + at + ROWS, at + ROWS, *shared, done.index(1), 1, CAUSAL)),
            (load, (q, k, v, head + at, head, count, queries, loaded, keys, values, bars)),
        ],
        worker_num_warps=[4, 1],
        worker_num_regs=[232, 24],
    )


# ---------------------------------------------------------------------------------------------
# Launching


def described(x, rows: int) -> TensorDescriptor:
    """A descriptor of all rows of a tensor (heads, length, width), so many at a time."""
    flat = x.reshape(-1, x.shape[-1])
    block = [rows, x.shape[-1]]
    layout = gl.NVMMASharedLayout.get_default_for(block, gl.float16)
    return TensorDescriptor.from_tensor(flat, block, layout)


def arguments(q, k, v, out, block: int = 64) -> list:
    """The kernel's descriptors."""
    return [described(q, 64), described(k, block), described(v, block), described(out, 64)]


def attend_to(q, k, v, causal: bool = True, block: int = 64, stages: int = 2):
    """Attention of tensors (heads, length, width) of float16; the length is a multiple of 128."""
    heads, length, width = q.shape
    out = empty(q.shape, q)
    grid = (length // 128, heads)
    attention[grid](*arguments(q, k, v, out, block), length, width**-0.5, STAGES=stages,
                    CAUSAL=causal, num_warps=4)  # fmt: skip
    return out


def reference(q, k, v, causal: bool) -> np.ndarray:
    """The same by NumPy in float32."""
    q, k, v = (x.astype(np.float32) for x in (q, k, v))
    scores = q @ k.transpose(0, 2, 1) * q.shape[-1] ** -0.5
    if causal:
        scores = np.where(np.tri(q.shape[1], dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


def check(causal: bool, heads: int = 2, length: int = 256, width: int = 64) -> None:
    """Raise `AssertionError` where a result is wrong."""
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((heads, length, width)).astype(np.float16) for _ in range(3))
    out = fetch(attend_to(place(q), place(k), place(v), causal)).astype(np.float32)
    np.testing.assert_allclose(out, reference(q, k, v, causal), rtol=2e-2, atol=2e-2)


def compiled(width: int = 128, block: int = 128, stages: int = 2):
    """The kernel compiled for sm_90."""
    spare = np.zeros((1, 128, width), np.float16)
    made = arguments(spare, spare, spare, spare, block)
    types = {
        name: f"tensordesc<fp16{list(d.block_shape)},{d.layout!r}>"
        for name, d in zip(("q", "k", "v", "out"), made, strict=True)
    }
    source = gluon.GluonASTSource(
        gluon.GluonJITFunction(attention.fn), {**types, "length": "i32", "scale": "fp32"},
        {"STAGES": stages, "CAUSAL": True},
    )  # fmt: skip
    return tritium.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4})


if __name__ == "__main__":
    code = compiled()
    ptx = code.asm["ptx"]
    print(f"attention: {ptx.count('wgmma.mma_async')} wgmma, "
          f"{ptx.count('cp.async.bulk.tensor')} bulk copies, "
          f"{code.metadata.shared} bytes of shared memory")  # fmt: skip
    for causal in (False, True):
        check(causal)
    print("the results are right")
