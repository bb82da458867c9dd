"""Tutorial 06: attention in one kernel, forward and backward.

    O = softmax(scale * Q @ K^T) @ V        for each head; Q, K, V: (length, D)

Written with array operations, the matrix of scores has length x length elements, and four passes
over memory make, shift, normalize and use it. It never has to exist. A program that owns a block of
queries walks over the keys, block by block, and keeps a running maximum and a running sum for each
query: the softmax "online" (Milakov and Gimelshein, 2018), fused with both products (Dao et al.,
FlashAttention, 2022).
"""

from __future__ import annotations

import argparse
import importlib.util

import numpy as np
from arrays import empty, fetch, on_gpu, place, provide_scratch, zeros

import tritium as triton
import tritium.language as tl

# ---------------------------------------------------------------------------------------------
# Reading and writing blocks of rows
#
# A head is a matrix of `length` rows and D columns. There are two ways to say which block of it is
# wanted. A *descriptor* knows where the matrix is, its shape and strides and the block's shape; it
# is asked with two offsets, gives zeros outside of the matrix, and on recent GPUs turns into a
# copy by hardware. *Pointers* need a tile of addresses and a mask, and work everywhere. `matrix`
# makes whichever the constexpr DESCRIPTORS asks for, and `load_rows` reads from either: all that
# `if` decides is decided while compiling.


@triton.jit
def matrix(ptr, length, D: tl.constexpr, ROWS: tl.constexpr, DESCRIPTORS: tl.constexpr):
    """A (length, D) matrix, to be accessed by blocks of ROWS rows."""
    if DESCRIPTORS:
        return tl.make_tensor_descriptor(ptr, [length, D], [D, 1], [ROWS, D])
    else:
        return ptr


