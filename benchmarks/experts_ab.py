"""Products of experts on a GPU in several configurations, as shares of the roofline.

    python benchmarks/experts_ab.py [--out FILE] [--tokens 2048 4096 8192] [--rounds 3]
        [--ahead PROCESSES] [--limit SECONDS]

The first product of a layer of 128 experts, 4 of them for each token, in bfloat16 and with weights
in MXFP4 (`benchmarks/kernels.py`); `chosen` is the configuration that the library chooses. Results
are compared with float64 before anything is timed; variants take turns. At the end stands which
variant is best for each product. `--ahead`: processes that compile the variants before; `--limit`:
seconds after which no other case is begun.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

import torch

from benchmarks.common import show_row, write_rows
from tritium_kernels.matmul import PrecisionConfig, matmul
from tritium_kernels.matmul_details.opt_flags import scoped_opt_flags_constraints
from tritium_kernels.numerics_details.mxfp import downcast_to_mxfp, upcast_from_mxfp
from tritium_kernels.roofline import get_blas_tflops
from tritium_kernels.tensor import convert_layout, make_ragged_tensor_metadata, wrap_torch_tensor
from tritium_kernels.tensor_details import layout
from tritium_kernels.tensor_details.dtype import FP4

EXPERTS, K, N, EACH = 128, 2880, 5760, 4
CACHE_BYTES, CALLS, WAIT_CYCLES = 256 << 20, 10, 60_000_000
"""Bytes that are set before each call, calls of a round, and how long (33 ms) the GPU waits before
them: a product takes longer than the host for its call, so that it stays behind from then on."""


def tiles(m: int, tail: int, n: int, stages: int, warps: int = 8, group: int = 1) -> dict[str, Any]:
    """The constraints of a variant, in the order in which its name has them."""
    return {
        "block_m": m, "tail_m": tail, "block_n": n, "num_warps": warps, "num_stages": stages,
        "is_persistent": False, "group_m": group, "epilogue_subtile": 1,
    }  # fmt: skip


def apart(m: int, tail: int, n: int = 128) -> dict[str, Any]:
    """The constraints of a variant of which a warp group copies, and others multiply 64 columns."""
    return {"apart": True, "block_m": m, "tail_m": tail, "block_n": n}


#: Constraints by format and variant: rows of a tile + rows of the end of a slice, columns.
VARIANTS: dict[str, dict[str, dict[str, Any]]] = {
    "bfloat16": {
        "chosen": {},
        "128+32 128, 4 warps": tiles(128, 32, 128, 3, 4),
        "256+32 128": tiles(256, 32, 128, 4),
        "apart 128+32 128": apart(128, 32),
        "apart 256+32 128": apart(256, 32),
        "gathered before, persistent": {"is_persistent": True, "block_m": 128, "tail_m": 0},
    },
    "mxfp4": {
        "chosen": {},
        "64+16 128, 4 warps": tiles(64, 16, 128, 4, 4),
        "128+32 128": tiles(128, 32, 128, 4),
        "apart 64+16 128": apart(64, 16),
        "apart 64+16 192": apart(64, 16, 192),
        "apart 128+32 128": apart(128, 32),
        "apart 128+32 192": apart(128, 32, 192),
        "apart 256+32 128": apart(256, 32),
    },
}


def milliseconds(run: Callable[[], Any], cache: torch.Tensor) -> float:
    """The median time of calls with cold caches that wait in the GPU's queue."""
    events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(CALLS)]
    torch.cuda._sleep(WAIT_CYCLES)
    for begin, end in events:
        cache.zero_()
        begin.record()
        run()
        end.record()
    torch.cuda.synchronize()
    return median(begin.elapsed_time(end) for begin, end in events)


class Layer:
    """Weights of all experts in both formats."""

    def __init__(self, experts: int = EXPERTS) -> None:
        w = torch.randn(experts, K, N, dtype=torch.bfloat16, device="cuda").div_(K**0.5)
        values, scales = downcast_to_mxfp(w, torch.uint8, 1)
        value_layout = layout.make_default_matmul_mxfp4_w_layout(-2)
        scale_layout = layout.make_default_matmul_mxfp4_w_scale_layout(-2)
        packed = convert_layout(wrap_torch_tensor(values, FP4), value_layout)
        scale = convert_layout(wrap_torch_tensor(scales), scale_layout)
        self.rounded = {"bfloat16": w, "mxfp4": upcast_from_mxfp(values, scales, w.dtype, 1)}
        self.given = {
            "bfloat16": (w, PrecisionConfig()),
            "mxfp4": (packed, PrecisionConfig(b_mx_scale=scale)),
        }


