"""State of the profiler in this process: `flags`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class ProfilerFlags:
    """Whether a session is open, whether kernels are instrumented, and whether a command line
    started the program."""

    profiling_on: bool = False
    instrumentation_on: bool = False
    command_line: bool = False


flags = ProfilerFlags()
