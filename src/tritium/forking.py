"""Support for forks: memory that is shared with other processes that run kernels, and
locks that a child needs.

Processes that were forked share what was mapped as shared, and those that `multiprocessing` starts
are given memory to share.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from tritium.system import at_fork

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
    """True if a fork that happens now makes a process that may share memory."""
    return not _private


def started_to_share() -> bool:
    """True if this process was started by `multiprocessing`."""
    process: Any = sys.modules.get("multiprocessing.process")
    return process is not None and process.parent_process() is not None


class ForkSafeLock:
    """A reentrant lock. One that another thread held when the process forked is free in the child,
    where that thread does not exist; nothing is registered with the system for that."""

    def __init__(self) -> None:
        self._owner = os.getpid()
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        if self._owner != os.getpid():
            self._owner, self._lock = os.getpid(), threading.RLock()
        self._lock.acquire()

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[type[ForkSafeLock], tuple[()]]:
        return ForkSafeLock, ()


_locks: list[Any] = []
_held: list[Any] = []


def held_while_forking(lock: Any) -> Any:
    """`lock`, for which forks wait: in the child, where who holds it does not exist, it is free,
    and what it guards is not half done. Those that are taken first are to be named last."""
    _locks.insert(0, lock)
    return lock


def _take() -> None:
    ffi: Any = sys.modules.get("llvmlite.binding.ffi")
    locks = [*_locks, ffi.lib._lock] if ffi is not None else list(_locks)
    for lock in locks:
        lock.__enter__()  # llvmlite's has no `acquire`
    _held.append(locks)


def _release() -> None:
    for lock in reversed(_held.pop()):
        lock.__exit__(None, None, None)


at_fork(before=_take, after_in_parent=_release, after_in_child=_release)
