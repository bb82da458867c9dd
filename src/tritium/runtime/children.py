"""Functions that run in forked child processes, with a time limit; their results come back.

A child has everything that its parent has, so nothing need be picklable but the result, and
nothing is imported anew. It starts with one thread and must leave accelerators alone.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import select
import signal
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Generator, Hashable
from contextlib import contextmanager, suppress
from typing import IO, Any, NoReturn

from tritium.errors import TritonError

_DIE_WITH_PARENT = 1  # prctl's PR_SET_PDEATHSIG


class ChildError(TritonError):
    """A child process gave no result."""


class ChildTimeout(ChildError):
    """A child process was stopped, for it took too long."""


class ChildCrash(ChildError):
    """A child process died."""


def available() -> bool:
    """Whether children can be forked here."""
    return sys.platform == "linux" and hasattr(os, "fork")


class Child:
    """A child process that runs `job`.

    Args:
        job: called in the child.
        limit: seconds that it may take; the time in which it is paused does not count.
    """

    def __init__(self, job: Callable[[], Any], limit: float):
        self.limit = limit
        self._left = limit
        self._result: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  (closed by wait or stop)
        self._end, ours = os.pipe()  # the child's side closes when the child is gone
        _flush()
        with warnings.catch_warnings():
            # Python 3.12 warns of threads; the child runs the compiler and kernels, whose locks
            # and threads are made for that.
            warnings.simplefilter("ignore", DeprecationWarning)
            with _llvm_unused():
                self.pid = os.fork()
        if self.pid == 0:
            _work(job, self._result)
        os.close(ours)
        self._started = time.monotonic()

    def fileno(self) -> int:
        """Readable when the child is gone."""
        return self._end

    def remaining(self) -> float:
        """Seconds until its time is up."""
        return max(0.0, self._left - (time.monotonic() - self._started))

    def pause(self) -> None:
        """Let it wait, off the processors."""
        self._left -= time.monotonic() - self._started
        _signal(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Undo `pause`."""
        self._started = time.monotonic()
        _signal(self.pid, signal.SIGCONT)

    def wait(self) -> Any:
        """The job's result, or what it raised; `ChildTimeout` when its time is up."""
        if not select.select([self], [], [], self.remaining())[0]:
            self.stop()
            raise ChildTimeout(f"took longer than {self.limit:g} s")
        _, status = os.waitpid(self.pid, 0)
        os.close(self._end)
        with self._result as file:
            file.seek(0)
            content = file.read()
        code = os.waitstatus_to_exitcode(status)
        if not content or code != 0:
            name = signal.Signals(-code).name if code < 0 else f"exit status {code}"
            raise ChildCrash(f"crashed ({name})")
        succeeded, value = pickle.loads(content)
        if succeeded:
            return value
        raise value

    def stop(self) -> None:
        """End it, and the processes that it has started."""
        _signal(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self._end)
        self._result.close()


def _signal(pid: int, number: int) -> None:
    """Send a signal to a child and those that it has started: the child's process group."""
    try:
        os.killpg(pid, number)
    except ProcessLookupError:  # it has not got to making its group yet, or is gone
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()


@contextmanager
def _llvm_unused() -> Generator[None]:
    """No other thread is inside LLVM: its lock would stay taken in the child for ever."""
    for thread in threading.enumerate():
        if thread.name == "tritium-linker":  # before forking it is waited for: not with the lock
            thread.join()
    ffi: Any = sys.modules.get("llvmlite.binding.ffi")
    if ffi is None:
        yield
        return
    with ffi.lib._lock:
        yield


def _work(job: Callable[[], Any], result: IO[bytes]) -> NoReturn:
    """The child's whole life."""
    status = 1
    try:
        os.setpgid(0, 0)
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what is stopped
        result.write(_outcome(job))
        result.flush()
        status = 0
    finally:
        _flush()
        os._exit(status)


def _outcome(job: Callable[[], Any]) -> bytes:
    """(whether it succeeded, its result or error), pickled."""
    try:
        return pickle.dumps((True, job()))
    except BaseException as error:
        try:
            text = pickle.dumps((False, error))
            pickle.loads(text)  # some exceptions pickle and cannot be read
            return text
        except Exception:
            shown = "".join(traceback.format_exception_only(type(error), error)).strip()
            return pickle.dumps((False, ChildError(shown)))


class ForkedWorkers:
    """Runs jobs in children, at most `count` at a time.

    Args:
        count: how many.
        limit: seconds for each job.
    """

    def __init__(self, count: int, limit: float):
        self.count, self.limit = count, limit
        self._waiting: deque[tuple[Hashable, Callable[[], Any]]] = deque()
        self._running: dict[Hashable, Child] = {}

    def submit(self, key: Hashable, job: Callable[[], Any]) -> None:
        """Run `job` when there is a place."""
        self._waiting.append((key, job))
        self._fill()

    def _fill(self) -> None:
        while self._waiting and len(self._running) < self.count:
            key, job = self._waiting.popleft()
            self._running[key] = Child(job, self.limit)

    def __len__(self) -> int:
        return len(self._waiting) + len(self._running)

    def next(self) -> tuple[Hashable, Callable[[], Any]]:
        """A job that has ended: its key, and a function that gives its result or raises."""
        limit = min(child.remaining() for child in self._running.values())
        ended, _, _ = select.select(list(self._running.values()), [], [], limit)
        children = self._running.items()
        key = next((k for k, c in children if c in ended or not c.remaining()), None)
        if key is None:
            return self.next()
        child = self._running.pop(key)
        self._fill()
        return key, child.wait

    @contextmanager
    def paused(self) -> Generator[None]:
        """The jobs rest, so that what is measured meanwhile has the processors to itself."""
        for child in self._running.values():
            child.pause()
        try:
            yield
        finally:
            for child in self._running.values():
                child.resume()

    def close(self) -> None:
        """Stop what is left."""
        self._waiting.clear()
        while self._running:
            self._running.popitem()[1].stop()
