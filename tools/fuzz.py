"""Random kernels, by seed, in several processes: the interpreter, ttir after each pass, native code
at every level of optimization; all must agree (`tests/conformance/checking.py`).

    python tools/fuzz.py --minutes 5 --jobs 8 [--seed 0] [--out build/fuzz]

Each divergence is reduced to few statements and written as a script that shows it; programs that
crash or hang their process are found out and written as they are. Where LLVM does not end at a
level that kernels are never compiled at (-O1 to -O3), that is counted apart. Program number N is
the same everywhere: `--seed N --programs 1` runs it again. `--out FOLDER/summary.json` (or a
folder) gets the figures. Exits with 1 if anything diverged.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import platform
import random
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

SIZES = (1, 2, 2, 3, 3, 4, 4, 5, 6, 8, 12)
"""Statements of a program: most are short, because most faults need few of them."""
HANGS = 300.0
"""Seconds after which a program counts as one that does not end."""
LLVM_HANGS = 30.0
"""The same while LLVM compiles at a level that kernels are not compiled at."""


def program_of(seed: int) -> Any:
    """The program of this number."""
    from tests.conformance.programs import Generator

    source = random.Random(seed)
    return Generator(lambda options: source.choice(list(options))).program(source.choice(SIZES))


def work(given: argparse.Namespace) -> None:
    """Run seeds `seed`, `seed + jobs`, ... and write a line of JSON for each."""
    from tests.conformance.programs import ready_to_run, reduce_program

    reduced: collections.Counter[str] = collections.Counter()
    for seed in range(given.seed, given.seed + given.programs * given.jobs, given.jobs):
        if time.time() > given.until:
            break
        program = program_of(seed)
        text = program.divergence(
            lambda step, seed=seed: print(json.dumps({"seed": seed, "at": step}), flush=True)
        )
        line: dict[str, Any] = {"seed": seed, "statements": kinds_of(program)}
        if text:
            line["kind"] = kind = program.kind()
            line["text"] = text
            reduced[kind] += 1
            if reduced[kind] <= given.reduce:
                line["script"] = ready_to_run(reduce_program(program))
                line["text"] = program.divergence() or text
        print(json.dumps(line), flush=True)


def kinds_of(program: Any) -> list[str]:
    """The language functions and statements that a program has."""
    text = program.source().split("def kernel", 1)[1]
    found = set(re.findall(r"tl\.([a-z_]\w*)\(", text))
    found |= {w for w in ("for", "while", "if", "return") if re.search(rf"^ +{w}\b", text, re.M)}
    return sorted(found)


class Worker:
    """A process that runs every `jobs`-th program; begun anew after one that has killed it."""

    def __init__(self, number: int, given: argparse.Namespace, until: float, cache: str):
        self.next, self.given, self.until, self.cache = given.seed + number, given, until, cache
        self.last = given.seed + given.programs
        self.buffer, self.heard, self.at = b"", time.monotonic(), ""
        self.start()

    def start(self) -> None:
        given = self.given
        left = max(0, -(-(self.last - self.next) // given.jobs))
        command = [
            sys.executable, __file__, "--worker", "--seed", str(self.next), "--programs", str(left),
            "--jobs", str(given.jobs), "--reduce", str(given.reduce), "--until", str(self.until),
        ]  # fmt: skip
        one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        environment = {**os.environ, **one, "TRITON_CACHE_DIR": self.cache}
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
        )
        self.heard = time.monotonic()

    def lines(self) -> list[dict[str, Any]]:
        """Results that have arrived since."""
        assert self.process.stdout is not None
        data = os.read(self.process.stdout.fileno(), 1 << 16)
        self.buffer += data
        *whole, self.buffer = self.buffer.split(b"\n")
        found = [json.loads(line) for line in whole]
        for line in found:
            self.heard, self.at = time.monotonic(), line.get("at", "")
            self.next = line["seed"] + (0 if self.at else self.given.jobs)
        found = [line for line in found if "at" not in line]
        return found if data else [*found, *self._ended()]

    def hangs(self) -> bool:
        """Whether nothing has been heard for too long."""
        limit = LLVM_HANGS if "-O" in self.at else HANGS
        return time.monotonic() - self.heard > limit

    def _ended(self) -> list[dict[str, Any]]:
        """The process is gone: all done, or the program at hand is to blame."""
        _, errors = self.process.communicate()
        if self.process.returncode == 0:
            self.next = self.last
            return []
        seed, self.next = self.next, self.next + self.given.jobs
        why = errors.decode(errors="replace").strip().splitlines()[-1:]
        program, at = program_of(seed), self.at
        kind = f"crash: the process ended with {self.process.returncode} {at and 'in '}{at}"
        if "-O" in at and self.process.returncode == -signal.SIGKILL and self.hangs():
            kind = f"LLVM does not end: {at}"
        self.at = ""
        if self.next < self.last and time.time() < self.until:
            self.start()
        return [{"seed": seed, "statements": kinds_of(program), "kind": kind,
                 "text": f"{kind}; {' '.join(why)}", "script": program.source()}]  # fmt: skip

    def ended(self) -> bool:
        return self.process.returncode is not None


def run(given: argparse.Namespace) -> dict[str, Any]:
    """All workers until the time or the programs are up; returns the summary."""
    cache = tempfile.mkdtemp(prefix="tritium-fuzz-")
    begun, until = time.monotonic(), time.time() + 60 * given.minutes
    workers = [Worker(i, given, until, cache) for i in range(given.jobs)]
    ran, statements = 0, collections.Counter[str]()
    kinds, found = collections.Counter[str](), list[dict[str, Any]]()
    slow = list[dict[str, Any]]()
    shown = begun
    while alive := [w for w in workers if not w.ended()]:
        for worker in alive:
            if worker.hangs():
                worker.process.kill()
        ready, _, _ = select.select([w.process.stdout for w in alive], [], [], 1.0)
        for worker in alive:
            if worker.process.stdout not in ready:
                continue
            for line in worker.lines():
                ran += 1
                statements.update(line["statements"])
                if line.get("kind", "").startswith("LLVM"):
                    slow.append({"seed": line["seed"], "kind": line["kind"]})
                    print(f"seed {line['seed']}: {line['kind']}", flush=True)
                elif "kind" in line:
                    kinds[line["kind"]] += 1
                    if kinds[line["kind"]] <= given.reduce:
                        found.append(report(line, given.folder))
        if time.monotonic() - shown > 30:
            shown = time.monotonic()
            print(f"{ran} programs, {sum(kinds.values())} diverged", flush=True)
    shutil.rmtree(cache, ignore_errors=True)
    seconds = time.monotonic() - begun
    usage = os.times()
    return {
        "programs": ran, "seconds": round(seconds, 1), "programs_per_second": ran / seconds,
        "cpu_seconds_per_program": (usage.children_user + usage.children_system) / max(ran, 1),
        "first_seed": given.seed, "jobs": given.jobs, "python": platform.python_version(),
        "llvm_does_not_end": slow, "diverged": sum(kinds.values()), "kinds": dict(kinds),
        "divergences": found,
        "statements": dict(statements.most_common()),
    }  # fmt: skip


def report(line: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Show one divergence and write its script."""
    print(f"seed {line['seed']}: {line['text']}", flush=True)
    if script := line.get("script"):
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"diverges_{line['seed']}.py"
        path.write_text(script)
        print(f"{script}\nwritten to {path}", flush=True)
    return line


def main() -> int:
    parser = argparse.ArgumentParser(description="random kernels: all ways to run them compared")
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--programs", type=int, default=10**9, help="stop after so many")
    parser.add_argument("--seed", type=int, default=0, help="of the first program")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--reduce", type=int, default=2, help="how many of each kind to reduce")
    where = "a folder for scripts and summary.json, or the path of the latter"
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "fuzz", help=where)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--until", type=float, default=0.0, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        work(given)
        return 0
    single = given.out.suffix == ".json"
    given.folder = given.out.parent if single else given.out
    summary = run(given)
    given.folder.mkdir(parents=True, exist_ok=True)
    path = given.out if single else given.folder / "summary.json"
    path.write_text(json.dumps(summary, indent=1) + "\n")
    print(
        f"{summary['programs']} programs in {summary['seconds']} s "
        f"({summary['programs_per_second']:.2f}/s, {summary['cpu_seconds_per_program']:.2f} CPU-s "
        f"each), {summary['diverged']} diverged in {len(summary['kinds'])} ways; {path}"
    )
    return 1 if summary["diverged"] else 0


if __name__ == "__main__":
    sys.exit(main())
