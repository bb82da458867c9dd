"""The tree of scopes and kernels that a session records, and its text (hatchet's JSON)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

COUNT, TIME = "count", "time (ns)"


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
        """Add numbers up; other values replace."""
        for name, value in metrics.items():
            old = self.metrics.get(name, 0)
            number = isinstance(value, (int, float)) and isinstance(old, (int, float))
            self.metrics[name] = old + value if number else value

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
        """A metric's sum over this node and all below."""
        own = self.metrics.get(metric, 0)
        return own + sum(child.total(metric) for child in self.children.values())

    def has(self, metric: str) -> bool:
        """Whether a metric is known here or below."""
        return metric in self.metrics or any(c.has(metric) for c in self.children.values())
