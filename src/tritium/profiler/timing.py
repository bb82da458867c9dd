"""The backend `events`: each launch of this package is timed by events of the active driver."""

from __future__ import annotations

import time
from contextvars import ContextVar
from typing import Any

from tritium.backends.active import driver
from tritium.profiler.hooks.hook import Hook
from tritium.profiler.hooks.launch import described
from tritium.profiler.recording import Recording, Span
from tritium.profiler.registry import Session, active
from tritium.profiler.tree import COUNT

_open: ContextVar[tuple[Any, ...]] = ContextVar("open", default=())
"""The events at which launches began that are under way in this thread."""


class Timing(Hook):
    """Times launches, for all sessions of the backend."""

    def activate(self) -> None:
        self._origin, self._start = timed_event(), time.perf_counter_ns()

    def enter(self, metadata: Any) -> None:
        _open.set((*_open.get(), timed_event()))

    def exit(self, metadata: Any) -> None:
        begin, end = _open.get()[-1], timed_event()
        _open.set(_open.get()[:-1])
        for session in active():
            if session.backend == "events":
                self._launch(session, metadata, begin, end)

    def seen(self) -> str:
        """Text, for messages, on the launches that the backend sees."""
        return ("the backend 'events' sees launches of this package alone; on NVIDIA GPUs the "
                "package cupti-python shows those of others")  # fmt: skip

    def _launch(self, session: Session, metadata: Any, begin: Any, end: Any) -> None:
        known, recording = described(session), session.now
        path = (*session.place(), known.name if known else str(metadata.data["name"]))
        recording.add(path, {COUNT: 1, **(known.metrics if known else {})})
        process, device = device_of(recording)
        origin, start, details = self._origin, self._start, dict(known.metrics if known else {})
        stream = f"stream {metadata.data.get('stream') or 0}"

        def finish() -> None:
            end.synchronize()
            at = start + round(origin.elapsed_time(begin) * 1e6)
            length = round(begin.elapsed_time(end) * 1e6)
            recording.launch(Span(path, at, at + length, process, stream, details), device, 0)

        recording.pending.append(finish)


timing = Timing()


def timed_event() -> Any:
    """A mark in the current stream of the device, which has the time when it is reached."""
    event = driver.active.get_device_interface().Event(enable_timing=True)
    event.record()
    return event


def device_of(recording: Recording, number: int | None = None) -> tuple[str, dict[str, str]]:
    """The name of a device (by default the current one), and what nodes say of it; its
    description becomes a part of the recording."""
    target = driver.active.get_current_target()
    kind = target.backend.upper()
    number = driver.active.get_current_device() if number is None else number
    entries = recording.devices.setdefault(kind, {})
    if str(number) not in entries:
        properties = driver.active.utils.get_device_properties(number)
        entries[str(number)] = {
            "arch": str(target.arch),
            "num_sms": properties.get("multiprocessor_count", 0),
            "clock_rate": properties.get("sm_clock_rate", 0),
            "memory_clock_rate": properties.get("mem_clock_rate", 0),
            "bus_width": properties.get("mem_bus_width", 0),
        }
    return f"{kind} {number}", {"device_id": str(number), "device_type": kind}
