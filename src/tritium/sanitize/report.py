"""The record of the first failed check of a launch on a device that goes on after one."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tritium.sanitize.chip.state import table_of
from tritium.sanitize.launch import CheckFailed, Checks

REPORT = np.dtype([
    ("raised", "<i4"), ("site", "<i4"), ("x", "<i4"), ("y", "<i4"), ("z", "<i4"), ("rest", "<i4"),
    ("detail", "<i8"),
])  # fmt: skip
"""`raised` is 1 where a check has failed, number `site`, in the program at `x`, `y`, `z`."""


def offset(name: str) -> int:
    """The offset of a field in bytes."""
    return (REPORT.fields or {})[name][1]


def clear(address: int) -> None:
    """Make the record one of no failed check."""
    ctypes.memset(address, 0, REPORT.itemsize)


def failed(address: int) -> CheckFailed | None:
    """The failed check, if there is one."""
    record = np.frombuffer(ctypes.string_at(address, REPORT.itemsize), REPORT)[0]
    if not record["raised"]:
        return None
    program = int(record["x"]), int(record["y"]), int(record["z"])
    return CheckFailed(int(record["site"]), program, int(record["detail"]))


def run_checked(
    checks: Checks, given: Sequence[Any], grid: Sequence[int], address: int,
    launch: Callable[[list[int]], None], **device: Any,
) -> None:  # fmt: skip
    """Launch a kernel that reports to `address`. Raises `SanitizerError` for a failed check.

    Args:
        given: the kernel's arguments by slot.
        launch: takes the additional ones, and returns when the kernel is done.
        device: `zeros` of `Shadow`.
    """
    clear(address)
    shadow = checks.shadow(given, grid, report=address, **device)
    chip = [table_of(size, grid, address, **device) for size in checks.chip]
    error: Exception | None = None
    try:
        launch([address, *checks.values(given, shadow), *(table.ctypes.data for table in chip)])
    except Exception as failure:  # of an access that was reported and made
        error = failure
    found = failed(address)
    if found is not None:
        raise checks.error(found, given, grid, shadow) from error
    if error is not None:
        raise error
    checks.done(shadow)
