"""Figures of Hopper GPUs beside those to reach: cuBLAS's, cuDNN's and Triton's, in one process.

    python benchmarks/hopper.py [--out FILE] [--only products thin ...] [--limit 420]

products   library products in fp16, bf16 and fp8 beside cuBLAS (fp8: `torch._scaled_mm`)
thin       three products of few rows or columns beside cuBLAS
forward    library attention beside cuDNN, 4096 and 16384 rows
backward   its gradients beside cuDNN
tutorial   gradients of tutorial 06 beside Triton, by pointers
linear     linear attention, forward and gradients, beside Triton with the same kernel
autotune   48 configurations of a product, cold, beside Triton
compile    cold compiles beside Triton

Results are compared before anything is timed. With `--rest .1` calls are measured one by one, each
after so many seconds without work (`hopper_products_ab.single`), all sides in turn. Writes rows and
figures after every part, so that what the time limit leaves out does not cost the rest. Exits with
1 if a result is wrong, with 3 when the time limit is reached.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

import torch

from benchmarks import gpu_measure, nvidia_compile
from benchmarks.attention_gpu import CONFIGURATIONS, HEADS, SIZES, Kept, backward, cudnn
from benchmarks.common import gpu_machine
from benchmarks.gpu_measure import PACKAGES, compare, ours
from benchmarks.hopper_products_ab import rested
from tritium_kernels.dense import attention_launch
from tritium_kernels.dense.attention_launch import UNLIMITED, Call
from tritium_kernels.dense.kernels import linear_attention as linear_kernels
from tritium_kernels.dense.matmul_launch import launch as product_launch

ROUNDS, SINGLE_ROUNDS = 2, 21
timing: dict[str, Any] = {"rounds": ROUNDS}
"""Arguments of `compare`: rounds, and what times a call if not `milliseconds`."""
figures: list[dict[str, Any]] = []
"""Each with `ratio`, the figure to reach (`wanted`), and whether a higher one is better."""


def note(
    part: str, case: str, ratio: float, wanted: float, higher: bool = True, **more: Any
) -> None:
    """Record a ratio."""
    met = ratio >= wanted if higher else ratio <= wanted
    figures.append({
        "part": part, "case": case, "ratio": round(ratio, 3), "wanted": wanted, "higher": higher,
        "met": met, **more,
    })  # fmt: skip


def figure(
    part: str, case: str, wanted: float, peer: str, flops: float,
    calls: dict[str, Callable[[], Any]], out: torch.Tensor, want: torch.Tensor,
    tolerance: float = 1e-2,
) -> None:  # fmt: skip
    """Measure calls, `tritium` and a peer, and note the ratio of their rates."""
    compare(f"{part} {case}", "TFLOP/s", flops, calls, out, want, tolerance, **timing)
    _note_rates(part, case, wanted, peer, flops)


def _note_rates(part: str, case: str, wanted: float, peer: str, flops: float) -> None:
    name = f"{part} {case}"
    rates = {r["by"]: r.get("rate") for r in gpu_measure.rows if r["kernel"] == name}
    if rates.get("tritium") and rates.get(peer):
        took = {f"{who}_us": round(flops / rate / 1e6, 1) for who, rate in rates.items() if rate}
        note(part, case, rates["tritium"] / rates[peer], wanted, peer=peer, **took)


def _library_product(a: torch.Tensor, b: torch.Tensor, y: torch.Tensor) -> Callable[[], None]:
    return partial(product_launch, a[None], b[None], y[None])


def products() -> None:
    one = torch.ones((), device="cuda")
    for size in (2048, 4096, 8192):
        for dtype in (torch.float16, torch.bfloat16):
            a, b = (torch.randn(size, size, device="cuda").to(dtype) for _ in range(2))
            y, want = torch.empty_like(a), a @ b
            calls = {"tritium": _library_product(a, b, y),
                     "cublas": partial(torch.matmul, a, b, out=y)}  # fmt: skip
            figure("products", f"{str(dtype)[6:]} {size}", 1.03, "cublas", 2.0 * size**3, calls, y,
                   want)  # fmt: skip
        a, b = (torch.randn(size, size, device="cuda").to(torch.float8_e4m3fn) for _ in range(2))
        y = torch.empty(size, size, device="cuda", dtype=torch.bfloat16)
        scaled = partial(torch._scaled_mm, a, b.T, scale_a=one, scale_b=one, out_dtype=y.dtype,
                         use_fast_accum=True)  # fmt: skip
        want = a.half() @ b.half().T
        calls = {"tritium": _library_product(a, b.T, y), "cublas": Kept(scaled, y)}
        figure("products", f"fp8 {size}", 1.03, "cublas", 2.0 * size**3, calls, y, want)


def thin() -> None:
    for m, n, k in ((16, 4096, 4096), (64, 8192, 8192), (8192, 128, 8192)):
        a, b = (torch.randn(s, device="cuda").bfloat16() for s in ((m, k), (k, n)))
        y, want = torch.empty(m, n, device="cuda", dtype=a.dtype), a @ b
        calls = {"tritium": _library_product(a, b, y),
                 "cublas": partial(torch.matmul, a, b, out=y)}  # fmt: skip
        figure("thin", f"{m}x{n}x{k}", 1.0, "cublas", 2.0 * m * n * k, calls, y, want)


def _attention_flops(length: int, batches: int, depth: int, causal: bool, count: int) -> float:
    return count * 2.0 * batches * HEADS * length**2 * depth * (0.5 if causal else 1)


def _call(depth: int, length: int, causal: bool) -> Call:
    right = 0 if causal else UNLIMITED
    return Call(depth**-0.5, UNLIMITED, right, None, 0.0, 0, length, length, None, None, None)


def attention(gradients: bool) -> None:
    """The library's attention, forward or backward, beside cuDNN."""
    for (length, batches), depth, causal in product(SIZES, CONFIGURATIONS, (False, True)):
        q, k, v, do = (
            torch.randn(batches, HEADS, length, depth, device="cuda").half() for _ in range(4)
        )
        o, call = torch.empty_like(q), _call(depth, length, causal)
        lse = torch.empty(q.shape[:3], device="cuda")
        case = f"{depth} {'causal' if causal else 'full'} {length}"
        if not gradients:
            peer = partial(cudnn, q, k, v, causal=causal)
            calls = {"tritium": partial(attention_launch.forward, q, k, v, o, lse, call),
                     "cudnn": Kept(peer, o)}  # fmt: skip
            flops = _attention_flops(length, batches, depth, causal, 2)
            figure("forward", case, 1.0, "cudnn", flops, calls, o, peer())
            continue
        attention_launch.forward(q, k, v, o, lse, call)
        leaves = [t.clone().requires_grad_() for t in (q, k, v)]
        made = cudnn(*leaves, causal=causal)
        peer = partial(torch.autograd.grad, made, leaves, do, retain_graph=True)
        want = torch.stack(peer())
        out = torch.empty_like(want)
        run = partial(attention_launch.backward, q, k, v, o, lse, do, *out, call)
        flops = _attention_flops(length, batches, depth, causal, 5)
        figure("backward", case, 0.9, "cudnn", flops, {"tritium": run, "cudnn": Kept(peer, out)},
               out, want)  # fmt: skip


