"""Tutorial 10: multiplying numbers of 4 and 8 bits that share scales.

Formats of 8 or 4 bits halve or quarter the memory that matrices take, but 4 bits distinguish only
16 values. *Microscaling* (OCP Microscaling Formats, 2023) gives every 32 neighbours along K a
common scale: a power of two, in one byte (E8M0: the exponent plus 127). NVIDIA's nvfp4 takes runs
of 16 and scales in fp8. `tl.dot_scaled` multiplies such operands. Some GPUs have instructions for
it; Tritium converts first, to float32 (tf32 on GPUs), in which all of these numbers are exact.

| format | numbers | scales |
|---|---|---|
| mxfp8 | e4m3: 8 bits, up to 448 | powers of two, one for 32 |
| mxfp4 | e2m1: 0, .5, 1, 1.5, 2, 3, 4, 6 or negative; two a byte | powers of two, one for 32 |
| nvfp4 | e2m1 | e4m3, one for 16 |
| mixed | A in e4m3, B in e2m1 | powers of two, one for 32 |
"""

from __future__ import annotations

import argparse
from typing import NamedTuple

import numpy as np
from arrays import fetch, on_gpu, place
from ml_dtypes import float4_e2m1fn, float8_e4m3fn

import tritium as triton
import tritium.language as tl

# ---------------------------------------------------------------------------------------------
# Quantizing
#
# The scale of a run makes its largest element just fit: for powers of two,
# 2**(floor(log2(largest)) - exponent of the format's largest number). What is beyond is clipped.


class Format(NamedTuple):
    """How the two operands are stored."""

    a: str
    b: str
    run: int  # how many neighbours along K share a scale
    powers: bool  # whether scales are powers of two


FORMATS = {
    "mxfp8": Format("e4m3", "e4m3", 32, True),
    "mxfp4": Format("e2m1", "e2m1", 32, True),
    "nvfp4": Format("e2m1", "e2m1", 16, False),
    "mixed": Format("e4m3", "e2m1", 32, True),
}
NUMBERS = {"e4m3": (float8_e4m3fn, 8, 448.0), "e2m1": (float4_e2m1fn, 2, 6.0)}


class Quantized(NamedTuple):
    """A matrix (rows, K), as numbers and scales, and as what they stand for."""

    numbers: np.ndarray  # e4m3: (rows, K) of float8_e4m3fn; e2m1: (rows, K / 2) bytes
    scales: np.ndarray  # (rows, K / run): bytes (E8M0), or float8_e4m3fn
    value: np.ndarray  # (rows, K) in float64


