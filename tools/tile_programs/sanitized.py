"""Run a program under the sanitizer, and compare its report with the fault that it has."""

from __future__ import annotations

import random
import re
import warnings
from typing import Any

from tools.tile_programs import devices
from tools.tile_programs.planted import FAULT, OTHER, Plant, Wanted
from tools.tile_programs.program import Program
from tools.tile_programs.running import TOO_SMALL, difference, environment, function_of, program_of
from tritium.errors import OutOfResources
from tritium.sanitize.launch import SanitizerError

KINDS = "bounds", "races", "unwritten", "fp"
UNKNOWN = "reported without an origin"
RIGHT = "nothing", "reported", UNKNOWN, "too large", "too small"
"""Outcomes that are no faults. A program is run again to find where a number was made: what it
loads may have changed by then, and another way, or none, leads through it."""
_LINES = re.compile(r"<program \d+>:(\d+)")
_AROUND = 1 << 61
"""The elements of 8 bytes behind which addresses come again: offsets may be any number."""
_INDEX = re.compile(r"is index (-?\d+) of argument '(\w+)'")


def check(seed: int, faulty: bool, device: str = "cpu", show: bool = False) -> dict[str, Any]:
    """Run the program of a seed, with its planted fault or without, under the checks; the outcome:
    one of `RIGHT`, else a fault of the sanitizer or of the program."""
    chance = random.Random(seed)
    kind = KINDS[seed % len(KINDS)]
    alone = faulty and chance.random() < 0.5
    plant = Plant(kind, faulty)
    made = program_of(seed, plant)
    text = made.text() if device == "cpu" else devices.ordered(made.text())
    # A NaN that is loaded from memory that nobody wrote may be stored, and reported, by another of
    # a GPU's threads first.
    checks = [name for name in KINDS if name != "fp" or (kind, faulty) != ("unwritten", True)]
    mode = kind if alone else ",".join(checks)
    options = {**devices.options(seed, device, "native"), "instrumentation_mode": mode}
    if show:
        print(f"# grid {made.grid}, arguments {made.scalars}, {options}\n# {plant.wanted}\n{text}",
              flush=True)  # fmt: skip
    outcome, said = _run(made, text, seed, device, options, plant)
    return {"kind": kind, "mode": mode, "outcome": outcome, "text": said}


def _run(
    made: Program, text: str, seed: int, device: str, options: dict[str, Any], plant: Plant
) -> tuple[str, str]:  # fmt: skip
    wanted = plant.wanted
    memory = devices.arrays_of(made, device, margin=0)  # what is beside an array is its storage
    kernel = function_of(text, seed)
    arguments = [memory[id(p.base)].argument(p.start) for p in made.pointers]
    try:
        with environment(made), warnings.catch_warnings():
            # They say where atomics may order programs; the statement's fault is after all those.
            warnings.simplefilter("ignore")
            kernel[made.grid](*arguments, *made.scalars.values(), **options)
    except SanitizerError as error:
        wrong = "reported without a fault" if wanted is None else _wrong(error, wanted, text, made)
        return (wrong or "reported"), str(error) if wrong else ""
    except OutOfResources as error:
        return "too large", str(error)
    except Exception as error:
        if device != "cpu" and TOO_SMALL in str(error):
            return "too small", ""
        return "refused", f"{type(error).__name__}: {error}"[:1500]
    if wanted is not None:
        return "not reported", str(wanted)
    if plant.faulty:  # in a grid of one program, which meets no other
        return "nothing", ""
    wrong = difference(made, {key: held.found() for key, held in memory.items()})
    return ("wrong" if wrong else "nothing"), wrong


def _wrong(error: SanitizerError, wanted: Wanted, text: str, made: Program) -> str:
    """The way in which a report is wrong; "" if it is right."""
    message = str(error)
    lines = {mark: number for number, line in enumerate(text.splitlines(), 1)
             for mark in (FAULT, OTHER) if line.endswith(mark)}  # fmt: skip
    named = [int(number) for number in _LINES.findall(message)]
    x, y, z = error.program
    program = x + made.grid[0] * (y + made.grid[1] * z)
    if error.kind != wanted.kind or not message.startswith(wanted.words):
        return "reported as something else"
    if wanted.kind == "races":
        expected = sorted(lines.values()) if len(lines) == 2 else [lines[FAULT]] * 2
        if sorted(named) != expected:
            return "reported at other lines"
    elif named == [lines[FAULT]] and "made could not be found" in message:
        return UNKNOWN
    elif named[0] != lines[FAULT] or named[1:2] != [lines[m] for m in (OTHER,) if m in lines]:
        return "reported at other lines"
    found = _INDEX.search(message)
    index, argument = (0, "") if found is None else (int(found[1]), found[2])
    places = {place % _AROUND for who, place in wanted.places if who == program}
    if argument != wanted.argument or index % _AROUND not in places:
        return "reported of another element"
    return ""
