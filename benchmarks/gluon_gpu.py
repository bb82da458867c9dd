"""Gluon kernels on an NVIDIA GPU (sm_90): Tritium, Triton and torch in one process.

    python benchmarks/gluon_gpu.py [--out results.json] [--only matmul copy] [--limit 300]

Persistent products of float16 with warps that load and warps that multiply, beside cuBLAS; copies
by the copy engine, beside `copy_`. Each is checked against torch (the output poisoned before), then
timed (median of cold-cache runs by device events, in rounds that alternate). Exits with 1 if a
result is wrong, with 3 when the time limit is reached (a hung kernel).
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

import torch
import triton

from benchmarks import gluon_kernels, gpu_kernels, gpu_measure

PACKAGES = {
    "tritium": gluon_kernels, "triton": gpu_kernels.load("triton", gluon_kernels.__file__),
}  # fmt: skip


def matmul() -> None:
    """Products of square matrices, and of sizes that no tile divides."""
    programs = torch.cuda.get_device_properties(0).multi_processor_count
    for m, n, k in ((1000, 1112, 1336), (4096, 4096, 4096), (8192, 8192, 8192)):
        a = torch.randn(m, k, device="cuda", dtype=torch.float16)
        b = torch.randn(k, n, device="cuda", dtype=torch.float16)
        out, want = a.new_empty(m, n), a @ b
        calls: dict[str, Any] = {"cuBLAS": lambda a=a, b=b, out=out: torch.matmul(a, b, out=out)}
        for who, module in PACKAGES.items():
            made = [module.described(x, s)
                    for x, s in ((a, [128, 64]), (b, [64, 256]), (out, [64, 128]))]  # fmt: skip
            calls[who] = lambda module=module, made=made: module.matmul[(programs,)](
                *made, STAGES=4, GROUP=8, num_warps=4, maxnreg=168
            )
        gpu_measure.compare(f"gluon matmul fp16 {m}x{n}x{k}", "TFLOP/s", 2.0 * m * n * k, calls,
                            out, want, 2e-3)  # fmt: skip


def copy() -> None:
    """Copies of a matrix of a gigabyte."""
    source = torch.randn(2**14, 2**15, device="cuda", dtype=torch.float16)
    out = torch.empty_like(source)
    calls: dict[str, Any] = {"copy_": lambda: out.copy_(source)}
    for who, module in PACKAGES.items():
        # Blocks of adjacent memory, a few kilobytes each: most of a program's time is waiting, and
        # many programs wait beside each other.
        made = [module.described(x.view(-1, 64), [32, 64]) for x in (source, out)]
        calls[who] = lambda module=module, made=made: module.copy_block[(2**29 // (32 * 64),)](
            *made
        )
    gpu_measure.compare("gluon copy by TMA, 1 GiB", "GB/s", 2.0 * source.nbytes, calls, out,
                        source, 0.0)  # fmt: skip


PARTS = {"matmul": matmul, "copy": copy}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", nargs="+", choices=tuple(PARTS))
    parser.add_argument("--limit", type=float, default=300.0, help="seconds")
    options = parser.parse_args()
    watchdog = threading.Timer(options.limit, lambda: os._exit(3))
    watchdog.daemon = True
    watchdog.start()
    print(f"Triton {triton.__version__}", flush=True)
    for name, part in PARTS.items():
        if options.only is None or name in options.only:
            torch.manual_seed(0)
            part()
    print("\n" + gpu_measure.table())
    if options.out:
        gpu_measure.write(options.out)
    sys.exit(1 if gpu_measure.wrong() else 0)


if __name__ == "__main__":
    main()
