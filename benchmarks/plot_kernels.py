"""Draw the figures of `benchmarks.kernels`: rates beside torch's, and shares of the floor.

    python -m benchmarks.plot_kernels RESULTS.json PICTURE.png
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any


def rows_of(path: Path) -> tuple[list[dict[str, Any]], str]:
    """The rows of a file, and what they were measured on."""
    found: Any = json.loads(path.read_text())
    if isinstance(found, list):
        return found, ""
    machine = found.get("machine", {})
    return found["rows"], ", ".join(
        f"{name} {machine[name]}" if name != "device" else machine[name]
        for name in ("device", "torch", "tritium") if name in machine
    )  # fmt: skip


def draw(path: Path, out: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rows, machine = rows_of(path)
    labels = [f"{r['kernel']}, {r['phase']}" for r in rows]
    places = range(len(rows))
    size = (12, 1.2 + 0.22 * len(rows))
    figure: Any
    figure, (left, right) = plt.subplots(1, 2, figsize=size, sharey=True)  # pyright: ignore
    left.barh(places, [r["ratio"] for r in rows], color="tab:blue")
    left.axvline(1, color="black", linewidth=0.8)
    left.set_xlabel("times torch's rate")
    right.barh(places, [r["floor"] for r in rows], color="tab:green")
    right.axvline(1, color="black", linewidth=0.8)
    right.set_xlabel("share of the floor: bandwidth of a copy, or torch's large products")
    left.set_yticks(places, labels, fontsize=7)
    left.invert_yaxis()
    kinds = ", ".join(sorted({r["dtype"] for r in rows}))
    figure.suptitle(f"tritium_kernels, {kinds}{'; ' if machine else ''}{machine}")
    figure.tight_layout()
    figure.savefig(out, dpi=90)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("results", type=Path)
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    draw(options.results, options.out)
