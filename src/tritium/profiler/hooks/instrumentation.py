"""Instrumentation of kernels: the records of `profiler.language`."""

from __future__ import annotations

from typing import Any

from tritium.profiler.hooks.hook import Hook
from tritium.profiler.mode import InstrumentationMode


class InstrumentationHook(Hook):
    """The reference's instrumentation of kernels."""

    def __init__(self, mode_obj: Any = None):
        self.mode = InstrumentationMode.parse(mode_obj)
        raise NotImplementedError(
            "profiler.hooks.InstrumentationHook is not built; launches as a whole are timed"
        )
