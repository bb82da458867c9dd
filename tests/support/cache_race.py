"""Many processes compile the same and different kernels into one cache, and some are killed.

    python -m tests.support.cache_race --minutes 60 --processes 64

Processes of one round share an empty cache directory. Each takes the kernels in an order of its
own, compiles them (or finds them), launches them and checks what they compute; the same text comes
from two source files, so that two makers of one entry differ. Processes are killed (SIGKILL) at
random moments, and others take their places. No warning may be given by any, and at the end every
entry must be whole.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import tritium
from tests.support.launching import module_from
from tritium import knobs

SOURCE = """
import tritium
import tritium.language as tl

@tritium.jit
def kernel(out, VALUE: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, i * VALUE)
"""
SIZE = 16


class Race:
    """A cache directory and what is compiled into it.

    Args:
        folder: for sources and caches.
        kernels: how many different ones.
    """

    def __init__(self, folder: Path, kernels: int, rng: random.Random):
        self.folder, self.values, self.rng = folder, range(2, 2 + kernels), rng
        self.modules = [module_from(SOURCE, folder) for _ in range(2)]
        self.rounds = self.killed = self.finished = 0
        # Once, here: what is forked has everything it needs.
        knobs.cache.dir = str(folder / "warm")
        self._compile(self.modules[0], 1)

    def _compile(self, module: Any, value: int) -> None:
        kernel = tritium.jit(module.kernel.fn)
        out = np.zeros(SIZE, np.int32)
        kernel[(1,)](out, value, SIZE)
        assert (out == np.arange(SIZE) * value).all()

    def _child(self, seed: int) -> None:
        """The work of a process, until it is done or killed."""
        rng = random.Random(seed)
        time.sleep(rng.random() * 0.05)
        for value in rng.sample(self.values, len(self.values)):
            self._compile(rng.choice(self.modules), value)

    def _start(self, number: int) -> int:
        seed = self.rng.randrange(1 << 30)
        pid = os.fork()
        if pid:
            return pid
        status = 1
        try:
            os.nice(5)  # or the one that kills would have to wait for its turn
            warnings.simplefilter("error")
            self._child(seed)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)

    def round(self, processes: int, kill: float, seconds: float) -> None:
        """Let `processes` run at a time, killing each with probability `kill`, for `seconds`; then
        check the entries. Raises `AssertionError`."""
        knobs.cache.dir = tempfile.mkdtemp(dir=self.folder)
        end = time.monotonic() + seconds
        started = {self._start(i): self._doom(kill) for i in range(processes)}
        while started:
            now = time.monotonic()
            for pid, doom in started.items():
                if doom and now > doom:
                    os.kill(pid, signal.SIGKILL)
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid:
                doomed = started.pop(pid)
                if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL and doomed:
                    self.killed += 1
                else:
                    assert status == 0, f"process {pid} ended with status {status}"
                    self.finished += 1
                if time.monotonic() < end:
                    started[self._start(pid)] = self._doom(kill)
            else:
                time.sleep(0.002)
        self.check(Path(knobs.cache.dir))
        shutil.rmtree(knobs.cache.dir)
        self.rounds += 1

    def _doom(self, kill: float) -> float:
        """When a process dies; 0 for never."""
        doomed = self.rng.random() < kill
        return time.monotonic() + self.rng.random() * 0.3 if doomed else 0.0

    def check(self, directory: Path) -> None:
        """Every kernel is there, whole, and finding it compiles nothing."""
        for group in directory.glob("*/__grp__*"):
            content = json.loads(group.read_text())
            assert set(content["digests"]) == set(content["child_paths"])
            for name, digest in content["digests"].items():
                assert hashlib.sha256((group.parent / name).read_bytes()).hexdigest() == digest
        hits: list[bool] = []
        with knobs.compilation.scope(), warnings.catch_warnings():
            warnings.simplefilter("error")
            knobs.compilation.listener = lambda cache_hit, **_: hits.append(cache_hit)  # pyright: ignore
            for value in self.values:
                self._compile(self.modules[0], value)
        assert hits == [True] * len(self.values), hits


def race(minutes: float, processes: int, kernels: int, kill: float, seed: int) -> Race:
    """Rounds of some seconds, until the time is up."""
    folder = Path(tempfile.mkdtemp(prefix="tritium-race-"))
    end = time.monotonic() + minutes * 60
    with knobs.cache.scope():
        found = Race(folder, kernels, random.Random(seed))
        try:
            while True:
                found.round(processes, kill, min(1.0, max(0.0, end - time.monotonic())))
                if time.monotonic() >= end:
                    return found
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--processes", type=int, default=64)
    parser.add_argument("--kernels", type=int, default=6)
    parser.add_argument("--kill", type=float, default=0.5, help="what part of them is killed")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    found = race(**vars(options))
    print(
        f"{found.rounds} rounds: {found.finished} processes finished, "
        f"{found.killed} were killed; all entries are whole"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