@triton.jit
def load_rows(
    source, start, length,
    D: tl.constexpr, ROWS: tl.constexpr, DESCRIPTORS: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    """Rows start to start + ROWS of a `matrix`; zeros beyond its end."""
    if DESCRIPTORS:
        return source.load([start, 0])
    rows = start + tl.arange(0, ROWS)[:, None]
    places = source + rows * D + tl.arange(0, D)[None, :]
    if EVEN:  # the length is a multiple of every block: nothing to cut off
        return tl.load(places)
    else:
        return tl.load(places, mask=rows < length, other=0.0)


@triton.jit
def store_rows(ptr, value, start, length, D: tl.constexpr, ROWS: tl.constexpr):
    rows = start + tl.arange(0, ROWS)[:, None]
    places = ptr + rows * D + tl.arange(0, D)[None, :]
    tl.store(places, value.to(ptr.dtype.element_ty), mask=rows < length)


# ---------------------------------------------------------------------------------------------
# Forward
#
# What is kept for each query: `largest`, the maximum of its scores so far, `total`, the sum of
# 2**(score - largest), and `acc`, the sum of 2**(score - largest) times V's row. When the maximum
# grows, the two sums shrink by the factor 2**(old maximum - new maximum). (Powers of two, because
# hardware computes those; log2(e) is multiplied into the scale.)
#
# In causal attention a query sees keys up to its own place. Blocks of keys left of the diagonal
# are seen by all queries of the block, blocks to the right by none. Only those on the diagonal need
# a mask: the walk is done in two parts, of which only the second compares places.


@triton.jit
def walk_keys(
    acc, total, largest, q, k_source, v_source, first_query, begin, end, length, scale_log2,
    MASKED: tl.constexpr, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    DESCRIPTORS: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    """Take keys begin to end into account."""
    queries = first_query + tl.arange(0, BLOCK_M)
    for start in range(begin, end, BLOCK_N):
        k = load_rows(k_source, start, length, D, BLOCK_N, DESCRIPTORS, EVEN)
        scores = tl.dot(q, k.T, input_precision="ieee") * scale_log2
        keys = start + tl.arange(0, BLOCK_N)
        if MASKED:
            scores = tl.where(queries[:, None] >= keys[None, :], scores, -float("inf"))
        if not EVEN:
            scores = tl.where(keys[None, :] < length, scores, -float("inf"))
        new_largest = tl.maximum(largest, tl.max(scores, axis=1))
        p = tl.exp2(scores - new_largest[:, None])
        shrink = tl.exp2(largest - new_largest)
        total = total * shrink + tl.sum(p, axis=1)
        v = load_rows(v_source, start, length, D, BLOCK_N, DESCRIPTORS, EVEN)
        acc = tl.dot(p.to(v.dtype), v, acc * shrink[:, None], input_precision="ieee")
        largest = new_largest
    return acc, total, largest


@triton.jit
def forward_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr, scale, length,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    CAUSAL: tl.constexpr, DESCRIPTORS: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    tl.static_assert(BLOCK_M % BLOCK_N == 0, "the diagonal is crossed by whole blocks of keys")
    first = tl.program_id(0) * BLOCK_M
    head = tl.program_id(1).to(tl.int64)
    start_of_head = head * length * D
    k_source = matrix(k_ptr + start_of_head, length, D, BLOCK_N, DESCRIPTORS)
    v_source = matrix(v_ptr + start_of_head, length, D, BLOCK_N, DESCRIPTORS)
    q_source = matrix(q_ptr + start_of_head, length, D, BLOCK_M, DESCRIPTORS)
    q = load_rows(q_source, first, length, D, BLOCK_M, DESCRIPTORS, EVEN)

    acc = tl.zeros((BLOCK_M, D), tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    largest = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    scale_log2 = scale * 1.4426950408889634
    unmasked = first if CAUSAL else length
    acc, total, largest = walk_keys(
        acc, total, largest, q, k_source, v_source, first, 0, unmasked, length, scale_log2,
        False, D, BLOCK_M, BLOCK_N, DESCRIPTORS, EVEN,
    )  # fmt: skip
    if CAUSAL:
        acc, total, largest = walk_keys(
            acc, total, largest, q, k_source, v_source, first, first, first + BLOCK_M, length,
            scale_log2, True, D, BLOCK_M, BLOCK_N, DESCRIPTORS, EVEN,
        )  # fmt: skip
    store_rows(o_ptr + start_of_head, acc / total[:, None], first, length, D, BLOCK_M)
    # log2 of each query's sum of 2**score: with it, the backward pass finds every probability
    # again without a second walk.
    queries = first + tl.arange(0, BLOCK_M)
    tl.store(lse_ptr + head * length + queries, largest + tl.log2(total), mask=queries < length)


# ---------------------------------------------------------------------------------------------
# Backward
#
# With P the probabilities and dO the gradient of O, differentiating gives
#
#     dV = P^T @ dO     dP = dO @ V^T     dS = P * (dP - delta)     delta = rowsum(dO * O)
#     dQ = scale * dS @ K                 dK = scale * dS^T @ Q
#
# dK and dV of a block of keys are sums over the queries, dQ of a block of queries is a sum over the
# keys. A program does both, one after the other, for the block with its number: nothing is shared
# between programs, so there is nothing to lock, and nothing that depends on their order.


@triton.jit
def delta_kernel(o_ptr, do_ptr, delta_ptr, rows, D: tl.constexpr, BLOCK: tl.constexpr):
    first = tl.program_id(0) * BLOCK
    row = first + tl.arange(0, BLOCK)
    places = row[:, None].to(tl.int64) * D + tl.arange(0, D)[None, :]
    mask = row[:, None] < rows
    o = tl.load(o_ptr + places, mask=mask, other=0.0).to(tl.float32)
    do = tl.load(do_ptr + places, mask=mask, other=0.0).to(tl.float32)
    tl.store(delta_ptr + row, tl.sum(o * do, axis=1), mask=row < rows)


@triton.jit
def probabilities(
    q, k, lse, queries, keys, length, scale_log2, MASKED: tl.constexpr, EVEN: tl.constexpr
):
    """P of a block: 2**(score - log2 of the sum), 0 where a key is not seen."""
    p = tl.exp2(tl.dot(q, k.T, input_precision="ieee") * scale_log2 - lse[:, None])
    if MASKED:
        p = tl.where(queries[:, None] >= keys[None, :], p, 0.0)
    if not EVEN:
        p = tl.where((queries < length)[:, None] & (keys < length)[None, :], p, 0.0)
    return p


@triton.jit
def walk_queries(
    dk, dv, k, v, q_source, do_source, lse_ptr, delta_ptr, first_key, begin, end, length,
    scale_log2, MASKED: tl.constexpr, D: tl.constexpr, BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr, DESCRIPTORS: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    """Add what queries begin to end contribute to dK (but for the scale) and dV."""
    keys = first_key + tl.arange(0, BLOCK_N)
    for start in range(begin, end, BLOCK_M):
        queries = start + tl.arange(0, BLOCK_M)
        q = load_rows(q_source, start, length, D, BLOCK_M, DESCRIPTORS, EVEN)
        do = load_rows(do_source, start, length, D, BLOCK_M, DESCRIPTORS, EVEN)
        lse = tl.load(lse_ptr + queries, mask=queries < length, other=0.0)
        delta = tl.load(delta_ptr + queries, mask=queries < length, other=0.0)
        p = probabilities(q, k, lse, queries, keys, length, scale_log2, MASKED, EVEN)
        dv = tl.dot(p.to(do.dtype).T, do, dv, input_precision="ieee")
        ds = p * (tl.dot(do, v.T, input_precision="ieee") - delta[:, None])
        dk = tl.dot(ds.to(q.dtype).T, q, dk, input_precision="ieee")
    return dk, dv


@triton.jit
def walk_keys_backward(
    dq, q, do, lse, delta, k_source, v_source, first_query, begin, end, length,
    scale_log2, MASKED: tl.constexpr, D: tl.constexpr, BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr, DESCRIPTORS: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    """Add what keys begin to end contribute to dQ (but for the scale)."""
    queries = first_query + tl.arange(0, BLOCK_M)
    for start in range(begin, end, BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N)
        k = load_rows(k_source, start, length, D, BLOCK_N, DESCRIPTORS, EVEN)
        v = load_rows(v_source, start, length, D, BLOCK_N, DESCRIPTORS, EVEN)
        p = probabilities(q, k, lse, queries, keys, length, scale_log2, MASKED, EVEN)
        ds = p * (tl.dot(do, v.T, input_precision="ieee") - delta[:, None])
        dq = tl.dot(ds.to(k.dtype), k, dq, input_precision="ieee")
    return dq


@triton.jit
def backward_kernel(
    q_ptr, k_ptr, v_ptr, do_ptr, lse_ptr, delta_ptr, dq_ptr, dk_ptr, dv_ptr, scale, length,
    D: tl.constexpr, BLOCK: tl.constexpr, STEP: tl.constexpr,
    CAUSAL: tl.constexpr, DESCRIPTORS: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    tl.static_assert(BLOCK % STEP == 0, "the diagonal is crossed by whole steps")
    first = tl.program_id(0) * BLOCK  # of this program's keys, then of its queries
    head = tl.program_id(1).to(tl.int64)
    start_of_head = head * length * D
    lse_ptr += head * length
    delta_ptr += head * length
    scale_log2 = scale * 1.4426950408889634
    # Of each matrix blocks of BLOCK rows stay, and steps of STEP rows are walked over.
    q_step = matrix(q_ptr + start_of_head, length, D, STEP, DESCRIPTORS)
    k_step = matrix(k_ptr + start_of_head, length, D, STEP, DESCRIPTORS)
    v_step = matrix(v_ptr + start_of_head, length, D, STEP, DESCRIPTORS)
    do_step = matrix(do_ptr + start_of_head, length, D, STEP, DESCRIPTORS)

    # dK and dV. In causal attention, queries before the block do not see it.
    k = load_rows(k_ptr + start_of_head, first, length, D, BLOCK, False, EVEN)
    v = load_rows(v_ptr + start_of_head, first, length, D, BLOCK, False, EVEN)
    dk = tl.zeros((BLOCK, D), tl.float32)
    dv = tl.zeros((BLOCK, D), tl.float32)
    if CAUSAL:
        dk, dv = walk_queries(
            dk, dv, k, v, q_step, do_step, lse_ptr, delta_ptr, first, first, first + BLOCK, length,
            scale_log2, True, D, STEP, BLOCK, DESCRIPTORS, EVEN,
        )  # fmt: skip
    dk, dv = walk_queries(
        dk, dv, k, v, q_step, do_step, lse_ptr, delta_ptr, first,
        first + BLOCK if CAUSAL else 0, length, length,
        scale_log2, False, D, STEP, BLOCK, DESCRIPTORS, EVEN,
    )  # fmt: skip
    store_rows(dv_ptr + start_of_head, dv, first, length, D, BLOCK)
    store_rows(dk_ptr + start_of_head, dk * scale, first, length, D, BLOCK)

    # dQ
    q = load_rows(q_ptr + start_of_head, first, length, D, BLOCK, False, EVEN)
    do = load_rows(do_ptr + start_of_head, first, length, D, BLOCK, False, EVEN)
    queries = first + tl.arange(0, BLOCK)
    lse = tl.load(lse_ptr + queries, mask=queries < length, other=0.0)
    delta = tl.load(delta_ptr + queries, mask=queries < length, other=0.0)
    dq = tl.zeros((BLOCK, D), tl.float32)
    dq = walk_keys_backward(
        dq, q, do, lse, delta, k_step, v_step, first, 0, first if CAUSAL else length, length,
        scale_log2, False, D, BLOCK, STEP, DESCRIPTORS, EVEN,
    )  # fmt: skip
    if CAUSAL:
        dq = walk_keys_backward(
            dq, q, do, lse, delta, k_step, v_step, first, first, first + BLOCK, length,
            scale_log2, True, D, BLOCK, STEP, DESCRIPTORS, EVEN,
        )  # fmt: skip
    store_rows(dq_ptr + start_of_head, dq * scale, first, length, D, BLOCK)


# ---------------------------------------------------------------------------------------------
# Launching them


def blocks(q, on_tensor_cores: tuple[int, int]) -> tuple[int, int]:
    """Rows that stay with a program, and rows of a step. Products of float32 ("ieee": with all
    their bits) are done by a GPU's ordinary arithmetic, for which large blocks are too much code.
    """
    if not on_gpu():
        return 64, 64
    return on_tensor_cores if q.dtype.itemsize == 2 else (32, 32)


def forward(q, k, v, causal: bool = False, scale: float | None = None, descriptors: bool = True):
    """(o, lse) for contiguous arrays or tensors q, k, v of shape (batch, heads, length, D).

    D is a power of two, at least 16; lse (batch, heads, length) is what `backward` needs.
    """
    batch, heads, length, d = q.shape
    if d < 16 or d & (d - 1):
        raise ValueError(f"attention: D is {d}; a power of two that is at least 16 is needed")
    provide_scratch()
    block_m, block_n = blocks(q, (128, 64))
    o, lse = empty(q.shape, q), zeros((batch, heads, length), q, "float32")
    forward_kernel[triton.cdiv(length, block_m), batch * heads](
        *(q, k, v, o, lse, d**-0.5 if scale is None else scale, length),
        D=d, BLOCK_M=block_m, BLOCK_N=block_n, CAUSAL=causal, DESCRIPTORS=descriptors,
        EVEN=length % block_m == 0, num_warps=8 if d > 64 else 4, num_stages=3,
    )  # fmt: skip
    return o, lse


def backward(
    do, q, k, v, o, lse, causal: bool = False, scale: float | None = None, descriptors: bool = True
):
    """(dq, dk, dv) from the gradient of o, and what the forward pass took and gave."""
    batch, heads, length, d = q.shape
    provide_scratch()
    delta = empty(lse.shape, lse)
    dq, dk, dv = (empty(q.shape, q) for _ in range(3))
    rows = batch * heads * length
    delta_kernel[(triton.cdiv(rows, 64),)](o, do, delta, rows, D=d, BLOCK=64)
    block, step = blocks(q, (128, 32))
    backward_kernel[triton.cdiv(length, block), batch * heads](
        *(q, k, v, do, lse, delta, dq, dk, dv, d**-0.5 if scale is None else scale, length),
        D=d, BLOCK=block, STEP=step, CAUSAL=causal, DESCRIPTORS=descriptors,
        EVEN=length % block == 0, num_warps=8 if d > 64 else 4, num_stages=2,
    )  # fmt: skip
    return dq, dk, dv


def make_attention():
    """`attention(q, k, v, causal, scale)` for torch tensors, with gradients."""
    import torch

    class Attention(torch.autograd.Function):
        @staticmethod
        def forward(ctx, q, k, v, causal, scale):
            q, k, v = (t.contiguous() for t in (q, k, v))
            o, lse = forward(q, k, v, causal, scale)
            ctx.save_for_backward(q, k, v, o, lse)
            ctx.options = causal, scale
            return o

        @staticmethod
        def backward(ctx, do):
            return *backward(do.contiguous(), *ctx.saved_tensors, *ctx.options), None, None

    return Attention.apply


# ---------------------------------------------------------------------------------------------
# Checking them against the formulas in float64


def exact(q, k, v, do, causal: bool, scale: float):
    """(o, dq, dk, dv) in float64, with the whole matrix of scores."""
    q, k, v, do = (a.astype(np.float64) for a in (q, k, v, do))
    s = scale * q @ k.swapaxes(-1, -2)
    if causal:
        s = np.where(np.tri(q.shape[-2], dtype=bool), s, -np.inf)
    p = np.exp(s - s.max(axis=-1, keepdims=True))
    p /= p.sum(axis=-1, keepdims=True)
    o = p @ v
    ds = p * (do @ v.swapaxes(-1, -2) - np.sum(do * o, axis=-1, keepdims=True))
    transposed = ds.swapaxes(-1, -2)
    return o, scale * ds @ k, scale * transposed @ q, p.swapaxes(-1, -2) @ do


def check(
    length: int = 300, d: int = 64, causal: bool = True, descriptors: bool = True,
    dtype=np.float32, heads: int = 2,
) -> dict[str, float]:  # fmt: skip
    """The largest difference from float64, for the result and each gradient."""
    rng = np.random.default_rng(0)
    arrays = rng.standard_normal((4, 1, heads, length, d)).astype(dtype)
    q, k, v, do = map(place, arrays)
    o, lse = forward(q, k, v, causal, 0.5 * d**-0.5, descriptors)
    found = (o, *backward(do, q, k, v, o, lse, causal, 0.5 * d**-0.5, descriptors))
    right = exact(*arrays, causal, 0.5 * d**-0.5)
    return {
        name: float(np.max(np.abs(fetch(x) - y)))
        for name, x, y in zip(("o", "dq", "dk", "dv"), found, right, strict=True)
    }


# ---------------------------------------------------------------------------------------------
# Measuring them: two products of 2 * length**2 * D operations forward, five backward; half of that
# in causal attention.

HAS_TORCH = importlib.util.find_spec("torch") is not None


@triton.testing.perf_report(
    [
        triton.testing.Benchmark(
            x_names=["length"],
            x_vals=[1024, 2048, 4096, 8192, 16384] if on_gpu() else [128, 256, 512, 1024, 2048],
            line_arg="provider",
            line_vals=["tritium", "torch"] if HAS_TORCH else ["tritium"],
            line_names=["Tritium", "torch"] if HAS_TORCH else ["Tritium"],
            xlabel="length",
            ylabel="GFLOP/s",
            plot_name=f"attention-{mode}{'-causal' if causal else ''}",
            args={"mode": mode, "causal": causal},
        )
        for mode in ("forward", "backward")
        for causal in (False, True)
    ]
)
def benchmark(length, provider, mode, causal):
    batch, heads, d = (4, 32, 64) if on_gpu() else (1, 4, 64)
    dtype = np.float16 if on_gpu() else np.float32
    rng = np.random.default_rng(0)
    tensors = rng.standard_normal((4, batch, heads, length, d), dtype=np.float32).astype(dtype)
    q, k, v, do = map(place, tensors)
    if provider == "tritium":
        o, lse = forward(q, k, v, causal)
        run = {
            "forward": lambda: forward(q, k, v, causal),
            "backward": lambda: backward(do, q, k, v, o, lse, causal),
        }[mode]
    else:
        import torch

        q, k, v, do = (torch.as_tensor(t).requires_grad_() for t in (q, k, v, do))
        attention = torch.nn.functional.scaled_dot_product_attention
        o = attention(q, k, v, is_causal=causal)
        run = {
            "forward": lambda: attention(q, k, v, is_causal=causal),
            "backward": lambda: torch.autograd.grad(o, (q, k, v), do, retain_graph=True),
        }[mode]
    ms, low, high = triton.testing.do_bench(run, warmup=10, rep=50, quantiles=[0.5, 0.2, 0.8])
    products = {"forward": 2, "backward": 5}[mode] * (0.5 if causal else 1)
    rate = lambda ms: products * 2 * batch * heads * length**2 * d / ms * 1e-6  # noqa: E731
    return rate(ms), rate(high), rate(low)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Fused attention: check, then measure.")
    parser.add_argument("--save", default="", help="a folder for the plots and the numbers")
    arguments = parser.parse_args()
    dtype = np.float16 if on_gpu() else np.float32
    for causal in (False, True):
        for descriptors in (False, True):
            found = check(causal=causal, descriptors=descriptors, dtype=dtype)
            print(
                f"{'causal' if causal else 'full'}, {'descriptors' if descriptors else 'pointers'}:"
                " largest difference from float64",
                ", ".join(f"{name} {value:.1e}" for name, value in found.items()),
            )
    benchmark.run(print_data=True, save_path=arguments.save)
