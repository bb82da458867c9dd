"""Gluon kernels on an NVIDIA GPU (sm_90): Tritium, Triton and torch in one process.

    python benchmarks/gluon_gpu.py [--out results.json] [--only matmul ...] [--limit 300]
        [--rounds 21] [--rest .1]

matmul     persistent products of float16 with warps that load and warps that multiply, beside
           cuBLAS: the tutorials' kernel by both compilers ("tritium", "triton"), and that of
           `gluon_clusters.py`, which Triton 3.6 cannot express ("tritium, clusters")
copy       copies by the copy engine, beside `copy_`
attention  tutorial 03's, causal, 16384 rows of 128 columns, 32 heads, beside cuDNN

Each is checked against torch (the output poisoned before). Then single calls are timed by device
events, with cold caches, each after `--rest` seconds without work and queued while the GPU waits,
all sides in turn (`hopper_products_ab.single`): medians. Ends with the figures that are to be
reached. Exits with 1 if a result is wrong, with 3 when the time limit is reached (a hung kernel).
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
from functools import partial
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

import torch
import triton

from benchmarks import gluon_kernels, gpu_kernels, gpu_measure
from benchmarks.attention_gpu import HEADS, Kept, cudnn
from benchmarks.gluon_products_ab import Variant, variant
from benchmarks.hopper_products_ab import rested

WANTED = {"cuBLAS": 1.03, "copy_": 0.95, "cuDNN": 1.0}
"""The ratios to libraries, of the largest of a part's problems, that are to be reached."""
CLUSTERS = Variant(blocks=2, stages=4, group=8, parts=4)
PACKAGES = {
    "tritium": gluon_kernels, "triton": gpu_kernels.load("triton", gluon_kernels.__file__),
}  # fmt: skip


def compare(
    name: str, unit: str, amount: float, calls: dict[str, Any], out: torch.Tensor,
    want: torch.Tensor, tolerance: float, options: argparse.Namespace,
) -> None:  # fmt: skip
    """Check and time calls, the library's first."""
    gpu_measure.compare(
        name, unit, amount, calls, out, want, tolerance, rounds=options.rounds,
        times=partial(rested, rest=options.rest), more={"library": next(iter(calls))},
    )  # fmt: skip


def matmul(options: argparse.Namespace) -> None:
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
        calls["tritium, clusters"] = variant(a, b, out, CLUSTERS)
        compare(f"gluon matmul fp16 {m}x{n}x{k}", "TFLOP/s", 2.0 * m * n * k, calls, out, want,
                2e-3, options)  # fmt: skip


def copy(options: argparse.Namespace) -> None:
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
    compare("gluon copy by TMA, 1 GiB", "GB/s", 2.0 * source.nbytes, calls, out, source, 0.0,
            options)  # fmt: skip


def attention(options: argparse.Namespace) -> None:
    """Causal attention of long sequences, by two groups of warps that take turns."""
    path = Path(__file__).parents[1] / "tutorials" / "gluon" / "03_attention_on_hopper.py"
    spec = spec_from_file_location("attention_on_hopper", path)
    assert spec is not None and spec.loader is not None
    tutorial = module_from_spec(spec)
    sys.modules[spec.name] = tutorial
    spec.loader.exec_module(tutorial)
    length, depth = 16384, 128
    q, k, v = (torch.randn(HEADS, length, depth, device="cuda").half() for _ in range(3))
    out = torch.empty_like(q)
    theirs = partial(cudnn, *(x[None] for x in (q, k, v)), causal=True)
    ours = partial(
        tutorial.attention[(length // 128, HEADS)], *tutorial.arguments(q, k, v, out, 128), length,
        depth**-0.5, STAGES=2, CAUSAL=True, num_warps=4,
    )  # fmt: skip
    calls = {"cuDNN": Kept(theirs, out), "tritium": ours}
    flops = 2.0 * HEADS * length**2 * depth  # half of two products
    compare(f"gluon attention {length}x{depth} causal", "TFLOP/s", flops, calls, out, theirs()[0],
            1e-2, options)  # fmt: skip


PARTS = {"matmul": matmul, "copy": copy, "attention": attention}


def verdicts() -> list[str]:
    """A line for each part's last problem: the best of Tritium's kernels beside the library's."""
    rates: dict[str, dict[str, tuple[str, float]]] = {}
    for row in gpu_measure.rows:
        if "rate" in row:
            by = "tritium" if row["by"].startswith("tritium") else row["by"]
            found = rates.setdefault(row["library"], {})  # of the last problem, as it comes later
            kept = found.get(by)
            if kept is None or kept[0] != row["kernel"] or row["rate"] > kept[1]:
                found[by] = row["kernel"], row["rate"]
    lines = []
    for library, found in rates.items():
        if "tritium" in found and library in found:
            (name, rate), (_, peer) = found["tritium"], found[library]
            ratio, wanted = rate / peer, WANTED[library]
            state = "reached" if ratio >= wanted else "not reached"
            lines.append(f"VERDICT {name}: {ratio:.3f} of {library}, {wanted} wanted: {state}")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", nargs="+", choices=tuple(PARTS))
    parser.add_argument("--limit", type=float, default=300.0, help="seconds")
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--rest", type=float, default=0.1, help="seconds before each call")
    options = parser.parse_args()
    watchdog = threading.Timer(options.limit, lambda: os._exit(3))
    watchdog.daemon = True
    watchdog.start()
    print(f"Triton {triton.__version__}", flush=True)
    for name, part in PARTS.items():
        if options.only is None or name in options.only:
            torch.manual_seed(0)
            part(options)
            torch.cuda.empty_cache()
            if options.out:
                gpu_measure.write(options.out)  # of what the time limit leaves
    print("\n".join(["", gpu_measure.table(), *verdicts()]))
    sys.exit(1 if gpu_measure.wrong() else 0)


if __name__ == "__main__":
    main()
