"""Helpers for the benchmarks: the machine, child processes, results as JSON and as a plot."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import tritium
from tritium.cli.doctor import examine
from tritium.cli.timing import Timing

THREAD_VARIABLES = (
    "TRITIUM_NUM_THREADS",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
)


@dataclass
class Result:
    """One problem on one number of threads: seconds of every library's samples.

    Attributes:
        work, unit: what one run does, for rates: bytes (GB/s) or operations (GFLOP/s).
        error: the largest absolute difference from float64.
    """

    name: str
    size: str
    threads: int
    work: float
    unit: str
    error: float
    samples: dict[str, list[float]] = field(default_factory=dict[str, "list[float]"])

    def median(self, library: str) -> float:
        """Seconds."""
        return Timing(tuple(self.samples[library])).median

    def rate(self, library: str) -> float:
        """GB/s or GFLOP/s."""
        return self.work / self.median(library) / 1e9

    def ratio(self, library: str) -> float | None:
        """How many times as fast as the library Tritium is; None where it did not run."""
        if library not in self.samples:
            return None
        return self.median(library) / self.median("tritium")

    def spread(self, library: str) -> float:
        """Half the distance of the quartiles, relative to the median."""
        timing = Timing(tuple(self.samples[library]))
        low, high = timing.quartiles
        return (high - low) / 2 / timing.median


def gpu_machine() -> dict[str, Any]:
    """The current GPU, its driver, and the versions that measurements on it are of."""
    import torch

    asked = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    driver = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
    return {
        "device": torch.cuda.get_device_name(), "driver": driver, "cuda": torch.version.cuda,
        "torch": torch.__version__, "triton": importlib.metadata.version("triton"),
        "tritium": tritium.__version__, "python": platform.python_version(),
    }  # fmt: skip


def machine() -> dict[str, Any]:
    """Processor, system and versions, for the record."""
    versions: dict[str, str] = {}
    for package in ("tritium", "numpy", "torch", "llvmlite", "xdsl"):
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    facts = {f.name: f.detail for f in examine() if f.group == "processor"}
    return {"python": platform.python_version(), "versions": versions, **facts}


def show_row(row: Mapping[str, Any]) -> None:
    """Print a row of measurements at once."""
    print("  ".join(f"{key} {value}" for key, value in row.items()), flush=True)


def write_rows(out: Path | None, script: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write what a script of this folder has measured so far on a GPU to `out`, if there is one.
    The command in the file names `out` without its folder, which is of one machine."""
    if out is None:
        return
    words = [out.name if word == str(out) else word for word in sys.argv[1:]]
    command = " ".join(["python", f"benchmarks/{script}", *words])
    found = {"machine": gpu_machine(), "command": command, "rows": rows}
    out.write_text(json.dumps(found, indent=1) + "\n")


def run_child(
    module: str, arguments: Sequence[str], *, threads: int | None = None, **environment: str
) -> Any:
    """Run `python -m module arguments` in a fresh process; the JSON of its last line of output.

    Raises:
        RuntimeError: it failed; its standard error is in the message.
    """
    settings = dict(environment)
    if threads is not None:
        settings |= {name: str(threads) for name in THREAD_VARIABLES}
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"{module} {' '.join(arguments)} failed:\n{done.stderr}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def write_json(path: Path, results: Sequence[Result], **more: Any) -> None:
    """Everything that was measured, with the machine it was measured on."""
    path.parent.mkdir(parents=True, exist_ok=True)
    record = {"machine": machine(), "results": [asdict(r) for r in results], **more}
    path.write_text(json.dumps(record, indent=1) + "\n")


def table(results: Sequence[Result]) -> str:
    """The results as a table in Markdown."""
    lines = [
        "| kernel | size | threads | Tritium | rate | × NumPy | × torch | max error |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for r in results:
        ratios = " | ".join("" if (x := r.ratio(k)) is None else f"{x:.2f}" for k in RIVALS)
        lines.append(
            f"| {r.name} | {r.size} | {r.threads} | {r.median('tritium') * 1e3:.3f} ms "
            f"± {r.spread('tritium'):.0%} | {r.rate('tritium'):.1f} {r.unit} | {ratios} "
            f"| {r.error:.1e} |"
        )
    return "\n".join(lines)


RIVALS = ("numpy", "torch")


def plot(path: Path, results: Sequence[Result]) -> None:
    """Bars: how many times as fast as NumPy and torch, one group a problem and thread count."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    threads = sorted({r.threads for r in results})
    figure, grid = plt.subplots(
        1, len(threads), figsize=(6.5 * len(threads), 4), sharey=True, squeeze=False
    )
    for axes, count in zip(grid[0], threads, strict=True):
        rows = [r for r in results if r.threads == count]
        for place, rival in enumerate(RIVALS):
            ratios = [r.ratio(rival) or 1.0 for r in rows]
            x = [i + 0.4 * (place - 0.5) for i in range(len(rows))]
            # On a logarithmic axis twice as fast and half as fast are equally far from 1.
            heights = [ratio - 1 for ratio in ratios]
            label = f"against {rival}"
            bars = axes.bar(x, heights, bottom=1.0, width=0.38, label=label)
            axes.bar_label(bars, [f"{ratio:.2f}" for ratio in ratios], fontsize=7)
        axes.axhline(1.0, color="black", linewidth=0.8)
        axes.set_yscale("log", base=2)
        axes.set_yticks([0.5, 1, 2, 4, 8], ["½", "1", "2", "4", "8"])
        labels = [f"{r.name}\n{r.size}" for r in rows]
        axes.set_xticks(range(len(rows)), labels, fontsize=8)
        axes.set_title(f"{count} thread{'s' if count > 1 else ''}")
    grid[0][0].set_ylabel("times as fast (higher is better)")
    grid[0][-1].legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)
