"""How long a cold compile for an NVIDIA GPU takes, beside Triton; no GPU is needed.

    python benchmarks/nvidia_compile.py [--rounds 5] [--triton PYTHON] [--out FILE] [CASE ...]

Every sample is a fresh process with an empty cache that imports one of the two, compiles a small
kernel (so that what is loaded once a process is loaded), then the case, from Python source to
cubin; the time is that of the case. Samples of the two alternate. With `--first` the case is the
first kernel of its process. Both use the same ptxas: that of `TRITON_PTXAS_PATH`, else of the PATH.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

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
    from benchmarks.gpu_sources import compiled

    compiled_ready = time.perf_counter()
    if not first:
        compiled("layer norm, sums", package)
    start = time.perf_counter()
    kernel = compiled(case, package)
    took = time.perf_counter() - start
    stages = dict(getattr(kernel.metadata, "stage_ms", {}) or {})
    print(json.dumps({"ms": took * 1e3, "import_ms": (compiled_ready - started) * 1e3} | stages))


def sample(python: str, package: str, case: str, first: bool) -> float:
    """Milliseconds of one compile in a fresh process."""
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
        return json.loads(done.stdout.strip().splitlines()[-1])["ms"]


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
    print(f"{'case':26} {'tritium ms':>11} {'triton ms':>10} {'ratio':>6}")
    for case in options.cases:
        ours, theirs = list[float](), list[float]()
        for _ in range(options.rounds):
            ours.append(sample(sys.executable, "tritium", case, options.first))
            theirs.append(sample(options.triton, "triton", case, options.first))
        a, b = median(ours), median(theirs)
        rows.append({"case": case, "tritium_ms": round(a, 1), "triton_ms": round(b, 1),
                     "ratio": round(a / b, 3), "tritium_all": [round(x, 1) for x in ours],
                     "triton_all": [round(x, 1) for x in theirs]})  # fmt: skip
        print(f"{case:26} {a:11.1f} {b:10.1f} {a / b:6.2f}", flush=True)
    if options.out:
        facts = {"processor": platform.processor() or platform.machine(), "cores": os.cpu_count(),
                 "python": platform.python_version(), "first": options.first,
                 "rounds": options.rounds}  # fmt: skip
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps({"machine": facts, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
