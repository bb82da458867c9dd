"""Profiles as text: `viewer.print_tree(*viewer.parse(["tflop16/s", "time/ms"], "p.hatchet"))`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from tritium.profiler.tree import COUNT, TIME, Node

_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_SCALE = {"": 1.0, "g": 1e9, "t": 1e12}
_TIME = re.compile(r"(?P<kind>avg_time|time|avg_cpu_time|cpu_time)/(?P<unit>s|ms|us|ns)")
_RATE = re.compile(r"(?P<scale>[gt]?)(?P<what>flop(?:8|16|32|64)?|byte)/s")


def parse(
    metrics: Sequence[str],
    filename: str,
    include: str | None = None,
    exclude: str | None = None,
    threshold: float | None = None,
) -> tuple[Node, list[str]]:
    """Read a profile.

    Args:
        metrics: `time/ms`, `avg_time/us`, `count`, `tflop16/s`, `gbyte/s`, `cpu_time/s`, ....
        include: a regular expression; of the nodes those stay whose whole name it matches, with
            those above and below them.
        exclude: nodes of these names go, with those below.
        threshold: the least value of the first metric that a node has, or one below it.

    Returns: the tree and the metrics, for `print_tree`; sums are those of what stays.

    Raises `ValueError` for a metric that no node has.
    """
    tree = Node.from_json(json.loads(Path(filename).read_text(encoding="utf-8"))[0])
    values = [_value(metric) for metric in metrics]
    for value in values:
        value(tree)
    if include:
        chosen = re.compile(include)
        _keep(tree, lambda node: chosen.fullmatch(node.name) is not None, below=True)
    if exclude:
        _drop(tree, re.compile(exclude))
    if threshold is not None and values:
        _keep(tree, lambda node: values[0](node) >= threshold, below=False)
    return tree, list(metrics)


def _keep(node: Node, wanted: Callable[[Node], bool], below: bool) -> bool:
    """Drop nodes below this one that are not wanted and have none below them that is; with `below`
    what is below a wanted node stays. Returns whether anything is wanted."""
    found = wanted(node)
    if not (found and below):
        node.children = {n: c for n, c in node.children.items() if _keep(c, wanted, below)}
    return found or bool(node.children)


def _drop(node: Node, names: re.Pattern[str]) -> None:
    """Drop nodes of some names below this one."""
    node.children = {n: c for n, c in node.children.items() if not names.fullmatch(n)}
    for child in node.children.values():
        _drop(child, names)


def _value(metric: str) -> Callable[[Node], float]:
    """How a metric is computed from a node."""
    if metric == COUNT:
        return lambda node: node.total(COUNT)
    if found := _TIME.fullmatch(metric):
        name = "cpu_time (ns)" if "cpu" in found["kind"] else TIME
        factor = 1e-9 / _SECONDS[found["unit"]]
        if found["kind"].startswith("avg"):
            return lambda node: _total(node, name) * factor / max(node.total(COUNT), 1)
        return lambda node: _total(node, name) * factor
    if found := _RATE.fullmatch(metric):
        name = "bytes" if found["what"] == "byte" else found["what"].replace("flop", "flops")
        scale = _SCALE[found["scale"]]
        return lambda node: node.total(name) / max(_total(node, TIME), 1) * 1e9 / scale
    if metric == "util" or "%" in metric:
        raise NotImplementedError(f"viewer: the metric {metric!r} is not built")
    raise ValueError(f"viewer: unknown metric {metric!r}; known are count, time/ms, avg_time/ms, "
                     "cpu_time/ms, tflop16/s, gbyte/s and their like")  # fmt: skip


def _total(node: Node, name: str) -> float:
    return node.total(name)


def print_tree(
    tree: Node, metrics: Sequence[str], depth: int = 100, format: str | None = None,
    print_sorted: bool = False,
) -> None:  # fmt: skip
    """Print a tree, each node with its metrics, those below it included.

    Args:
        depth: how many levels.
        format: None; others are not built.
        print_sorted: the largest first, by the first metric.
    """
    if format is not None:
        raise NotImplementedError(f"viewer.print_tree: format={format!r} is not built")
    values = [_value(metric) for metric in metrics]
    print("  ".join(metrics))

    def show(node: Node, level: int) -> None:
        numbers = " ".join(f"{value(node):.3f}" for value in values)
        print(f"{'   ' * level}{numbers} {node.name}")
        if level + 1 < depth:
            below = list(node.children.values())
            if print_sorted and values:
                below.sort(key=values[0], reverse=True)
            for child in below:
                show(child, level + 1)

    show(tree, 0)
