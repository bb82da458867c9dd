"""Tutorial 02: softmax along the rows of a matrix, in one pass over memory.

Written with array operations, softmax reads and writes the matrix several times: once for the
maximum of each row, once for the difference, once for the exponential, once for the sum, once for
the quotient. A row fits into fast memory, though. A kernel that loads a row once, does everything
there, and stores the result once moves a fraction of the bytes.
"""

from __future__ import annotations

import argparse

import numpy as np
from arrays import empty, fetch, on_gpu, place, strides

import tritium as triton
import tritium.language as tl

# ---------------------------------------------------------------------------------------------
# The kernel
#
# A block has a power of two elements, a row any number: the block is the next power of two, and the
# mask cuts the rest off. What a masked load puts there is `other`, chosen so that it changes
# nothing: exp(-inf) adds zero to the sum, and -inf is never the largest.
#
# Here the grid has a fixed size and each program takes every so-many-th row. One program a row
# would do too; this way whatever a program sets up is set up once for many rows.


@triton.jit
def softmax_kernel(x_ptr, out_ptr, x_stride, out_stride, rows, columns, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    mask = offsets < columns
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0)):
        x = tl.load(x_ptr + row * x_stride + offsets, mask=mask, other=-float("inf"))
        # Softmax does not change when a constant is subtracted; taking the maximum away keeps
        # every exponent at or below zero, where exp cannot overflow.
        numerator = tl.exp(x - tl.max(x, axis=0))
        softmax = numerator / tl.sum(numerator, axis=0)
        tl.store(out_ptr + row * out_stride + offsets, softmax, mask=mask)


# ---------------------------------------------------------------------------------------------
# Launching it
#
# How many programs keep the device busy? The driver tells how many multiprocessors (on a CPU:
# cores) there are; a few programs for each of them even out those that finish late.


def softmax(x):
    """Softmax along the last axis of a matrix: a NumPy array or a torch tensor."""
    rows, columns = x.shape
    out = empty(x.shape, x)  # rows lie one after the other; those of x perhaps not
    programs = min(rows, 8 * processors())
    block = triton.next_power_of_2(columns)
    softmax_kernel[(programs,)](
        x, out, strides(x)[0], columns, rows, columns, BLOCK=block
    )
    return out


def processors() -> int:
    """Multiprocessors of the active device; cores of a CPU."""
    active = triton.runtime.driver.active
    return active.utils.get_device_properties(active.get_current_device())["multiprocessor_count"]


def numpy_softmax(x):
    """The same by array operations, each of which is a pass over the matrix."""
    numerator = np.exp(x - x.max(axis=1, keepdims=True))
    return numerator / numerator.sum(axis=1, keepdims=True)


def check(rows: int = 1823, columns: int = 781) -> float:
    """The largest difference from NumPy in float64, on a size that fits no block."""
    x = np.random.default_rng(0).standard_normal((rows, columns), dtype=np.float32)
    return float(np.max(np.abs(fetch(softmax(place(x))) - numpy_softmax(x.astype(np.float64)))))


# ---------------------------------------------------------------------------------------------
# Measuring it: the bytes that have to move are one matrix in and one out.


ROWS = 16384 if on_gpu() else 2048


@triton.testing.perf_report(
    triton.testing.Benchmark(
        x_names=["columns"],
        x_vals=[128, 256, 512, 781, 1024, 2048, 4096],
        line_arg="provider",
        line_vals=["tritium", "library"],
        line_names=["Tritium", "torch" if on_gpu() else "NumPy"],
        xlabel=f"columns ({ROWS} rows)",
        ylabel="GB/s",
        plot_name="fused-softmax",
        args={"rows": ROWS},
    )
)
def benchmark(rows, columns, provider):
    x = np.random.default_rng(0).standard_normal((rows, columns), dtype=np.float32)
    there = place(x)
    if provider == "tritium":
        run = lambda: softmax(there)  # noqa: E731
    else:
        run = (lambda: there.softmax(1)) if on_gpu() else (lambda: numpy_softmax(x))
    ms, low, high = triton.testing.do_bench(run, warmup=10, rep=50, quantiles=[0.5, 0.2, 0.8])
    rate = lambda ms: 2 * x.nbytes / ms * 1e-6  # noqa: E731
    return rate(ms), rate(high), rate(low)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Fused softmax: check, then measure.")
    parser.add_argument("--save", default="", help="a folder for the plot and the numbers")
    arguments = parser.parse_args()
    print(f"largest difference from float64: {check():.2e}")
    benchmark.run(print_data=True, save_path=arguments.save)
