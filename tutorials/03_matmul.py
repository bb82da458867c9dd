"""Tutorial 03: multiplying matrices.

Each program computes one tile of C = A @ B. It walks along K, loading a tile of A and a tile of B,
and lets `tl.dot` multiply and add them into an accumulator that never leaves the registers (or, on
a CPU, the nearest cache). After the walk it applies an activation and stores the tile once.
"""

from __future__ import annotations

import argparse

import numpy as np
from arrays import empty, fetch, on_gpu, place, strides

import tritium as triton
import tritium.language as tl

# ---------------------------------------------------------------------------------------------
# Which tile?
#
# Programs that run at about the same time should use the same rows of A and columns of B, which
# are then still in the cache. Row by row over all tiles of C, nine programs of a 9 x 9 grid touch
# one stripe of A and all of B. In groups of three rows they touch three stripes of each. The
# function is a kernel function too: kernels may call it, and it is compiled into them.


@triton.jit
def tile_of(pid, tiles_m, tiles_n, GROUP_M: tl.constexpr):
    """(row, column) of the tile that program `pid` computes: groups of GROUP_M rows of tiles,
    within a group column by column."""
    per_group = GROUP_M * tiles_n
    first_row = (pid // per_group) * GROUP_M
    rows_here = min(tiles_m - first_row, GROUP_M)  # the last group may be short
    within = pid % per_group
    return first_row + within % rows_here, within // rows_here


@triton.jit
def leaky_relu(x):
    return tl.where(x >= 0, x, 0.01 * x)


# ---------------------------------------------------------------------------------------------
# The kernel
#
# A tile of pointers is a column of row offsets plus a row of column offsets: `[:, None]` and
# `[None, :]` broadcast as in NumPy. Strides make the kernel work for any layout of the operands,
# so a transposed view needs no copy.
#
# How large should a tile be? Large ones reuse more of what they load, small ones leave more tiles
# to share out. The best size depends on the machine and on the matrices, so it is measured:
# `autotune` compiles each configuration, times it once for each new (M, N, K), and remembers the
# fastest.
#
# `EVEN` is decided at compile time, too. Where the sizes are multiples of the tile the masks are
# not merely true: they are not there, and a load without a mask is simpler for the hardware. A
# heuristic computes such an argument from the others.


def is_even(arguments) -> bool:
    """Whether the tile divides the matrices."""
    return all(arguments[size] % arguments[f"BLOCK_{size}"] == 0 for size in "MNK")


def sizes() -> list[tuple[int, int, int, int]]:
    """Configurations worth trying: (BLOCK_M, BLOCK_N, BLOCK_K, warps)."""
    if on_gpu():
        return [(128, 256, 64, 8), (128, 128, 64, 8), (128, 128, 32, 4), (64, 64, 32, 4)]
    return [(64, 64, 64, 4), (64, 64, 256, 4), (32, 64, 64, 4), (128, 64, 128, 4)]


@triton.autotune(
    configs=[
        triton.Config(
            {"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "GROUP_M": 8}, num_warps=warps, num_stages=3
        )
        for m, n, k, warps in sizes()
    ],
    key=["M", "N", "K"],
)
@triton.heuristics({"EVEN": is_even})
@triton.jit
def matmul_kernel(
    a_ptr, b_ptr, c_ptr,
    M, N, K,
    stride_am, stride_ak,
    stride_bk, stride_bn,
    stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
    EVEN: tl.constexpr,
    ACTIVATION: tl.constexpr,
):  # fmt: skip
    tile_m, tile_n = tile_of(
        tl.program_id(0), tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N), GROUP_M
    )
    rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    depth = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + rows[:, None] * stride_am + depth[None, :] * stride_ak
    b_ptrs = b_ptr + depth[:, None] * stride_bk + columns[None, :] * stride_bn

    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        if EVEN:
            a = tl.load(a_ptrs)
            b = tl.load(b_ptrs)
        else:
            left = depth < K - k
            a = tl.load(a_ptrs, mask=(rows < M)[:, None] & left[None, :], other=0.0)
            b = tl.load(b_ptrs, mask=left[:, None] & (columns < N)[None, :], other=0.0)
        # "ieee" keeps all bits of float32; a GPU would otherwise round the operands to tf32.
        acc = tl.dot(a, b, acc, input_precision="ieee")
        a_ptrs += BLOCK_K * stride_ak
        b_ptrs += BLOCK_K * stride_bk

    # The epilogue works on the accumulator before it is stored: the activation costs no pass
    # over memory of its own.
    if ACTIVATION == "leaky_relu":
        acc = leaky_relu(acc)
    c_ptrs = c_ptr + rows[:, None] * stride_cm + columns[None, :] * stride_cn
    if EVEN:
        tl.store(c_ptrs, acc.to(c_ptr.dtype.element_ty))
    else:
        inside = (rows < M)[:, None] & (columns < N)[None, :]
        tl.store(c_ptrs, acc.to(c_ptr.dtype.element_ty), mask=inside)


def matmul(a, b, activation=None):
    """a @ b for matrices of one dtype, and `leaky_relu` of it if asked for."""
    (m, k), (k_of_b, n) = a.shape, b.shape
    if k != k_of_b:
        raise ValueError(f"matmul: a is {m} x {k} and b is {k_of_b} x {n}; inner sizes must agree")
    out = empty((m, n), a)
    # The grid is a function: how many tiles there are depends on the configuration.
    grid = lambda meta: (triton.cdiv(m, meta["BLOCK_M"]) * triton.cdiv(n, meta["BLOCK_N"]),)  # noqa: E731
    matmul_kernel[grid](
        *(a, b, out, m, n, k, *strides(a), *strides(b), *strides(out)), ACTIVATION=activation
    )
    return out


def check(m: int = 512, n: int = 512, k: int = 512, activation=None, dtype=np.float32) -> float:
    """The largest difference from NumPy in float64."""
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((m, k)).astype(dtype), rng.standard_normal((k, n)).astype(dtype)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    if activation == "leaky_relu":
        exact = np.where(exact >= 0, exact, 0.01 * exact)
    return float(np.max(np.abs(fetch(matmul(place(a), place(b), activation)) - exact)))


# ---------------------------------------------------------------------------------------------
# Measuring it: 2 M N K operations; the memory hardly matters if the tiles are large enough.


@triton.testing.perf_report(
    triton.testing.Benchmark(
        x_names=["size"],
        x_vals=[1024, 2048, 4096, 8192] if on_gpu() else [128, 256, 384, 512, 768, 1024, 1536],
        line_arg="provider",
        line_vals=["tritium", "library"],
        line_names=["Tritium", "torch (float16)" if on_gpu() else "NumPy (BLAS)"],
        xlabel="M = N = K",
        ylabel="GFLOP/s",
        plot_name="matmul",
        args={},
    )
)
def benchmark(size, provider):
    rng = np.random.default_rng(0)
    dtype = np.float16 if on_gpu() else np.float32
    a, b = (place(x.astype(dtype)) for x in rng.random((2, size, size), dtype=np.float32))
    run = (lambda: matmul(a, b)) if provider == "tritium" else (lambda: a @ b)
    ms, low, high = triton.testing.do_bench(run, warmup=10, rep=50, quantiles=[0.5, 0.2, 0.8])
    rate = lambda ms: 2 * size**3 / ms * 1e-6  # noqa: E731
    return rate(ms), rate(high), rate(low)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Matrix multiplication: check, then measure.")
    parser.add_argument("--save", default="", help="a folder for the plot and the numbers")
    arguments = parser.parse_args()
    print(f"largest difference from float64, 512 x 512 x 512: {check():.2e}")
    print(f"and 130 x 70 x 50 with leaky_relu: {check(130, 70, 50, 'leaky_relu'):.2e}")
    benchmark.run(print_data=True, save_path=arguments.save)
