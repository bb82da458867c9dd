"""The tree of scopes and kernels that a session records, and its text (hatchet's JSON)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

COUNT, TIME = "count", "time (ns)"
EXCLUSIVE = "(exc)"
"""The end of the name of a metric that is a node's own when it is given; it is not kept."""
PROPERTY = "(pty)"
"""The end of the name of a metric that a later value replaces; it is not kept."""

CPU_TIME = "cpu_time (ns)"
SCOPE_TIME, SCOPE_COUNT = "scope_time (ns)", "scope_count"
"""The time that all programs spent in a scope of a kernel, and how often they were in it."""

OWN = frozenset({CPU_TIME, SCOPE_TIME, SCOPE_COUNT})
"""The metrics that are a node's own: sums over what is below it mean nothing."""


@dataclass
class Node:
    """A scope or kernel: its own metrics, and what is below it by name."""

    name: str
    metrics: dict[str, Any] = field(default_factory=dict[str, Any])
    children: dict[str, Node] = field(default_factory=dict[str, "Node"])

    def at(self, path: Sequence[str]) -> Node:
        """The node below this one along some names; made where it is missing."""
        node = self
        for name in path:
            node = node.children.setdefault(name, Node(name))
        return node

    def add(self, metrics: Mapping[str, Any]) -> None:
        """Add numbers up, lists of them element by element; other values and properties replace.
        Raises `ValueError` for lists of different lengths."""
        for given, value in metrics.items():
            name = given.removesuffix(EXCLUSIVE).removesuffix(PROPERTY).rstrip()
            old = None if given.endswith(PROPERTY) else self.metrics.get(name)
            self.metrics[name] = _sum(name, old, value)

    def to_json(self) -> dict[str, Any]:
        """The node as hatchet reads it."""
        return {
            "frame": {"name": self.name, "type": "function"},
            "metrics": self.metrics,
            "children": [child.to_json() for child in self.children.values()],
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Node:
        """The node that `to_json` wrote."""
        node = Node(str(data["frame"]["name"]), dict(data["metrics"]))
        for child in data["children"]:
            below = Node.from_json(child)
            node.children[below.name] = below
        return node

    def total(self, metric: str) -> float:
        """A metric's sum over this node and all below; of one of `OWN`, the node's own value.
        NaN where there is none."""
        own = self.metrics.get(metric)
        own = own if isinstance(own, (int, float)) else math.nan
        if metric in OWN:
            return own
        values = [own, *(child.total(metric) for child in self.children.values())]
        known = [value for value in values if not math.isnan(value)]
        return sum(known) if known else math.nan

    def metric_names(self) -> list[str]:
        """The metrics that are numbers, here or below."""
        found = {n: None for n, v in self.metrics.items() if isinstance(v, (int, float))}
        for child in self.children.values():
            found.update(dict.fromkeys(child.metric_names()))
        return list(found)


def _sum(name: str, old: Any, new: Any) -> Any:
    if isinstance(new, list) and isinstance(old, list):
        before, now = cast("list[Any]", old), cast("list[Any]", new)
        if len(before) != len(now):
            raise ValueError(f"profiler: metrics[{name!r}] has {len(now)} numbers; it had "
                             f"{len(before)} before, to which they are added")  # fmt: skip
        return [_sum(name, a, b) for a, b in zip(before, now, strict=True)]
    if isinstance(new, (int, float)) and isinstance(old, (int, float)):
        return old + new
    return cast(Any, new)
