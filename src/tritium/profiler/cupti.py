"""The backend `cupti`: every kernel that an NVIDIA GPU runs for this process, whoever launched it,
by CUPTI's activity records (the package `cupti-python`).

A launch passes through a call of CUDA's driver or run-time, for which CUPTI calls `_called` in the
launching thread: the place in the program is kept under the call's correlation id. The record of
the kernel, which has the same id, comes later (`_completed`); it is joined with its place by
`flush`.

A record is complete some time after its kernel, when a thread of CUPTI has read its times. A forced
flush hands over what is not complete, without times; so `flush` asks for complete records until
those of all launches are there (https://docs.nvidia.com/cupti/main/main.html, flushing of the
activity buffers).
"""

from __future__ import annotations

import functools
import importlib
import threading
import time
import warnings
from dataclasses import dataclass
from typing import Any, NamedTuple

from tritium.backends.active import driver
from tritium.profiler.hooks.hook import Hook
from tritium.profiler.hooks.launch import described
from tritium.profiler.recording import Path, Recording, Span
from tritium.profiler.registry import active
from tritium.profiler.timing import device_of
from tritium.profiler.tree import COUNT

_BUFFER_BYTES = 8 << 20
_FORCED = 1  # CUPTI_ACTIVITY_FLAG_FLUSH_FORCED
_PATIENCE, _PAUSE = 1.0, 1e-3
"""Seconds for which a flush waits for records, and between two requests for them."""


class _Place(NamedTuple):
    """The node at which a launch is recorded; `named`: whether the path's last name is the
    kernel's."""

    recording: Recording
    path: Path
    named: bool


@dataclass
class _Launch:
    """A call that launches a kernel, or a graph of kernels, and the calls that it makes for it.

    Attributes:
        recorded: whether the record of a kernel has come.
        flushes: how many flushes have asked for it.
    """

    places: list[_Place]
    is_graph: bool
    recorded: bool = False
    flushes: int = 0


class _Kernel(NamedTuple):
    """The record of a kernel. Times in nanoseconds of CUPTI's clock; 0 where it has none."""

    correlation: int
    name: str
    begin: int
    end: int
    device: int
    stream: int


