"""Parts of pytest: an end of tests that hang; for tests on a GPU, a limit for each test, a record
of what was done, and an end of the process once the device is lost.

A hung kernel cannot be interrupted, and after a failed assertion or a bad address no later launch
of the process works. `tools/test_gpu.py` goes on with the rest in a new process.
"""

from __future__ import annotations

import faulthandler
import json
import math
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

HUNG, LOST = 70, 71
"""Exit codes: a test passed its limit; the device is lost."""


class HangWatch:
    """A pytest plugin: a test that hangs prints the stacks of all threads and ends its process;
    pytest-xdist names it and goes on.

    pytest's `faulthandler_timeout` starts a thread for each test, and waits for its end: up to
    10 ms where all cores are busy. Here one thread watches the tests of a turn. It writes to what
    stderr is when the plugin is made: pytest takes that for itself while tests run.

    Args:
        limit: seconds that a test may take, and one turn more.
        turn: seconds after which the limit is counted from the test that begins.
    """

    def __init__(self, limit: float = 600.0, turn: float = 60.0):
        self._limit, self._turn, self._begun = limit, turn, -math.inf
        self._stderr = os.dup(2)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        now = time.monotonic()
        if now - self._begun >= self._turn:
            self._begun, limit = now, self._limit + self._turn
            faulthandler.dump_traceback_later(limit, file=self._stderr, exit=True)

    def pytest_enter_pdb(self) -> None:
        faulthandler.cancel_dump_traceback_later()
        self._begun = math.inf

    def pytest_unconfigure(self) -> None:
        faulthandler.cancel_dump_traceback_later()
        os.close(self._stderr)


class Watchdog:
    """A pytest plugin.

    Args:
        limit: seconds that a test may take.
        record: a file that gets lines of JSON for each test: `id`, `outcome`, `seconds`, `text`.
            The last one of a test counts; before it runs, one says that it ended the process.
    """

    def __init__(self, limit: float, record: str | None):
        self._limit, self._record = limit, Path(record) if record else None
        self._done = self._finished()

    def _finished(self) -> set[str]:
        if self._record is None or not self._record.exists():
            return set()
        return {json.loads(line)["id"] for line in self._record.read_text().splitlines()}

    def _write(self, name: str, outcome: str, seconds: float = 0.0, text: str = "") -> None:
        if self._record is not None:
            entry = {"id": name, "outcome": outcome, "seconds": round(seconds, 3), "text": text}
            with self._record.open("a") as file:
                file.write(json.dumps(entry) + "\n")

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leave out what an earlier process recorded."""
        items[:] = [item for item in items if item.nodeid not in self._done]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        def give_up() -> None:
            self._write(item.nodeid, "hung", self._limit)
            sys.stderr.write(f"\n{item.nodeid}: more than {self._limit:g} s\n")
            os._exit(HUNG)

        timer = threading.Timer(self._limit, give_up)
        timer.daemon = True
        timer.start()
        self._write(item.nodeid, "crashed", text="the process ended in this test")
        try:
            return (yield)
        finally:
            timer.cancel()

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.when != "call" and report.passed:
            return
        text = "" if report.passed else report.longreprtext
        self._write(report.nodeid, report.outcome, report.duration, text)
        if report.failed and device_lost():
            sys.stderr.write(f"\n{report.nodeid}: the device is lost\n")
            os._exit(LOST)


def device_lost() -> bool:
    """Whether no kernel can be launched any more by this process."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available() or not torch.cuda.is_initialized():
        return False
    try:
        torch.cuda.synchronize()
    except Exception:
        return True
    return False
