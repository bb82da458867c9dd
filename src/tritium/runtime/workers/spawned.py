"""Compile workers for systems where a process with threads cannot be forked: new Python processes.

A worker imports the modules of the kernels that it compiles. It never runs the program's own file
again, which would need a guard (`if __name__ == "__main__"`): what cannot be imported is compiled
by this process instead.
"""

from __future__ import annotations

import os
import pickle
import struct
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Hashable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from tritium import knobs
from tritium.runtime.workers.children import (
    ChildCrash,
    ChildTimeout,
    WorkerMismatch,
    outcome,
    result_of,
)

_SIZE = struct.Struct("<q")
_STARTED = b"started"
_SERVE = "from tritium.runtime.workers.spawned import serve; serve()"

Job = Callable[[], Any]


def serve() -> None:
    """A worker's life: say that it has started, read jobs from stdin, write their outcomes to what
    was stdout; what they print goes to stderr."""
    source, sink = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    sys.path[:] = pickle.loads(_read(source) or b"")
    _write(sink, _STARTED)
    while text := _read(source):
        _write(sink, outcome(partial(_do, text)))


def _do(text: bytes) -> Any:
    try:
        job: Job = pickle.loads(text)
    except Exception as error:
        raise WorkerMismatch(f"a worker cannot import what it is to compile: {error}") from error
    return job()


def _read(file: Any) -> bytes:
    head = file.read(_SIZE.size)
    if len(head) < _SIZE.size:
        return b""
    (size,) = _SIZE.unpack(head)
    return file.read(size)


def _write(file: Any, text: bytes) -> None:
    file.write(_SIZE.pack(len(text)) + text)
    file.flush()


class _Process:
    """A worker, as its parent sees it."""

    def __init__(self) -> None:
        self._late = self._started = False
        self._popen: Any = subprocess.Popen(
            [sys.executable, "-c", _SERVE], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env=knobs.child_environment(PYTHONPATH=os.pathsep.join(p for p in sys.path if p)),
        )  # fmt: skip
        self._send(pickle.dumps(sys.path))

    def _send(self, text: bytes) -> None:
        with suppress(OSError):  # it is gone, which is found when its answer is read
            _write(self._popen.stdin, text)

    def ask(self, text: bytes, limit: float) -> bytes:
        """The outcome of a job. After `ChildTimeout` or `ChildCrash` there are no more.

        The limit, in seconds, is the job's: on a busy machine Python alone takes long to start.
        """
        self._started = self._started or _read(self._popen.stdout) == _STARTED
        timer = threading.Timer(limit, self._stop_late)
        timer.daemon = True
        timer.start()
        self._send(text)
        answer = _read(self._popen.stdout)
        timer.cancel()
        if answer:
            return answer
        status = self._popen.wait()
        if self._late:
            raise ChildTimeout(f"took longer than {limit:g} s")
        raise ChildCrash(f"crashed (exit status {status})")

    def _stop_late(self) -> None:
        self._late = True
        self._popen.kill()

    def close(self) -> None:
        """End it."""
        self._popen.kill()
        self._popen.wait()
        for pipe in (self._popen.stdin, self._popen.stdout):
            with suppress(OSError):
                pipe.close()


class SpawnedWorkers:
    """Runs jobs in new processes, at most `count` at a time.

    Args:
        count: how many.
        limit: seconds for each job.
    """

    def __init__(self, count: int, limit: float):
        self.limit = limit
        self._threads = ThreadPoolExecutor(count)  # each has a process
        self._own = threading.local()
        self._processes: list[_Process] = []
        self._sent: dict[Future[bytes], tuple[Hashable, Job]] = {}
        self._here: deque[tuple[Hashable, Job]] = deque()
        self._change = threading.Condition()
        self._running, self._stopped, self._closed = 0, False, False

    def start(self, jobs: Mapping[Hashable, tuple[Job, Job]]) -> None:
        """Run these: the first of each in a worker, or the second here if the first cannot be sent
        or raises `WorkerMismatch`."""
        for key, (job, here) in jobs.items():
            text = b""
            with suppress(Exception):
                text = pickle.dumps(job)
            if text and b"__main__" not in text:
                self._sent[self._threads.submit(self._ask, text)] = key, here
            else:
                self._here.append((key, here))

    def _ask(self, text: bytes) -> bytes:
        with self._change:
            self._change.wait_for(lambda: self._closed or not self._stopped)
            if self._closed:
                raise ChildCrash("is not needed any more")
            self._running += 1
            process: _Process | None = getattr(self._own, "process", None)
            if process is None:
                process = self._own.process = _Process()
                self._processes.append(process)
        try:
            return process.ask(text, self.limit)
        except Exception:
            self._own.process = None
            raise
        finally:
            with self._change:
                self._running -= 1
                self._change.notify_all()

    def __len__(self) -> int:
        return len(self._sent) + len(self._here)

    def next(self) -> tuple[Hashable, Job]:
        """A job that has ended, or is to be done here: its key, and a function that gives its
        result or raises."""
        timeout = 0 if self._here else None
        done, _ = wait(self._sent, timeout=timeout, return_when=FIRST_COMPLETED)
        if not done and self._here:
            return self._here.popleft()
        future = next(iter(done))
        key, here = self._sent.pop(future)
        return key, partial(_result, future, here)

    @contextmanager
    def paused(self) -> Generator[None]:
        """Wait for the jobs that have begun and start none, so that what is measured meanwhile has
        the processors to itself."""
        with self._change:
            self._stopped = True
            self._change.wait_for(lambda: not self._running)
        try:
            yield
        finally:
            with self._change:
                self._stopped = False
                self._change.notify_all()

    def close(self) -> None:
        """Stop what is left."""
        self._sent.clear()
        self._here.clear()
        self._threads.shutdown(wait=False, cancel_futures=True)
        with self._change:
            self._closed = True
            for process in self._processes:
                process.close()
        self._threads.shutdown()


def _result(future: Future[bytes], here: Job) -> Any:
    try:
        return result_of(future.result())
    except WorkerMismatch:
        return here()
