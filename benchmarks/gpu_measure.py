"""Helpers for the GPU benchmarks: checks, timing beside others, the table of ratios."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
import triton

from benchmarks import gpu_kernels as ours
from benchmarks.common import gpu_machine

theirs = ours.load("triton")
KERNELS = Path(__file__).parent.parent / "tests" / "nvidia" / "kernels"
PACKAGES = {"tritium": ours, "triton": theirs}
rows: list[dict[str, Any]] = []


def milliseconds(calls: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """The median of cold-cache runs of each; rounds alternate, so that a clock that falls as the
    GPU warms up falls for all."""
    found: dict[str, list[float]] = {who: [] for who in calls}
    for _ in range(rounds):
        for who, call in calls.items():
            took = triton.testing.do_bench(call, warmup=15, rep=60, return_mode="median")
            found[who].append(took)
    return {who: sorted(times)[len(times) // 2] for who, times in found.items()}


def compare(
    name: str, unit: str, amount: float, calls: Mapping[str, Callable[[], Any]], out: torch.Tensor,
    want: torch.Tensor, tolerance: float, rounds: int = 3, more: Mapping[str, Any] | None = None,
    times: Callable[[Mapping[str, Callable[[], Any]], int], dict[str, float]] = milliseconds,
) -> None:  # fmt: skip
    """Run each, compare `out` with `want`, time all that are right, and print a row for each.

    Args:
        unit: "GB/s" or "TFLOP/s".
        amount: bytes or operations of one call.
        tolerance: for the relative error (of the Frobenius norms).
        times: gives the milliseconds of each call, in `rounds` rounds.
    """
    right: dict[str, Callable[[], Any]] = {}
    made: dict[str, dict[str, Any]] = {}
    for who, call in calls.items():
        out.view(torch.uint8).fill_(0xFF)  # NaN in every float type
        row: dict[str, Any] = {"kernel": name, "by": who, "unit": unit, **(more or {})}
        made[who] = row
        start = time.perf_counter()
        try:
            call()
            torch.cuda.synchronize()
        except Exception as error:  # a row that cannot run is shown, and fails the run
            row["failed"] = f"{type(error).__name__}: {error}"[:300]
            continue
        row["first_ms"] = round((time.perf_counter() - start) * 1e3, 1)
        expected = want.detach().double()
        row["error"] = float((out.double() - expected).norm() / expected.norm())
        row["right"] = row["error"] <= tolerance
        if row["right"]:
            right[who] = call
    for who, took in times(right, rounds).items():
        made[who]["rate"] = round(amount / took / (1e6 if unit == "GB/s" else 1e9), 1)
    for row in made.values():
        peer = made.get("triton", {}).get("rate")
        if peer and "rate" in row:
            row["ratio"] = round(row["rate"] / peer, 3)
        rows.append(row)
        print(_line(row), flush=True)


def both(kernel: str, grid: tuple[int, ...], *arguments: Any, **options: Any) -> dict[str, Any]:
    """The same launch by either compiler."""
    return {
        who: lambda module=module: getattr(module, kernel)[grid](*arguments, **options)
        for who, module in PACKAGES.items()
    }


def _line(row: Mapping[str, Any]) -> str:
    if "failed" in row:
        return f"{row['kernel']:44} {row['by']:15} {row['failed']}"
    state = "" if row.get("right", True) else "  WRONG"
    rate, ratio = row.get("rate", float("nan")), row.get("ratio", float("nan"))
    error = row.get("error", 0.0)
    return (
        f"{row['kernel']:44} {row['by']:15} {rate:9.1f} {row['unit']:8} {ratio:6.3f} "
        f"{error:.1e}{state}"
    )


def table() -> str:
    """Ours beside Triton's, one line for each kernel."""
    lines = [f"{'kernel':44} {'by':15} {'rate':>9} {'unit':8} {'ratio':>6} error"]
    return "\n".join([*lines, *(_line(r) for r in rows if r["by"].startswith("tritium"))])


def wrong() -> list[dict[str, Any]]:
    """The rows that failed."""
    return [r for r in rows if "failed" in r or r.get("right") is False]


def write(path: Path) -> None:
    """All rows as JSON, with the machine, the versions and the command."""
    command = " ".join(["python", *(p.rpartition("/")[2] if p[:1] == "/" else p for p in sys.argv)])
    text = json.dumps({"machine": gpu_machine(), "command": command, "rows": rows}, indent=1)
    path.write_text(text + "\n")
