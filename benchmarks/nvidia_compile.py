"""How long a cold compile for an NVIDIA GPU takes, beside Triton; no GPU is needed.

    python benchmarks/nvidia_compile.py [--rounds 5] [--triton PYTHON] [--out FILE] [CASE ...]

Every sample is a fresh process with an empty cache that imports one of the two, compiles another
kernel (so that what is loaded once a process is loaded), then the case, from Python source to
cubin; the time is that of the case, on the clock and of the processor. Samples of the two
alternate. With `--first` the case is the first kernel of its process. Both use the same ptxas: that
of `TRITON_PTXAS_PATH`, else of the PATH.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).parent.parent
DEFAULT = ("add", "softmax 4096", "matmul 128x256x64", "matmul 128x128x64", "matmul 64x256x32")


def child(package: str, case: str, first: bool) -> None:
    """One sample; prints milliseconds."""
    started = time.perf_counter()
    sys.path[:0] = [str(ROOT), str(ROOT / "src")]
    if package == "triton":
        # The kernels' file imports tritium; the other package's environment may not have it.
        import triton

        sys.modules["tritium"] = triton
        sys.modules["tritium.language"] = triton.language
    from benchmarks import gluon_sources, gpu_sources

    sources, small = gpu_sources, "layer norm, sums"
    if case in gluon_sources.CASES:
        sources, small = gluon_sources, gluon_sources.other_case(case)

    ready = time.perf_counter()
    if not first:
        sources.compiled(small, package)
    start, busy = time.perf_counter(), processor_seconds()
    kernel = sources.compiled(case, package)
    took, busy = time.perf_counter() - start, processor_seconds() - busy
    version = getattr(sys.modules[package], "__version__", "")
    registers = getattr(kernel.metadata, "n_regs", None)
    print(json.dumps({
        "ms": took * 1e3, "cpu_ms": busy * 1e3, "import_ms": (ready - started) * 1e3,
        "version": version, "n_regs": registers,
    }))  # fmt: skip


def processor_seconds() -> float:
    """Processor time of this process and those that it started: not disturbed by
    others that run, unlike the time of day."""
    own, others = (resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime + others.ru_utime + others.ru_stime


def sample(python: str, package: str, case: str, first: bool) -> dict[str, Any]:
    """One compile in a fresh process: milliseconds, and the package's version."""
    with tempfile.TemporaryDirectory(prefix="nvidia-compile-") as folder:
        tool = os.environ.get("TRITON_PTXAS_PATH") or shutil.which("ptxas")
        environment = {**os.environ, "TRITON_CACHE_DIR": folder}
        if tool:
            environment["TRITON_PTXAS_PATH"] = tool
        command = [python, str(Path(__file__).resolve()), "--child", package, case]
        done = subprocess.run(
            [*command, *(["--first"] if first else [])], env=environment, capture_output=True,
            text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr}")
        return json.loads(done.stdout.strip().splitlines()[-1])


def ptxas_version() -> str:
    """The release that `ptxas` says it is, such as 13.0."""
    tool = os.environ.get("TRITON_PTXAS_PATH") or shutil.which("ptxas")
    if tool is None:
        return ""
    text = subprocess.run([tool, "--version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"release ([\d.]+)", text)
    return found[1] if found else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", default=list(DEFAULT))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--first", action="store_true")
    parser.add_argument("--triton", default=sys.executable, help="a Python that has Triton")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--child", choices=("tritium", "triton"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child, options.cases[0], options.first)
        return
    rows: list[dict[str, object]] = []
    versions: dict[str, str] = {}
    pythons = {"tritium": sys.executable, "triton": options.triton}
    print(f"{'case':26} {'tritium ms':>11} {'triton ms':>10} {'ratio':>6}   processor time, ratio")
    for case in options.cases:
        times: dict[str, list[float]] = {who: [] for who in pythons}
        busy: dict[str, list[float]] = {who: [] for who in pythons}
        for _ in range(options.rounds):
            for who, python in pythons.items():
                found = sample(python, who, case, options.first)
                times[who].append(round(found["ms"], 1))
                busy[who].append(round(found["cpu_ms"], 1))
                versions[who] = found["version"]
        a, b = median(times["tritium"]), median(times["triton"])
        c, d = median(busy["tritium"]), median(busy["triton"])
        rows.append({"case": case, "tritium_ms": a, "triton_ms": b, "ratio": round(a / b, 3),
                     "tritium_cpu_ms": c, "triton_cpu_ms": d, "cpu_ratio": round(c / d, 3),
                     "all": times})  # fmt: skip
        print(f"{case:26} {a:11.1f} {b:10.1f} {a / b:6.2f} {c:11.1f} {d:6.1f} {c / d:6.2f}",
              flush=True)  # fmt: skip
    if options.out:
        facts = {"processor": platform.processor() or platform.machine(), "cores": os.cpu_count(),
                 "python": platform.python_version(), "ptxas": ptxas_version(), **versions}
        record = {"machine": facts, "command": " ".join(["python", *sys.argv]),
                  "first": options.first, "rows": rows}  # fmt: skip
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
