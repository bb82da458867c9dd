"""Run the tests on a GPU machine in one call: `python tools/test_gpu.py [--jobs 8] [tests/...]`.
Another `--device` of the tests needs no GPU, only many cores, and not pytest-xdist:

    python tools/test_gpu.py tests/conformance --device amd --parts 8 --jobs 32 \\
        --extra --processor gfx942

Without paths, it runs the files of `tests/` that have something to run on a GPU: tests that are
marked `gpu`, or kernels for the device that `--device` names (`tests/support/device.py`), and
are not marked `cpu` as a whole.
Every file of tests gets a process of its own, several at a time; a file that says `GPU_PARTS = n`
has its tests shared out to n processes, which begin first (`--parts`: so has every file). A test
that hangs, or that costs the process the device, is recorded, and a new process goes on with those
after it. On a machine with several GPUs the processes begin with different ones as device 0. With
`--sanitize` a sample runs under NVIDIA's compute-sanitizer as well, where it is installed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
ON_GPU = re.compile(r"mark\.gpu\b|tests\.support\.device\b|from tests\.support import .*\bdevice\b")
PARTS = re.compile(r"^GPU_PARTS = (\d+)$", re.MULTILINE)
IMPORT = re.compile(r"^ *from (tests[\w.]*) import (\w*)", re.MULTILINE)
SPLIT = "tests/nvidia/gpu/test_gpu_warp_specialize.py::test_products"
SAMPLE = (
    "tests/conformance/test_reductions.py", "tests/conformance/test_shapes.py",
    *(f"{SPLIT}[{name}-64-64-4-2-300-200-72]" for name in ("matmul_blocks", "persistent")),
)  # fmt: skip
"""The tests that run under compute-sanitizer, with loops split among warps."""
SANITIZERS = ("memcheck", "racecheck", "synccheck")
RETRIES = 40
"""Processes for one file at most: each ends in a test that hangs, or that loses the device."""


@cache
def uses_gpu(path: Path) -> bool:
    """Whether a module of tests, or one that it imports, has something to run on a GPU."""
    text = path.read_text()
    if re.search(r"^pytestmark = \[?\s*pytest.mark.cpu\b", text, re.MULTILINE):
        return False
    names = [name for pair in IMPORT.findall(text) for name in (pair[0], ".".join(pair))]
    modules = {ROOT / (name.replace(".", "/") + ".py") for name in names} - {path}
    return bool(ON_GPU.search(text)) or any(uses_gpu(m) for m in modules if m.exists())


def files_of(paths: list[str]) -> list[Path]:
    """The files of tests below some paths, in the paths' order, of each path the largest first;
    without paths, all that use a GPU."""
    found: dict[Path, None] = {}
    for path in (ROOT / p for p in paths or ["tests"]):
        below = path.rglob("test_*.py") if path.is_dir() else [path]
        files = sorted(below, key=lambda p: (-p.stat().st_size, p))
        found.update(dict.fromkeys(f for f in files if paths or uses_gpu(f)))
    return list(found)


def parts_of(paths: list[Path], parts: int | None = None) -> list[tuple[Path, str]]:
    """(file, "i/n": which share of its tests) for each process, those that share a file first.
    `parts`: how many share each file; without, as many as it says."""
    found = [(path, PARTS.search(path.read_text())) for path in paths]
    counts = [(path, parts or (int(match[1]) if match else 1)) for path, match in found]
    shares = [(path, f"{i}/{count}") for path, count in counts for i in range(count)]
    return sorted(shares, key=lambda share: share[1].endswith("/1"))


@cache
def gpu_count() -> int:
    """The number of GPUs that nvidia-smi lists; 1 where it does not run."""
    if not shutil.which("nvidia-smi"):
        return 1
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False)
    return max(listed.stdout.count("GPU "), 1)


def gpus_of(process: int) -> str:
    """The value of CUDA_VISIBLE_DEVICES for a process: all GPUs, each in turn the first."""
    count = gpu_count()
    return ",".join(str((process + i) % count) for i in range(count))


def run_file(
    process: int, path: Path, part: str, folder: Path, options: argparse.Namespace
) -> list[dict]:
    """The results of a file's tests, or of its part "i/n" of them."""
    record = folder / f"{path}_{part}.jsonl".replace("/", "_")
    name = os.path.relpath(path, ROOT)
    command = [
        sys.executable, "-m", "pytest", name, "-q", "--device", options.device, "--tb=short",
        "-p", "no:cacheprovider", "--limit", str(options.limit),
        "--part", part, "--record", str(record), *options.extra,
    ]  # fmt: skip
    if not options.slow:
        command += ["-m", "not slow"]
    problem = ""
    for _ in range(RETRIES):
        before = record.stat().st_size if record.exists() else 0
        try:
            done = subprocess.run(
                command, cwd=ROOT, capture_output=True, text=True, check=False,
                timeout=max(options.end - time.monotonic(), 0.1),
                env={"CUDA_VISIBLE_DEVICES": gpus_of(process), **os.environ},
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            problem = "not finished: the total limit has passed"
            break
        grown = record.exists() and record.stat().st_size > before
        if done.returncode in (0, 1, 5):
            break
        if not grown:  # nothing was recorded: the process itself failed
            problem = done.stdout + done.stderr or f"exit code {done.returncode}"
            break
    lines = record.read_text().splitlines() if record.exists() else []
    results = list({entry["id"]: entry for entry in map(json.loads, lines)}.values())
    if problem:
        results.append({"id": name, "outcome": "crashed", "seconds": 0, "text": problem})
    return results


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paths", nargs="*", default=[])
    parser.add_argument("--jobs", type=int, default=max((os.cpu_count() or 2) // 2, 1))
    parser.add_argument("--device", default="cuda", help="where kernels run, as of the tests")
    parser.add_argument("--parts", type=int, help="processes that share the tests of a file")
    parser.add_argument("--limit", type=float, default=120, help="seconds for a test")
    parser.add_argument("--total", type=float, default=3600, help="seconds for everything")
    parser.add_argument("--out", help="a file for all results, a line of JSON each, with the whole "
                        "text of failures")  # fmt: skip
    parser.add_argument("--sanitize", action="store_true")
    parser.add_argument("--extra", nargs=argparse.REMAINDER, default=[], help="for pytest")
    parser.add_argument("--slow", action="store_true", help="the long sweeps as well")
    options = parser.parse_args()
    start, results = time.monotonic(), []
    options.end = start + options.total
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as pool:
        jobs = [
            pool.submit(run_file, process, path, part, Path(folder), options)
            for process, (path, part) in enumerate(parts_of(files_of(options.paths), options.parts))
        ]
        for job in jobs:
            results += job.result()
    bad = [r for r in results if r["outcome"] not in ("passed", "skipped")]
    for result in bad:
        last = [line for line in result["text"].splitlines() if line.strip()]
        errors = [line for line in last if line.startswith("E ")] or last[-3:]
        print(f"{result['outcome'].upper()} {result['id']}\n    " + "\n    ".join(errors[:3]))
    if options.out:
        Path(options.out).write_text("".join(json.dumps(r) + "\n" for r in results))
    counts = {kind: sum(r["outcome"] == kind for r in results)
              for kind in ("passed", "failed", "skipped", "hung", "crashed")}  # fmt: skip
    print(", ".join(f"{n} {kind}" for kind, n in counts.items() if n),
          f"in {time.monotonic() - start:.0f} s")  # fmt: skip
    return max(int(bool(bad)), sanitize(options) if options.sanitize else 0)


def sanitize(options: argparse.Namespace) -> int:
    """Run the sample under compute-sanitizer's tools; 1 if one of them found errors."""
    tool = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    if not os.path.exists(tool):
        print("compute-sanitizer is not installed; it comes with the CUDA toolkit")
        return 1
    failed = 0
    for which in SANITIZERS:
        # cuda-bindings looks up functions that a driver may not have, which counts as an error.
        more = ["--report-api-errors", "no"] if which == "memcheck" else []
        command = [
            tool, "--tool", which, "--error-exitcode", "9", *more,
            sys.executable, "-m", "pytest", *SAMPLE, "-q",
            "--device", "cuda", "--limit", str(20 * options.limit), *options.extra,
        ]  # fmt: skip
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        print(f"{which}:\n{(done.stdout + done.stderr)[-3000:]}")
        failed |= int(done.returncode != 0)
    return failed


if __name__ == "__main__":
    sys.exit(main())
