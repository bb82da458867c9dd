"""Record of one phase of a session, and its three formats."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any, NamedTuple

from tritium.profiler.msgpack import packed
from tritium.profiler.tree import COUNT, TIME, Node

Path = tuple[str, ...]
"""The names of a node and of those above it, the outermost first."""

class Span(NamedTuple):
    """A piece of a timeline.

    Attributes:
        path: of the scope or kernel.
        begin, end: nanoseconds of the session's clock.
        process, thread: the names of the device and of what runs there (a stream, a thread).
        details: shown with it.
    """

    path: Path
    begin: int
    end: int
    process: str
    thread: str
    details: dict[str, Any]


HOST = "host"
"""The process of spans of scopes."""


@dataclass
class Recording:
    """The tree of a phase, and its timeline where one is kept."""

    traced: bool
    root: Node = field(default_factory=lambda: Node("ROOT"))
    spans: list[Span] = field(default_factory=list[Span])
    pending: list[Callable[[], None]] = field(default_factory=list[Callable[[], None]])
    devices: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    _lock: Any = field(default_factory=threading.Lock, repr=False)

    def add(self, path: Sequence[str], metrics: Mapping[str, Any]) -> None:
        """Add metrics to a node."""
        with self._lock:
            self.root.at(path).add(metrics)

    def launch(self, span: Span, device: Mapping[str, str], count: int = 1) -> None:
        """Add a kernel that ran."""
        self.add(span.path, {COUNT: count, TIME: span.end - span.begin, **device})
        self.span(span)

    def span(self, span: Span) -> None:
        """Keep a piece of the timeline, if one is kept."""
        if self.traced:
            with self._lock:
                self.spans.append(span)

    def settle(self) -> None:
        """Add what was not known when it was launched; waits for launches."""
        with self._lock:
            pending, self.pending = self.pending, []
        for finish in pending:
            finish()

    def to_json(self) -> list[dict[str, Any]]:
        """The tree and the devices, as hatchet reads them."""
        with self._lock:
            return [self.root.to_json(), self.devices]

    def write(self, name: str, kind: str) -> None:
        """Write the file of a format, which is its ending; its folder is made."""
        file = FilePath(f"{name}.{kind}")
        file.parent.mkdir(parents=True, exist_ok=True)
        if kind == "hatchet_msgpack":
            file.write_bytes(packed(self.to_json()))
            return
        data = chrome_trace(self.spans) if kind == "chrome_trace" else self.to_json()
        file.write_text(json.dumps(data, default=str), encoding="utf-8")


def chrome_trace(spans: Sequence[Span]) -> dict[str, Any]:
    """A timeline as Chrome (`chrome://tracing`) and Perfetto show it; times in microseconds since
    the first span, whose own is `baseTimeNanoseconds`, of 1970's clock."""
    start = min((span.begin for span in spans), default=0)
    processes: dict[str, int] = {}
    threads: dict[tuple[str, str], int] = {}
    events: list[dict[str, Any]] = []
    for span in sorted(spans, key=lambda s: (s.begin, -s.end)):
        if span.process not in processes:
            processes[span.process] = len(processes) + 1
            events.append(_named("process_name", span.process, processes[span.process], 0))
        pid, key = processes[span.process], (span.process, span.thread)
        if key not in threads:
            threads[key] = len(threads) + 1
            events.append(_named("thread_name", span.thread, pid, threads[key]))
        events.append({
            "name": span.path[-1], "cat": "scope" if span.process == HOST else "kernel",
            "ph": "X", "ts": (span.begin - start) / 1e3, "dur": (span.end - span.begin) / 1e3,
            "pid": pid, "tid": threads[key],
            "args": {"call_stack": ["ROOT", *span.path], **span.details},
        })  # fmt: skip
    return {
        "baseTimeNanoseconds": start + time.time_ns() - time.perf_counter_ns(),
        "displayTimeUnit": "ns", "traceEvents": events,
    }  # fmt: skip


def _named(what: str, name: str, pid: int, tid: int) -> dict[str, Any]:
    return {"name": what, "ph": "M", "pid": pid, "tid": tid, "args": {"name": name}}
