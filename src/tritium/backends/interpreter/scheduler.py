"""Programs of a grid that wait for each other, interpreted: each gets a thread, one runs at a time.

Programs run one after the other on the launching thread. One that reads shared state again and
again (atomic operations, volatile loads) may wait for a later one: after some such operations the
next program begins on another thread. From then on the threads take turns at these operations only,
so that the order of all that happens is the same in each run.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable

import numpy as np

from tritium.backends.interpreter.emitter import EagerEmitter
from tritium.language.emitter import activate
from tritium.native.pool import MAX_TOGETHER

_PATIENCE = 1000
"""Observations of shared state that a program makes before another one begins beside it."""


class _Stopped(BaseException):
    """Ends the programs of a launch that is over."""


class _Runner:
    """A thread that runs programs, the launching one or another.

    Attributes:
        go: released when it is this thread's turn.
    """

    def __init__(self, emitter: EagerEmitter):
        self.emitter = emitter
        self.go = threading.Semaphore(0)
        self.thread: threading.Thread | None = None


class ProgramScheduler:
    """Runs the programs of one launch.

    Args:
        emitter: that of the launching thread.
        sizes: the grid's.
        program: runs the program that an emitter's `program_id` says.
        together: whether programs are expected to wait for each other.
    """

    def __init__(
        self,
        emitter: EagerEmitter,
        sizes: tuple[int, int, int],
        program: Callable[[EagerEmitter], None],
        together: bool,
    ):
        self._sizes, self._program = sizes, program
        self._total = sizes[0] * sizes[1] * sizes[2]
        self._patience = 4 if together else _PATIENCE
        self._seen = 0
        """Observations since a program began."""
        self._next = 0
        self._first = _Runner(emitter)
        self._ring = [self._first]
        """Threads with a program that has begun, in the order of their turns."""
        self._threads: list[_Runner] = []
        self._error: BaseException | None = None
        self._over = False

    def run(self) -> None:
        """Run every program, axis 0 fastest; raises what a program raises."""
        try:
            self._work(self._first)
            self._leave(self._first)
            if self._ring:
                self._first.go.acquire()
            if self._error is not None:
                raise self._error
        finally:
            self._stop()

    def _work(self, runner: _Runner) -> None:
        runner.emitter.observed = lambda: self._observed(runner)
        try:
            while self._next < self._total and not self._over:
                number, self._next = self._next, self._next + 1
                x, rest = number % self._sizes[0], number // self._sizes[0]
                runner.emitter.begin((x, rest % self._sizes[1], rest // self._sizes[1]))
                self._seen = 0
                self._program(runner.emitter)
        finally:
            runner.emitter.observed = None

    def _observed(self, runner: _Runner) -> None:
        """The program of `runner` has looked at shared state: let another one go on."""
        self._seen += 1
        patient = self._seen < self._patience
        if not patient and self._next < self._total and len(self._ring) < MAX_TOGETHER:
            self._start(runner)
        elif len(self._ring) > 1:
            at = self._ring.index(runner)
            self._ring[(at + 1) % len(self._ring)].go.release()
        else:
            return
        self._wait(runner)

    def _wait(self, runner: _Runner) -> None:
        runner.go.acquire()
        if runner is self._first and self._error is not None:
            raise self._error
        if self._over:
            raise _Stopped

    def _start(self, after: _Runner) -> None:
        runner = _Runner(after.emitter.sibling())
        runner.thread = threading.Thread(target=self._live, args=(runner,), daemon=True)
        self._ring.insert(self._ring.index(after) + 1, runner)
        self._patience = 2 * len(self._ring)  # programs do wait for each other
        self._threads.append(runner)
        runner.thread.start()

    def _live(self, runner: _Runner) -> None:
        try:
            with activate(runner.emitter), np.errstate(all="ignore"):
                self._work(runner)
        except _Stopped:
            return
        except BaseException as error:  # raised again by the launching thread
            self._error = self._error or error
            self._first.go.release()
            return
        if not self._over:
            self._leave(runner)

    def _leave(self, runner: _Runner) -> None:
        """Hand the turn on for good; the last thread to leave wakes the launching one."""
        at = self._ring.index(runner)
        self._ring.remove(runner)
        if self._ring:
            self._ring[at % len(self._ring)].go.release()
        elif runner is not self._first:
            self._first.go.release()

    def _stop(self) -> None:
        """End all threads: nothing of a launch goes on after it."""
        self._over = True
        for runner in self._threads:
            thread = runner.thread
            while thread is not None and thread.is_alive():
                if thread.ident is not None:  # also out of a loop that observes nothing
                    ctypes.pythonapi.PyThreadState_SetAsyncExc(
                        ctypes.c_ulong(thread.ident), ctypes.py_object(_Stopped)
                    )
                runner.go.release()
                thread.join(0.1)
