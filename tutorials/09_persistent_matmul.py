"""Tutorial 09: a matrix product whose programs stay.

In tutorial 03 each tile of C is a program of its own. Where a tile takes long to start (loads in
flight, nothing to multiply yet) and long to end (nothing left to load, the result to store), it
pays to have only as many programs as the device runs at once, and to give each of them many tiles:
the next tile's loads begin while the last one's results are stored. Such programs are *persistent*.
"""

from __future__ import annotations

import argparse

import numpy as np
from arrays import empty, fetch, on_gpu, place, provide_scratch, strides

import tritium as triton
import tritium.language as tl
from tritium.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def place_of(tile, tiles_m, tiles_n, GROUP_M: tl.constexpr):
    """(row, column) of a tile, in groups of GROUP_M rows: see tutorial 03."""
    per_group = GROUP_M * tiles_n
    first_row = (tile // per_group) * GROUP_M
    rows_here = min(tiles_m - first_row, GROUP_M)
    within = tile % per_group
    return first_row + within % rows_here, within // rows_here


# ---------------------------------------------------------------------------------------------
# With pointers
#
# The loop over tiles goes from the program's number in steps of the number of programs. Launched
# with as many programs as tiles, it has one turn: then this is the kernel of tutorial 03.
#
# `flatten` asks the compiler to make one loop out of the two, so that its pipeline of loads runs on
# from one tile to the next: on a GPU. The result is the same on all devices.


@triton.jit
def pointers_kernel(
    a_ptr, b_ptr, c_ptr, m, n, k, stride_a, stride_b, stride_c,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
    FLATTEN: tl.constexpr,
):  # fmt: skip
    tiles_m, tiles_n = tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N)
    depth = tl.arange(0, BLOCK_K)
    for tile in tl.range(
        tl.program_id(0), tiles_m * tiles_n, tl.num_programs(0), flatten=FLATTEN
    ):
        tile_m, tile_n = place_of(tile, tiles_m, tiles_n, GROUP_M)
        rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
        columns = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
        acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for start in range(0, k, BLOCK_K):
            left = depth < k - start
            a = tl.load(
                a_ptr + rows[:, None] * stride_a + (start + depth)[None, :],
                mask=(rows < m)[:, None] & left[None, :], other=0.0,
            )  # fmt: skip
            b = tl.load(
                b_ptr + columns[None, :] * stride_b + (start + depth)[:, None],
                mask=left[:, None] & (columns < n)[None, :], other=0.0,
            )  # fmt: skip
            acc = tl.dot(a, b, acc, input_precision="ieee")
        c_ptrs = c_ptr + rows[:, None] * stride_c + columns[None, :]
        inside = (rows < m)[:, None] & (columns < n)[None, :]
        tl.store(c_ptrs, acc.to(c_ptr.dtype.element_ty), mask=inside)


# ---------------------------------------------------------------------------------------------
# With descriptors
#
# A descriptor can be made on the host and passed as an argument. Its blocks are read and written by
# the copy engine of recent GPUs, with no addresses and no masks in the kernel.
#
# `SUBTILE` stores a tile of C as two halves: less shared memory is needed at once, which leaves
# more for the pipeline. Splitting a tile takes a reshape that makes the halves an axis of two, a
# permutation that moves it to the end, and `tl.split`.
#
# `warp_specialize` lets some of the warps do nothing but copy: they wait for the copy engine, the
# others for tensor cores. On a device that has no such means, it changes nothing.


