"""Instrumentation of kernels: the records of `profiler.language`."""

from __future__ import annotations

import time
import warnings
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple

import numpy as np

from tritium import knobs
from tritium.backends.active import driver
from tritium.profiler.flags import flags
from tritium.profiler.hooks.hook import Hook
from tritium.profiler.hooks.launch import described
from tritium.profiler.mode import MMA, SAMPLING_STRATEGY, InstrumentationMode
from tritium.profiler.recording import Path, Recording, Span
from tritium.profiler.registry import Session, active
from tritium.profiler.timing import device_of
from tritium.profiler.tree import SCOPE_COUNT, SCOPE_TIME
from tritium.sanitize.ring import RECORD, Buffer, Note, current, listeners


class _Visit(NamedTuple):
    """A program was in a scope. `thread` counts from 0 (programs on GPUs); times in nanoseconds."""

    path: Path
    begin: int
    end: int
    thread: int
    program: tuple[int, int, int]


class InstrumentationHook(Hook):
    """Has kernels record when programs begin and end, and the scopes that they state; one at a time
    can be active.

    Args:
        mode_obj: a mode of instrumentation, or its text.

    Raises `NotImplementedError` for what is not built: AMD's GPUs, the mode `mma`, and samples.
    """

    priority = 0
    active_count: ClassVar[int] = 0

    def __init__(self, mode_obj: Any = None):
        self.mode = InstrumentationMode.parse(mode_obj)
        if isinstance(self.mode, MMA) or self.mode.sampling_strategy != SAMPLING_STRATEGY.NONE:
            raise NotImplementedError(
                f"instrumentation: mode='{self.mode}' is not built; use 'default' with "
                "sampling_strategy=none"
            )
        size = (self.mode.buffer_size or knobs.proton.profile_buffer_size) // RECORD.itemsize
        self._size = 1 << max(size, 1).bit_length() - 1
        self._free: list[Buffer] = []
        self._launches: list[tuple[Buffer, int]] = []
        self._notes: dict[Any, list[tuple[str, int]]] = defaultdict(list)

    def activate(self) -> None:
        if InstrumentationHook.active_count:
            raise RuntimeError("one session with backend='instrumentation' can be active at a time")
        if other := knobs.compilation.instrumentation_mode:
            raise RuntimeError(
                f"profiler.start: backend='instrumentation' while instrumentation_mode is {other!r}"
            )
        self._free.append(self._new_buffer())  # refused here where the device has none
        InstrumentationHook.active_count += 1
        flags.instrumentation_on = True
        # In this process alone: children would record for nobody.
        vars(knobs.compilation)["instrumentation_mode"] = str(self.mode)
        listeners.append(self._note)

    def deactivate(self) -> None:
        if self._note not in listeners:  # it was refused
            return
        listeners.remove(self._note)
        del vars(knobs.compilation)["instrumentation_mode"]  # the environment's again
        flags.instrumentation_on = False
        InstrumentationHook.active_count -= 1

    def _new_buffer(self) -> Buffer:
        return Buffer(self._size, driver.active.record_memory)

    def enter(self, metadata: Any) -> None:
        buffer = self._free.pop() if self._free else self._new_buffer()
        buffer.clear()
        current.set(buffer)
        self._launches.append((buffer, time.perf_counter_ns()))

    def exit(self, metadata: Any) -> None:
        buffer, begin = self._launches.pop()
        current.set(None)
        driver.active.get_device_interface().synchronize()
        end = time.perf_counter_ns()
        records, lost = buffer.records()
        if lost:
            warnings.warn(
                f"the profiler has lost the first {lost} records of a launch of "
                f"{metadata.data['name']}: set TRITON_PROFILE_BUFFER_SIZE (bytes) to more than "
                f"{self._size * RECORD.itemsize}", stacklevel=2,
            )  # fmt: skip
        if len(records) and not begin <= records["time"][0] <= end:  # another clock than the host's
            records["time"] += begin - records["time"].min()
        visits = list(_visits(records, buffer.labels))
        self._free.append(buffer)
        for session in active():
            if session.backend == "instrumentation":
                self._add(session, str(metadata.data["name"]), (begin, end), visits)

    def _add(
        self, session: Session, name: str, times: tuple[int, int], visits: list[_Visit]
    ) -> None:
        recording, known = session.now, described(session)
        path = (*session.place(), known.name if known else name)
        process, device = device_of(recording)
        metrics = known.metrics if known else {}
        if metrics:
            recording.add(path, metrics)
        recording.launch(Span(path, *times, process, "launches", dict(metrics)), device)
        _add_visits(recording, path, visits, process)

    def _note(self, note: Note) -> None:
        """A scope begins or ends in the interpreter."""
        now, around = time.perf_counter_ns(), self._notes[note.kernel, note.program]
        if note.starts:
            around.append((note.label, now))
            return
        if not around or around[-1][0] != note.label:
            return
        path = tuple(label for label, _ in around)
        visit = _Visit(path, around.pop()[1], now, 0, note.program)
        for session in active():
            if session.backend == "instrumentation":
                below = (*session.place(), note.kernel)
                _add_visits(session.now, below, [visit], "interpreter")


def _add_visits(recording: Recording, path: Path, visits: list[_Visit], process: str) -> None:
    sums: dict[Path, list[int]] = defaultdict(lambda: [0, 0])
    for visit in visits:
        total = sums[visit.path]
        total[0] += visit.end - visit.begin
        total[1] += 1
        full, details = (*path, *visit.path), {"program": visit.program}
        thread = f"thread {visit.thread}"
        recording.span(Span(full, visit.begin, visit.end, process, thread, details))
    for below, (spent, count) in sums.items():
        recording.add((*path, *below), {SCOPE_TIME: spent, SCOPE_COUNT: count})


def _visits(records: np.ndarray, labels: list[str]) -> Iterator[_Visit]:
    """The scopes that records describe, without those of which one end is missing."""
    around: dict[int, list[tuple[int, int]]] = defaultdict(list)
    threads: dict[int, int] = {}
    for when, thread, what, x, y, z in records.tolist():
        number, stack = what >> 1, around[thread]
        if what & 1:
            stack.append((number, when))
            continue
        while stack and stack[-1][0] != number:
            stack.pop()
        if stack:
            path = tuple(labels[n] for n, _ in stack if n)
            which = threads.setdefault(thread, len(threads))
            yield _Visit(path, stack.pop()[1], when, which, (x, y, z))
