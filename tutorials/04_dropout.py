"""Tutorial 04: dropout that remembers a seed instead of a mask.

Dropout sets random elements to zero while a network is trained, and scales the others by
1 / (1 - p) so that the expected sum stays. The backward pass needs to know which elements were
dropped. Keeping the mask costs memory and bandwidth; but random numbers need not be stored if they
can be made again.
"""

from __future__ import annotations

import argparse
import math

import numpy as np
from arrays import empty, fetch, on_gpu, place

import tritium as triton
import tritium.language as tl

# ---------------------------------------------------------------------------------------------
# The plain way: the mask is an array.


@triton.jit
def masked_dropout_kernel(x_ptr, keep_ptr, out_ptr, n, p, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    keep = tl.load(keep_ptr + offsets, mask=mask) != 0
    tl.store(out_ptr + offsets, tl.where(keep, x / (1 - p), 0.0), mask=mask)


def masked_dropout(x, keep, p: float):
    """x / (1 - p) where the integer array `keep` is not 0, else 0."""
    out, n = empty(x.shape, x), math.prod(x.shape)
    masked_dropout_kernel[(triton.cdiv(n, 1024),)](x, keep, out, n, p, BLOCK=1024)
    return out


# ---------------------------------------------------------------------------------------------
# With a seed
#
# `tl.rand(seed, offsets)` is a function, not a generator with a state: Philox, which scrambles a
# counter (here the element's index) with a key (the seed). The same two give the same number in
# every program, on every device, in the forward and in the backward pass. Elements are independent
# of how they are split into blocks.


@triton.jit
def seeded_dropout_kernel(x_ptr, out_ptr, n, p, seed, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    keep = tl.rand(seed, offsets) > p  # uniform in [0, 1)
    tl.store(out_ptr + offsets, tl.where(keep, x / (1 - p), 0.0), mask=mask)


def seeded_dropout(x, p: float, seed: int, block: int = 1024):
    """Dropout with probability `p`; the same seed drops the same elements."""
    out, n = empty(x.shape, x), math.prod(x.shape)
    seeded_dropout_kernel[(triton.cdiv(n, block),)](x, out, n, p, seed, BLOCK=block)
    return out


# ---------------------------------------------------------------------------------------------
# The backward pass is the same kernel: the gradient of a kept element is scaled, that of a dropped
# one is zero.


def seeded_dropout_backward(gradient, p: float, seed: int):
    """The gradient with respect to x, from that of the result."""
    return seeded_dropout(gradient, p, seed)


def check(n: int = 10_000, p: float = 0.5) -> dict[str, float]:
    """Conditions that have to hold, as numbers: see the names."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal(n, dtype=np.float32)
    keep = (rng.random(n) > p).astype(np.int32)
    there = place(x)
    first, again = (fetch(seeded_dropout(there, p, 123, block)) for block in (1024, 256))
    other = fetch(seeded_dropout(there, p, seed=512))
    masked = fetch(masked_dropout(there, place(keep), p))
    backward = fetch(seeded_dropout_backward(place(np.ones_like(x)), p, 123))
    kept = first != 0
    return {
        "masked: difference from NumPy": float(
            np.max(np.abs(masked - np.where(keep, x / (1 - p), 0)))
        ),
        "share dropped": float(np.mean(~kept)),
        "kept: difference from x / (1 - p)": float(np.max(np.abs(first - x / (1 - p))[kept])),
        "same seed: elements that differ": float(np.sum(first != again)),
        "other seed: share that differs": float(np.mean((first != 0) != (other != 0))),
        "backward: elements dropped differently": float(np.sum((backward != 0) != kept)),
    }


# ---------------------------------------------------------------------------------------------
# Measuring it: four bytes in and four out. The mask of the plain way is four bytes more.


@triton.testing.perf_report(
    triton.testing.Benchmark(
        x_names=["n"],
        x_vals=[2**i for i in range(12, 29 if on_gpu() else 23, 2)],
        x_log=True,
        line_arg="provider",
        line_vals=["seeded", "masked"] + ["numpy"] * (not on_gpu()),
        line_names=["seeded", "masked"] + ["NumPy"] * (not on_gpu()),
        xlabel="elements",
        ylabel="million elements/s",
        plot_name="dropout",
        args={},
    )
)
def benchmark(n, provider):
    x = np.ones(n, np.float32)
    there, keep = place(x), place(np.ones(n, np.int32))
    rng = np.random.default_rng(0)
    run = {
        "seeded": lambda: seeded_dropout(there, 0.5, 123),
        "masked": lambda: masked_dropout(there, keep, 0.5),
        "numpy": lambda: np.where(rng.random(n, dtype=np.float32) > 0.5, x * 2, 0),
    }[provider]
    ms, low, high = triton.testing.do_bench(run, warmup=10, rep=50, quantiles=[0.5, 0.2, 0.8])
    return n / ms * 1e-3, n / high * 1e-3, n / low * 1e-3


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Dropout: check, then measure.")
    parser.add_argument("--save", default="", help="a folder for the plot and the numbers")
    arguments = parser.parse_args()
    for name, value in check().items():
        print(f"{name}: {value:.4g}")
    benchmark.run(print_data=True, save_path=arguments.save)