def quantize(x, numbers: str, run: int, powers: bool) -> Quantized:
    """The nearest numbers of a format to a matrix, K a multiple of `run`."""
    dtype, largest_exponent, largest = NUMBERS[numbers]
    rows, k = x.shape
    runs = x.astype(np.float64).reshape(rows, k // run, run)
    peak = np.maximum(np.max(np.abs(runs), axis=-1), 2.0**-100)
    if powers:
        exponent = np.floor(np.log2(peak)) - largest_exponent
        scales, scale = (exponent + 127).astype(np.uint8), 2.0**exponent
    else:
        scales = np.clip(peak / largest, 2.0**-9, 448).astype(float8_e4m3fn)
        scale = scales.astype(np.float64)
    codes = np.clip(runs / scale[..., None], -largest, largest).astype(dtype)
    value = (codes.astype(np.float64) * scale[..., None]).reshape(rows, k)
    codes = codes.reshape(rows, k)
    if numbers == "e2m1":  # the element with the even number in the lower four bits
        bits = codes.view(np.uint8)
        codes = bits[:, 0::2] | bits[:, 1::2] << 4
    return Quantized(codes, scales, value)


# ---------------------------------------------------------------------------------------------
# The order of the scales in memory
#
# Tensor cores want the scales of 128 rows and 4 runs together, 512 bytes one after the other: row
# 32 * i + j, run r at 16 * j + 4 * i + r. Kept in this order (`shuffle`), a block of scales is one
# contiguous load; the kernel then sorts them into rows and columns by shape operations alone,
# which cost nothing where the hardware wants that order anyway.


def shuffle(scales):
    """(rows, runs) -> (rows / 128, runs / 4, 512), zeros added to make them whole."""
    rows, runs = scales.shape
    whole = np.zeros((-(-rows // 128) * 128, -(-runs // 4) * 4), scales.dtype)
    whole[:rows, :runs] = scales
    parts = whole.reshape(whole.shape[0] // 128, 4, 32, whole.shape[1] // 4, 4)
    return np.ascontiguousarray(parts.transpose(0, 3, 2, 1, 4)).reshape(
        whole.shape[0] // 128, whole.shape[1] // 4, 512
    )


@triton.jit
def load_scales(
    scale_ptr, row, run, rows, runs, ROWS: tl.constexpr, RUNS: tl.constexpr, SHUFFLED: tl.constexpr
):
    """Scales of ROWS rows and RUNS runs, as a tile (ROWS, RUNS)."""
    if SHUFFLED:
        tl.static_assert(ROWS % 128 == 0 and RUNS % 4 == 0, "shuffled scales come in 128 x 4")
        i = row // 128 + tl.arange(0, ROWS // 128)[:, None, None]
        j = run // 4 + tl.arange(0, RUNS // 4)[None, :, None]
        tile = tl.load(
            scale_ptr + (i * tl.cdiv(runs, 4) + j) * 512 + tl.arange(0, 512)[None, None, :],
            mask=(i < tl.cdiv(rows, 128)) & (j < tl.cdiv(runs, 4)), other=0.0,
        )  # fmt: skip
        tile = tile.reshape(ROWS // 128, RUNS // 4, 32, 4, 4)
        return tile.permute(0, 3, 2, 1, 4).reshape(ROWS, RUNS)
    i = row + tl.arange(0, ROWS)[:, None]
    j = run + tl.arange(0, RUNS)[None, :]
    return tl.load(scale_ptr + i * runs + j, mask=(i < rows) & (j < runs), other=0.0)


# ---------------------------------------------------------------------------------------------
# The kernel: that of tutorial 03, with a tile of scales for each operand. B is stored as (N, K), so
# that its runs along K lie together like A's. PER_A and PER_B numbers of an operand are in one
# element of its tile.


@triton.jit
def scaled_kernel(
    a_ptr, a_scale_ptr, b_ptr, b_scale_ptr, c_ptr, m, n, k,
    A_FORMAT: tl.constexpr, B_FORMAT: tl.constexpr, RUN: tl.constexpr, SHUFFLED: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    PER_A: tl.constexpr = 2 if A_FORMAT == "e2m1" else 1
    PER_B: tl.constexpr = 2 if B_FORMAT == "e2m1" else 1
    row = tl.program_id(0) * BLOCK_M
    column = tl.program_id(1) * BLOCK_N
    rows = (row + tl.arange(0, BLOCK_M))[:, None]
    columns = (column + tl.arange(0, BLOCK_N))[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, k, BLOCK_K):
        at_a = (start // PER_A + tl.arange(0, BLOCK_K // PER_A))[None, :]
        at_b = (start // PER_B + tl.arange(0, BLOCK_K // PER_B))[:, None]
        mask_a = (rows < m) & (at_a < k // PER_A)
        mask_b = (columns < n) & (at_b < k // PER_B)
        a = tl.load(a_ptr + rows * (k // PER_A) + at_a, mask=mask_a, other=0.0)
        b = tl.load(b_ptr + columns * (k // PER_B) + at_b, mask=mask_b, other=0.0)
        run = start // RUN
        a_scale = load_scales(a_scale_ptr, row, run, m, k // RUN, BLOCK_M, BLOCK_K // RUN, SHUFFLED)
        b_scale = load_scales(
            b_scale_ptr, column, run, n, k // RUN, BLOCK_N, BLOCK_K // RUN, SHUFFLED
        )
        acc = tl.dot_scaled(a, a_scale, A_FORMAT, b, b_scale, B_FORMAT, acc)
    tl.store(c_ptr + rows * n + columns, acc, mask=(rows < m) & (columns < n))


# ---------------------------------------------------------------------------------------------
# Launching it


def scaled_matmul(a: Quantized, b: Quantized, format: str, shuffled: bool = False):
    """A @ B.T in float32, of quantized A (m, K) and B (n, K)."""
    (m, k), (n, k_of_b) = a.value.shape, b.value.shape
    if k != k_of_b:
        raise ValueError(f"scaled_matmul: K is {k} in a and {k_of_b} in b; they must agree")
    out = place(np.empty((m, n), np.float32))
    order = shuffle if shuffled else np.ascontiguousarray
    return run(
        *(place(x) for x in (a.numbers, order(a.scales), b.numbers, order(b.scales))),
        out, k, format, shuffled,
    )  # fmt: skip


def run(a, a_scale, b, b_scale, out, k: int, format: str, shuffled: bool):
    """The launch alone, on what is in place already."""
    m, n = out.shape
    how = FORMATS[format]
    block = 128 if shuffled or on_gpu() else 64
    scaled_kernel[triton.cdiv(m, block), triton.cdiv(n, block)](
        *(a, a_scale, b, b_scale, out, m, n, k),
        A_FORMAT=how.a, B_FORMAT=how.b, RUN=how.run, SHUFFLED=shuffled,
        BLOCK_M=block, BLOCK_N=block, BLOCK_K=128, num_warps=8,
    )  # fmt: skip
    return out


# ---------------------------------------------------------------------------------------------
# Checking it: against the product, in float64, of what the numbers stand for; and, to see what the
# formats cost, against the product before quantizing.


def check(m=200, n=150, k=256, format="mxfp8", shuffled=False) -> tuple[float, float]:
    """Largest differences, relative to the largest element: from the exact product of the quantized
    matrices, and from that of the original ones."""
    how = FORMATS[format]
    rng = np.random.default_rng(0)
    # Rows of very different magnitude: what the scales are for.
    x = rng.standard_normal((m, k)) * 2.0 ** rng.integers(-3, 4, (m, 1))
    y = rng.standard_normal((n, k)) * 2.0 ** rng.integers(-3, 4, (n, 1))
    a, b = (
        quantize(v, numbers, how.run, how.powers) for v, numbers in ((x, how.a), (y, how.b))
    )
    found = fetch(scaled_matmul(a, b, format, shuffled))
    right, original = a.value @ b.value.T, x @ y.T
    peak = np.max(np.abs(right))
    return (
        float(np.max(np.abs(found - right)) / peak),
        float(np.max(np.abs(found - original)) / peak),
    )


@triton.testing.perf_report(
    triton.testing.Benchmark(
        x_names=["size"],
        x_vals=[1024, 2048, 4096, 8192] if on_gpu() else [128, 256, 512, 1024],
        line_arg="format",
        line_vals=[*FORMATS, "float32"],
        line_names=[*FORMATS, "float32"],
        xlabel="M = N = K",
        ylabel="GFLOP/s",
        plot_name="block-scaled-matmul",
        args={},
    )
)
def benchmark(size, format):
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, size, size), dtype=np.float32)
    if format == "float32":
        a, b = place(x), place(y)
        launch = lambda: a @ b.T  # noqa: E731
    else:
        how = FORMATS[format]
        a, b = (
            quantize(v, numbers, how.run, how.powers) for v, numbers in ((x, how.a), (y, how.b))
        )
        arrays = [place(v) for v in (a.numbers, a.scales, b.numbers, b.scales)]
        out = place(np.empty((size, size), np.float32))
        launch = lambda: run(*arrays, out, size, format, False)  # noqa: E731
    ms, low, high = triton.testing.do_bench(launch, warmup=10, rep=50, quantiles=[0.5, 0.2, 0.8])
    rate = lambda ms: 2 * size**3 / ms * 1e-6  # noqa: E731
    return rate(ms), rate(high), rate(low)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Block-scaled products: check, then measure.")
    parser.add_argument("--save", default="", help="a folder for the plot and the numbers")
    arguments = parser.parse_args()
    for format in FORMATS:
        for shuffled in (False, True):
            exact, original = check(format=format, shuffled=shuffled)
            order = "shuffled scales" if shuffled else "scales row by row"
            print(f"{format}, {order}: relative difference {exact:.1e}, by rounding {original:.1e}")
    benchmark.run(print_data=True, save_path=arguments.save)
