"""Profiles as text: `viewer.print_tree(*viewer.parse(["tflop16/s", "time/ms"], "p.hatchet"))`, and
the command `proton-viewer`."""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tritium.profiler.metrics import HELP, Devices, value_of, without_unit
from tritium.profiler.state import COMPUTE_METADATA_SCOPE_NAME
from tritium.profiler.tree import OWN, Node

FORMATS = ("full", "file_function_line", "function_line", "file_function")


@dataclass
class Frame:
    """A node as it is shown.

    Attributes:
        values: of the metrics asked for, in order; NaN where there is none.
    """

    name: str
    values: list[float]
    children: list[Frame] = field(default_factory=list["Frame"])

    def walk(self) -> list[Frame]:
        """The frame and those below it."""
        return [self, *(frame for child in self.children for frame in child.walk())]


def read(filename: str) -> tuple[Node, list[str], list[str], Devices]:
    """The tree of a profile, its metrics that are summed over what is below a node, those that are
    a node's own, and the devices. Raises `ValueError` for a file that is no profile, `OSError` for
    one that cannot be read."""
    text = Path(filename).read_bytes()
    if filename.endswith(".hatchet_msgpack"):
        raise ValueError(f"viewer: {filename} is MessagePack; a .hatchet file is required, which "
                         "profiler.finalize(output_format='hatchet') writes")  # fmt: skip
    try:
        data: Any = json.loads(text)
        if "traceEvents" in data:
            raise ValueError("it is a timeline, for Perfetto or `tritium explore`")
        tree = Node.from_json(data[0])
        devices: Devices = data[1] if len(data) > 1 else {}
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise ValueError(
            f"viewer: {filename} is no profile in hatchet's JSON ({type(error).__name__}: {error})"
        ) from None
    _drop(tree, lambda name: name.startswith(COMPUTE_METADATA_SCOPE_NAME))
    names = tree.metric_names()
    exclusive = [name for name in names if name in OWN]
    return tree, [name for name in names if name not in OWN], exclusive, devices


def parse(
    metrics: Sequence[str],
    filename: str,
    include: str | None = None,
    exclude: str | None = None,
    threshold: float | None = None,
) -> tuple[Frame, list[str]]:
    """Read a profile.

    Args:
        metrics: `time/ms`, `avg_time/us`, `count`, `tflop16/s`, `gbyte/s`, `cpu_time/s`, ....
        include: a regular expression; of the nodes those stay whose whole name it matches, with
            those above and below them.
        exclude: nodes of these names go, with those below.
        threshold: the least value of the first metric that a node has, or one below it.

    Returns: the tree and the metrics, for `print_tree`; sums are those of what stays.

    Raises `ValueError` for a metric that no node has, or a bad expression.
    """
    if isinstance(metrics, str) or not metrics:
        raise ValueError(f"viewer.parse: metrics is {metrics!r}; a list of names is required")
    tree, _, _, devices = read(filename)
    names = [metric.lower() for metric in metrics]
    values = [value_of(metric, tree, devices) for metric in names]
    if include:
        chosen = _expression("include", include)
        _keep(tree, lambda node: chosen.fullmatch(node.name) is not None, below=True)
    if exclude:
        unwanted = _expression("exclude", exclude)
        _drop(tree, lambda name: unwanted.fullmatch(name) is not None)
    if threshold is not None:
        _keep(tree, lambda node: values[0](node) >= threshold, below=False)
    return _shown(tree, values), names


def _shown(node: Node, values: Sequence[Callable[[Node], float]]) -> Frame:
    below = [_shown(child, values) for child in node.children.values()]
    return Frame(node.name, [value(node) for value in values], below)


