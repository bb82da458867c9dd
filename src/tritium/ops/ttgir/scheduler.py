"""Jobs that run in turns: one at a time, each until it has to wait for another one or ends."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


class JobScheduler:
    """Runs jobs, each on a thread of its own, of which one runs at a time.

    Args:
        enter: called with a job's number whenever the job begins or goes on.
    """

    def __init__(self, jobs: Sequence[Callable[[], Any]], enter: Callable[[int], None]):
        self._jobs, self._enter = jobs, enter
        self._going = list(range(len(jobs)))
        self._tickets = [threading.Semaphore(0) for _ in jobs]
        self._current, self._in_vain = 0, 0
        self._ended = threading.Event()
        self._failure: BaseException | None = None

    def run(self) -> None:
        """Run all jobs to their ends. Raises what a job raises."""
        threads = [
            threading.Thread(target=self._body, args=(job,), daemon=True)
            for job in range(len(self._jobs))
        ]
        for thread in threads:
            thread.start()
        self._tickets[0].release()
        self._ended.wait()
        for ticket in self._tickets:
            ticket.release()
        for thread in threads:
            thread.join()
        if self._failure is not None:
            raise self._failure

    def wait(self, ready: Callable[[], bool]) -> bool:
        """Let other jobs run until it is ready; False if all jobs wait in vain."""
        while not ready():
            self._in_vain += 1
            if self._in_vain > len(self._going):
                return False
            job = self._current
            self._tickets[self._following()].release()
            self._resume(job)
        self._in_vain = 0
        return True

    def _following(self) -> int:
        index = self._going.index(self._current)
        self._current = self._going[(index + 1) % len(self._going)]
        return self._current

    def _resume(self, job: int) -> None:
        self._tickets[job].acquire()
        if self._failure is not None:
            raise SystemExit  # ends this thread: another job has failed
        self._enter(job)

    def _body(self, job: int) -> None:
        try:
            self._resume(job)
            self._in_vain = 0
            with np.errstate(all="ignore"):
                self._jobs[job]()
        except SystemExit:
            return
        except BaseException as error:
            self._failure = error
            self._ended.set()
            return
        self._in_vain = 0
        following = self._following()
        self._going.remove(job)
        if self._going:
            self._tickets[following].release()
        else:
            self._ended.set()
