"""Vector add, softmax and matmul on an NVIDIA GPU: Tritium, Triton and torch in one process.

    python benchmarks/gpu_slice.py [--out results.json] [--only matmul] [--limit 300]

Each kernel is checked against torch (the output poisoned before), then timed (median of cold-cache
runs by device events). "ttgir" rows compile ttgir that Triton wrote, and so measure the lowering
alone. Exits with 1 if a result is wrong, with 3 when the time limit is reached (a hung kernel).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import triton
from triton.tools.tensor_descriptor import TensorDescriptor

import tritium

sys.path.insert(0, str(Path(__file__).parent))
import gpu_kernels as ours

KERNELS = Path(__file__).parent.parent / "tests" / "nvidia" / "kernels"
theirs = ours.load("triton")
rows: list[dict[str, Any]] = []


def milliseconds(call: Callable[[], Any]) -> float:
    return triton.testing.do_bench(call, warmup=50, rep=200, return_mode="median")


def record(
    name: str, who: str, unit: str, amount: float, call: Callable[[], Any], out: torch.Tensor,
    want: torch.Tensor, tolerance: float,
) -> None:  # fmt: skip
    """Run, compare, time, print one row. `amount`: bytes or operations of one call."""
    out.fill_(float("nan"))
    row: dict[str, Any] = {"kernel": name, "by": who, "unit": unit}
    start = time.perf_counter()
    try:
        call()
        torch.cuda.synchronize()
    except Exception as error:  # a row that cannot run is shown, and fails the run
        row["failed"] = f"{type(error).__name__}: {error}"[:300]
    else:
        row["first_ms"] = round((time.perf_counter() - start) * 1e3, 1)
        difference = (out.double() - want.double()).norm() / want.double().norm()
        row["error"] = float(difference)
        row["right"] = bool(difference <= tolerance)
        took = milliseconds(call)
        row["rate"] = round(amount / took / 1e6 if unit == "GB/s" else amount / took / 1e9, 1)
    rows.append(row)
    print(row, flush=True)


def vector_add() -> None:
    n = 1 << 28
    x, y = (torch.randn(n, device="cuda") for _ in range(2))
    out, want = torch.empty_like(x), x + y
    grid = (n // 1024,)
    from_ir = tritium.compile(KERNELS / "add.ttgir")
    calls: dict[str, Callable[[], Any]] = {
        "tritium": lambda: ours.add[grid](x, y, out, n, BLOCK=1024),
        "tritium, ttgir": lambda: from_ir[grid](x, y, out, n),
        "triton": lambda: theirs.add[grid](x, y, out, n, BLOCK=1024),
        "torch": lambda: torch.add(x, y, out=out),
    }
    for who, call in calls.items():
        record("add 2^28", who, "GB/s", 12 * n, call, out, want, 0.0)


def softmax() -> None:
    for columns, warps in ((1024, 4), (4096, 8)):
        x = torch.randn(16384, columns, device="cuda")
        out, want, s = torch.empty_like(x), torch.softmax(x, 1), columns
        for grid in ((132 * 8,), (132 * 16,), (16384,)):
            arguments = (out, x, s, s, 16384, columns)
            options = {"BLOCK": columns, "num_warps": warps}
            calls = {
                "tritium": partial(ours.softmax[grid], *arguments, **options),
                "triton": partial(theirs.softmax[grid], *arguments, **options),
                "torch": partial(torch.softmax, x, 1, out=out),
            }
            for who, call in calls.items():
                name = f"softmax 16384x{columns}, {grid[0]} programs"
                record(name, who, "GB/s", 8 * x.numel(), call, out, want, 1e-5)


def matmul() -> None:
    for size in (4096, 8192):
        a, b = (torch.randn(size, size, device="cuda", dtype=torch.float16) for _ in range(2))
        out, want, n, flops = torch.empty_like(a), a @ b, size, 2.0 * size**3
        arguments = (a, b, out, n, n, n, n, n, n)
        for bm, bn, bk, warps, stages in ((128, 128, 64, 8, 4), (128, 256, 64, 8, 4)):
            grid = ((n // bm) * (n // bn),)
            options = {"BM": bm, "BN": bn, "BK": bk, "GROUP": 8,
                       "num_warps": warps, "num_stages": stages}  # fmt: skip
            for who, kernels in (("tritium", ours), ("triton", theirs)):
                name = f"matmul fp16 {size}, {bm}x{bn}x{bk}"
                call = partial(kernels.matmul[grid], *arguments, **options)
                record(name, who, "TFLOP/s", flops, call, out, want, 2e-3)
        from_ir = tritium.compile(KERNELS / "matmul_wgmma.ttgir")
        call = partial(from_ir[(n // 128) * (n // 256), 1, 1], *arguments)
        name = f"matmul fp16 {size}, 128x256x64"
        record(name, "tritium, ttgir", "TFLOP/s", flops, call, out, want, 2e-3)
        _bulk_copies(a, b, out, want, flops)
        call = partial(torch.matmul, a, b, out=out)
        record(f"matmul fp16 {size}", "torch", "TFLOP/s", flops, call, out, want, 2e-3)


def _bulk_copies(
    a: torch.Tensor, b: torch.Tensor, out: torch.Tensor, want: torch.Tensor, flops: float
) -> None:
    """TMA loads and stores; b as the kernel wants it, transposed."""
    n, b_t = a.shape[0], b.T.contiguous()
    kernel = tritium.compile(KERNELS / "matmul_tma.ttgir")
    descriptors = (
        TensorDescriptor.from_tensor(a, [128, 64]), TensorDescriptor.from_tensor(b_t, [128, 64]),
        TensorDescriptor.from_tensor(out, [128, 128]),
    )  # fmt: skip
    call = partial(kernel[(n // 128) ** 2, 1, 1], *descriptors, n, n, n)
    name = f"matmul fp16 {n}, 128x128x64, TMA"
    record(name, "tritium, ttgir", "TFLOP/s", flops, call, out, want, 2e-3)


def launch_cost() -> None:
    """Microseconds of one launch from Python."""
    x = torch.randn(1024, device="cuda")
    out = torch.empty_like(x)
    for who, kernels in (("tritium", ours), ("triton", theirs)):
        call = partial(kernels.add[(1,)], x, x, out, 1024, BLOCK=1024)
        call()
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(5000):
            call()
        took = (time.perf_counter() - start) / 5000 * 1e6
        rows.append({"kernel": "launch of add", "by": who, "unit": "us", "rate": round(took, 2)})
        print(rows[-1], flush=True)
        torch.cuda.synchronize()


def table() -> None:
    print(f"\n{'kernel':42} {'by':16} {'rate':>9} unit     error")
    for row in rows:
        rate = row.get("failed", f"{row.get('rate', 0):9.1f} {row['unit']:8}")[:60]
        print(f"{row['kernel']:42} {row['by']:16} {rate} {row.get('error', 0):.1e}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", choices=("add", "softmax", "matmul", "launch"))
    parser.add_argument("--limit", type=float, default=300.0, help="seconds")
    options = parser.parse_args()
    watchdog = threading.Timer(options.limit, lambda: os._exit(3))
    watchdog.daemon = True
    watchdog.start()
    torch.manual_seed(0)
    parts = {"add": vector_add, "softmax": softmax, "matmul": matmul, "launch": launch_cost}
    for name, part in parts.items():
        if options.only in (None, name):
            part()
    table()
    if options.out:
        facts = {
            "device": torch.cuda.get_device_name(), "cuda": torch.version.cuda,
            "torch": torch.__version__, "triton": triton.__version__,
            "tritium": tritium.__version__, "python": platform.python_version(),
        }  # fmt: skip
        options.out.write_text(json.dumps({"machine": facts, "rows": rows}, indent=1) + "\n")
    wrong = [r for r in rows if "failed" in r or r.get("right") is False]
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