class Tracing(Hook):
    """Records kernels, for all sessions of the backend.

    Args:
        cupti: the module `cupti.cupti`.
    """

    def __init__(self, cupti: Any):
        self._cupti = cupti
        self._launches: dict[int, _Launch] = {}
        self._inside: dict[int, list[_Launch]] = {}
        self._kernels: list[_Kernel] = []
        self._lock = threading.Lock()
        self._subscriber: Any = None
        self._graph_calls = frozenset(
            (int(domain), int(call))
            for domain, calls in self._launching_calls() for call in calls if "Graph" in call.name
        )  # fmt: skip
        self._calls = self._records = self._untimed = 0

    def activate(self) -> None:
        """Begin to record. Raises `RuntimeError` where CUPTI does not allow it."""
        cupti = self._cupti
        try:
            self._subscriber = cupti.subscribe(self._called, None)
            for domain, calls in self._launching_calls():
                for call in calls:
                    cupti.enable_callback(1, self._subscriber, domain, call)
            # Another profiler of the process (torch's) may have put its own in their place.
            cupti.activity_register_callbacks(_requested, self._completed)
            cupti.activity_enable(cupti.ActivityKind.CONCURRENT_KERNEL)
        except cupti.cuptiError as error:
            self._unsubscribe()
            raise RuntimeError(
                f"profiler.start: backend='cupti': {error}; another profiler may be at work, or "
                "the GPU's counters need permission; backend='events' needs neither"
            ) from None
        self._inside.clear()  # a call that began in an earlier session
        self._calls = self._records = self._untimed = 0

    def _launching_calls(self) -> list[tuple[Any, list[Any]]]:
        """The calls of CUDA that launch kernels, or graphs of them, by CUPTI's domains."""
        cupti = self._cupti
        return [
            (domain, [
                call for call in calls
                if "Launch" in call.name and "HostFunc" not in call.name
            ])
            for domain, calls in (
                (cupti.CallbackDomain.DRIVER_API, cupti.DriverApiTraceCbid),
                (cupti.CallbackDomain.RUNTIME_API, cupti.RuntimeApiTraceCbid),
            )
        ]  # fmt: skip

    def _unsubscribe(self) -> None:
        if self._subscriber is not None:
            self._cupti.unsubscribe(self._subscriber)
            self._subscriber = None

    def deactivate(self) -> None:
        self.flush()
        self._cupti.activity_disable(self._cupti.ActivityKind.CONCURRENT_KERNEL)
        self._unsubscribe()

    def enter(self, metadata: Any) -> None:
        """Record the metadata of `launch_metadata` at once; the kernel's time comes later."""
        for session in active():
            if session.backend == "cupti" and (known := described(session)) and known.metrics:
                session.now.add((*session.place(), known.name), known.metrics)

    def _called(self, userdata: Any, domain: Any, call: Any, data: Any) -> None:
        """A call that launches a kernel begins or ends, in its thread. A call of the run-time makes
        one of the driver, of another id or the same: they are one launch."""
        inside = self._inside.setdefault(threading.get_ident(), [])
        if data.callback_site != self._cupti.ApiCallbackSite.API_ENTER:
            if inside:
                inside.pop()
            return
        if inside:
            launch = inside[0]
        else:
            launch = _Launch(_places(), (int(domain), int(call)) in self._graph_calls)
        inside.append(launch)
        if launch.places:
            with self._lock:
                self._calls += len(inside) == 1
                self._launches[int(data.correlation_id)] = launch

    def _completed(self, activities: Any) -> None:
        """CUPTI hands over records, in a thread of its own: they are copied."""
        kind = int(self._cupti.ActivityKind.CONCURRENT_KERNEL)
        found = [
            _Kernel(int(a.correlation_id), str(a.name), int(a.start), int(a.end),
                    int(a.device_id), int(a.stream_id))
            for a in activities if int(a.kind) == kind
        ]  # fmt: skip
        with self._lock:
            self._kernels += found
            for kernel in found:
                if (launch := self._launches.get(kernel.correlation)) is not None:
                    launch.recorded = True

    def flush(self) -> None:
        """Add all kernels that were launched to their sessions' recordings; waits for them."""
        driver.active.get_device_interface().synchronize()
        with self._lock:
            due = list(self._launches.values())
        self._wait_for(due)
        with self._lock:
            kernels, self._kernels = self._kernels, []
            launches = dict(self._launches)
            for launch in due:
                launch.flushes += 1
            self._launches = {n: l for n, l in launches.items() if not _is_over(l)}
        untimed = sum(self._add(kernel, launches[kernel.correlation].places)
                      for kernel in kernels if kernel.correlation in launches)  # fmt: skip
        self._untimed += untimed
        if untimed:
            warnings.warn(f"profiler: CUPTI has no time of {untimed} kernels, which are counted "
                          "without", stacklevel=2)  # fmt: skip

    def _wait_for(self, due: list[_Launch]) -> None:
        """Have CUPTI hand over complete records until the launches that are `due` have theirs;
        after a time whatever there is. A launch that failed, or that a graph captured, has none."""
        end = time.monotonic() + _PATIENCE
        self._cupti.activity_flush_all(0)
        while not all(launch.recorded or launch.flushes for launch in due):
            if time.monotonic() > end:
                self._cupti.activity_flush_all(_FORCED)
                return
            time.sleep(_PAUSE)
            self._cupti.activity_flush_all(0)

    def _add(self, kernel: _Kernel, places: list[_Place]) -> bool:
        """Add a kernel at its places; returns whether its record has no time."""
        self._records += 1
        timed = 0 < kernel.begin <= kernel.end
        for recording, path, named in places:
            process, device = device_of(recording, kernel.device)
            full = path if named else (*path, kernel.name)
            span = Span(full, kernel.begin, kernel.end, process, f"stream {kernel.stream}",
                        {"kernel": kernel.name})  # fmt: skip
            if timed:
                recording.launch(span, device)
            else:
                recording.add(full, {COUNT: 1, **device})
        return not timed

    def seen(self) -> str:
        """Text, for messages, on what has come since the backend became active."""
        return (f"CUPTI told of {self._calls} calls that launch kernels and had records of "
                f"{self._records} kernels, {self._untimed} of them without times")  # fmt: skip


def _is_over(launch: _Launch) -> bool:
    """True for a launch of which no more records are waited for. The kernels of a graph may come in
    two parts, and what came too late for a flush comes to the next one."""
    return launch.flushes > 1 or (launch.flushes == 1 and launch.recorded and not launch.is_graph)


def _places() -> list[_Place]:
    """The places at which the launch that is under way is recorded."""
    found: list[_Place] = []
    for session in active():
        if session.backend == "cupti":
            known, path = described(session), session.place()
            path = path if known is None else (*path, known.name)
            found.append(_Place(session.now, path, known is not None))
    return found


def _requested() -> tuple[int, int]:
    """The size of a buffer for records, and how many records it takes (0: what fits)."""
    return _BUFFER_BYTES, 0


@functools.cache
def tracing() -> Tracing:
    """The process's recorder. Raises `RuntimeError` without cupti-python."""
    try:
        cupti = importlib.import_module("cupti.cupti")
    except ImportError as error:
        raise RuntimeError(
            "profiler.start: backend='cupti' needs the package cupti-python (pip install "
            f"cupti-python), which cannot be imported: {error}; backend='events' needs nothing"
        ) from None
    return Tracing(cupti)
