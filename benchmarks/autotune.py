"""How long it takes to tune a matrix product from nothing: side by side, and one after another.

    python benchmarks/autotune.py [--repeat 3] [--size 512]

Every run is a new process with an empty cache, in which 18 configurations are compiled and
measured. The serial runs are those of `TRITIUM_AUTOTUNE_WORKERS=0`: compile one, measure it,
compile the next. `full` measures each at length when it comes (25 ms of warming up, then 100 ms),
which is what Triton does; the others by the rules of `runtime/autotuning/measuring.py`, side by
side or not.
The runs are interleaved; given are the fastest and the median, and the ratios of these.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

import numpy as np

import tritium
import tritium.language as tl
from tritium import knobs

CONFIGS = [
    tritium.Config({"BM": bm, "BN": bn, "BK": bk})
    for bm in (16, 32, 64)
    for bn in (16, 32, 64)
    for bk in (32, 64)
]

MODES: dict[str, dict[str, str]] = {
    "parallel": {},
    "serial": {"TRITIUM_AUTOTUNE_WORKERS": "0"},
    "serial, full": {"TRITIUM_AUTOTUNE_WORKERS": "0"},
}


@tritium.jit
def matmul(a, b, c, n, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(0, n, BK):
        x = tl.load(a + rows[:, None] * n + (k + inner)[None, :])
        y = tl.load(b + (k + inner)[:, None] * n + columns[None, :])
        total += tl.dot(x, y)
    tl.store(c + rows[:, None] * n + columns[None, :], total)


def grid(meta: dict[str, Any]) -> tuple[int, int]:
    return meta["n"] // meta["BM"], meta["n"] // meta["BN"]


def tune(size: int, full: bool) -> None:
    """Tune once, and print what it took, as JSON."""

    def at_length(call: Any, quantiles: Any) -> Any:
        bench = tritium.runtime.driver.active.get_benchmarker()
        return bench(call, quantiles=quantiles)

    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((size, size), dtype=np.float32) for _ in range(2))
    c = np.empty_like(a)
    kernel = tritium.autotune(CONFIGS, key=["n"], do_bench=at_length if full else None)(matmul)
    start = time.perf_counter()
    kernel[grid](a, b, c, size)
    seconds = time.perf_counter() - start
    np.testing.assert_allclose(c, a @ b, atol=1e-2)
    assert len(kernel.configs_timings) == len(CONFIGS) and not kernel.failures
    best = kernel.configs_timings[kernel.best_config][0]
    print(json.dumps({"seconds": seconds, "best": str(kernel.best_config), "ms": best}))


def run(mode: str, size: int) -> dict[str, Any]:
    """Tune in a new process."""
    with tempfile.TemporaryDirectory() as cache:
        env = knobs.child_environment(TRITON_CACHE_DIR=cache, **MODES[mode])
        command = [sys.executable, __file__, "--tune", "--size", str(size)]
        command += ["--full"] if mode.endswith("full") else []
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
        return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--tune", action="store_true", help="tune once in this process")
    parser.add_argument("--full", action="store_true", help="with --tune: measure at length")
    options = parser.parse_args()
    if options.tune:
        tune(options.size, options.full)
        return
    found: dict[str, list[dict[str, Any]]] = {mode: [] for mode in MODES}
    for _ in range(options.repeat):
        for mode, results in found.items():
            results.append(run(mode, options.size))
    print(f"{len(CONFIGS)} configurations of a {options.size}³ product, cold")
    for mode, results in found.items():
        figures: list[str] = []
        for name, choose in (("fastest", min), ("median", statistics.median)):
            seconds, base = (
                choose([r["seconds"] for r in found[which]]) for which in (mode, "parallel")
            )
            figures.append(f"{name} {seconds:5.2f} s (parallel × {base / seconds:.2f})")
        quickest = min(r["ms"] for r in results)
        print(f"{mode:13} {'   '.join(figures)}   best found {quickest:.3f} ms")


if __name__ == "__main__":
    main()
