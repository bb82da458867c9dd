"""Tutorial 08: many matrix products of different sizes in one launch.

A mixture of experts, or a batch of small graphs, needs products of matrices that each have a shape
of their own. One launch for each would leave most of the device idle: a small product has a few
tiles only. Here one launch does them all. A fixed number of programs shares out the tiles of all
products, and a program finds out by itself to which product its next tile belongs.
"""

from __future__ import annotations

import argparse
import math

import numpy as np
from arrays import empty, fetch, on_gpu, place, provide_scratch, strides

import tritium as triton
import tritium.language as tl

# ---------------------------------------------------------------------------------------------
# The kernel
#
# A kernel's arguments are a fixed number of pointers. A list of any length is passed as an array of
# *addresses*: the kernel loads an integer and turns it into a pointer. Sizes and leading dimensions
# are in a second array, six numbers for each product.
#
# Tiles are numbered through all products. A program starts with the tile of its own number and goes
# on in steps of the number of programs; `before` is how many tiles the products so far have.


@triton.jit
def product_tile(
    a_source, b_source, c_ptr, m, n, k, stride_a, stride_b, stride_c, row, column,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    DESCRIPTORS: tl.constexpr,
):  # fmt: skip
    """Compute and store the tile of C = A @ B that begins at (row, column)."""
    rows = row + tl.arange(0, BLOCK_M)
    columns = column + tl.arange(0, BLOCK_N)
    depth = tl.arange(0, BLOCK_K)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, k, BLOCK_K):
        if DESCRIPTORS:
            a = a_source.load([row, start])
            b = b_source.load([start, column])
        else:
            a_ptrs = a_source + rows[:, None] * stride_a + (start + depth)[None, :]
            b_ptrs = b_source + (start + depth)[:, None] * stride_b + columns[None, :]
            left = depth < k - start
            a = tl.load(a_ptrs, mask=(rows < m)[:, None] & left[None, :], other=0.0)
            b = tl.load(b_ptrs, mask=left[:, None] & (columns < n)[None, :], other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
    c_ptrs = c_ptr + rows[:, None] * stride_c + columns[None, :]
    inside = (rows < m)[:, None] & (columns < n)[None, :]
    tl.store(c_ptrs, acc.to(c_ptr.dtype.element_ty), mask=inside)


@triton.jit
def grouped_kernel(
    addresses_ptr, sizes_ptr, products,
    DTYPE: tl.constexpr, PROGRAMS: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    DESCRIPTORS: tl.constexpr, FACTOR: tl.constexpr,
):  # fmt: skip
    tile = tl.program_id(0)
    before = 0
    for product in range(products):
        sizes = sizes_ptr + 6 * product
        # Of numbers and addresses that come out of memory nothing is known. Wide loads need rows
        # that begin at a multiple of 16 bytes and end at one: the kernel has to be told.
        m, n = tl.load(sizes), tl.multiple_of(tl.load(sizes + 1), FACTOR)
        k = tl.multiple_of(tl.load(sizes + 2), FACTOR)
        tiles_n = tl.cdiv(n, BLOCK_N)
        tiles = tl.cdiv(m, BLOCK_M) * tiles_n
        if tile < before + tiles:
            stride_a = tl.multiple_of(tl.load(sizes + 3), FACTOR)
            stride_b = tl.multiple_of(tl.load(sizes + 4), FACTOR)
            stride_c = tl.multiple_of(tl.load(sizes + 5), FACTOR)
            addresses = addresses_ptr + 3 * product
            a_ptr = tl.load(addresses).to(tl.pointer_type(DTYPE))
            b_ptr = tl.load(addresses + 1).to(tl.pointer_type(DTYPE))
            c_ptr = tl.multiple_of(tl.load(addresses + 2).to(tl.pointer_type(DTYPE)), 16)
            if DESCRIPTORS:  # made here, once for all tiles of this product
                a_source = tl.make_tensor_descriptor(
                    a_ptr, [m, k], [stride_a, 1], [BLOCK_M, BLOCK_K]
                )
                b_source = tl.make_tensor_descriptor(
                    b_ptr, [k, n], [stride_b, 1], [BLOCK_K, BLOCK_N]
                )
            else:
                a_source = tl.multiple_of(a_ptr, 16)
                b_source = tl.multiple_of(b_ptr, 16)
            while tile < before + tiles:
                row = (tile - before) // tiles_n * BLOCK_M
                column = (tile - before) % tiles_n * BLOCK_N
                product_tile(
                    a_source, b_source, c_ptr, m, n, k, stride_a, stride_b, stride_c, row, column,
                    BLOCK_M, BLOCK_N, BLOCK_K, DESCRIPTORS,
                )  # fmt: skip
                tile += PROGRAMS
        before += tiles


# ---------------------------------------------------------------------------------------------
# Launching it


def address(x) -> int:
    return x.__array_interface__["data"][0] if isinstance(x, np.ndarray) else x.data_ptr()


DTYPES = {
    "float32": tl.float32,
    "float16": tl.float16,
    "bfloat16": tl.bfloat16,
}


def grouped_gemm(pairs, descriptors: bool = False):
    """[a @ b for a, b in pairs] by one launch.

    All are of one dtype (float32, float16 or bfloat16), and rows lie one after the other.
    """
    first = pairs[0][0]
    name = str(first.dtype).rpartition(".")[2]
    outs, addresses, sizes = [], [], []
    for a, b in pairs:
        (m, k), (k_of_b, n) = a.shape, b.shape
        if k != k_of_b:
            raise ValueError(
                f"grouped_gemm: a is {m} x {k} and b is {k_of_b} x {n}; inner sizes must agree"
            )
        outs.append(out := empty((m, n), a))
        addresses += [address(x) for x in (a, b, out)]
        if any(address(x) % 16 for x in (a, b, out)):
            raise ValueError("grouped_gemm: matrices must begin at a multiple of 16 bytes")
        sizes += [m, n, k, *(strides(x)[0] for x in (a, b, out))]
    provide_scratch()
    factor = math.gcd(16 // first.dtype.itemsize, *sizes[1::6], *sizes[2::6], *sizes[3::6],
                      *sizes[4::6], *sizes[5::6])  # fmt: skip
    programs = triton.runtime.driver.active.utils.get_device_properties(
        triton.runtime.driver.active.get_current_device()
    )["multiprocessor_count"]
    blocks = (128, 128, 64) if on_gpu() else (64, 64, 64)
    block_m, block_n, block_k = blocks if name != "float32" else (64, 64, 32 if on_gpu() else 64)
    grouped_kernel[(programs,)](
        place(np.array(addresses, np.int64)), place(np.array(sizes, np.int32)), len(pairs),
        DTYPE=DTYPES[name], PROGRAMS=programs, BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k,
        DESCRIPTORS=descriptors, FACTOR=factor, num_warps=8 if name != "float32" else 4,
    )  # fmt: skip
    return outs


def check(
    shapes=((128, 64, 256), (100, 200, 72), (64, 64, 64), (1, 40, 8), (260, 56, 136)),
    dtype=np.float32,
    descriptors: bool = False,
) -> float:
    """The largest difference from float64, relative to each product's largest element."""
    rng = np.random.default_rng(0)
    pairs = [
        (rng.standard_normal((m, k)).astype(dtype), rng.standard_normal((k, n)).astype(dtype))
        for m, n, k in shapes
    ]
    found = grouped_gemm([tuple(map(place, pair)) for pair in pairs], descriptors)
    errors = []
    for (a, b), out in zip(pairs, found, strict=True):
        right = a.astype(np.float64) @ b.astype(np.float64)
        errors.append(np.max(np.abs(fetch(out) - right)) / np.max(np.abs(right)))
    return float(max(errors))


@triton.testing.perf_report(
    triton.testing.Benchmark(
        x_names=["size"],
        x_vals=[256, 512, 1024, 2048, 4096] if on_gpu() else [32, 64, 128, 256, 512],
        line_arg="provider",
        line_vals=["pointers", "descriptors", "library"],
        line_names=["Tritium, pointers", "Tritium, descriptors", "torch" if on_gpu() else "NumPy"],
        xlabel="M = N = K of the largest of 8 products",
        ylabel="GFLOP/s",
        plot_name="grouped-gemm",
        args={},
    )
)
def benchmark(size, provider):
    rng = np.random.default_rng(0)
    dtype = np.float16 if on_gpu() else np.float32
    edges = [max(size // 2**i, 16) for i in (0, 0, 1, 1, 2, 2, 3, 3)]
    pairs = [tuple(map(place, rng.standard_normal((2, e, e)).astype(dtype))) for e in edges]
    run = {
        "pointers": lambda: grouped_gemm(pairs),
        "descriptors": lambda: grouped_gemm(pairs, descriptors=True),
        "library": lambda: [a @ b for a, b in pairs],
    }[provider]
    ms, low, high = triton.testing.do_bench(run, warmup=10, rep=50, quantiles=[0.5, 0.2, 0.8])
    rate = lambda ms: 2 * sum(e**3 for e in edges) / ms * 1e-6  # noqa: E731
    return rate(ms), rate(high), rate(low)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Grouped products: check, then measure.")
    parser.add_argument("--save", default="", help="a folder for the plot and the numbers")
    arguments = parser.parse_args()
    for descriptors in (False, True):
        for dtype in (np.float32, np.float16):
            error = check(dtype=dtype, descriptors=descriptors)
            way = "descriptors" if descriptors else "pointers"
            print(f"{dtype.__name__}, {way}: largest relative difference {error:.1e}")
    benchmark.run(print_data=True, save_path=arguments.save)
