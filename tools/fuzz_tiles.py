"""Random tile programs beside NumPy alone, with guard pages around every array.

    python tools/fuzz_tiles.py --minutes 5 --jobs 2 [--seed 0] [--arch native x86-64 haswell]

A program is made of statements on tiles of integers, floats and masks; each is written as kernel
text and computed with NumPy at once, so that the generator knows every value: which accesses are in
bounds, which places programs of the grid share, which floats are exact. Nothing of the compiler's
reference semantics takes part. Arrays end or begin at a page that cannot be accessed; arguments
alias and overlap; processors, sizes of caches, threads, grids and arrays are chosen anew for each
program. Bodies of loops are computed once for each iteration. Compiling may take 2 s of the
processor's time and give 1 MiB of LLVM IR. Program number N is the same everywhere:
`--seed N --programs 1` runs it again, with `--show` its text is printed. With `--schedules` nests
of loops get random lanes, unrolling and versions, as an edited file of the tile stage may. With
`--device` programs run on a GPU or a model of one, with random numbers of warps and stages; their
writes stand between barriers, as threads of a program have no other order. Exits
with 1 if a result is wrong, a process dies or hangs, or a budget is exceeded.
"""

from __future__ import annotations

import argparse
import collections
import json
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]
ARCHS = ("native", "x86-64", "haswell", "skylake-avx512")
HANGS = 120.0
"""Seconds after which a program counts as one that does not end."""


def work(given: argparse.Namespace) -> None:
    """Run seeds `seed`, `seed + step`, ...; a line of JSON before and after each."""
    from tools.tile_programs.devices import use
    from tools.tile_programs.running import check
    from tools.tile_programs.schedules import random_schedules

    use(given.device)
    for seed in range(given.seed, given.seed + given.programs * given.step, given.step):
        if time.time() > given.until:
            break
        arch = given.arch[seed % len(given.arch)]
        print(json.dumps({"begins": seed, "arch": arch}), flush=True)
        with random_schedules(seed) if given.schedules else nullcontext():
            found = check(seed, arch, given.show, given.device)
        print(json.dumps({"seed": seed, "arch": arch, **found}), flush=True)


class Worker:
    """A process that runs seeds from one on, started again behind a seed that it died of."""

    def __init__(self, given: argparse.Namespace, first: int):
        self.given, self.next, self.first = given, first, first
        self.outcomes: collections.Counter[str] = collections.Counter()
        self.faults: list[dict[str, object]] = []

    def run(self) -> None:
        """Run all seeds of this worker."""
        end = self.first + self.given.programs * self.given.jobs
        while self.next < end and time.time() < self.given.until:
            self._run_process((end - self.next + self.given.jobs - 1) // self.given.jobs)

    def _run_process(self, programs: int) -> None:
        given = self.given
        command = [
            sys.executable, __file__, "--work", "--seed", str(self.next), "--programs",
            str(programs), "--step", str(given.jobs), "--until", str(given.until),
            "--arch", *given.arch, "--device", given.device, *(["--show"] if given.show else []),
            *(["--schedules"] if given.schedules else []),
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
            self._count({"seed": begun["begins"], "arch": begun["arch"], "outcome": why,
                         "text": text})  # fmt: skip
        elif child.returncode != 0:
            raise SystemExit("".join(errors))

    def _count(self, found: dict[str, object]) -> None:
        outcome = str(found["outcome"])
        self.outcomes[outcome] += 1
        if outcome not in ("right", "too large", "too small"):
            self.faults.append(found)
            print(json.dumps(found), flush=True)


def runnable(archs: Sequence[str]) -> list[str]:
    """Those of the processors whose code this machine runs."""
    from tritium.backends.cpu.processors import processor
    from tritium.native.host import host

    return [arch for arch in archs if host().runs_code_of(processor(arch))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--programs", type=int, default=1_000_000, help="for each job")
    parser.add_argument(
        "--arch", nargs="+", default=runnable(ARCHS), help="processors, in turn; by default those "
        f"of {', '.join(ARCHS)} whose code runs here"
    )  # fmt: skip
    parser.add_argument(
        "--device", default="cpu", help="cuda, interpreter, or a model that executes the code of "
        "a GPU here: simt32, simt64, or the name of an AMD processor"
    )  # fmt: skip
    parser.add_argument("--out", type=Path, help="a file for the summary")
    parser.add_argument("--show", action="store_true", help="print the programs")
    parser.add_argument(
        "--schedules", action="store_true", help="random schedules and versions of nests"
    )
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
    outcomes: collections.Counter[str] = sum((w.outcomes for w in workers), collections.Counter())
    faults = [fault for worker in workers for fault in worker.faults]
    summary = {"programs": outcomes.total(), "outcomes": outcomes, "faults": faults}
    print(json.dumps({**summary, "faults": len(faults)}))
    if given.out:
        given.out.write_text(json.dumps(summary, indent=1) + "\n")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
