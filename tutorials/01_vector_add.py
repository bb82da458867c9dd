"""Tutorial 01: adding two vectors.

A kernel is a function that the compiler translates; it is run many times at once. Each of these
runs is a *program*. A program works on a *block* of elements, not on one: `x + y` below adds a
whole block. How the block is spread over vector registers or threads is the compiler's business.
"""

from __future__ import annotations

import argparse

import numpy as np
from arrays import empty, fetch, on_gpu, place

import tritium as triton
import tritium.language as tl

# ---------------------------------------------------------------------------------------------
# The kernel
#
# Arrays arrive as pointers to their first element. `BLOCK` is a `tl.constexpr`: its value is known
# while compiling, so that it can be the size of a block. Another value means another compilation.


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    # Which of the programs is this one? Program 0 takes elements 0 to BLOCK-1, and so on.
    first = tl.program_id(axis=0) * BLOCK
    offsets = first + tl.arange(0, BLOCK)
    # The last program may reach past the end. Elements whose mask is false are not touched.
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


# ---------------------------------------------------------------------------------------------
# Launching it
#
# `kernel[grid](...)` runs as many programs as the grid says. The grid may be a function of the
# compile-time arguments, so that it follows a change of the block size by itself.


def add(x, y):
    """x + y for two arrays (or torch tensors) of one shape and dtype."""
    out = empty(x.shape, x)
    n = x.size if isinstance(x, np.ndarray) else x.numel()
    grid = lambda meta: (triton.cdiv(n, meta["BLOCK"]),)  # noqa: E731
    add_kernel[grid](x, y, out, n, BLOCK=4096)
    return out


def check(n: int = 98432) -> float:
    """The largest difference from NumPy; 98432 is not a multiple of the block."""
    rng = np.random.default_rng(0)
    x, y = rng.random(n, dtype=np.float32), rng.random(n, dtype=np.float32)
    return float(np.max(np.abs(fetch(add(place(x), place(y))) - (x + y)), initial=0.0))


# ---------------------------------------------------------------------------------------------
# Measuring it
#
# Adding is cheap and memory is slow, so the figure to look at is bytes moved a second: two numbers
# are read and one is written for each addition. `perf_report` turns a function that measures one
# point into tables and plots over many.


@triton.testing.perf_report(
    triton.testing.Benchmark(
        x_names=["n"],
        x_vals=[2**i for i in range(12, 29 if on_gpu() else 25, 2)],
        x_log=True,
        line_arg="provider",
        line_vals=["tritium", "library"],
        line_names=["Tritium", "torch" if on_gpu() else "NumPy"],
        xlabel="elements",
        ylabel="GB/s",
        plot_name="vector-add",
        args={},
    )
)
def benchmark(n, provider):
    x, y = place(np.ones(n, np.float32)), place(np.ones(n, np.float32))
    out = empty(x.shape, x)
    grid = (triton.cdiv(n, 4096),)
    if provider == "tritium":
        run = lambda: add_kernel[grid](x, y, out, n, BLOCK=4096)  # noqa: E731
    else:
        run = lambda: x + y  # noqa: E731
    ms, low, high = triton.testing.do_bench(run, warmup=10, rep=50, quantiles=[0.5, 0.2, 0.8])
    rate = lambda ms: 3 * x.nbytes / ms * 1e-6  # noqa: E731
    return rate(ms), rate(high), rate(low)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Vector addition: check, then measure.")
    parser.add_argument("--save", default="", help="a folder for the plot and the numbers")
    arguments = parser.parse_args()
    print(f"largest difference from NumPy: {check()}")
    benchmark.run(print_data=True, save_path=arguments.save)
