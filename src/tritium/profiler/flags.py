"""State of the profiler in this process: `flags`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class ProfilerFlags:
    """Flags: a session is open, kernels are instrumented, a command line started the program."""

    profiling_on: bool = False
    instrumentation_on: bool = False
    command_line: bool = False


flags = ProfilerFlags()