def tutorial() -> None:
    """Gradients of tutorial 06; figures are for 64 columns, those for 128 are for comparison."""
    start = len(gpu_measure.rows)
    backward()
    found: dict[str, dict[str, float]] = {}
    for row in gpu_measure.rows[start:]:
        found.setdefault(row["kernel"], {})[row["by"]] = row.get("rate", 0.0)
    for name, rates in found.items():
        if rates.get("tritium") and rates.get("triton"):
            note("tutorial", name, rates["tritium"] / rates["triton"],
                 1.1 if "D=64" in name else 1.0, **rates)  # fmt: skip


def linear() -> None:
    """Chunks of 64 rows of 16 heads of 128 columns; gradients by three of the kernel's launches
    with Triton, by one of the library's."""
    library: Any = import_module("tritium_kernels.dense.linear_attention")
    file = linear_kernels.__file__
    assert file is not None
    theirs = ours.load("triton", file).linear_attention
    heads, length, d = 16, 4096, 128
    scale = d**-0.5
    q, k, v, do = (
        torch.randn(1, heads, length, d, device="cuda").bfloat16() / 4 for _ in range(4)
    )

    def launched(a: Any, b: Any, c: Any, o: torch.Tensor, reverse: bool) -> None:
        strides = [s for t in (a, b, c, o) for s in t.stride()[:3]]
        theirs[(heads, 2)](
            a, b, c, o, None, *strides, heads, length, scale, D=d, DV=d, DP=d, BV=64, CHUNK=64,
            REVERSE=reverse, PRECISION="tf32", num_warps=4,
        )  # fmt: skip

    mask = torch.ones(length, length, device="cuda").tril()
    wide = [x.float() for x in (q, k, v, do)]
    weights, passed = wide[0] @ wide[1].mT * mask, wide[3] @ wide[2].mT * mask
    want = weights @ wide[2] * scale
    gradients = torch.stack([passed @ wide[1], passed.mT @ wide[0], weights.mT @ wide[3]]) * scale
    out, out3 = torch.empty_like(q), torch.empty(3, *q.shape, device="cuda", dtype=q.dtype)
    forward = partial(library.launch, q, k, v, None, scale, False)
    calls: dict[str, Any] = {"tritium": Kept(forward, out),
                             "triton": lambda: launched(q, k, v, out, False)}  # fmt: skip
    flops = 8.0 * heads * length * 64 * d + 4.0 * heads * length * d * d
    figure("linear", "forward", 1.0, "triton", flops, calls, out, want, 2e-2)

    def three() -> None:
        launched(do, v, k, out3[0], False)
        launched(v, do, q, out3[1], True)
        launched(k, q, do, out3[2], True)

    at_once = partial(library.launch_gradients, q, k, v, do, None, scale)
    figure("linear", "gradients", 1.0, "triton", 3 * flops,
           {"tritium": Kept(at_once, out3), "triton": three}, out3, gradients, 2e-2)  # fmt: skip


