"""Profiles as the page shows them: the tree with its metrics, kernels under the roofline, or a
timeline."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from tritium.profiler import specs
from tritium.profiler.metrics import Devices, value_of
from tritium.profiler.tree import COUNT, TIME, Node
from tritium.profiler.viewer import read

ENDINGS = (".hatchet", ".chrome_trace")
"""The endings of the files that are profiles."""
_METRICS = ("time/ms", "time/%", "avg_time/us", "count", "gbyte/s",
            *(f"gflop{width}/s" for width in ("", 8, 16, 32, 64)), "util", "cpu_time/ms",
            "scope_time/us")  # fmt: skip
_FLOPS = {"flops": 32, "flops8": 8, "flops16": 16, "flops32": 32, "flops64": 64}
"""The width of the operations that each metric counts."""
_SPANS = 5000
"""Spans of a timeline that are shown, the longest."""


def profile_of(file: Path) -> dict[str, Any]:
    """The part of the page about a profile. Raises `ValueError` for a file that is none, `OSError`
    for one that cannot be read."""
    if file.suffix == ".chrome_trace":
        return {"name": file.name, **_timeline(file)}
    root, _, _, devices = read(str(file))
    nodes, columns = _walk(root), dict[str, list[float]]()
    for metric in _METRICS:
        try:
            value = value_of(metric, root, devices)
            columns[metric] = [value(node) for _, node in nodes]
        except ValueError:  # nothing was recorded for it, or the device's rates are not known
            continue
    columns = {m: column for m, column in columns.items() if any(map(math.isfinite, column))}
    whole = root.total(TIME)
    rows = [
        {"depth": depth, "name": node.name, "share": node.total(TIME) / whole if whole else 0,
         "values": [c[n] if math.isfinite(c[n]) else None for c in columns.values()]}
        for n, (depth, node) in enumerate(nodes)
    ]  # fmt: skip
    points = [p for _, node in nodes if (p := _point(node, devices)) is not None]
    return {"name": file.name, "metrics": list(columns), "rows": rows, "points": points,
            "chart": _chart(points)}  # fmt: skip


def measured(points: Sequence[dict[str, Any]], kernel: str) -> list[tuple[str, str]]:
    """(name, value) of what a profile says about a kernel."""
    return [("measured", p["text"]) for p in points if p["name"] == kernel]


def _walk(node: Node, depth: int = 0) -> list[tuple[int, Node]]:
    """A node and those below it, each with its depth."""
    below = [pair for child in node.children.values() for pair in _walk(child, depth + 1)]
    return [(depth, node), *below]


def _point(node: Node, devices: Devices) -> dict[str, Any] | None:
    """A kernel whose time was measured: its rates, its operations for each byte, and what part of
    the device's peak rate it reaches at these."""
    metrics, seconds = node.metrics, node.metrics.get(TIME, 0) * 1e-9
    if not seconds:
        return None
    moved = metrics.get("bytes", 0)
    work = {name: metrics[name] for name in _FLOPS if metrics.get(name)}
    total, count = sum(work.values()), metrics.get(COUNT, 1)
    parts = [f"{seconds / count * 1e6:.4g} us in each of {count:.0f} launches"]
    parts += [f"{moved / seconds / 1e9:.4g} GB/s"] if moved else []
    parts += [f"{total / seconds / 1e9:.4g} GFLOP/s"] if total else []
    found: dict[str, Any] = {"name": node.name}
    if total and moved:
        found |= {"intensity": total / moved, "rate": total / seconds}
        parts.append(f"{total / moved:.3g} operations for each byte")
        widest = max(work, key=lambda name: work[name])
        found |= _peaks(metrics, devices, _FLOPS[widest])
        if "flops" in found:
            roof = min(found["flops"], found["bytes"] * found["intensity"])
            bound = "memory" if roof < found["flops"] else "arithmetic"
            parts.append(f"{100 * found['rate'] / roof:.1f} % of the roof, which is {bound}")
    return {**found, "text": "; ".join(parts)}


