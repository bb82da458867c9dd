"""Random calls of `tritium_kernels` beside NumPy's float64.

    python tools/fuzz_kernels.py --minutes 5 --jobs 2 [--device cuda] [--only softmax norm]

A call has random shapes about the sizes of tiles, types, layouts in memory (transposed, sliced,
expanded, negative views, ...), kinds of numbers (huge, tiny, ties, infinite, NaN, ...) and options.
It is made several times, so that it is repeated from a record: with and without gradients, under
`no_grad`, in threads, by torch's tracers and compiler. Results and gradients are compared with the
same computation in NumPy, which carries a bound of the error that each operation may make in the
kernels' type (`tools/kernel_calls/bounded.py`); there are no tolerances. Call number N is the same
everywhere: `--seed N --calls 1` makes it again. Exits with 1 if one was wrong or a process died.
"""

from __future__ import annotations

import argparse
import collections
import json
import subprocess
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]
HANGS = 300.0
"""Seconds after which a call counts as one that does not end."""


def work(given: argparse.Namespace) -> None:
    """Make calls `seed`, `seed + step`, ...; a line of JSON before and after each."""
    import torch

    from tools.kernel_calls.cases import CASES
    from tools.kernel_calls.checking import Wrong, check
    from tools.kernel_calls.operands import Source

    torch.set_num_threads(1)
    cases = [case for case in CASES if not given.only or case.__name__ in given.only]
    for seed in range(given.seed, given.seed + given.calls * given.step, given.step):
        if time.time() > given.until:
            break
        source = Source(seed)
        source.device = given.device
        case = source.choice(cases)
        print(json.dumps({"begins": seed, "case": case.__name__}), flush=True)
        line: dict[str, Any] = {"seed": seed, "case": case.__name__}
        trial = None
        try:
            trial = case(source)
            check(trial, source)
        except Wrong as wrong:
            line["wrong"] = str(wrong)
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            line["wrong"] = f"{type(error).__name__}: {error} ({where.filename}:{where.lineno})"
            if given.show:
                traceback.print_exc()
        if "wrong" in line and trial is not None:
            line["call"] = trial.text()
        print(json.dumps(line), flush=True)


class Worker:
    """A process that makes calls from one on, started again behind a call that it died of."""

    def __init__(self, given: argparse.Namespace, first: int):
        self.given, self.next = given, first
        self.end = given.seed + given.calls * given.jobs
        self.counts: collections.Counter[str] = collections.Counter()
        self.wrong: list[dict[str, Any]] = []

    def run(self) -> None:
        """Make all calls of this worker."""
        while self.next < self.end and time.time() < self.given.until:
            self._run_process()

    def _run_process(self) -> None:
        given = self.given
        command = [
            sys.executable, __file__, "--work", "--seed", str(self.next), "--calls",
            str(-(-(self.end - self.next) // given.jobs)), "--step", str(given.jobs), "--until",
            str(given.until), "--device", given.device, *(["--show"] if given.show else []),
            *(["--only", *given.only] if given.only else []),
        ]  # fmt: skip
        begun: dict[str, Any] | None = None
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            watchdog = Watchdog(child)
            for text in child.stdout:
                watchdog.heard()
                if not text.startswith("{"):
                    continue
                line = json.loads(text)
                begun = line if "begins" in line else None
                if begun is not None:
                    self.next = line["begins"] + given.jobs
                else:
                    self._count(line)
            watchdog.stop()
        if begun is not None:
            why = "does not end" if watchdog.hung else f"dies with {child.returncode}"
            self._count({"seed": begun["begins"], "case": begun["case"], "wrong": why})
        elif child.returncode:
            raise SystemExit(f"a worker ended with {child.returncode}")

    def _count(self, line: dict[str, Any]) -> None:
        self.counts[line["case"]] += 1
        if "wrong" in line:
            self.wrong.append(line)
            print(json.dumps(line), flush=True)


class Watchdog:
    """Ends a process of which nothing is heard for `HANGS`."""

    def __init__(self, child: subprocess.Popen[str]):
        self.child, self.hung = child, False
        self.heard()

    def heard(self) -> None:
        """The process is alive."""
        self.stop()
        self.timer = threading.Timer(HANGS, self._end)
        self.timer.daemon = True
        self.timer.start()

    def stop(self) -> None:
        """Do not wait any more."""
        if hasattr(self, "timer"):
            self.timer.cancel()

    def _end(self) -> None:
        self.hung = True
        self.child.kill()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--calls", type=int, default=1_000_000, help="for each job")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--only", nargs="+", default=[], help="names of cases")
    parser.add_argument("--out", type=Path, help="a file for the summary")
    parser.add_argument("--show", action="store_true", help="print where errors were raised")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--step", type=int, default=1, help=argparse.SUPPRESS)
    parser.add_argument("--until", type=float, default=0.0, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work:
        work(given)
        return
    given.until = time.time() + 60 * given.minutes
    workers = [Worker(given, given.seed + number) for number in range(given.jobs)]
    threads = [threading.Thread(target=worker.run) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    counts: collections.Counter[str] = sum((w.counts for w in workers), collections.Counter())
    wrong = [line for worker in workers for line in worker.wrong]
    print(json.dumps({"calls": counts.total(), "cases": counts, "wrong": len(wrong)}))
    if given.out:
        summary = {"calls": counts.total(), "cases": counts, "wrong": wrong}
        given.out.write_text(json.dumps(summary, indent=1) + "\n")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
