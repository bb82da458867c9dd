"""Causal attention of the library on a GPU with tiles of several heads in turns, beside cuDNN.

    python benchmarks/attention_ab.py [--out FILE] [--rounds 5]

`1` stands for tiles of one head after the other; `chosen` is what the library does. Results are
compared with cuDNN's before anything is timed; variants take turns.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

import torch

from benchmarks.attention_gpu import HEADS, SIZES, cudnn
from benchmarks.common import show_row, write_rows
from benchmarks.experts_ab import CACHE_BYTES, milliseconds
from tritium_kernels.dense import attention_launch
from tritium_kernels.dense.attention_launch import UNLIMITED, Call

VARIANTS = {"1": 1, "2": 2, "4": 4, "8": 8, "16": 16, "chosen": None}

Calls = dict[str, Callable[[], Any]]
CHOOSE = attention_launch._together


def turned(heads: int | None, run: Callable[..., Any], *given: Any) -> Any:
    """A call with tiles of that many heads in turns; None: as the library chooses."""
    attention_launch._together = CHOOSE if heads is None else lambda *_: heads
    try:
        return run(*given)
    finally:
        attention_launch._together = CHOOSE


def measure(
    length: int, batches: int, depth: int, gradients: bool, rounds: int
) -> list[dict[str, Any]]:
    """The rows of one size."""
    q, k, v, do = (
        torch.randn(batches, HEADS, length, depth, device="cuda").half() for _ in range(4)
    )
    call = Call(depth**-0.5, UNLIMITED, 0, None, 0.0, 0, length, length, None, None, None)
    o, lse = torch.empty_like(q), torch.empty(q.shape[:3], device="cuda")
    if gradients:
        attention_launch.forward(q, k, v, o, lse, call)
        leaves = [t.clone().requires_grad_() for t in (q, k, v)]
        peer = partial(torch.autograd.grad, cudnn(*leaves, causal=True), leaves, do,
                       retain_graph=True)  # fmt: skip
        want = torch.stack(peer())
        out = torch.empty_like(want)
        given = (attention_launch.backward, q, k, v, o, lse, do, *out, call)
    else:
        peer = partial(cudnn, q, k, v, causal=True)
        want, out = peer(), o
        given = (attention_launch.forward, q, k, v, o, lse, call)
    calls: Calls = {"cudnn": peer}
    calls |= {name: partial(turned, heads, *given) for name, heads in VARIANTS.items()}
    rows: list[dict[str, Any]] = []
    case = f"{'backward' if gradients else 'forward'} {depth} causal {length}"
    for name in VARIANTS:
        out.fill_(float("nan"))
        calls[name]()
        error = float((out.float() - want.float()).norm() / want.float().norm())
        if not error <= 1e-2:
            rows.append({"case": case, "by": name, "failed": f"relative error {error:.1e}"})
            del calls[name]
    cache = torch.zeros(CACHE_BYTES, dtype=torch.int8, device="cuda")
    took: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, made in calls.items():
            took[name].append(milliseconds(made, cache))
    best = {name: median(times) for name, times in took.items()}
    flops = (5 if gradients else 2) * batches * HEADS * length**2 * depth
    for name, ms in best.items():
        rows.append({
            "case": case, "by": name, "us": round(ms * 1e3, 1),
            "rate": round(flops / ms / 1e9, 1), "to cudnn": round(best["cudnn"] / ms, 3),
        })  # fmt: skip
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    torch.manual_seed(0)
    rows: list[dict[str, Any]] = []
    for gradients, (length, batches), depth in product((False, True), SIZES, (64, 128)):
        found = measure(length, batches, depth, gradients, options.rounds)
        for row in found:
            show_row(row)
        rates = {row["by"]: row["to cudnn"] for row in found if "us" in row}
        gain = rates.get("chosen", 0.0) / rates.get("1", 1.0)
        print(f"VERDICT {found[0]['case']}: {rates}, chosen {gain:.3f} of one head after the other")
        rows += found
        write_rows(options.out, "attention_ab.py", rows)
    sys.exit(any("failed" in row for row in rows))


if __name__ == "__main__":
    main()
