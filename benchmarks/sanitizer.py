"""Cost of the sanitizer's checks: `python -m benchmarks.sanitizer [--device cuda] [--out FILE]`.

Each kernel runs plain and with each check in turn, many times. On the CPU the figure is the
processor time of a launch, the least of all rounds; on a GPU the time between two events around
launches that wait for their reports, the median. `--check` ends with status 1 where `bounds` costs
more than 2 times the run time on the CPU, 3 times on a GPU.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tritium
import tritium.language as tl

MODES = ("bounds", "fp", "unwritten", "races")
MOST = {"cpu": 2.0, "cuda": 3.0}
"""How many times as long a kernel may take with `bounds`."""


@tritium.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    total = tl.load(x + i, mask=inside) + tl.load(y + i, mask=inside)
    tl.store(out + i, total, mask=inside)


@tritium.jit
def gather(x, indices, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at = tl.load(indices + i, mask=i < n, other=0)
    tl.store(out + i, tl.load(x + at, mask=i < n), mask=i < n)


@tritium.jit
def transpose(x, out, M, N, BLOCK: tl.constexpr):
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[:, None]
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    inside = (row < M) & (column < N)
    tl.store(out + column * M + row, tl.load(x + row * N + column, mask=inside), mask=inside)


@tritium.jit
def softmax(x, out, n, BLOCK: tl.constexpr):
    i, row = tl.arange(0, BLOCK), tl.program_id(0)
    v = tl.load(x + row * n + i, mask=i < n, other=-float("inf"))
    v = tl.exp(v - tl.max(v, 0))
    tl.store(out + row * n + i, v / tl.sum(v, 0), mask=i < n)


@tritium.jit
def matmul(a, b, c, M, N, K, BLOCK: tl.constexpr):
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, K, BLOCK):
        k = start + tl.arange(0, BLOCK)
        left = tl.load(a + row[:, None] * K + k[None, :],
                       mask=(row < M)[:, None] & (k < K)[None, :], other=0.0)  # fmt: skip
        right = tl.load(b + k[:, None] * N + column[None, :],
                        mask=(k < K)[:, None] & (column < N)[None, :], other=0.0)  # fmt: skip
        acc = tl.dot(left, right, acc)
    inside = (row < M)[:, None] & (column < N)[None, :]
    tl.store(c + row[:, None] * N + column[None, :], acc, mask=inside)


@tritium.jit
def histogram(x, counts, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(counts + tl.load(x + i, mask=i < n, other=0), 1, mask=i < n)


def cases(there: Callable[[Any], Any], scale: int) -> dict[str, Callable[..., Any]]:
    """The launches by name; they take options.

    Args:
        there: an array where kernels run.
        scale: how many times as much work as on the CPU.
    """
    n, rng, size = scale << 20, np.random.default_rng(0), 1024 if scale == 1 else 4096
    x, out = there(np.ones(n, np.float32)), there(np.zeros(n, np.float32))
    indices = there(rng.integers(0, n, n).astype(np.int32))
    words = there(rng.integers(0, 256, n).astype(np.int32))
    counts = there(np.zeros(256, np.int32))
    block, side = 1024, 256 if scale == 1 else 2048
    tiles = tritium.cdiv(side, 64)
    return {
        "add": lambda **o: add[(n // 4096,)](x, x, out, n, BLOCK=4096, **o),
        "add of 200,000": lambda **o: add[(196,)](x, x, out, 200000, BLOCK=block, **o),
        "gather": lambda **o: gather[(n // block,)](x, indices, out, n, BLOCK=block, **o),
        "transpose": lambda **o: transpose[(size // 64, size // 64)](
            x, out, size, size, BLOCK=64, **o
        ),
        "softmax": lambda **o: softmax[(1024,)](x, out, 1000, BLOCK=block, **o),
        "matmul": lambda **o: matmul[(tiles, tiles)](
            x, x, out, side, side, side, BLOCK=64, **o
        ),
        "matmul of odd sizes": lambda **o: matmul[(tiles, tiles)](
            x, x, out, side - 6, side - 6, side - 6, BLOCK=64, **o
        ),
        "histogram": lambda **o: histogram[(n // block,)](words, counts, n, BLOCK=block, **o),
    }  # fmt: skip


def on_cpu(launch: Callable[[], Any], repeats: int) -> float:
    """Seconds of processor time of a launch."""
    start = time.process_time()
    for _ in range(repeats):
        launch()
    return (time.process_time() - start) / repeats


def on_gpu(launch: Callable[[], Any], repeats: int) -> float:
    """Seconds of a launch, by events."""
    import torch

    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(repeats):
        launch()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / 1e3 / repeats


def measured(device: str, modes: list[str], rounds: int, only: str) -> list[dict[str, Any]]:
    """A row for each kernel: milliseconds plain and with each check, and how many times as long."""
    if device == "cuda":
        import torch

        made = cases(lambda array: torch.from_numpy(array).cuda(), 16)
    else:
        made = cases(lambda array: array, 1)
    timer, rows = {"cpu": on_cpu, "cuda": on_gpu}[device], list[dict[str, Any]]()
    for name, launch in made.items():
        if only not in name:
            continue
        ways = {mode: (lambda mode=mode, launch=launch: launch(instrumentation_mode=mode))
                for mode in modes}  # fmt: skip
        ways = {"plain": launch, **ways}
        for way in ways.values():  # compiles
            way()
            way()
        repeats = 1 + int(0.005 / max(timer(launch, 3), 1e-6))
        times: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(rounds):
            for way, call in ways.items():
                times[way].append(timer(call, repeats if way != "races" else 1))
        best = min if device == "cpu" else (lambda t: sorted(t)[len(t) // 2])
        found = {way: best(t) for way, t in times.items()}
        row = {"kernel": name, "device": device,
               "ms": {way: round(t * 1e3, 4) for way, t in found.items()},
               "times": {way: round(found[way] / found["plain"], 2) for way in modes}}  # fmt: skip
        rows.append(row)
        ms, ratios = row["ms"], row["times"]
        costs = "  ".join(f"{way} {ms[way]:.3f} ms x{ratios[way]:.2f}" for way in modes)
        print(f"{name:20} {ms['plain']:8.3f} ms  {costs}", flush=True)
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=tuple(MOST), default="cpu")
    parser.add_argument("--modes", default=",".join(MODES[:3]))
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--kernel", default="", help="only kernels with this in their names")
    parser.add_argument("--out", type=Path, help="write the rows here, as JSON")
    parser.add_argument("--check", action="store_true", help="fail where bounds costs too much")
    options = parser.parse_args()
    modes = options.modes.split(",")
    rows = measured(options.device, modes, options.rounds, options.kernel)
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(rows, indent=1) + "\n")
    most = MOST[options.device]
    slow = [row["kernel"] for row in rows if row["times"].get("bounds", 0) > most]
    if slow:
        print(f"bounds costs more than {most:g} times the run time: {', '.join(slow)}")
    return int(bool(slow) and options.check)


if __name__ == "__main__":
    sys.exit(main())
