"""Metrics of the viewer: how each is computed from what a profile has recorded."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from tritium.profiler import specs
from tritium.profiler.tree import COUNT, CPU_TIME, SCOPE_COUNT, SCOPE_TIME, TIME, Node

Value = Callable[[Node], float]

_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_SCALE = {"": 1.0, "g": 1e9, "t": 1e12}
_TIMES = {"time": TIME, "cpu_time": CPU_TIME, "scope_time": SCOPE_TIME}
_TIME = re.compile(r"(?P<average>avg_)?(?P<kind>time|cpu_time|scope_time)/(?P<unit>s|ms|us|ns)")
_RATE = re.compile(r"(?P<scale>[gt]?)(?P<what>flop(?:8|16|32|64)?|byte)/s")
_WIDTHS = (8, 16, 32, 64)
HELP = (
    "time/ms, avg_time/us, cpu_time/ms, scope_time/us, tflop16/s, gbyte/s and their like, util, "
    "METRIC/% and the names of what was recorded"
)

Devices = Mapping[str, Mapping[str, Mapping[str, Any]]]


def without_unit(name: str) -> str:
    """The name of a recorded metric as users write it."""
    return name.split("(")[0].strip().lower()


def value_of(metric: str, root: Node, devices: Devices) -> Value:
    """The function that computes a metric from a node, NaN for a node that lacks what it takes.

    Args:
        root: the whole tree, of which percentages are parts.
        devices: the descriptions of devices in the profile.

    Raises `ValueError` for a metric that is not known, or that nothing was recorded for.
    """
    if metric == "util":
        return lambda node: _utilization(node, devices)
    if found := _TIME.fullmatch(metric):
        total = _total(_TIMES[found["kind"]], root, metric)
        factor = 1e-9 / _SECONDS[found["unit"]]
        if found["average"]:
            number = SCOPE_COUNT if found["kind"] == "scope_time" else COUNT
            return lambda node: _quotient(total(node) * factor, node.total(number))
        return lambda node: total(node) * factor
    if found := _RATE.fullmatch(metric):
        name = "bytes" if found["what"] == "byte" else found["what"].replace("flop", "flops")
        total, scale = _total(name, root, metric), _SCALE[found["scale"]]
        return lambda node: _quotient(total(node), node.total(TIME) * 1e-9 * scale)
    name, slash, unit = metric.partition("/")
    total = _total(name, root, metric)
    if not slash:
        return total
    if unit != "%":
        raise ValueError(f"viewer: the unit of {metric!r} is none of %, s, ms, us, ns")
    whole = total(root)
    return lambda node: 100 * _quotient(total(node), whole)


def _total(name: str, root: Node, metric: str) -> Value:
    known = root.metric_names()
    for recorded in known:
        if name.lower() in (recorded.lower(), without_unit(recorded)):
            return lambda node: node.total(recorded)
    names = ", ".join(map(without_unit, known)) or "none"
    raise ValueError(
        f"viewer: the metric {metric!r} is not known, or nothing was recorded for it; recorded "
        f"are: {names}; there are {HELP}"
    )


def _quotient(a: float, b: float) -> float:
    return a / b if b else math.nan


def _utilization(node: Node, devices: Devices) -> float:
    """The time that a kernel's work takes at the device's peak rates, of the time that it took."""
    kind, number = node.metrics.get("device_type"), node.metrics.get("device_id")
    if kind is None or number is None:
        return math.nan
    device, metrics = devices[kind][number], node.metrics
    arch, clock = device["arch"], device["clock_rate"]
    least = 0.0
    for width in _WIDTHS:
        if flops := metrics.get(f"flops{width}", 0):
            least += flops / specs.max_flops(kind, arch, width, device["num_sms"], clock)
    if moved := metrics.get("bytes", 0):
        rate = specs.max_bps(kind, arch, device["bus_width"], device["memory_clock_rate"])
        least = max(least, moved / rate)
    return _quotient(least, metrics.get(TIME, 0) * 1e-9)
