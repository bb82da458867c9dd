"""Softmax, norms and a gradient on the CPU with and without `tile-prefetch`, beside torch.

    python -m benchmarks.prefetch_ab [--only softmax rms] [--shapes 1024x1024 16x1024]
        [--rounds 60] [--out benchmarks/results/prefetch_ab_zen3.json]

The three take turns in one process, on one thread. The time is the processor's, which other
programs lengthen only by the caches and the memory that they use.
"""

# Parameters of kernels are untyped: they are whatever the kernel is launched with.
# pyright: basic
from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from unittest import mock

from benchmarks.common import THREAD_VARIABLES, machine

for _variable in THREAD_VARIABLES:  # before the libraries look
    os.environ[_variable] = "1"
os.environ["TRITON_ALWAYS_COMPILE"] = "1"

import torch
from torch.nn import functional

import tritium.language as tl
from tritium.backends.cpu.tiles.prefetch import Prefetch
from tritium.runtime import driver
from tritium.runtime.jit import jit

SHAPES = ("4096x256", "2048x512", "1024x1024", "256x4096", "64x16384", "64x256", "16x1024")
"""A million elements, in rows of several lengths, and what the second cache holds."""
Run = Callable[[], object]
Tensors = tuple[torch.Tensor, ...]


@jit
def softmax(x_ptr, y_ptr, w_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    row, mask = tl.program_id(0) * columns, i < columns
    x = tl.load(x_ptr + row + i, mask=mask, other=-float("inf")).to(tl.float32)
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row + i, (e / tl.sum(e, axis=0)).to(x_ptr.dtype.element_ty), mask=mask)


@jit
def layer_norm(x_ptr, y_ptr, w_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    row, mask = tl.program_id(0) * columns, i < columns
    x = tl.load(x_ptr + row + i, mask=mask, other=0.0).to(tl.float32)
    x = tl.where(mask, x - tl.sum(x, axis=0) / columns, 0.0)
    scale = 1.0 / tl.sqrt(tl.sum(x * x, axis=0) / columns + 1e-5)
    w = tl.load(w_ptr + i, mask=mask)
    tl.store(out_ptr + row + i, (x * scale * w + w).to(x_ptr.dtype.element_ty), mask=mask)


@jit
def rms(x_ptr, y_ptr, w_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    row, mask = tl.program_id(0) * columns, i < columns
    x = tl.load(x_ptr + row + i, mask=mask, other=0.0).to(tl.float32)
    scale = 1.0 / tl.sqrt(tl.sum(x * x, axis=0) / columns + 1e-5)
    w = tl.load(w_ptr + i, mask=mask)
    tl.store(out_ptr + row + i, (x * scale * w).to(x_ptr.dtype.element_ty), mask=mask)


@jit
def gradient(x_ptr, y_ptr, w_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    """Gradient of softmax; y is the result of softmax, x the gradient of y."""
    i = tl.arange(0, BLOCK)
    row, mask = tl.program_id(0) * columns, i < columns
    y = tl.load(y_ptr + row + i, mask=mask, other=0.0).to(tl.float32)
    g = tl.load(x_ptr + row + i, mask=mask, other=0.0).to(tl.float32)
    g = y * (g - tl.sum(y * g, axis=0))
    tl.store(out_ptr + row + i, g.to(x_ptr.dtype.element_ty), mask=mask)


KERNELS = {"softmax": softmax, "layer norm": layer_norm, "rms": rms, "gradient": gradient}


def rivals(name: str, x: torch.Tensor, y: torch.Tensor, w: torch.Tensor) -> Run:
    """The same by torch."""
    shape = w.shape
    return {
        "softmax": lambda: torch.softmax(x, 1),
        "layer norm": lambda: functional.layer_norm(x, shape, w, w, 1e-5),
        "rms": lambda: functional.rms_norm(x, shape, w, 1e-5),
        "gradient": lambda: torch.ops.aten._softmax_backward_data(x, y, 1, x.dtype),
    }[name]


def ours(name: str, prefetches: bool, arguments: Tensors) -> Run:
    """A launch of a kernel that is compiled with, or without, the pass."""
    rows, columns = arguments[0].shape
    kernel, run = jit(KERNELS[name].fn), Prefetch.run if prefetches else lambda *_: False
    block = 1 << (columns - 1).bit_length()

    def launch() -> object:
        return kernel[(rows,)](*arguments, columns, BLOCK=block)

    with mock.patch.object(Prefetch, "run", run):
        launch()
    return launch


def measure(name: str, kind: str, shape: str, rounds: int) -> dict[str, object]:
    """Seconds of each, the least and the tenth part; and the result's largest error."""
    rows, columns = map(int, shape.split("x"))
    x, y = (torch.randn(rows, columns).to(getattr(torch, kind)) for _ in range(2))
    w, out = torch.randn(columns).to(x.dtype), torch.empty_like(x)
    runs = {
        "without": ours(name, False, (x, y, w, out)), "with": ours(name, True, (x, y, w, out)),
        "torch": rivals(name, x, y, w),
    }  # fmt: skip
    expected = torch.as_tensor(runs["torch"]())
    error = (out.double() - expected.double()).abs().max().item()
    samples: dict[str, list[float]] = {name: [] for name in runs}
    times = max(1, (1 << 19) // x.numel())
    for number in range(rounds):
        order = list(runs.items())
        # What runs after torch finds less in the caches: each comes after each of the others.
        for library, run in order if number % 2 else reversed(order):
            run()
            start = time.process_time()
            for _ in range(times):
                run()
            samples[library].append((time.process_time() - start) / times)
    found = {library: (min(s), sorted(s)[len(s) // 10]) for library, s in samples.items()}
    ratios = "  ".join(
        f"{other} / with {found[other][0] / found['with'][0]:.2f} "
        f"{found[other][1] / found['with'][1]:.2f}"
        for other in ("without", "torch")
    )
    print(f"{name:12}{kind:10}{shape:10}{1e6 * found['with'][0]:8.1f} us  {ratios}", flush=True)
    return {"name": name, "type": kind, "shape": shape, "error": error, "seconds": found}


def main() -> None:
    """Print ratios of the least times and of the fastest tenth; write the times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=KERNELS, default=list(KERNELS))
    parser.add_argument("--shapes", nargs="+", default=SHAPES)
    parser.add_argument("--types", nargs="+", default=["float32", "bfloat16"])
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    driver.set_active_to_cpu()
    torch.set_num_threads(1)
    results = [
        measure(name, kind, shape, arguments.rounds)
        for name in arguments.only for kind in arguments.types for shape in arguments.shapes
    ]  # fmt: skip
    if arguments.out:
        text = json.dumps({"machine": machine(), "results": results}, indent=1)
        arguments.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
