"""Kernels on an NVIDIA GPU: Tritium, Triton and torch in one process, with the ratios.

    python benchmarks/gpu_slice.py [--out results.json] [--only matmul ...] [--limit 300]

Each kernel is checked against torch (the output poisoned before), then timed (median of cold-cache
runs by device events, in rounds that alternate). "ttgir" rows compile ttgir that Triton wrote, and
so measure the lowering alone. Exits with 1 if a result is wrong, with 3 when the time limit is
reached (a hung kernel).
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import torch

from benchmarks import gpu_measure, gpu_memory, gpu_products

PARTS = {
    "add": gpu_memory.vector_add,
    "softmax": gpu_memory.softmax,
    "dropout": gpu_memory.dropout,
    "layernorm": gpu_memory.layer_norm,
    "matmul": gpu_products.matmul,
    "fp8": gpu_products.matmul_fp8,
    "odd": gpu_products.matmul_odd,
    "mma": gpu_products.matmul_mma,
    "ieee": gpu_products.matmul_ieee,
    "persistent": gpu_products.persistent,
    "attention": gpu_products.attention,
    "ttgir": gpu_products.from_ir,
    "launch": gpu_memory.launch_cost,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", nargs="+", choices=tuple(PARTS))
    parser.add_argument("--limit", type=float, default=300.0, help="seconds")
    options = parser.parse_args()
    watchdog = threading.Timer(options.limit, lambda: os._exit(3))
    watchdog.daemon = True
    watchdog.start()
    for name, part in PARTS.items():
        if options.only is None or name in options.only:
            torch.manual_seed(0)
            start = time.perf_counter()
            part()
            torch.cuda.empty_cache()
            print(f"# {name}: {time.perf_counter() - start:.1f} s", flush=True)
    print("\n" + gpu_measure.table())
    if options.out:
        gpu_measure.write(options.out)
    sys.exit(1 if gpu_measure.wrong() else 0)


if __name__ == "__main__":
    main()
