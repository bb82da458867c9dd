"""torch.compile through Tritium beside its own code generators.

    python benchmarks/torch_compile.py                 # on the CPU, beside inductor's C++
    python benchmarks/torch_compile.py --device cuda   # beside Triton (`--triton PYTHON` has it)

Each side is a process of its own; they get the same inputs and measure in turns, with a rest
before each: first one of them every time, then the other. A figure is the median of the rounds,
of which each is the median of many calls. Both sides compare with eager torch first.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
RANDOM = ("dropout",)
"""Cases whose sides draw different numbers: their means are compared."""
REST = 0.3
"""Seconds before each measurement."""


def cases(device: str) -> dict[str, Callable[[], tuple[Any, tuple[Any, ...], dict[str, Any]]]]:
    """Name -> function that makes (what is compiled, its inputs, keywords of `torch.compile`).
    Where an input requires a gradient, the backward pass is measured as well."""
    import torch
    import torch.nn.functional as F
    from torch import nn

    large = device == "cuda"
    rows, columns = (16384, 4096) if large else (2048, 1024)

    def normal(*shape: int, grad: bool = False, dtype: Any = torch.float32) -> torch.Tensor:
        return torch.randn(shape, device=device, dtype=dtype).requires_grad_(grad)

    def plain(function: Any, *shapes: tuple[int, ...], grad: bool = False) -> Any:
        return lambda: (function, tuple(normal(*shape, grad=grad) for shape in shapes), {})

    def module(made: Callable[[], Any], *shape: int) -> Any:
        return lambda: (made().to(device), (normal(*shape, grad=True),), {})

    def cross_entropy() -> Any:
        targets = torch.randint(0, columns * 4, (rows // 4,), device=device)
        return F.cross_entropy, (normal(rows // 4, columns * 4, grad=True), targets), {}

    def embedding() -> Any:
        tokens = torch.randint(0, 30000, (rows,), device=device)
        table = normal(30000, 256, grad=True)
        return (lambda i, w: F.rms_norm(F.embedding(i, w), (256,))), (tokens, table), {}

    def adamw() -> Any:
        weights = [normal(1024, 1024) for _ in range(4 if not large else 32)]
        optimizer = torch.optim.AdamW(weights, lr=1e-3, foreach=True)
        for weight in weights:
            weight.grad = torch.ones_like(weight)

        def step() -> list[torch.Tensor]:
            optimizer.step()
            return weights

        return step, (), {}

    def mlp() -> nn.Module:
        return nn.Sequential(nn.Linear(512, 2048), nn.GELU(), nn.Linear(2048, 512))

    found: dict[str, Any] = {
        "elementwise": plain(lambda x, y: F.gelu(x * y + 1) * x.sigmoid(), *[(rows, columns)] * 2),
        "transposed": plain(lambda x, y: (x + y.T).sin(), (columns, columns), (columns, columns)),
        "sum": plain(lambda x: x.sum(), (rows, columns)),
        "column sums": plain(lambda x: x.square().sum(0), (rows, columns)),
        "softmax": plain(lambda x: x.softmax(-1), (rows, columns)),
        "softmax, backward": plain(lambda x: x.softmax(-1), (rows, columns), grad=True),
        "layer norm, backward": module(lambda: nn.LayerNorm(columns), rows, columns),
        "rms norm, backward": module(lambda: nn.RMSNorm(columns), rows, columns),
        "batch norm, backward": module(lambda: nn.BatchNorm2d(64), 32, 64, 28, 28),
        "cross entropy, backward": cross_entropy,
        "embedding, backward": embedding,
        "cumsum": plain(lambda x: x.cumsum(-1), (rows, columns)),
        "argmax": plain(lambda x: x.argmax(-1), (rows, columns)),
        "dropout": plain(lambda x: F.dropout(x * 2, 0.1), (rows, columns)),
        "MLP, backward": module(mlp, 256, 512),
        "AdamW": adamw,
    }
    if large:
        found |= _on_a_gpu(normal)
    return found


def _on_a_gpu(normal: Callable[..., Any]) -> dict[str, Any]:
    import torch
    import torch.nn.functional as F
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    half = torch.float16
    tuned = {"options": {"max_autotune_gemm": True, "max_autotune_gemm_backends": "TRITON"}}

    def product() -> Any:
        a, b = normal(4096, 4096, dtype=half), normal(4096, 4096, dtype=half)
        return (lambda a, b: F.relu(a @ b)), (a, b), tuned

    def attention(grad: bool) -> Any:
        def make() -> Any:
            mask = create_block_mask(lambda b, h, q, k: q >= k, None, None, 4096, 4096)
            qkv = tuple(normal(2, 16, 4096, 64, dtype=half, grad=grad) for _ in range(3))
            return (lambda q, k, v: flex_attention(q, k, v, block_mask=mask)), qkv, {}

        return make

    def launches() -> Any:
        x = normal(64, 64)

        def function(x: Any) -> Any:  # 16 small kernels that cannot become one
            for _ in range(16):
                x = x.sort(-1).values.softmax(0)
            return x

        return function, (x,), {}

    return {"product, tuned": product, "flex attention": attention(False),
            "flex attention, backward": attention(True), "small kernels": launches}  # fmt: skip


def serve(device: str, ours: bool, threads: int) -> None:
    """Be one side: read names of cases, answer each with what was measured."""
    if ours:
        import tritium.compat

        tritium.compat.install()
    import torch
    from torch._inductor import config

    torch.set_num_threads(threads)
    config.cpu_backend = "triton" if ours else "cpp"
    config.fx_graph_cache = False
    known, ready = cases(device), {}
    said = {"torch": torch.__version__}
    if ours or device == "cuda":
        import triton

        said["compiler"] = f"{'tritium' if ours else 'triton'} {_version(triton, ours)}"
    print(json.dumps(said), flush=True)
    for line in sys.stdin:
        name = line.strip()
        try:
            if name not in ready:
                ready[name] = _prepared(known[name], name in RANDOM)
                print(json.dumps(ready[name][1]), flush=True)
            else:
                print(json.dumps({"time": _measured(ready[name][0], device)}), flush=True)
        except Exception as error:
            print(json.dumps({"error": f"{type(error).__name__}: {error}"[:500]}), flush=True)


def _version(triton: Any, ours: bool) -> str:
    if not ours:
        return triton.__version__
    from tritium.version import __version__

    return __version__


def _prepared(make: Callable[[], Any], random: bool) -> tuple[Callable[[], Any], dict[str, Any]]:
    """A call to measure, and how long compiling it took and how far off eager torch it is."""
    import torch

    torch._dynamo.reset()
    torch.manual_seed(0)
    function, inputs, how = make()
    leaves = [t for t in inputs if t.requires_grad]
    held = list(function.parameters()) if isinstance(function, torch.nn.Module) else []

    def call(callee: Any) -> list[Any]:
        out = callee(*inputs)
        if not leaves:
            return [out] if isinstance(out, torch.Tensor) else list(out)
        return [out, *torch.autograd.grad(out.sum() if out.ndim else out, [*leaves, *held])]

    torch.manual_seed(1)
    want = [] if not inputs else call(function)
    compiled = torch.compile(function, **how)
    start = time.perf_counter()
    torch.manual_seed(1)
    got = call(compiled)
    seconds = time.perf_counter() - start
    if random:
        got, want = [t.mean() for t in got], [t.mean() for t in want]
    errors = [
        ((g.double() - w.double()).abs().max() / w.double().abs().max().clamp(min=1)).item()
        for g, w in zip(got, want, strict=False)
    ]
    return lambda: call(compiled), {"compile": seconds, "error": max(errors, default=0.0)}


def _measured(call: Callable[[], Any], device: str) -> float:
    """The median time of a call, in milliseconds."""
    import torch

    times: list[float] = []
    end = time.perf_counter() + 0.6
    while time.perf_counter() < end or len(times) < 5:
        if device == "cuda":
            before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            before.record()
            call()
            after.record()
            after.synchronize()
            times.append(before.elapsed_time(after))
        else:
            start = time.perf_counter()
            call()
            times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times)


class Side:
    """A process that measures; asked one thing at a time."""

    def __init__(self, ours: bool, options: argparse.Namespace, folder: str):
        python = sys.executable if ours or not options.triton else options.triton
        source = [str(ROOT / "src")] if ours else []
        given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        path = os.pathsep.join([*source, *(p for p in given if ours or p != str(ROOT / "src"))])
        place = os.path.join(folder, "ours" if ours else "theirs")
        environment = {
            **os.environ, "PYTHONPATH": path, "TORCHINDUCTOR_CACHE_DIR": place,
            "TRITON_CACHE_DIR": os.path.join(place, "kernels"),
            "TRITIUM_NUM_THREADS": str(options.threads), "OMP_NUM_THREADS": str(options.threads),
        }  # fmt: skip
        command = [python, __file__, "--device", options.device, "--side",
                   "ours" if ours else "theirs", "--threads", str(options.threads)]  # fmt: skip
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
            stderr=None if options.verbose else subprocess.DEVNULL,
        )  # fmt: skip
        self.said = self._answer()

    def ask(self, name: str) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{name}\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        while line := self._process.stdout.readline():
            if line.startswith("{"):
                return json.loads(line)
        raise RuntimeError("a process that measures has ended; run with --verbose")

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)


def compare(name: str, ours: Side, theirs: Side, rounds: int) -> dict[str, Any]:
    """Measurements of one case on both sides."""
    both = {"ours": ours, "theirs": theirs}
    row: dict[str, Any] = {"case": name}
    for key, side in both.items():
        row[key] = side.ask(name)
        if "time" not in row[key] and isinstance(row[key].get("error"), str):
            return row
    samples: dict[str, list[float]] = {key: [] for key in both}
    for i in range(rounds):
        for key in [*both][:: 1 if i % 2 else -1]:
            time.sleep(REST)
            samples[key].append(both[key].ask(name)["time"])
    for key, times in samples.items():
        row[key] |= {"ms": statistics.median(times), "samples": times}
    row["ratio"] = row["theirs"]["ms"] / row["ours"]["ms"]
    return row


def machine(device: str) -> str:
    """The processor's or the GPU's name."""
    if device == "cuda":
        import torch

        return torch.cuda.get_device_name()
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((x.partition(": ")[2] for x in lines if x.startswith("model name")), "")
    wide = "AVX-512" if any("avx512f" in x for x in lines) else "no AVX-512"
    return f"{model or platform.machine()} ({wide})"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--only", nargs="*", help="these cases")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--triton", help="a Python that has Triton and torch, if this one has not")
    parser.add_argument("--out", help="write all figures to this file")
    parser.add_argument("--verbose", action="store_true", help="show what the processes say")
    parser.add_argument("--side", choices=("ours", "theirs"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        return serve(options.device, options.side == "ours", options.threads)
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = Side(True, options, folder), Side(False, options, folder)
        said = {"machine": machine(options.device), "device": options.device,
                "threads": options.threads, "python": platform.python_version(),
                "ours": ours.said, "theirs": theirs.said}  # fmt: skip
        print(json.dumps(said))
        rows: list[dict[str, Any]] = []
        for name in options.only or cases(options.device):
            row = compare(name, ours, theirs, options.rounds)
            rows.append(row)
            _show(row)
            if options.out:
                Path(options.out).write_text(json.dumps({**said, "rows": rows}, indent=1) + "\n")
        ours.close()
        theirs.close()
    ratios = [row["ratio"] for row in rows if "ratio" in row]
    if ratios:
        print(f"median ratio {statistics.median(ratios):.2f} of {len(ratios)}")


def _show(row: dict[str, Any]) -> None:
    ours, theirs = row["ours"], row.get("theirs", {})
    if "ratio" not in row:
        print(f"{row['case']:26s} {ours.get('error')} | {theirs.get('error')}", flush=True)
        return
    print(
        f"{row['case']:26s} {ours['ms']:9.3f} ms, other {theirs['ms']:9.3f} ms: "
        f"{row['ratio']:5.2f} times as fast; compiled in {ours['compile']:.1f} and "
        f"{theirs['compile']:.1f} s; error {ours['error']:.1e}, {theirs['error']:.1e}",
        flush=True,
    )


if __name__ == "__main__":
    main()