def _expression(name: str, text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise ValueError(f"viewer: {name} is {text!r}: {error}") from None


def _keep(node: Node, wanted: Callable[[Node], bool], below: bool) -> bool:
    """Drop nodes below this one that are not wanted and have none below them that is; with `below`
    what is below a wanted node stays. Returns whether anything is wanted."""
    found = wanted(node)
    if not (found and below):
        node.children = {n: c for n, c in node.children.items() if _keep(c, wanted, below)}
    return found or bool(node.children)


def _drop(node: Node, unwanted: Callable[[str], bool]) -> None:
    """Drop nodes of some names below this one."""
    node.children = {n: c for n, c in node.children.items() if not unwanted(n)}
    for child in node.children.values():
        _drop(child, unwanted)


def difference(tree: Frame, other: Frame) -> Frame:
    """Differences of the metrics of two trees; a frame that one of them lacks
    counts there as 0."""
    return _subtract(tree.name, tree, other)


def _subtract(name: str, one: Frame | None, other: Frame | None) -> Frame:
    values = [
        _number(a) - _number(b) if not (math.isnan(a) and math.isnan(b)) else math.nan
        for a, b in zip(*(_values(f, one or other) for f in (one, other)), strict=True)
    ]
    below: dict[str, list[Frame | None]] = {}
    for place, frame in enumerate((one, other)):
        for child in frame.children if frame else ():
            below.setdefault(child.name, [None, None])[place] = child
    children = [_subtract(n, first, second) for n, (first, second) in below.items()]
    return Frame(name, values, children)


def _values(frame: Frame | None, either: Frame | None) -> list[float]:
    assert either is not None
    return [math.nan] * len(either.values) if frame is None else frame.values


def _number(value: float) -> float:
    return 0.0 if math.isnan(value) else value


def print_tree(
    tree: Frame, metrics: Sequence[str], depth: int = 100, format: str | None = None,
    print_sorted: bool = False,
) -> None:  # fmt: skip
    """Print a tree, each node with its metrics, those below it included.

    Args:
        depth: how many levels.
        format: of the names of Python frames: "full" (as None), "file_function_line",
            "function_line", "file_function".
        print_sorted: print a list of all nodes, too, the largest of the first metric first.

    Raises `ValueError` for another format.
    """
    if format is not None and format not in FORMATS:
        known = ", ".join(FORMATS)
        raise ValueError(f"viewer.print_tree: format={format!r}; one of {known} is required")
    print("  ".join(metrics))
    _print(tree, "", "", depth, format)
    if print_sorted:
        print(f"Sorted kernels by metric {metrics[0]}")
        rows = [frame for child in tree.children for frame in child.walk()]
        rows = [frame for frame in rows if not math.isnan(frame.values[0])]
        for frame in sorted(rows, key=lambda f: -f.values[0]):
            name = _formatted(frame.name, format)
            print(f"{name if len(name) <= 100 else name[:100] + '...':105} {frame.values[0]:.4g}")


def _print(frame: Frame, first: str, further: str, depth: int, format: str | None) -> None:
    numbers = " ".join(f"{value:.3f}" for value in frame.values)
    print(f"{first}{numbers} {_formatted(frame.name, format)}")
    if depth <= 1:
        return
    for child in frame.children:
        last = child is frame.children[-1]
        edge, below = ("└─ ", "   ") if last else ("├─ ", "│  ")
        _print(child, further + edge, further + below, depth - 1, format)


def _formatted(name: str, format: str | None) -> str:
    """The name of a Python frame, `path/file:line@function`, in another format; others stay."""
    found = re.fullmatch(r"(?:.*[/\\])?(?P<file>[^/\\]+):(?P<line>\d+)@(?P<function>.+)", name)
    if found is None or format in (None, "full"):
        return name
    file, line, function = found["file"], found["line"], found["function"]
    return {
        "file_function_line": f"{file}:{line}@{function}", "function_line": f"{line}@{function}",
        "file_function": f"{file}@{function}",
    }[str(format)]  # fmt: skip


def show_metrics(file_name: str) -> None:
    """Print the metrics of a profile."""
    _, inclusive, exclusive, _ = read(file_name)
    for title, names in (("inclusive", inclusive), ("exclusive", exclusive)):
        print(f"Available {title} metrics:")
        for name in names:
            print(f"- {without_unit(name)}")


def _arguments(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("proton-viewer", description="Show a profile as a tree.")
    add = parser.add_argument
    add("file", help="a .hatchet file")
    add("-l", "--list", action="store_true", help="list the metrics that were recorded")
    add("-m", "--metrics", help=f"names between commas: {HELP.replace('%', '%%')}")
    add("-i", "--include", help="show paths through frames whose name this expression matches")
    add("-e", "--exclude", help="leave frames out whose name this expression matches")
    add("-t", "--threshold", type=float, help="the least value of the first metric")
    add("-d", "--depth", type=int, default=100, help="how many levels")
    add("-f", "--format", choices=FORMATS, default="full", help="of the names of Python frames")
    add("--print-sorted", action="store_true", help="print a list by the first metric, too")
    add("-diff", "--diff-profile", help="a profile whose metrics are subtracted")
    args = parser.parse_args(given)
    if args.include and args.exclude:
        parser.error("--include and --exclude exclude each other")
    if not (args.list or args.metrics):
        parser.error("--metrics is needed, or --list")
    if args.depth < 1:
        parser.error(f"--depth is {args.depth}; at least 1 is required")
    return args


def main(arguments: Sequence[str] | None = None) -> None:
    """The command `proton-viewer`."""
    args = _arguments(arguments)
    try:
        if args.list:
            show_metrics(args.file)
            return
        metrics = [name.strip() for name in args.metrics.split(",")]
        filters = args.include, args.exclude, args.threshold
        tree, names = parse(metrics, args.file, *filters)
        if args.diff_profile:
            tree = difference(tree, parse(metrics, args.diff_profile, *filters)[0])
        print_tree(tree, names, args.depth, args.format, args.print_sorted)
    except ValueError as error:
        sys.exit(f"proton-viewer: {error}")
    except OSError as error:
        sys.exit(f"proton-viewer: {error.filename}: {error.strerror}")


if __name__ == "__main__":
    main()
