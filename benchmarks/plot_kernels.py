"""Draw the figures of `benchmarks.kernels` by dtype: rates beside torch's, and shares of the floor.

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
    names = [*dict.fromkeys(f"{r['kernel']}, {r['phase']}" for r in rows)]
    kinds = [*dict.fromkeys(r["dtype"] for r in rows)]
    height = 0.8 / len(kinds)
    figure: Any
    figure, (left, right) = plt.subplots(  # pyright: ignore
        1, 2, figsize=(12, 1.2 + (0.14 + 0.08 * len(kinds)) * len(names)), sharey=True
    )
    for number, kind in enumerate(kinds):
        those = [r for r in rows if r["dtype"] == kind]
        shift = (number - (len(kinds) - 1) / 2) * height
        places = [names.index(f"{r['kernel']}, {r['phase']}") + shift for r in those]
        for axes, what in ((left, "ratio"), (right, "floor")):
            axes.barh(places, [r[what] for r in those], height, label=kind)
    left.axvline(1, color="black", linewidth=0.8)
    left.set_xlabel("times torch's rate")
    right.axvline(1, color="black", linewidth=0.8)
    right.set_xlabel("share of the floor: bandwidth of a copy, or torch's large products")
    figure.legend(*left.get_legend_handles_labels(), loc="upper right", ncols=len(kinds))
    left.set_yticks(range(len(names)), names, fontsize=7)
    left.invert_yaxis()
    figure.suptitle(f"tritium_kernels{': ' if machine else ''}{machine}")
    figure.tight_layout()
    figure.savefig(out, dpi=90)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("results", type=Path)
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    draw(options.results, options.out)
