"""The backend `cupti`: every kernel that an NVIDIA GPU runs for this process, whoever launched it,
by CUPTI's activity records (the package `cupti-python`).

A launch passes through a call of CUDA's driver or run-time, for which CUPTI calls `_called` in the
launching thread: the place in the program is kept under the call's correlation id. The record of
the kernel, which has the same id, comes later (`_completed`); it is joined with its place by
`flush`.
"""

from __future__ import annotations

import functools
import importlib
import threading
from typing import Any, NamedTuple

from tritium.backends.active import driver
from tritium.profiler.hooks.hook import Hook
from tritium.profiler.hooks.launch import described
from tritium.profiler.recording import Path, Recording, Span
from tritium.profiler.registry import active
from tritium.profiler.timing import device_of

_BUFFER_BYTES = 8 << 20


class _Place(NamedTuple):
    """The node at which a launch is recorded; `named`: whether the path's last name is the
    kernel's."""

    recording: Recording
    path: Path
    named: bool


class _Kernel(NamedTuple):
    """The record of a kernel. Times in nanoseconds of CUPTI's clock."""

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
        self._places: dict[int, list[_Place]] = {}
        self._kernels: list[_Kernel] = []
        self._lock = threading.Lock()
        self._registered = False
        self._subscriber: Any = None

    def activate(self) -> None:
        """Begin to record. Raises `RuntimeError` where CUPTI does not allow it."""
        cupti = self._cupti
        try:
            self._subscriber = cupti.subscribe(self._called, None)
            for domain, calls in self._launching_calls():
                for call in calls:
                    cupti.enable_callback(1, self._subscriber, domain, call)
            if not self._registered:
                cupti.activity_register_callbacks(_requested, self._completed)
                self._registered = True
            cupti.activity_enable(cupti.ActivityKind.CONCURRENT_KERNEL)
        except cupti.cuptiError as error:
            self._unsubscribe()
            raise RuntimeError(
                f"profiler.start: backend='cupti': {error}; another profiler may be at work, or "
                "the GPU's counters need permission; backend='events' needs neither"
            ) from None

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
        """A call that launches a kernel begins or ends, in its thread."""
        if data.callback_site != self._cupti.ApiCallbackSite.API_ENTER:
            return
        places: list[_Place] = []
        for session in active():
            if session.backend == "cupti":
                known, path = described(session), session.place()
                path = path if known is None else (*path, known.name)
                places.append(_Place(session.now, path, known is not None))
        if places:
            with self._lock:
                self._places[int(data.correlation_id)] = places

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

    def flush(self) -> None:
        """Add all kernels that were launched to their sessions' recordings; waits for them."""
        driver.active.get_device_interface().synchronize()
        self._cupti.activity_flush_all(1)
        with self._lock:
            kernels, self._kernels = self._kernels, []
            places = self._places
            last = max((kernel.correlation for kernel in kernels), default=0)
            self._places = {number: place for number, place in places.items() if number > last}
        for kernel in kernels:
            for recording, path, named in places.get(kernel.correlation, ()):
                process, device = device_of(recording, kernel.device)
                full = path if named else (*path, kernel.name)
                span = Span(full, kernel.begin, kernel.end, process, f"stream {kernel.stream}",
                            {"kernel": kernel.name})  # fmt: skip
                recording.launch(span, device)


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