class Tokens:
    """Tokens and the experts that they go to; what the product is in float64, rounded."""

    def __init__(self, count: int, experts: int = EXPERTS) -> None:
        self.x = torch.randn(count, K, dtype=torch.bfloat16, device="cuda")
        chosen = torch.rand(count, experts, device="cuda").topk(EACH, 1).indices.flatten()
        self.sizes = torch.bincount(chosen, minlength=experts).int()
        self.gather = (torch.argsort(chosen, stable=True) // EACH).int()
        self.ragged = make_ragged_tensor_metadata(self.sizes, EACH * count)
        self.gathered = self.x[self.gather]
        self.flops = 2.0 * EACH * count * N * K

    def right(self, w: torch.Tensor) -> torch.Tensor:
        rows = self.x[self.gather].split(self.sizes.tolist())
        return torch.cat([
            (part.double() @ one.double()).float() for part, one in zip(rows, w, strict=True)
        ])  # fmt: skip

    def bytes(self, form: str) -> float:
        """Bytes that have to be moved."""
        weights = int((self.sizes > 0).sum()) * K * N * (4.25 if form == "mxfp4" else 16) / 8
        return weights + 2.0 * (self.x.numel() + EACH * len(self.x) * N)


def call(tokens: Tokens, layer: Layer, form: str, name: str) -> torch.Tensor:
    w, config = layer.given[form]
    before = name.startswith("gathered before")
    with scoped_opt_flags_constraints(VARIANTS[form][name]):
        return matmul(
            tokens.gathered if before else tokens.x, w, None, tokens.ragged,
            gather_indx=None if before else tokens.gather, precision_config=config,
        )  # fmt: skip


def compile_ahead(form: str, name: str, count: int) -> str:
    """Compile a variant in a process of its own, by a product of few experts."""
    experts = 8
    layer, tokens = Layer(experts), Tokens(count * experts // EXPERTS, experts)
    try:
        call(tokens, layer, form, name)
        torch.cuda.synchronize()
    except Exception as problem:  # `checked` tells it
        return f"{form}, {name}: {type(problem).__name__}"
    return ""


def compile_all(processes: int, counts: list[int]) -> None:
    """Compile all variants; what is chosen depends on how many tokens there are."""
    jobs = [
        (form, name, count) for form, variants in VARIANTS.items() for name in variants
        for count in (counts if VARIANTS[form][name] == {} else counts[:1])
    ]  # fmt: skip
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        for problem in pool.map(compile_ahead, *zip(*jobs, strict=True)):
            if problem:
                print("ahead:", problem, flush=True)


def checked(
    tokens: Tokens, layer: Layer, form: str
) -> tuple[dict[str, Callable[[], Any]], dict[str, str]]:
    """The calls whose results are right, and why the others are not."""
    want = tokens.right(layer.rounded[form])
    kept, failed = dict[str, Callable[[], Any]](), dict[str, str]()
    for name in VARIANTS[form]:
        made = partial(call, tokens, layer, form, name)
        try:
            difference = made().float().sub_(want)
            error = float(difference.norm() / want.norm())
        except Exception as problem:  # the other variants are still measured
            failed[name] = f"{type(problem).__name__}: {problem}"[:300]
            continue
        if error <= 5e-3:
            kept[name] = made
        else:
            failed[name] = f"relative error {error:.1e}"
    if form == "bfloat16":
        rows, ends = tokens.gathered, tokens.sizes.cumsum(0).int()
        kept["torch, rows gathered before"] = partial(
            torch._grouped_mm, rows, layer.rounded[form], offs=ends
        )
    return kept, failed


def measure(
    tokens: Tokens, layer: Layer, form: str, limits: tuple[float, float], rounds: int
) -> list[dict[str, Any]]:
    """The rows of a product."""
    kept, failed = checked(tokens, layer, form)
    case = f"{form}, {len(tokens.x)}"
    rows: list[dict[str, Any]] = [{"case": case, "by": n, "failed": w} for n, w in failed.items()]
    cache = torch.zeros(CACHE_BYTES, dtype=torch.int8, device="cuda")
    took: dict[str, list[float]] = {name: [] for name in kept}
    for _ in range(rounds):
        for name, made in kept.items():
            took[name].append(milliseconds(made, cache))
    seconds = max(tokens.flops / limits[0], tokens.bytes(form) / limits[1])
    for name, times in took.items():
        ms = median(times)
        rows.append({
            "case": case, "by": name, "us": round(ms * 1e3, 1),
            "rate": round(tokens.flops / ms / 1e9, 1), "roofline": round(seconds * 1e3 / ms, 3),
        })  # fmt: skip
    return rows


def copy_rate() -> float:
    """Bytes a second that a copy of 1 GiB reads and writes."""
    a = torch.zeros(1 << 30, dtype=torch.uint8, device="cuda")
    b = torch.empty_like(a)
    cache = torch.zeros(CACHE_BYTES, dtype=torch.int8, device="cuda")
    return 2.0 * a.numel() / milliseconds(partial(b.copy_, a), cache) * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--tokens", type=int, nargs="+", default=[2048, 4096, 8192])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ahead", type=int, default=0)
    parser.add_argument("--limit", type=float, default=float("inf"))
    options = parser.parse_args()
    begin = time.monotonic()
    if options.ahead:
        compile_all(options.ahead, options.tokens)
        print(f"compiled in {time.monotonic() - begin:.0f} s", flush=True)
    torch.manual_seed(0)
    limits = get_blas_tflops(torch.bfloat16) * 1e12, copy_rate()
    print(f"torch {limits[0] / 1e12:.0f} TFLOP/s, copy {limits[1] / 1e9:.0f} GB/s", flush=True)
    layer, rows = Layer(), list[dict[str, Any]]()
    for count in options.tokens:
        tokens = Tokens(count)
        for form in VARIANTS:
            if time.monotonic() - begin > options.limit:
                print(f"LIMIT: {form}, {count} is left out")
                continue
            for row in measure(tokens, layer, form, limits, options.rounds):
                rows.append(row)
                show_row(row)
        write_rows(options.out, "experts_ab.py", rows)
    for case in dict.fromkeys(row["case"] for row in rows):
        timed = [row for row in rows if row["case"] == case and "us" in row]
        best = max(timed, key=lambda row: row["rate"])
        now = next((row["us"] for row in timed if row["by"] == "chosen"), None)
        gain = "" if now is None else f", {now / best['us']:.2f} of what is chosen"
        print(f"VERDICT {case}: {best['by']} {best['roofline']:.3f} of the roofline{gain}")
    sys.exit(any("failed" in row for row in rows))


if __name__ == "__main__":
    main()
