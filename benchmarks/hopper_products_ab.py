"""Products on Hopper by several kernels beside cuBLAS, without the host's part of the time.

    python benchmarks/hopper_products_ab.py [--out FILE] [--sizes 2048 4096 8192] [--rounds 5]

Square products in fp16, `a @ b.T`, by the library and by the persistent kernel of the benchmarks
in the variants of `VARIANTS`; thin products and products of 8-bit numbers by the library alone.
Calls are queued while the GPU waits, so that a host that is slower than a short kernel adds
nothing to what is measured; `host us` is what a call costs there. `loaded` is the ratio to cuBLAS
as Triton's `do_bench` finds it, which has both. Results are compared before anything is timed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

import torch

from benchmarks import gpu_kernels
from benchmarks.common import show_row, write_rows
from benchmarks.gpu_measure import milliseconds
from tritium.tools.tensor_descriptor import TensorDescriptor
from tritium_kernels.dense.matmul_launch import launch as product_launch

QUEUED, WAIT_CYCLES, TRIES = 20, 20_000_000, 5
"""Calls that are queued at once, how long (11 ms) the GPU waits meanwhile, and tries of that."""
SINGLE_WAIT_CYCLES = 5_000_000
"""Cycles, at least 2.5 ms, that the GPU waits while a single call is queued."""
CACHE_BYTES = 256 << 20

Calls = dict[str, Callable[[], Any]]

#: Tile, warps, stages, order (rows of tiles together), loads by a warp of their own, halves stored.
VARIANTS: dict[str, tuple[int, int, int, int, int, int, bool, bool]] = {
    "plain": (128, 256, 64, 8, 3, 8, False, False),
    "halves": (128, 256, 64, 8, 4, 8, False, True),
    "split": (128, 256, 64, 8, 3, 8, True, False),
    "split, halves": (128, 256, 64, 8, 4, 8, True, True),
    "split, halves, 3 stages": (128, 256, 64, 8, 3, 8, True, True),
    "split, halves, order of 4": (128, 256, 64, 8, 4, 4, True, True),
    "split, halves, order of 16": (128, 256, 64, 8, 4, 16, True, True),
    "split, halves, steps of 128": (128, 256, 128, 8, 2, 8, True, True),
    "split, 256x128": (256, 128, 64, 8, 4, 8, True, False),
}


def queued(call: Callable[[], Any], cache: torch.Tensor) -> float:
    """The median time, in ms, of calls with cold caches that wait in the GPU's queue; tried again,
    as a host can be held up. Raises `RuntimeError` if it never kept ahead of the GPU."""
    for _ in range(TRIES):
        found = _timed(call, cache, QUEUED, WAIT_CYCLES)
        if found is not None:
            return median(found)
    raise RuntimeError(f"the host queued {QUEUED} calls more slowly than the GPU waited")


def _timed(
    call: Callable[[], Any], cache: torch.Tensor, count: int, cycles: int
) -> list[float] | None:
    """The times, in ms, of calls with cold caches that are queued while the GPU waits for `cycles`;
    None if the host was not ahead of it."""
    waited, *events = (torch.cuda.Event(enable_timing=True) for _ in range(1 + 2 * count))
    torch.cuda._sleep(cycles)
    waited.record()
    pairs = list(zip(events[::2], events[1::2], strict=True))
    for begin, end in pairs:
        cache.zero_()
        begin.record()
        call()
        end.record()
    ahead = not waited.query()
    torch.cuda.synchronize()
    return [begin.elapsed_time(end) for begin, end in pairs] if ahead else None


def single(call: Callable[[], Any], cache: torch.Tensor, rest: float = 0.0) -> float | None:
    """The time, in ms, of one call with cold caches after `rest` seconds without work, which lets
    the GPU cool down and raise its clock; None if the host was not ahead of it."""
    torch.cuda.synchronize()
    time.sleep(rest)
    found = _timed(call, cache, 1, SINGLE_WAIT_CYCLES)
    return None if found is None else found[0]


def singles(
    calls: Mapping[str, Callable[[], Any]], cache: torch.Tensor, rest: float = 0.0,
    rounds: int = 21,
) -> dict[str, list[float]]:  # fmt: skip
    """The times of `rounds` single calls of each, the calls rotated by one in each round. Raises
    `RuntimeError` if the host was ahead for fewer than half of those of a call."""
    took: dict[str, list[float]] = {name: [] for name in calls}
    names = list(calls)
    for i in range(rounds):
        for name in names[i % len(names) :] + names[: i % len(names)]:
            found = single(calls[name], cache, rest)
            took[name] += [] if found is None else [found]
    for name, times in took.items():
        if 2 * len(times) < rounds:
            raise RuntimeError(f"{name}: the host was ahead of the GPU in {len(times)} of {rounds}")
    return took


def rested(calls: Mapping[str, Callable[[], Any]], rounds: int, rest: float) -> dict[str, float]:
    """The median time, in ms, of single calls of each, each after `rest` seconds without work."""
    cache = torch.zeros(CACHE_BYTES, dtype=torch.int8, device="cuda")
    torch.cuda._sleep(1)  # a kernel's first launch loads it, and can wait for the GPU
    return {name: median(times) for name, times in singles(calls, cache, rest, rounds).items()}


def host_us(call: Callable[[], Any]) -> float:
    """Microseconds of the host for a call, while the GPU waits."""
    torch.cuda.synchronize()
    torch.cuda._sleep(WAIT_CYCLES)
    start = time.perf_counter()
    for _ in range(QUEUED):
        call()
    took = (time.perf_counter() - start) / QUEUED
    torch.cuda.synchronize()
    return took * 1e6


def persistent(a: torch.Tensor, b: torch.Tensor, y: torch.Tensor, variant: str) -> Any:
    """A call of the persistent kernel: y = a @ b.T."""
    bm, bn, bk, warps, stages, group, split, halves = VARIANTS[variant]
    blocks = [bm, bk], [bn, bk], [bm, bn // (1 + halves)]
    made = [TensorDescriptor.from_tensor(*p) for p in zip((a, b, y), blocks, strict=True)]
    (m, k), n = a.shape, b.shape[0]
    programs = torch.cuda.get_device_properties(0).multi_processor_count
    return partial(
        gpu_kernels.persistent[(min(programs, -(-m // bm) * -(-n // bn)),)], *made, m, n, k,
        BM=bm, BN=bn, BK=bk, GROUP=group, SUBTILE=halves, SPLIT=split, num_warps=warps,
        num_stages=stages,
    )  # fmt: skip


def square(size: int) -> tuple[Calls, torch.Tensor, torch.Tensor, float]:
    """(the calls, their output, what is right, floating point operations)."""
    a, b = (torch.randn(size, size, device="cuda").half() for _ in range(2))
    y = torch.empty_like(a)
    calls: Calls = {
        "cublas": partial(torch.matmul, a, b.T, out=y),
        "library": partial(product_launch, a[None], b.T[None], y[None]),
        **{name: persistent(a, b, y, name) for name in VARIANTS},
    }
    return calls, y, a.double() @ b.T.double(), 2.0 * size**3


def library(m: int, n: int, k: int, small: bool) -> tuple[Calls, torch.Tensor, torch.Tensor, float]:
    """The same of a product by the library alone; `small`: of 8-bit numbers."""
    a, b = (torch.randn(s, device="cuda").bfloat16() for s in ((m, k), (n, k)))
    b = b.T if small else b.T.contiguous()
    y = torch.empty(m, n, device="cuda", dtype=a.dtype)
    theirs: Callable[[], Any] = partial(torch.matmul, a, b, out=y)
    if small:
        a, b = a.to(torch.float8_e4m3fn), b.to(torch.float8_e4m3fn)
        one = torch.ones((), device="cuda")
        theirs = partial(torch._scaled_mm, a, b, scale_a=one, scale_b=one, out_dtype=y.dtype,
                         use_fast_accum=True, out=y)  # fmt: skip
    calls: Calls = {"cublas": theirs, "library": partial(product_launch, a[None], b[None], y[None])}
    return calls, y, a.double() @ b.double(), 2.0 * m * n * k


def cases(sizes: list[int]) -> Iterator[tuple[str, Any]]:
    """The products, which are made one after the other."""
    for m, n, k in ((16, 4096, 4096), (64, 8192, 8192), (8192, 128, 8192)):
        yield f"{m}x{n}x{k}", partial(library, m, n, k, False)
    for size in sizes:
        yield f"fp8 {size}", partial(library, size, size, size, True)
        yield f"fp16 {size}", partial(square, size)


def right(calls: Calls, y: torch.Tensor, want: torch.Tensor) -> tuple[Calls, dict[str, str]]:
    """The calls whose results are right, and why the others are not."""
    kept, failed = Calls(), dict[str, str]()
    for name, call in calls.items():
        y.fill_(float("nan"))
        try:
            call()
            error = float((y.double() - want).norm() / want.norm())
        except Exception as problem:  # the other kernels are still measured
            failed[name] = f"{type(problem).__name__}: {problem}"[:300]
            continue
        if error <= 1e-2:
            kept[name] = call
        else:
            failed[name] = f"relative error {error:.1e}"
    return kept, failed


def measure(case: str, make: Any, rounds: int) -> list[dict[str, Any]]:
    """The rows of a product."""
    calls, y, want, flops = make()
    kept, failed = right(calls, y, want)
    rows: list[dict[str, Any]] = [{"case": case, "by": n, "failed": w} for n, w in failed.items()]
    cache = torch.zeros(CACHE_BYTES, dtype=torch.int8, device="cuda")
    torch.cuda._sleep(1)  # a kernel's first launch loads it, and can wait for the GPU
    for call in kept.values():
        cache.zero_()
        call()
    took: dict[str, list[float]] = {name: [] for name in kept}
    for _ in range(rounds):
        for name, call in kept.items():
            took[name].append(queued(call, cache))
    best = {name: median(times) for name, times in took.items()}
    few = {name: kept[name] for name in ("cublas", "library") if name in kept}
    loaded = milliseconds(few, 1)
    for name, ms in best.items():
        row: dict[str, Any] = {
            "case": case, "by": name, "us": round(ms * 1e3, 1), "rate": round(flops / ms / 1e9, 1),
            "host us": round(host_us(kept[name]), 1),
        }  # fmt: skip
        if "cublas" in best:
            row["to cublas"] = round(best["cublas"] / ms, 3)
        if name == "library" and "cublas" in loaded:
            row["loaded"] = round(loaded["cublas"] / loaded[name], 3)
        rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--sizes", type=int, nargs="+", default=[2048, 4096, 8192])
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for case, make in cases(options.sizes):
        torch.manual_seed(0)
        for row in measure(case, make, options.rounds):
            rows.append(row)
            show_row(row)
        torch.cuda.empty_cache()
        write_rows(options.out, "hopper_products_ab.py", rows)
    sys.exit(any("failed" in row for row in rows))


if __name__ == "__main__":
    main()
