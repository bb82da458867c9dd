"""The mode `pcsampling`: each launch of this package is a range that CUPTI samples; the samples
stand below the kernel, by the line of its source."""

from __future__ import annotations

import functools
import math
import threading
import warnings
from collections import defaultdict
from typing import Any

from tritium.backends.active import driver
from tritium.compiler.kernel import loaded_kernels
from tritium.profiler.hooks.hook import Hook
from tritium.profiler.hooks.launch import described
from tritium.profiler.mode import PCSampling
from tritium.profiler.recording import Path
from tritium.profiler.registry import Session, active
from tritium.profiler.sampling.library import Context, CuptiError, Sample, library
from tritium.profiler.timing import device_of
from tritium.profiler.tree import COUNT

BACKEND = PCSampling().name
"""The backend of sessions that sample, as they are kept."""
SAMPLES, STALLED, DROPPED = "num_samples", "num_stalled_samples", "dropped_samples"
_PREFIX, _NOT_ISSUED = "smsp__pcsamp_warps_issue_", "_not_issued"
_EXPONENTS = range(5, 32)
"""Exponents of 2 that CUPTI takes for the cycles between samples."""


def metrics_of(reasons: dict[str, int]) -> dict[str, int]:
    """The metrics of a place: its samples, those by reason, and the samples in which the scheduler
    issued no instruction of any warp (the reasons whose names end with `_not_issued`)."""
    found = {SAMPLES: 0, STALLED: 0}
    for name, number in reasons.items():
        if name.endswith(_NOT_ISSUED):
            found[STALLED] += number
        elif number:
            found[SAMPLES] += number
            short = name.removeprefix(_PREFIX)
            found[short] = found.get(short, 0) + number
    return found


class Sampling(Hook):
    """Samples launches, for all sessions of the mode.

    Args:
        interval: cycles between samples; the nearest power of two counts.
    """

    def __init__(self, interval: int):
        self._exponent = round(math.log2(interval))
        if self._exponent not in _EXPONENTS:
            raise ValueError(
                f"profiler.start: mode='pcsampling': interval={interval}; {2 ** _EXPONENTS[0]} to "
                f"{2 ** _EXPONENTS[-1]} cycles are required"
            )
        self._contexts: dict[int, Context] = {}
        self._open: dict[int, set[int]] = defaultdict(set)
        """The threads whose launches are under way, by context."""
        self._samples: dict[str, list[Sample]] = defaultdict(list)
        self._lines: dict[tuple[str, int], str] = {}
        self._lock = threading.Lock()

    def activate(self) -> None:
        """Begin to sample. Raises `RuntimeError` where the device does not, or there is none."""
        target = driver.active.get_current_target()
        if target.backend != "cuda":
            raise RuntimeError(f"profiler.start: mode='pcsampling' samples NVIDIA GPUs; the active "
                               f"device is of {target.backend!r}")  # fmt: skip
        if _samplers:
            raise ValueError("profiler.start: mode='pcsampling': another session samples each "
                             f"{2 ** _samplers[0]._exponent} cycles; one interval at a "
                             "time")  # fmt: skip
        try:
            self._now()
            _samplers.append(self)
        except CuptiError as error:
            raise RuntimeError(f"profiler.start: mode='pcsampling': {error}") from None

    def deactivate(self) -> None:
        _samplers.remove(self)
        with self._lock:
            contexts, self._contexts = self._contexts, {}
            self._open.clear()
            for context in contexts.values():
                context.close()

    def _now(self) -> tuple[int, Context]:
        """The current context, in which sampling is enabled."""
        handle = current_context()
        with self._lock:
            if handle not in self._contexts:
                self._contexts[handle] = Context(library(), handle, self._exponent)
            return handle, self._contexts[handle]

    def enter(self, metadata: Any) -> None:
        handle, context = self._now()
        with self._lock:
            if not self._open[handle]:
                context.start()
            self._open[handle].add(threading.get_ident())

    def exit(self, metadata: Any) -> None:
        handle, context = self._now()
        driver.active.get_device_interface().synchronize()
        name = str(metadata.data["name"])
        with self._lock:
            found, dropped = context.stop()
            self._open[handle].discard(threading.get_ident())
            if self._open[handle]:  # launches of other threads, whose kernels have other names
                context.start()
            for sample in found:
                self._samples[sample.function].append(sample)
            samples = self._samples.pop(name, [])
            if not self._open[handle]:
                self._samples.clear()  # of kernels that others launched meanwhile
        if dropped:
            warnings.warn(
                f"profiler: {dropped} samples of {name} were dropped; PCSampling(interval=...) of "
                "more cycles takes fewer", stacklevel=2,
            )  # fmt: skip
        cubin = _cubin(metadata.data["function"])
        for session in active():
            if session.backend == BACKEND:
                self._record(session, name, cubin, samples, dropped)

    def _record(
        self, session: Session, name: str, cubin: bytes | None, samples: list[Sample], dropped: int
    ) -> None:
        known, recording = described(session), session.now
        path: Path = (*session.place(), known.name if known else name)
        lost = {DROPPED: dropped} if dropped else {}
        _, device = device_of(recording)
        recording.add(path, {COUNT: 1, **lost, **device, **(known.metrics if known else {})})
        for sample in samples:
            place = self._place(sample, cubin)
            recording.add((*path, place), metrics_of(sample.reasons))

    def _place(self, sample: Sample, cubin: bytes | None) -> str:
        """The name of an instruction's line, `file:line@kernel`; else of its place in the code."""
        key = sample.function, sample.offset
        if key not in self._lines:
            found = None if cubin is None else library().line(cubin, *key)
            text = f"{sample.function}+{sample.offset:#x}"
            if found is not None:
                text = f"{found[0]}:{found[1]}@{sample.function}"
            self._lines[key] = text
        return self._lines[key]


_samplers: list[Sampling] = []
"""The one that samples; CUPTI has one interval for a context."""


def _cubin(function: Any) -> bytes | None:
    """The binary of a loaded kernel by its handle."""
    kernel = next((k for k in loaded_kernels if k.function == function), None)
    return None if kernel is None else kernel.kernel


def current_context() -> int:
    """The handle of the current CUDA context; the device's primary one becomes current where there
    is none."""
    from tritium.backends.nvidia.contexts import ensure_context
    from tritium.backends.nvidia.libcuda import check
    from tritium.backends.nvidia.libcuda import library as cuda

    ensure_context(driver.active.get_current_device())
    return int(check(cuda().cuCtxGetCurrent()))


@functools.cache
def sampling(interval: int) -> Sampling:
    """The process's sampler at an interval."""
    return Sampling(interval)
