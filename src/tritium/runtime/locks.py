"""A lock that a forked child process always finds free."""

from __future__ import annotations

import os
import threading
from types import TracebackType


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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[type[ForkSafeLock], tuple[()]]:
        return ForkSafeLock, ()
