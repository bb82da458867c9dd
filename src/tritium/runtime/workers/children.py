"""Functions that run in forked child processes, with a time limit; their results come back.

A child has everything that its parent has, so nothing need be picklable but the result, and
nothing is imported anew. It starts with one thread and must leave accelerators alone. It lives on
after its first job: a new one would have to copy the memory that it touches again, 10 ms a job.
"""

from __future__ import annotations

import ctypes
import gc
import os
import pickle
import select
import signal
import struct
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Generator, Hashable, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, NoReturn

from tritium import forking, knobs
from tritium.errors import TritonError

_DIE_WITH_PARENT = 1  # prctl's PR_SET_PDEATHSIG
READY = 10.0
"""Seconds after which a child that is not ready for questions counts as one that hangs."""
_SIZE = struct.Struct("<q")
_EVENT = struct.Struct("<qqd")  # of a worker: the job, the size of its result or -1, the time


class ChildError(TritonError):
    """A child process gave no result."""


class WorkerMismatch(TritonError):
    """A worker would compile something else than the process that asks it, or nothing."""


class ChildTimeout(ChildError):
    """A child process was stopped, for it took too long."""


class ChildUnready(ChildTimeout):
    """A child process was stopped, for it never got to its first question."""


class ChildCrash(ChildError):
    """A child process died."""


def available() -> bool:
    """True if children can be forked here."""
    return knobs.system().forks


class _Process:
    """A forked child process, in a process group of its own.

    Args:
        life: what it does, given where to write what the parent reads from `fileno()`.
    """

    def __init__(self, life: Callable[[int], None]):
        self._read, write = os.pipe()  # the child's side closes when the child is gone
        _flush()
        with warnings.catch_warnings():
            # Python 3.12 warns of threads; the child runs the compiler and kernels, whose locks
            # and threads are made for that.
            warnings.simplefilter("ignore", DeprecationWarning)
            _wait_for_linker()
            with forking.private():
                self.pid = os.fork()
        if self.pid == 0:
            _live(life, write)
        os.close(write)

    def fileno(self) -> int:
        """File descriptor from which the child's messages, and then its end, can be read."""
        return self._read

    def ended(self) -> ChildCrash | None:
        """Wait until it is gone, which closes it; how it crashed, if it did."""
        _, status = os.waitpid(self.pid, 0)
        os.close(self._read)
        code = os.waitstatus_to_exitcode(status)
        if code == 0:
            return None
        name = signal.Signals(-code).name if code < 0 else f"exit status {code}"
        return ChildCrash(f"crashed ({name})")

    def stop(self) -> None:
        """End it, and the processes that it has started."""
        self.signal(signal.SIGKILL)
        self.ended()

    def signal(self, number: int) -> None:
        """Send a signal to it and those that it has started: its process group."""
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:  # it has not got to making its group yet, or is gone
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)


def _live(life: Callable[[int], None], write: int) -> NoReturn:
    """The child's whole life."""
    status = 1
    try:
        os.setpgid(0, 0)
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what is stopped
        gc.freeze()  # to look through the parent's objects would copy them
        life(write)
        status = 0
    finally:
        _flush()
        os._exit(status)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()


def _wait_for_linker() -> None:
    """Wait for the thread that links, so that a child has its code."""
    for thread in threading.enumerate():
        if thread.name == "tritium-linker":
            thread.join()


def outcome(job: Callable[[], Any]) -> bytes:
    """(whether it succeeded, its result or error), pickled."""
    try:
        return pickle.dumps((True, job()))
    except Exception as error:
        try:
            text = pickle.dumps((False, error))
            pickle.loads(text)  # some exceptions pickle and cannot be read
            return text
        except Exception:
            shown = "".join(traceback.format_exception_only(type(error), error)).strip()
            return pickle.dumps((False, ChildError(shown)))


def result_of(text: bytes) -> Any:
    """Return the value that `outcome` pickled, or raise its exception."""
    succeeded, value = pickle.loads(text)
    if succeeded:
        return value
    raise value


