"""Tutorial 07: functions from outside the language.

`tl` has the functions that hardware computes, and few others. The rest of the mathematical library
(arc sine, Bessel functions, the error function's inverse, ...) is `libdevice`: some 200 functions
that a kernel calls like its own. On an NVIDIA GPU they are the code of CUDA's libdevice, linked
into the kernel; on a CPU they are computed in vector registers, or called.
"""

from __future__ import annotations

import argparse
import math

import numpy as np
from arrays import empty, fetch, on_gpu, place

import tritium as triton
import tritium.language as tl
from tritium.language.extra import libdevice

# ---------------------------------------------------------------------------------------------
# One name, several functions
#
# C has `asinf` for float and `asin` for double; libdevice has `__nv_asinf` and `__nv_asin`. The
# kernel says `libdevice.asin`, and the dtype of what it is given decides. A dtype for which there
# is none is an error that names those there are.


@triton.jit
def asin_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(y_ptr + offsets, libdevice.asin(x), mask=mask)


# ---------------------------------------------------------------------------------------------
# Functions as arguments
#
# A function is a compile-time value as good as a number, so that one kernel serves for all
# functions of one argument: each is a compilation of its own. On a module (`libdevice`), attributes
# are looked up while compiling.


@triton.jit
def map_kernel(x_ptr, y_ptr, n, FUNCTION: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    y = FUNCTION(tl.load(x_ptr + offsets, mask=mask, other=0.5))
    tl.store(y_ptr + offsets, y, mask=mask)


# ---------------------------------------------------------------------------------------------
# A use: the normal distribution, fitted to a mean and a deviation. Its quantile function is made
# of the inverse error function, which no array library but SciPy has.


@triton.jit
def normal_quantile_kernel(p_ptr, x_ptr, mean, deviation, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    p = tl.load(p_ptr + offsets, mask=mask, other=0.5)
    x = mean + deviation * 1.4142135623730951 * libdevice.erfinv(2 * p - 1)
    tl.store(x_ptr + offsets, x, mask=mask)


def elementwise(kernel, x, *parameters, **options):
    """Launch a kernel that takes an array, an output like it, parameters and the size."""
    y = empty(x.shape, x)
    n = math.prod(x.shape)
    kernel[(triton.cdiv(n, 1024),)](x, y, *parameters, n, BLOCK=1024, **options)
    return y


def asin(x, **options):
    """The arc sine of each element, float32 or float64.

    Args:
        x: an array of NumPy or a tensor of torch.
        options: of the launch. On an NVIDIA GPU, `extern_libs={"libdevice": path}` links another
            file than the one that CUDA brings.
    """
    return elementwise(asin_kernel, x, **options)


def apply(function, x):
    """`function` of each element; it may be one of libdevice's or a jit function."""
    return elementwise(map_kernel, x, FUNCTION=function)


def normal_quantile(p, mean: float = 0.0, deviation: float = 1.0):
    """The x below which a normal variable is with probability p, for each p in (0, 1)."""
    return elementwise(normal_quantile_kernel, p, mean, deviation)


# ---------------------------------------------------------------------------------------------
# Checking them against Python's own library


def check(n: int = 98432, dtype=np.float32) -> dict[str, float]:
    """The largest difference from NumPy or `math` in float64."""
    x = np.random.default_rng(0).uniform(-1, 1, n).astype(dtype)
    wide = x.astype(np.float64)
    some = wide[:1000]
    found = {
        "asin": (asin(place(x)), np.arcsin(wide)),
        "sinh": (apply(libdevice.sinh, place(x)), np.sinh(wide)),
        "log1p": (apply(libdevice.log1p, place(x)), np.log1p(wide)),
        "erf": (apply(libdevice.erf, place(x[:1000])), np.vectorize(math.erf)(some)),
        "tgamma": (apply(libdevice.tgamma, place(x[:1000] + 3)), [*map(math.gamma, x[:1000] + 3)]),
    }
    p = np.clip(np.abs(x[:1000]), dtype(1e-3), dtype(1 - 1e-3))
    quantile = fetch(normal_quantile(place(p), 1.0, 2.0)).astype(np.float64)
    back = np.vectorize(lambda v: 0.5 * math.erfc((1 - v) / math.sqrt(8)))(quantile)
    errors = {k: float(np.max(np.abs(fetch(y) - right))) for k, (y, right) in found.items()}
    return {**errors, "normal quantile, there and back": float(np.max(np.abs(back - p)))}


@triton.testing.perf_report(
    triton.testing.Benchmark(
        x_names=["n"],
        x_vals=[2**i for i in range(12, 27 if on_gpu() else 23, 2)],
        x_log=True,
        line_arg="provider",
        line_vals=["tritium", "numpy"],
        line_names=["Tritium", "NumPy"],
        xlabel="elements",
        ylabel="GB/s",
        plot_name="asin",
        args={},
    )
)
def benchmark(n, provider):
    x = np.random.default_rng(0).uniform(-1, 1, n).astype(np.float32)
    there = place(x)
    run = (lambda: asin(there)) if provider == "tritium" else (lambda: np.arcsin(x))
    ms, low, high = triton.testing.do_bench(run, warmup=10, rep=50, quantiles=[0.5, 0.2, 0.8])
    rate = lambda ms: 2 * x.nbytes / ms * 1e-6  # noqa: E731
    return rate(ms), rate(high), rate(low)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Extern functions: check, then measure.")
    parser.add_argument("--save", default="", help="a folder for the plot and the numbers")
    arguments = parser.parse_args()
    for dtype in (np.float32, np.float64):
        for name, value in check(dtype=dtype).items():
            print(f"{dtype.__name__} {name}: largest difference {value:.1e}")
    benchmark.run(print_data=True, save_path=arguments.save)
