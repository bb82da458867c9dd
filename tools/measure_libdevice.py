"""Measure the largest errors of libdevice's functions on this CPU, for docs/libdevice.md.

    python -m tools.measure_libdevice [COUNT] [--table NAME]   # numbers an argument; 20000

Errors are distances from the correctly rounded result (by mpmath), as NVIDIA states its bounds.
Two tables have those of the AMD backend's code: the largest from the exact results, as AMD's
library ocml states them, and those where the absolute error is largest, as HIP's documentation
states them.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path

import numpy as np

from tests.libdevice import bounds, exact, hip
from tests.libdevice.support import STORED, defined, native
from tests.libdevice.test_accuracy import BESSEL, errors, inputs
from tritium.language.extra.signatures import Overload, Signature, signatures

PAGE = Path(__file__).parents[1] / "docs" / "libdevice.md"
SHORT = {"float32": "fp32", "float64": "fp64"}


def _bound(name: str, dtype: str) -> str:
    limit = bounds.ulp(name, dtype)
    absolute = f"{bounds.ABSOLUTE[dtype]:.1e}"
    if name in BESSEL and math.isinf(limit):
        return f"{absolute} absolute"
    if name in BESSEL:
        return f"{limit:g}; {absolute} absolute from 8 on"
    return "2^-20 relative" if math.isinf(limit) else f"{limit:g}"


def _rows(signature: Signature, count: int) -> list[str]:
    name, rows = signature.name, []
    for overload in signature.overloads:
        if "powi" in overload.symbol:
            continue
        arrays = inputs(name, overload, count, 11)
        wanted = exact.expected(name, STORED[overload.result], *arrays)
        measured = [
            np.max(errors(name, overload, arrays, actual, wanted))
            for actual in (native(overload, *arrays), defined(overload, *arrays))
        ]
        print(name, overload.result, *measured, file=sys.stderr, flush=True)
        dtype = overload.result
        found = [f"{m:g}" for m in measured]
        if name in ("jn", "yn", "rcp64h"):
            found = ["within"] * 2 if max(measured) == 0 else found
        cells = (f"`{name}`", SHORT[dtype], *found, _bound(name, dtype))
        rows.append(f"| {' | '.join(cells)} |")
    return rows


def of_cuda(count: int) -> list[str]:
    """The CPU's and the interpreter's functions beside CUDA's."""
    lines = ["| function | dtype | CPU | interpreter | CUDA |", "|---|---|---|---|---|"]
    for name, signature in signatures().items():
        if name in exact.FUNCTIONS:
            # Two arguments, long loops: fewer numbers.
            lines += _rows(signature, count // 10 if name in ("jn", "yn") else count)
    return lines


def of_ocml(count: int) -> list[str]:
    """Each function of `tl.extra.hip.libdevice` beside ocml's, as a line of all its overloads."""
    lines = ["| function | AMD backend | goal | of |", "|---|---|---|---|"]
    for name in hip.NAMES:
        found = [(o, hip.largest(name, o, count)) for n, o in hip.ALL if n == name]
        print(name, *(m for _, m in found), file=sys.stderr, flush=True)
        goals = dict.fromkeys(f"{hip.goal(name, o)[0]:g}" for o, _ in found)
        measured = [f"{_types(o)} {m:.2f}" for o, m in found]
        exactly = hip.goal(name, found[0][0])[1] == "exact" and not any(m for _, m in found)
        cells = ("0" if exactly else ", ".join(measured), ", ".join(goals),
                 hip.goal(name, found[0][0])[1])  # fmt: skip
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return lines


def of_hip(count: int) -> list[str]:
    """The AMD backend's functions in the measure of HIP's documentation."""
    titles = "function", "dtype", "range", "AMD backend", "HIP", "largest"
    lines = [f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]
    for name, overload in hip.CASES:
        measured = [f"{m:g}" for m in hip.errors(name, overload, count)]
        print(name, overload.result, *measured, file=sys.stderr, flush=True)
        ranges = "; ".join(f"{low:.3g} to {high:.3g}" for low, high in hip.ERRORS[name].ranges)
        cells = (f"`{name}`", SHORT[overload.result], ranges, measured[0],
                 f"{hip.documented(name, overload):g}", measured[1])  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return lines


TABLES = {
    "measured": of_cuda, "all measured for AMD GPUs": of_ocml, "measured for AMD GPUs": of_hip,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", nargs="?", type=int, default=20000)
    parser.add_argument("--table", choices=TABLES, nargs="*", default=list(TABLES))
    options = parser.parse_args()
    for table in options.table:
        _write(table, TABLES[table](options.count))


def _types(overload: Overload) -> str:
    return " ".join(dict.fromkeys(SHORT.get(a, a) for a in overload.arguments))


def _write(table: str, lines: list[str]) -> None:
    """Replace a table of the page."""
    start, end = f"<!-- {table} -->\n", f"<!-- /{table} -->\n"
    before, _, rest = PAGE.read_text().partition(start)
    _, _, after = rest.partition(end)
    PAGE.write_text(before + start + "\n".join(lines) + "\n" + end + after)


if __name__ == "__main__":
    main()