class ForkWorker:
    """A child process that answers one question after another.

    Args:
        answer: called in the child with what `ask` is given.
        limit: seconds that an answer may take.
        prepare: called in the child before; what it raises is left for the answers to find.
    """

    def __init__(
        self, answer: Callable[..., Any], limit: float, prepare: Callable[[], None] | None = None
    ):
        self.limit = limit
        self._ready = False
        self._answers = tempfile.TemporaryFile()  # noqa: SIM115  (closed by close)
        questions, self._questions = os.pipe()

        def life(write: int) -> None:
            os.close(self._questions)
            if prepare is not None:
                with suppress(Exception):
                    prepare()
            os.write(write, _SIZE.pack(0))  # ready
            with open(questions, "rb") as file:
                while head := file.read(_SIZE.size):
                    (size,) = _SIZE.unpack(head)
                    asked = pickle.loads(file.read(size))
                    text = outcome(partial(answer, *asked))
                    _write(self._answers.fileno(), text, 0)
                    os.write(write, _SIZE.pack(len(text)))

        self._process: _Process | None = _Process(life)
        os.close(questions)

    def ask(self, *question: Any) -> Any:
        """The answer, or what it raised. After `ChildTimeout` or `ChildCrash` there are no more.
        `ChildUnready` is about no question: the child did not get to the first."""
        process = self._process
        if process is None:
            raise ChildCrash("is gone")
        if not self._ready:
            if not select.select([process], [], [], READY)[0]:
                self._process = None
                process.stop()
                raise ChildUnready(f"was not ready within {READY:g} s")
            os.read(process.fileno(), _SIZE.size)
            self._ready = True
        text = pickle.dumps(question)
        with suppress(BrokenPipeError), open(self._questions, "wb", closefd=False) as file:
            file.write(_SIZE.pack(len(text)) + text)
        if not select.select([process], [], [], self.limit)[0]:
            self._process = None
            process.stop()
            raise ChildTimeout(f"took longer than {self.limit:g} s")
        head = os.read(process.fileno(), _SIZE.size)
        if not head:
            self._process = None
            raise process.ended() or ChildCrash("crashed (exit status 0)")
        (size,) = _SIZE.unpack(head)
        return result_of(os.pread(self._answers.fileno(), size, 0))

    def close(self) -> None:
        """End the child."""
        if self._process is not None:
            self._process.stop()
            self._process = None
        os.close(self._questions)
        self._answers.close()


def _write(file: int, text: bytes, offset: int) -> None:
    """Write all of `text` at a place of a file; the system writes at most 2 GiB at a time."""
    view = memoryview(text)
    while view:
        done = os.pwrite(file, view, offset)
        view, offset = view[done:], offset + done


class _Worker(_Process):
    """A child that takes one job after the other from a file of their numbers."""

    def __init__(self, jobs: Sequence[Callable[[], Any]], queue: int):
        self.results = tempfile.TemporaryFile()  # noqa: SIM115  (closed by ended)
        self.size = 0
        self.job: int | None = None
        self.since = time.monotonic()  # when it was told to begin what it does now

        def life(write: int) -> None:
            offset = 0
            while taken := os.read(queue, _SIZE.size):
                number: int = _SIZE.unpack(taken)[0]
                os.write(write, _EVENT.pack(number, -1, time.monotonic()))
                text = outcome(jobs[number])
                _write(self.results.fileno(), text, offset)
                offset += len(text)
                os.write(write, _EVENT.pack(number, len(text), time.monotonic()))

        super().__init__(life)

    def told(self) -> tuple[int, bytes] | None:
        """Read what it tells: a job that is done, and its outcome; None if it has begun one.
        Raises `EOFError` when it is gone."""
        event = os.read(self.fileno(), _EVENT.size)
        if not event:
            raise EOFError
        number, size, now = _EVENT.unpack(event)
        if size < 0:
            self.job, self.since = number, now
            return None
        self.job, self.since = None, now
        text = os.pread(self.results.fileno(), size, self.size)
        self.size += size
        return number, text

    def ended(self) -> ChildCrash | None:
        self.results.close()
        return super().ended()


