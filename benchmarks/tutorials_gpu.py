"""The tutorials as whole programs that say `import triton`, by Triton and by `tritium run`.

    python -m benchmarks.tutorials_gpu [--only 03 09] [--limit SECONDS] [--out FILE]

Each program checks its results, then measures itself, once with either compiler, in a process of
its own; the figures of the programs' tables stand side by side. A program measures its kernels one
after the other and with caches of its own, so that small sizes also show what a launch costs.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.common import gpu_machine

ROOT = Path(__file__).parent.parent
COMPILERS = {"triton": [], "tritium": ["-m", "tritium", "run"]}
Tables = dict[str, list[dict[str, float]]]


def rename(folder: Path) -> list[Path]:
    """The tutorials, written for Triton."""
    for file in (ROOT / "tutorials").glob("*.py"):
        text = file.read_text().replace("import tritium as triton", "import triton")
        text = re.sub(r"^(import|from) tritium\b", r"\1 triton", text, flags=re.M)
        (folder / file.name).write_text(text)
    return sorted(folder.glob("[0-9]*.py"))


def run(by: str, program: Path, limit: float) -> tuple[Tables, str, float]:
    """Figures of a program, why it ended early (or ""), and how long it took (s)."""
    path = os.environ.get("PYTHONPATH", "")
    if by == "tritium":
        path = os.pathsep.join([str(ROOT / "src"), path])
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, *COMPILERS[by], str(program), "--save", folder]
        env = {**os.environ, "PYTHONPATH": path, "MPLBACKEND": "Agg"}
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, env=env, timeout=limit, check=False
            )
            problem = "" if done.returncode == 0 else done.stderr.strip().splitlines()[-1]
        except subprocess.TimeoutExpired:
            problem = f"not finished in {limit:.0f} s"
        tables = {file.stem: read(file) for file in sorted(Path(folder).glob("*.csv"))}
    return tables, problem, time.perf_counter() - start


def read(file: Path) -> list[dict[str, float]]:
    """The rows of a table; without the columns of quantiles."""
    with file.open() as lines:
        return [
            {k: float(v) for k, v in row.items() if not re.search(r"-(min|max)$", k)}
            for row in csv.DictReader(lines)
        ]


def show(tables: dict[str, Tables]) -> None:
    """Print the kernels' rates by both compilers, and the ratio."""
    for plot, rows in tables["tritium"].items():
        others = tables["triton"].get(plot, [{}] * len(rows))
        for ours, other in zip(rows, others, strict=True):
            (name, size), *rates = ours.items()
            for column, rate in rates:
                if column.startswith(("torch", "NumPy")):
                    continue
                peer = other.get(column)
                ratio = f"{peer:12.1f} {rate / peer:7.2f}" if peer else f"{'-':>12} {'-':>7}"
                print(f"{plot:28} {name} {size:<9.8g} {column:46} {rate:12.1f} {ratio}", flush=True)


def main() -> None:
    """Run and compare."""
    parser = argparse.ArgumentParser(description="the tutorials by Triton and by Tritium")
    parser.add_argument("--only", nargs="+", default=[], help="numbers of tutorials")
    parser.add_argument("--limit", type=float, default=300, help="seconds for a program")
    parser.add_argument("--out", help="a JSON file for the figures")
    options = parser.parse_args()
    found: dict[str, Any] = {}
    print(f"{'':84} {'Tritium':>12} {'Triton':>12} {'ratio':>7}")
    with tempfile.TemporaryDirectory() as folder:
        for program in rename(Path(folder)):
            if options.only and program.name[:2] not in options.only:
                continue
            tables: dict[str, Tables] = {}
            notes: dict[str, Any] = {}
            for by in COMPILERS:
                tables[by], problem, seconds = run(by, program, options.limit)
                notes[by] = {"seconds": round(seconds, 1), "problem": problem}
                if problem:
                    print(f"{program.name} by {by}: {problem}", flush=True)
            show(tables)
            found[program.stem] = {by: {**notes[by], "tables": tables[by]} for by in COMPILERS}
    if options.out:
        command = "python -m benchmarks.tutorials_gpu --out results.json"
        report = {"machine": gpu_machine(), "command": command, "programs": found}
        Path(options.out).write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
