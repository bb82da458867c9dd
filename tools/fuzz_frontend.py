"""Random functions for a given time: the frontend's errors; native code and the interpreter.

    python tools/fuzz_frontend.py --minutes 5 [--seed 0] [--programs N] [--scalars DEVICE]

Prints each function that the frontend fails on with an error that nobody wrote a message for, and
each kernel that does not do natively what it does interpreted; exits with 1 if there was any.
With `--scalars` the functions are programs of scalars that compile (arithmetic of mixed types,
branches, loops, calls), which must do on the device what Python and NumPy alone say.
Functions are numbered by seed, so that `--seed N --programs 1` runs one again.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from tests.frontend.judging import TooLong, complaint, divergence, limited, parses
from tests.frontend.random_functions import Writer
from tests.frontend.scalar_model import Refused
from tests.frontend.scalar_programs import Program, wrong
from tests.support.agreement import WAYS
from tools.tile_programs.devices import use


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


def random_function(seed: int) -> tuple[str, str, bool]:
    """A function's text, the fault that it finds ("" if none), and whether it ran."""
    writer = Writer(seed)
    text = writer.function()
    if not parses(text):
        return text, "", False
    # Running takes a hundred times as long as the frontend.
    return text, *found_in(text, writer.tame and seed % 8 == 0)


def scalar_program(seed: int, way: str) -> tuple[str, str, bool]:
    """The same of a program of scalars."""
    try:
        with limited(200):  # a busy machine does not count
            program = Program(seed)
            return program.text, wrong(program, WAYS[way]), True
    except (Refused, OverflowError):  # a number that is not defined
        return "", "", False
    except TooLong:
        return f"seed {seed}", "it does not end", True


def main() -> int:
    parser = argparse.ArgumentParser(description="random functions: the frontend, and both ways")
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--programs", type=int, default=sys.maxsize, help="stop after so many")
    parser.add_argument("--seed", type=int, default=0, help="of the first function")
    devices = ("cpu", "interpreter", "simt32", "simt64", "evaluated")
    parser.add_argument("--scalars", choices=devices, help="programs of scalars, on this device")
    given = parser.parse_args()
    end, drawn, ran, kinds = time.monotonic() + 60 * given.minutes, 0, 0, dict[str, int]()
    way = {"interpreter": "interpreted", "evaluated": "evaluated"}.get(given.scalars, "native")
    if given.scalars and way == "native":
        use(given.scalars)
    while time.monotonic() < end and drawn < given.programs:
        seed = given.seed + drawn
        drawn += 1
        text, fault, did_run = scalar_program(seed, way) if given.scalars else random_function(seed)
        ran += did_run
        if fault:
            kind = fault.splitlines()[-1][:100]
            kinds[kind] = kinds.get(kind, 0) + 1
            if kinds[kind] <= 3:
                print(f"seed {seed}: {fault}\n{text}", flush=True)
    total = sum(kinds.values())
    print(f"{drawn} functions, {ran} of them run; {total} wrong in {len(kinds)} ways")
    return 1 if kinds else 0


if __name__ == "__main__":
    sys.exit(main())
