"""Checks inside kernels (`TRITON_INSTRUMENTATION_MODE`): accesses out of bounds, NaN and infinity;
and the profiler's records.

`bounds`, `floats` and `records` instrument ttir; `launch` passes what the checks need to know about
arguments, and turns the first failed check of a launch into a `SanitizerError`.
"""
