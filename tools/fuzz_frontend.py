"""Random functions for a given time: the frontend's errors; native code and the interpreter.

    python tools/fuzz_frontend.py --minutes 5 [--seed 0] [--programs N]

Prints each function that the frontend fails on with an error that nobody wrote a message for, and
each kernel that does not do natively what it does interpreted; exits with 1 if there was any.
Functions are numbered by seed, so that `--seed N --programs 1` runs one again.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from tests.frontend.judging import (  # noqa: E402
    TooLong,
    complaint,
    divergence,
    limited,
    parses,
)
from tests.frontend.random_functions import Writer  # noqa: E402


def found_in(text: str, run: bool) -> tuple[str, bool]:
    """Fault found by a function ("" if none), and whether it ran as a kernel."""
    try:
        with limited(10):
            wrong = complaint(text)
            if wrong or not run:
                return wrong, False
            outcome = divergence(text)
            return outcome or "", outcome is not None
    except TooLong:  # a loop without end
        return "", False


def main() -> int:
    parser = argparse.ArgumentParser(description="random functions: the frontend, and both ways")
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--programs", type=int, default=sys.maxsize, help="stop after so many")
    parser.add_argument("--seed", type=int, default=0, help="of the first function")
    given = parser.parse_args()
    end, drawn, ran, kinds = time.monotonic() + 60 * given.minutes, 0, 0, dict[str, int]()
    while time.monotonic() < end and drawn < given.programs:
        seed = given.seed + drawn
        drawn += 1
        writer = Writer(seed)
        text = writer.function()
        if not parses(text):
            continue
        # Running takes a hundred times as long as the frontend.
        wrong, did_run = found_in(text, writer.tame and seed % 8 == 0)
        ran += did_run
        if wrong:
            kind = wrong.splitlines()[-1][:100]
            kinds[kind] = kinds.get(kind, 0) + 1
            if kinds[kind] <= 3:
                print(f"seed {seed}: {wrong}\n{text}", flush=True)
    total = sum(kinds.values())
    print(f"{drawn} functions, {ran} of them run both ways; {total} wrong in {len(kinds)} ways")
    return 1 if kinds else 0


if __name__ == "__main__":
    sys.exit(main())
