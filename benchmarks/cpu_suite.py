"""Tritium against NumPy and torch on the CPU, and the time that compiling takes.

    python -m benchmarks.cpu_suite --out build/bench
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.common import Result, plot, run_child, table, write_json
from tritium.cli import demo_cases
from tritium.cli.demo_cases import Case
from tritium.cli.timing import interleave
from tritium.runtime import driver

ROOT = Path(__file__).resolve().parent.parent

CASES: dict[str, list[Callable[..., Case]]] = {
    "add": [demo_cases.vector_add],
    "softmax": [demo_cases.softmax],
    "layernorm": [demo_cases.layer_norm],
    "matmul": [partial(demo_cases.matmul, size) for size in (512, 1024, 2048)],
}

#: What the compile times are measured on; benchmarks/compile_time.py knows the names.
COMPILED = ("add", "matmul", "softmax", "layernorm")


def measure(names: list[str], threads: int, rounds: int) -> list[Result]:
    """In this process, whose libraries were told the number of threads when it started."""
    driver.set_active_to_cpu()
    torch = demo_cases.load_torch()
    if torch is not None:
        torch.set_num_threads(threads)
    results: list[Result] = []
    for make in (make for name in names for make in CASES[name]):
        case = make(torch=torch)
        case.launch()
        result = Result(case.name, case.size, threads, case.work, case.unit, case.error())
        if not result.error <= case.tolerance:
            raise RuntimeError(f"{case.name} {case.size} is wrong: differs by {result.error}")
        runs = {"tritium": case.launch, **case.rivals}
        result.samples = {name: [] for name in runs}
        for sample in interleave(runs, rounds=rounds, sample_seconds=0.02, rest=0.2):
            for name, seconds in sample.items():
                result.samples[name].append(seconds)
        results.append(result)
    return results


def compile_times(repeats: int) -> dict[str, dict[str, float]]:
    """Milliseconds, medians over fresh processes, the cache empty at first: the first launch of
    all (`first`), compiling with the compiler loaded (`cold`), from the cache (`cached`).

    The package is the one that `pip install .` makes: in a checkout each file of the compiler is
    looked at for changes, which takes a millisecond."""
    found: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as package:
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target"]
        subprocess.run([*install, package, str(ROOT)], check=True)
        for kernel in COMPILED:
            found[kernel] = _compile_times(kernel, repeats, package)
    return found


def _compile_times(kernel: str, repeats: int, package: str) -> dict[str, float]:
    phases = ("first", "cached", "cold")
    samples: dict[str, list[float]] = {phase: [] for phase in (*phases, "import")}
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as folder:
            for phase in phases:
                place = f"{folder}/other" if phase == "cold" else f"{folder}/one"
                options = [kernel, "--loaded"] if phase == "cold" else [kernel]
                settings = {"TRITON_CACHE_DIR": place, "PYTHONPATH": package}
                child = run_child("benchmarks.compile_time", options, **settings)
                samples[phase].append(child["ready_ms"])
                samples["import"].append(child["import_ms"])
    return {name: statistics.median(values) for name, values in samples.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="a folder for cpu_suite.json and cpu_suite.png")
    parser.add_argument("--only", nargs="+", choices=[*CASES, "compile"])
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--rounds", type=int, default=25, help="samples of each library")
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    names = [name for name in CASES if not arguments.only or name in arguments.only]
    if arguments.child is not None:
        results = measure(names, arguments.child, arguments.rounds)
        print(json.dumps([asdict(r) for r in results]))
        return
    results = [r for n in arguments.threads for r in _measure_in_child(names, n, arguments.rounds)]
    if results:
        print(table(results))
    compiled: dict[str, Any] = {}
    if not arguments.only or "compile" in arguments.only:
        compiled = compile_times(repeats=5)
        print("\n| kernel | first launch | compiled in | from the cache in | imports |")
        print("|---|---|---|---|---|")
        for name, ms in compiled.items():
            cells = " | ".join(f"{ms[p]:.1f} ms" for p in ("first", "cold", "cached", "import"))
            print(f"| {name} | {cells} |")
    if arguments.out:
        write_json(arguments.out / "cpu_suite.json", results, compile_ms=compiled)
        if results:
            plot(arguments.out / "cpu_suite.png", results)


def _measure_in_child(names: list[str], threads: int, rounds: int) -> list[Result]:
    if not names:
        return []
    print(f"measuring on {threads} thread(s): {', '.join(names)}", file=sys.stderr)
    options = ["--child", str(threads), "--rounds", str(rounds), "--only", *names]
    child = run_child("benchmarks.cpu_suite", options, threads=threads)
    return [Result(**entry) for entry in child]


if __name__ == "__main__":
    main()