SHAPES = tuple(product((64, 128), (64, 128, 256), (32, 64), (4, 8), (3, 4)))
"""Rows, columns and depth of tiles, warps, stages: of 48 configurations."""


def tune(who: str) -> None:
    """Tune a product in this process; prints seconds."""
    package: Any = import_module(who)
    configurations = [
        package.Config({"BM": m, "BN": n, "BK": k}, num_warps=warps, num_stages=stages)
        for m, n, k, warps, stages in SHAPES
    ]
    kernel = package.autotune(configurations, key=["M", "N", "K"])(PACKAGES[who].matmul)
    size = 2048
    a, b = (torch.randn(size, size, device="cuda").half() for _ in range(2))
    c = torch.empty_like(a)
    PACKAGES[who].add[(1,)](a, b, c, 128, BLOCK=128)  # what is loaded once a process
    torch.cuda.synchronize()
    start = time.perf_counter()

    def grid(meta: dict[str, Any]) -> tuple[int]:
        return (package.cdiv(size, meta["BM"]) * package.cdiv(size, meta["BN"]),)

    kernel[grid](a, b, c, size, size, size, size, 1, size, 1, size, 1, GROUP=8)
    torch.cuda.synchronize()
    took = time.perf_counter() - start
    error = float((c.float() - (a @ b).float()).norm() / c.float().norm())
    assert error < 1e-2, error
    print(json.dumps({"seconds": took, "best": str(kernel.best_config)}))


def autotune() -> None:
    found: dict[str, Any] = {}
    for who in ("tritium", "triton"):
        with tempfile.TemporaryDirectory(prefix="tune-") as folder:
            done = subprocess.run(
                [sys.executable, __file__, "--tune", who], capture_output=True, text=True,
                env={**os.environ, "TRITON_CACHE_DIR": folder}, timeout=150, check=False,
            )  # fmt: skip
        if done.returncode:
            raise RuntimeError(done.stderr[-500:])
        found[who] = json.loads(done.stdout.strip().splitlines()[-1])
    ratio = found["tritium"]["seconds"] / found["triton"]["seconds"]
    note("autotune", f"{len(SHAPES)} configurations", ratio, 0.35, higher=False, **found)


def compiles() -> None:
    for case in nvidia_compile.DEFAULT:
        times: dict[str, list[float]] = {"tritium": [], "triton": []}
        for _ in range(ROUNDS):
            for who, took in times.items():
                sample = nvidia_compile.sample(sys.executable, who, case, False)
                took.append(round(sample["ms"], 1))
        ratio = median(times["tritium"]) / median(times["triton"])
        note("compile", case, ratio, 0.75, higher=False, **times)


PARTS: dict[str, Callable[[], None]] = {
    "thin": thin, "products": products, "tutorial": tutorial, "linear": linear,
    "backward": partial(attention, True), "forward": partial(attention, False),
    "autotune": autotune, "compile": compiles,
}  # fmt: skip


def table() -> str:
    """A line for each figure."""
    lines = [f"{'figure':56} {'ratio':>6}  {'to reach':9}"]
    for row in figures:
        bound = f"{'>=' if row['higher'] else '<='} {row['wanted']:.2f}"
        name = f"{row['part']} {row['case']}"
        lines.append(f"{name:56} {row['ratio']:6.3f}  {bound:9} {'' if row['met'] else 'not met'}")
    met = sum(row["met"] for row in figures)
    return "\n".join([*lines, f"{met} of {len(figures)} are met"])


def write(path: Path, failed: dict[str, str]) -> None:
    command = " ".join(["python", "benchmarks/hopper.py", *sys.argv[1:]])
    found = {"machine": gpu_machine(), "command": command, "figures": figures, "failed": failed,
             "rows": gpu_measure.rows}  # fmt: skip
    path.write_text(json.dumps(found, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", nargs="+", choices=tuple(PARTS), default=tuple(PARTS))
    parser.add_argument("--limit", type=float, default=420.0, help="seconds")
    parser.add_argument("--rest", type=float, help="seconds without work before each call")
    parser.add_argument("--tune", choices=tuple(PACKAGES), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.tune:
        tune(options.tune)
        return
    if options.rest is not None:
        timing.update(rounds=SINGLE_ROUNDS, times=partial(rested, rest=options.rest))
    failed: dict[str, str] = {}

    def stop() -> None:
        print("\n" + table(), flush=True)
        os._exit(3)

    watchdog = threading.Timer(options.limit, stop)
    watchdog.daemon = True
    watchdog.start()
    for name in options.only:
        torch.manual_seed(0)
        start = time.perf_counter()
        try:
            PARTS[name]()
        except Exception as error:  # the other parts are still measured
            failed[name] = f"{type(error).__name__}: {error}"[:500]
        torch.cuda.empty_cache()
        print(f"# {name}: {time.perf_counter() - start:.1f} s {failed.get(name, '')}", flush=True)
        if options.out:
            write(options.out, failed)
    print("\n" + table())
    sys.exit(1 if failed or gpu_measure.wrong() else 0)


if __name__ == "__main__":
    main()
