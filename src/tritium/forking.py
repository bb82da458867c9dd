"""Whether memory may be shared with other processes that run kernels.

Processes that were forked share what was mapped as shared, and those that `multiprocessing` starts
are given memory to share.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

_private = 0


@contextmanager
def private() -> Generator[None, None, None]:
    """Forks meanwhile make processes that work on memory of their own."""
    global _private
    _private += 1
    try:
        yield
    finally:
        _private -= 1


def shares() -> bool:
    """Whether a fork that happens now makes a process that may share memory."""
    return not _private


def started_to_share() -> bool:
    """Whether this process was started by `multiprocessing`."""
    process: Any = sys.modules.get("multiprocessing.process")
    return process is not None and process.parent_process() is not None