@triton.jit
def descriptors_kernel(
    a, b, c, m, n, k,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
    FLATTEN: tl.constexpr, SPECIALIZE: tl.constexpr, SUBTILE: tl.constexpr,
):  # fmt: skip
    tiles_m, tiles_n = tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N)
    for tile in tl.range(
        tl.program_id(0), tiles_m * tiles_n, tl.num_programs(0),
        flatten=FLATTEN, warp_specialize=SPECIALIZE,
    ):  # fmt: skip
        tile_m, tile_n = place_of(tile, tiles_m, tiles_n, GROUP_M)
        row, column = tile_m * BLOCK_M, tile_n * BLOCK_N
        acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for start in range(0, k, BLOCK_K):
            acc = tl.dot(
                a.load([row, start]), b.load([column, start]).T, acc, input_precision="ieee"
            )
        if SUBTILE:
            halves = acc.reshape(BLOCK_M, 2, BLOCK_N // 2).permute(0, 2, 1)
            left, right = halves.split()
            c.store([row, column], left.to(c.dtype))
            c.store([row, column + BLOCK_N // 2], right.to(c.dtype))
        else:
            c.store([row, column], acc.to(c.dtype))


# ---------------------------------------------------------------------------------------------
# Descriptors made by the kernel
#
# A kernel can make descriptors of its own, of pointers, sizes and strides: nothing has to be made
# at the launch. What the copy engine needs to know of a matrix is then written by each program to
# memory that the launcher asks for (`triton.set_allocator`). Functions take descriptors as they do
# tensors.


@triton.jit
def made_kernel(
    a_ptr, b_ptr, c_ptr, m, n, k, stride_a, stride_b, stride_c,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
    FLATTEN: tl.constexpr, SPECIALIZE: tl.constexpr, SUBTILE: tl.constexpr,
):  # fmt: skip
    WIDTH: tl.constexpr = BLOCK_N // 2 if SUBTILE else BLOCK_N
    a = tl.make_tensor_descriptor(a_ptr, [m, k], [stride_a, 1], [BLOCK_M, BLOCK_K])
    b = tl.make_tensor_descriptor(b_ptr, [n, k], [stride_b, 1], [BLOCK_N, BLOCK_K])
    c = tl.make_tensor_descriptor(c_ptr, [m, n], [stride_c, 1], [BLOCK_M, WIDTH])
    descriptors_kernel(
        a, b, c, m, n, k, BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M, FLATTEN, SPECIALIZE, SUBTILE
    )


# ---------------------------------------------------------------------------------------------
# Launching them


def processors() -> int:
    """Multiprocessors of the active device; cores of a CPU."""
    active = triton.runtime.driver.active
    return active.utils.get_device_properties(active.get_current_device())["multiprocessor_count"]


VARIANTS = {  # (who makes descriptors, persistent, flatten, warp_specialize, subtile)
    "plain": (None, False, False, False, False),
    "persistent": (None, True, True, False, False),
    "descriptors": ("host", False, False, False, False),
    "descriptors, persistent": ("host", True, True, False, True),
    "descriptors, persistent, specialized": ("host", True, True, True, True),
    "descriptors made in the kernel": ("kernel", True, True, False, True),
}


def matmul(a, b, variant: str = "descriptors, persistent"):
    """A @ B.T for A (m, k) and B (n, k), rows one after the other.

    With descriptors, rows must begin at multiples of 16 bytes.
    """
    (m, k), (n, k_of_b) = a.shape, b.shape
    if k != k_of_b:
        raise ValueError(f"matmul: k is {k} in a and {k_of_b} in b; they must agree")
    provide_scratch()
    descriptors, persistent, flatten, specialize, subtile = VARIANTS[variant]
    half = a.dtype.itemsize < 4
    block_m = block_n = block_k = 64
    if on_gpu() and half:
        block_m, block_n = 128, 256 if subtile else 128
    out = empty((m, n), a)
    tiles = triton.cdiv(m, block_m) * triton.cdiv(n, block_n)
    grid = (min(processors(), tiles) if persistent else tiles,)
    options = {
        **{"BLOCK_M": block_m, "BLOCK_N": block_n, "BLOCK_K": block_k, "GROUP_M": 8},
        **{"FLATTEN": flatten, "num_warps": 8 if on_gpu() and half else 4, "num_stages": 3},
    }
    rows = tuple(strides(x)[0] for x in (a, b, out))
    if descriptors == "host":
        blocks = ((block_m, block_k), (block_n, block_k), (block_m, block_n // (1 + subtile)))
        described = (
            TensorDescriptor.from_tensor(x, list(block))
            for x, block in zip((a, b, out), blocks, strict=True)
        )
        descriptors_kernel[grid](
            *described, m, n, k, SPECIALIZE=specialize, SUBTILE=subtile, **options
        )
    elif descriptors == "kernel":
        made_kernel[grid](
            a, b, out, m, n, k, *rows, SPECIALIZE=specialize, SUBTILE=subtile, **options
        )
    else:
        pointers_kernel[grid](a, b, out, m, n, k, *rows, **options)
    return out


def check(m=200, n=136, k=320, variant="descriptors, persistent", dtype=np.float32) -> float:
    """The largest difference from float64, relative to the largest element."""
    rng = np.random.default_rng(0)
    a = rng.standard_normal((m, k)).astype(dtype)
    b = rng.standard_normal((n, k)).astype(dtype)
    right = a.astype(np.float64) @ b.astype(np.float64).T
    found = fetch(matmul(place(a), place(b), variant))
    return float(np.max(np.abs(found - right)) / np.max(np.abs(right)))


@triton.testing.perf_report(
    triton.testing.Benchmark(
        x_names=["k"],
        x_vals=[512, 1024, 2048, 4096, 8192] if on_gpu() else [64, 128, 256, 512, 1024],
        line_arg="provider",
        line_vals=[*VARIANTS, "library"],
        line_names=[*VARIANTS, "torch" if on_gpu() else "NumPy"],
        xlabel="K (M = N = 8192 on a GPU, 512 on a CPU)",
        ylabel="GFLOP/s",
        plot_name="persistent-matmul",
        args={},
    )
)
def benchmark(k, provider):
    rng = np.random.default_rng(0)
    size, dtype = (8192, np.float16) if on_gpu() else (512, np.float32)
    a, b = (place(x) for x in rng.standard_normal((2, size, k), dtype=np.float32).astype(dtype))
    run = (lambda: a @ b.T) if provider == "library" else (lambda: matmul(a, b, provider))
    ms, low, high = triton.testing.do_bench(run, warmup=10, rep=50, quantiles=[0.5, 0.2, 0.8])
    rate = lambda ms: 2 * size**2 * k / ms * 1e-6  # noqa: E731
    return rate(ms), rate(high), rate(low)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Persistent matmul: check, then measure.")
    parser.add_argument("--save", default="", help="a folder for the plot and the numbers")
    arguments = parser.parse_args()
    for variant in VARIANTS:
        for dtype in (np.float32, np.float16):
            error = check(variant=variant, dtype=dtype)
            print(f"{variant}, {dtype.__name__}: largest relative difference {error:.1e}")
    benchmark.run(print_data=True, save_path=arguments.save)
