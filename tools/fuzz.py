"""Random kernels for a given time: native code against the interpreter.

    python tools/fuzz.py --minutes 5 [--seed 0] [--out build/fuzz]

Each divergence is reduced to few statements and written as a script that shows it. Exits with 1 if
there was any. Programs are numbered by seed, so that `--seed N --programs 1` runs one again.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from tests.conformance.programs import (  # noqa: E402
    Generator,
    Program,
    ready_to_run,
    reduce_program,
)


def program_of(seed: int) -> Program:
    """The program of this number."""
    source = random.Random(seed)
    return Generator(lambda options: source.choice(list(options))).program(source.randint(2, 16))


def report(seed: int, out: Path) -> str:
    """Reduce the program, write it; returns its kind of divergence."""
    program = program_of(seed)
    kind = program.kind()
    reduce_program(program)
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"diverges_{seed}.py"
    path.write_text(ready_to_run(program))
    print(f"seed {seed}: {program.divergence()}\n{program.source()}\nwritten to {path}", flush=True)
    return kind


def main() -> int:
    parser = argparse.ArgumentParser(description="random kernels: native against interpreted")
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--programs", type=int, default=sys.maxsize, help="stop after so many")
    parser.add_argument("--seed", type=int, default=0, help="of the first program")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "fuzz")
    given = parser.parse_args()
    end, ran, kinds = time.monotonic() + 60 * given.minutes, 0, list[str]()
    while time.monotonic() < end and ran < given.programs:
        seed = given.seed + ran
        ran += 1
        kind = program_of(seed).kind()
        if not kind:
            continue
        if kinds.count(kind) < 3:
            report(seed, given.out)
        else:
            print(f"seed {seed}: again {kind!r}", flush=True)
        kinds.append(kind)
    print(f"{ran} programs, {len(kinds)} diverged in {len(set(kinds))} ways")
    return 1 if kinds else 0


if __name__ == "__main__":
    sys.exit(main())
