"""Make a program, run it, compare what it leaves in memory."""

from __future__ import annotations

import linecache
import random
import time
from typing import Any

import numpy as np

from tools.tile_programs import accesses, arithmetic
from tools.tile_programs.memory import Guarded, bits
from tools.tile_programs.program import Pointer, Program

STATEMENTS = (
    arithmetic.ranges, arithmetic.places, arithmetic.places, arithmetic.two, arithmetic.two,
    arithmetic.with_number, arithmetic.compared, arithmetic.chosen, arithmetic.cast,
    arithmetic.reshaped, arithmetic.reshaped, arithmetic.joined, arithmetic.gathered,
    arithmetic.combined, accesses.loaded, accesses.loaded, accesses.loaded, accesses.stored,
    accesses.added, accesses.loop, accesses.product,
)  # fmt: skip
GRIDS = ((1, 1, 1), (1, 1, 1), (2, 1, 1), (3, 1, 1), (2, 2, 1), (1, 3, 2), (2, 2, 2), (7, 1, 1))
SECONDS, CHARACTERS = 2.0, 1 << 20
"""Budgets of compiling one program."""


def program_of(seed: int) -> Program:
    """The program of this number."""
    source = random.Random(seed)
    made = Program(source, source.choice(GRIDS))
    wanted = source.choice((2, 3, 4, 6, 8, 12, 20))
    arithmetic.places(made)
    with np.errstate(all="ignore"):
        tries = 0
        while wanted and tries < 400:
            tries += 1
            if not made.tiles:
                arithmetic.ranges(made)
            wanted -= source.choice(STATEMENTS)(made)
        accesses.results(made, source.choice((1, 2, 4)))
    return made


def function_of(text: str, seed: int) -> Any:
    """The kernel of a text."""
    name = f"<program {seed}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    scope: dict[str, Any] = {"__name__": f"program_{seed}"}
    exec(compile(text, name, "exec"), scope)
    return scope["kernel"]


def arrays_of(made: Program) -> dict[Any, Guarded]:
    """Memory for each array of a program, as it is at the start."""
    bases = {id(p.base): p.base for p in made.pointers}
    return {key: Guarded(base.first, made.source.random() < 0.7) for key, base in bases.items()}


def check(seed: int, arch: str, show: bool = False) -> dict[str, Any]:
    """Run the program of a seed on a processor; its outcome."""
    made = program_of(seed)
    text = made.text()
    if show:
        print(f"# grid {made.grid}, arguments {made.scalars}\n{text}", flush=True)
    memory = arrays_of(made)

    def argument(pointer: Pointer) -> np.ndarray:
        return memory[id(pointer.base)].array[pointer.start :]

    kernel = function_of(text, seed)
    start = time.process_time()
    options = {} if arch == "native" else {"arch": arch}
    try:
        compiled = kernel[made.grid](
            *map(argument, made.pointers), *made.scalars.values(), **options
        )
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"[:1500]
        return {"outcome": "refused", "text": problem}
    took, size = time.process_time() - start, len(compiled.asm["llir"])
    for pointer in made.pointers:
        found, wanted = memory[id(pointer.base)].array, pointer.base.data
        if (bits(found) != bits(wanted)).any():
            first = int(np.flatnonzero(np.asarray(found != wanted))[0])
            return {
                "outcome": "wrong",
                "text": f"{pointer.name}[{first}] is {found[first]}, not {wanted[first]}",
            }
    if took > SECONDS:
        return {"outcome": "slow to compile", "text": f"{took:.1f} s"}
    if size > CHARACTERS:
        return {"outcome": "long text", "text": f"{size} characters"}
    return {"outcome": "right"}
