"""A session of a tool that runs random programs: processes that run seeds, and what they found."""

from __future__ import annotations

import argparse
import collections
import json
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

HANGS = 120.0
"""Seconds after which a program counts as one that does not end."""


class Worker:
    """A process that runs seeds from one on, started again behind a seed that it died of."""

    def __init__(self, script: Path, given: argparse.Namespace, first: int, passed: Sequence[str]):
        self.given, self.next, self.first = given, first, first
        self.script, self.passed = script, passed
        self.outcomes: collections.Counter[str] = collections.Counter()
        self.faults: list[dict[str, object]] = []
        self.error = ""

    def run(self) -> None:
        """Run all seeds of this worker."""
        end = self.first + self.given.programs * self.given.jobs
        while self.next < end and time.time() < self.given.until and not self.error:
            self._run_process((end - self.next + self.given.jobs - 1) // self.given.jobs)

    def _run_process(self, programs: int) -> None:
        given = self.given
        command = [
            sys.executable, str(self.script), "--work", "--seed", str(self.next), "--programs",
            str(programs), "--step", str(given.jobs), "--until", str(given.until),
            "--device", given.device, *(["--show"] if given.show else []), *self.passed,
        ]  # fmt: skip
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert child.stdout is not None and child.stderr is not None
        errors: list[str] = []
        reader = threading.Thread(target=lambda s: errors.extend(s), args=(child.stderr,))
        reader.start()
        begun: dict[str, object] | None = None
        hung = threading.Event()

        def stop() -> None:
            hung.set()
            child.kill()

        watchdog = threading.Timer(HANGS, stop)
        watchdog.start()
        for line in child.stdout:
            watchdog.cancel()
            if not line.startswith("{"):
                print(line, end="", flush=True)
                continue
            found = json.loads(line)
            if "begins" in found:
                begun, self.next = found, found["begins"] + given.jobs
            else:
                begun = None
                self._count(found)
            watchdog = threading.Timer(HANGS, stop)
            watchdog.start()
        watchdog.cancel()
        child.wait()
        reader.join()
        if begun is not None:
            why = "hangs" if hung.is_set() else f"dies with {child.returncode}"
            text = "".join(errors)[-1500:]
            named = {"seed" if key == "begins" else key: value for key, value in begun.items()}
            self._count({**named, "outcome": why, "text": text})
        elif child.returncode != 0 and not hung.is_set():  # one that was slow to start is repeated
            self.error = "".join(errors) or f"a worker ends with {child.returncode}"

    def _count(self, found: dict[str, object]) -> None:
        outcome = str(found["outcome"])
        self.outcomes[outcome] += 1
        if outcome not in ("right", "too large", "too small"):
            self.faults.append(found)
            print(json.dumps(found), flush=True)


def options(description: str | None, device: str, devices: str) -> argparse.ArgumentParser:
    """The options of every such tool; `device`: where programs run by default, `devices`: where
    they may."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--programs", type=int, default=1_000_000, help="for each job")
    parser.add_argument("--device", default=device, help=devices)
    parser.add_argument("--out", type=Path, help="a file for the summary")
    parser.add_argument("--show", action="store_true", help="print the programs")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--step", type=int, default=1, help=argparse.SUPPRESS)
    parser.add_argument("--until", type=float, default=0.0, help=argparse.SUPPRESS)
    return parser


def run(script: str, given: argparse.Namespace, passed: Sequence[str] = ()) -> None:
    """Run a session and exit, with 1 if it has found something. `passed`: options of the tool's own
    for the processes that do the work."""
    given.until = time.time() + 60 * given.minutes
    workers = [Worker(Path(script), given, given.seed + number, passed)
               for number in range(given.jobs)]  # fmt: skip
    threads = [threading.Thread(target=worker.run) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    outcomes: collections.Counter[str] = sum((w.outcomes for w in workers), collections.Counter())
    faults = [fault for worker in workers for fault in worker.faults]
    summary = {"programs": outcomes.total(), "outcomes": outcomes, "faults": faults}
    print(json.dumps({**summary, "faults": len(faults)}))
    if given.out:
        given.out.write_text(json.dumps(summary, indent=1) + "\n")
    sys.exit("".join(worker.error for worker in workers) or bool(faults))