class ForkedWorkers:
    """Runs jobs in children, at most `count` at a time.

    Args:
        count: how many.
        limit: seconds for each job; the time in which it is paused does not count.
    """

    def __init__(self, count: int, limit: float):
        self.count, self.limit = count, limit
        self._waiting: dict[int, Hashable] = {}  # the numbers and keys of jobs with no result yet
        self._jobs: list[Callable[[], Any]] = []
        self._workers: list[_Worker] = []
        self._done: deque[tuple[Hashable, Callable[[], Any]]] = deque()
        self._pauses: list[tuple[float, float]] = []
        # Children share one place in it.
        self._queue = tempfile.TemporaryFile()  # noqa: SIM115  (closed by close)

    def start(self, jobs: Mapping[Hashable, Callable[[], Any]]) -> None:
        """Run these; to be called once."""
        self._jobs, self._waiting = list(jobs.values()), dict(enumerate(jobs))
        self._queue.write(b"".join(map(_SIZE.pack, self._waiting)))
        self._queue.flush()
        self._queue.seek(0)
        for _ in range(min(self.count, len(jobs))):
            self._hire()

    def _hire(self) -> None:
        self._workers.append(_Worker(self._jobs, self._queue.fileno()))

    def __len__(self) -> int:
        return len(self._waiting) + len(self._done)

    def next(self) -> tuple[Hashable, Callable[[], Any]]:
        """A job that has ended: its key, and a function that gives its result or raises."""
        while not self._done:
            if not self._workers:  # the rest was taken by workers that died at once
                self._finish(next(iter(self._waiting)), ChildCrash("crashed"))
                break
            limit = min(map(self._left, self._workers))
            speaking, _, _ = select.select(self._workers, [], [], limit)
            for worker in list(self._workers):
                if worker in speaking:
                    self._listen(worker)
                elif not self._left(worker):
                    self._workers.remove(worker)
                    worker.stop()
                    if worker.job is not None:  # else it hung where the next one would, too
                        self._replace(worker, ChildTimeout(f"took longer than {self.limit:g} s"))
        return self._done.popleft()

    def _left(self, worker: _Worker) -> float:
        """Seconds until its time is up."""
        took = time.monotonic() - worker.since
        took -= sum(max(0.0, end - max(start, worker.since)) for start, end in self._pauses)
        return max(0.0, self.limit - took)

    def _listen(self, worker: _Worker) -> None:
        try:
            done = worker.told()
        except EOFError:
            self._workers.remove(worker)
            self._replace(worker, worker.ended())
            return
        if done is not None:
            self._finish(done[0], done[1])

    def _replace(self, worker: _Worker, error: ChildError | None) -> None:
        """A worker is gone, and its job with it."""
        if worker.job is not None:
            self._finish(worker.job, error or ChildCrash("crashed (exit status 0)"))
        if error is not None and len(self._waiting) > len(self._workers):
            self._hire()

    def _finish(self, number: int, outcome: bytes | ChildError) -> None:
        text = outcome if isinstance(outcome, bytes) else pickle.dumps((False, outcome))
        self._done.append((self._waiting.pop(number), partial(result_of, text)))

    @contextmanager
    def paused(self) -> Generator[None]:
        """The jobs rest, so that what is measured meanwhile has the processors to itself."""
        start = time.monotonic()
        for worker in self._workers:
            worker.signal(signal.SIGSTOP)
        try:
            yield
        finally:
            for worker in self._workers:
                worker.signal(signal.SIGCONT)
            self._pauses.append((start, time.monotonic()))

    def close(self) -> None:
        """Stop what is left."""
        self._waiting.clear()
        self._done.clear()
        while self._workers:
            self._workers.pop().stop()
        self._queue.close()