def _peaks(metrics: Any, devices: Devices, width: int) -> dict[str, float]:
    """Operations and bytes that the device can do in a second, where that is known."""
    try:
        kind = metrics["device_type"]
        device = devices[kind][metrics["device_id"]]
        arch, bus, clock = device["arch"], device["bus_width"], device["memory_clock_rate"]
        flops = specs.max_flops(kind, arch, width, device["num_sms"], device["clock_rate"])
        return {"flops": flops, "bytes": specs.max_bps(kind, arch, bus, clock)}
    except (KeyError, ValueError):
        return {}


_WIDTH, _HEIGHT, _MARGIN = 760, 420, 50


def _chart(points: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """The roofline's drawing: logarithmic axes, the roofs, and a dot for each kernel."""
    dots = [p for p in points if "intensity" in p]
    if not dots:
        return None
    roofs = sorted({(p["flops"], p["bytes"]) for p in dots if "flops" in p})
    across = [p["intensity"] for p in dots] + [f / b for f, b in roofs]
    up = [p["rate"] for p in dots] + [f for f, _ in roofs]
    left, right = math.floor(math.log10(min(across))), math.ceil(math.log10(max(across)) + 0.3)
    low, high = math.floor(math.log10(min(up))), math.ceil(math.log10(max(up)) + 0.1)

    def x(intensity: float) -> float:
        part = (math.log10(intensity) - left) / (right - left)
        return round(_MARGIN + part * (_WIDTH - 2 * _MARGIN), 1)

    def y(rate: float) -> float:
        part = (math.log10(rate) - low) / (high - low)
        return round(_HEIGHT - _MARGIN - part * (_HEIGHT - 2 * _MARGIN), 1)

    begin, end = 10.0**left, 10.0**right
    return {
        "width": _WIDTH, "height": _HEIGHT, "margin": _MARGIN,
        "across": [(x(10.0**n), f"{10.0**n:g}") for n in range(left, right + 1)],
        "up": [(y(10.0**n), f"{10.0**(n - 9):g}") for n in range(low, high + 1)],
        "roofs": [[(x(max(begin, 10.0**low / b)), y(max(begin * b, 10.0**low))), (x(f / b), y(f)),
                   (x(end), y(f))] for f, b in roofs],
        "dots": [(x(p["intensity"]), y(p["rate"]), p["name"], p["text"]) for p in dots],
    }  # fmt: skip


def _timeline(file: Path) -> dict[str, Any]:
    """The spans of a Chrome trace, by process and thread, each at the depth of its nesting."""
    spans: list[Any] = []
    named: dict[Any, str] = {}
    try:
        data: Any = json.loads(file.read_text(encoding="utf-8"))
        if isinstance(data, dict):
            data = cast(Any, data)["traceEvents"]
        for e in data:
            place = e.get("pid", 0), e.get("tid", 0)
            if e.get("ph") == "X":
                spans.append((e["ts"], e["dur"], str(e["name"]), *place))
            elif e.get("ph") == "M" and e["name"] in ("process_name", "thread_name"):
                place = place if e["name"] == "thread_name" else (place[0], None)
                named[place] = e["args"]["name"]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{file} is no timeline in Chrome's JSON ({type(error).__name__}: {error})"
        ) from None
    kept = sorted(sorted(spans, key=lambda s: -s[1])[:_SPANS], key=lambda s: (s[0], -s[1]))
    start = min((s[0] for s in kept), default=0)
    whole = max((s[0] + s[1] for s in kept), default=1) - start or 1
    rows: dict[tuple[Any, Any], dict[str, Any]] = {}
    ends: dict[tuple[Any, Any], list[float]] = {}
    for begin, length, name, *place in kept:
        key = place[0], place[1]
        title = f"{named.get((key[0], None), key[0])}: {named.get(key, key[1])}"
        row = rows.setdefault(key, {"title": title, "depth": 0, "spans": []})
        open_ = ends[key] = [end for end in ends.get(key, []) if end > begin]
        row["spans"].append((
            round(100 * (begin - start) / whole, 4), round(100 * length / whole, 4), len(open_),
            name, f"{name}: {length:.4g} us, from {begin - start:.6g} us on",
        ))  # fmt: skip
        open_.append(begin + length)
        row["depth"] = max(row["depth"], len(open_))
    return {"timeline": list(rows.values()), "left_out": len(spans) - len(kept), "points": []}
