"""Measure what the documentation shows: the tutorials' plots, the suite, the README's table.

    make docs                                # all of it; the machine should have nothing else to do
    python docs/measure.py --only-text       # write the pages again from what was measured before
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.common import Result, table

FOLDER = ROOT / "docs" / "measured"
TUTORIALS = {
    "01_vector_add.py": "vector-add",
    "02_fused_softmax.py": "fused-softmax",
    "03_matmul.py": "matmul",
    "04_dropout.py": "dropout",
    "05_layer_norm.py": "layer-norm",
}
BEGIN, END = "<!-- measured -->", "<!-- /measured -->"
RESULTS = ROOT / "benchmarks" / "results"
GPU_ROWS = {
    "vector add": "add ",
    "softmax": "softmax ",
    "dropout": "dropout ",
    "layer norm": "layer norm ",
    "matmul, fp16": r"matmul fp16 (2048|4096|8192),",
    "matmul, persistent with descriptors": "persistent ",
    "matmul, fp8": "matmul fp8 ",
    "matmul, fp32": "matmul fp32 ",
    "attention forward": "attention ",
}
"""Kernels of the README's table: the name there, and which rows of the results belong to it."""


def measure() -> None:
    """Run the tutorials and the suite; their plots and numbers go to docs/measured/."""
    env = {**os.environ, "MPLBACKEND": "Agg"}
    for name in TUTORIALS:
        print(f"==> {name}", flush=True)
        command = [sys.executable, str(ROOT / "tutorials" / name), "--save", str(FOLDER)]
        subprocess.run(command, check=True, env=env)
    (FOLDER / "results.html").unlink(missing_ok=True)
    print("==> benchmarks.cpu_suite", flush=True)
    command = [sys.executable, "-m", "benchmarks.cpu_suite", "--out", str(FOLDER)]
    subprocess.run(command, check=True, env=env, cwd=ROOT)


def describe(record: dict[str, Any]) -> str:
    """One line: the processor and the versions."""
    machine = record["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    return f"{machine['model']}, {machine['caches']}; Python {machine['python']}, {versions}"


def compile_table(record: dict[str, Any]) -> str:
    """The times to compile and to load, as a table in Markdown."""
    lines = [
        "| kernel | compiled | in a new process, from the disk cache | and with an empty one |",
        "|---|---|---|---|",
    ]
    for name, ms in record["compile_ms"].items():
        lines.append(
            f"| {name} | {ms['cold']:.0f} ms | {ms['cached']:.1f} ms | {ms['first']:.0f} ms |"
        )
    return "\n".join(lines)


def spread(ratios: list[float]) -> str:
    """The least and the largest of some ratios, or the one that both round to."""
    least, most = f"{min(ratios):.2f}", f"{max(ratios):.2f}"
    return least if least == most else f"{least} to {most}"


def gpu_table() -> str:
    """The README's table of speed on a GPU, from the recorded results."""
    measured, launch, compiled = (
        json.loads((RESULTS / f"{name}.json").read_text())
        for name in ("gpu_slice_h200", "launch_overhead_h200", "nvidia_compile_2cores")
    )
    rows = [row for row in measured["rows"] if row["by"] == "tritium"]
    lines = ["| kernel | Triton's time over Tritium's |", "|---|---|"]
    for title, pattern in GPU_ROWS.items():
        ratios = [row["ratio"] for row in rows if re.match(pattern, row["kernel"])]
        lines.append(f"| {title} | {spread(ratios)} |")
    launches = list(launch["Triton's time over Tritium's (medians)"].values())
    lines.append(f"| a launch, up to 19 arguments | {spread(launches)} |")
    compiles = [1 / row["ratio"] for row in compiled["rows"]]
    lines.append(f"| a cold compile (two CPU cores) | {spread(compiles)} |")
    machine = measured["machine"]
    return (
        f"{machine['device']}, with the kernels and tile sizes of Triton {machine['triton']}, in\n"
        f"one process; CUDA {machine['cuda']}, torch {machine['torch']}:\n\n" + "\n".join(lines)
    )


def readme_section(record: dict[str, Any]) -> str:
    """The README's figures: the suite of CPU kernels on all threads, and the table for a GPU."""
    results = [Result(**entry) for entry in record["results"]]
    most = max(result.threads for result in results)
    summary = table([r for r in results if r.threads == most])
    return (
        f"{gpu_table()}\n\n"
        f"CPU, float32, {most} threads, {describe(record)}; medians of interleaved runs in one\n"
        f"process, ± half the distance of the quartiles:\n\n{summary}\n"
    )


def write_pages(record: dict[str, Any]) -> None:
    """The README's section between its markers, and docs/measured.md."""
    readme = ROOT / "README.md"
    text = readme.read_text()
    before, rest = text.split(BEGIN, 1)
    after = rest.split(END, 1)[1]
    readme.write_text(f"{before}{BEGIN}\n{readme_section(record)}{END}{after}")
    results = [Result(**entry) for entry in record["results"]]
    plots = "\n\n".join(
        f"### {plot}\n\n[{name}](../tutorials/{name}), [numbers](measured/{plot}.csv)\n\n"
        f"![{plot}](measured/{plot}.png)"
        for name, plot in TUTORIALS.items()
    )
    page = (
        "# Measured\n\n"
        f"On {describe(record)}. Written by `make docs`.\n\n"
        f"## Against NumPy and torch\n\n{table(results)}\n\n![suite](measured/cpu_suite.png)\n\n"
        f"## Compile times\n\n{compile_table(record)}\n\n## Tutorials\n\n{plots}\n"
    )
    (ROOT / "docs" / "measured.md").write_text(page)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only-text", action="store_true", help="measure nothing")
    if not parser.parse_args().only_text:
        FOLDER.mkdir(parents=True, exist_ok=True)
        measure()
    write_pages(json.loads((FOLDER / "cpu_suite.json").read_text()))
