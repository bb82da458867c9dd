"""Make a program, run it, compare what it leaves in memory."""

from __future__ import annotations

import functools
import linecache
import random
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from tools.tile_programs import (
    accesses,
    arithmetic,
    combining,
    control,
    devices,
    functions,
    fused,
    hazards,
    integers,
    narrow,
    patterns,
    walks,
)
from tools.tile_programs.control import Control
from tools.tile_programs.memory import bits
from tools.tile_programs.program import Program
from tritium import knobs
from tritium.backends.cpu import compiler
from tritium.errors import OutOfResources
from tritium.native.host import CPU

BODY = (
    arithmetic.two, arithmetic.two, arithmetic.with_number, arithmetic.compared, arithmetic.chosen,
    arithmetic.cast, arithmetic.reshaped, arithmetic.joined, arithmetic.interleaved,
    arithmetic.gathered,
    arithmetic.combined, accesses.loaded, accesses.loaded, accesses.stored, accesses.added,
    accesses.loop, accesses.product, narrow.two, narrow.compared, narrow.cast, narrow.combined,
    combining.custom, combining.whole_tile, combining.batched, hazards.moved, hazards.moved,
    hazards.moved, hazards.turned, hazards.atomic, hazards.shared_atomic, hazards.block,
    integers.mixed, integers.quotients, integers.reduced, patterns.floats, patterns.converted,
    walks.walked, walks.walked, walks.rows_by_number, walks.updated,
    functions.called, functions.until, functions.several, functions.elements, functions.masks,
    functions.masks, functions.random_numbers, functions.rearranged, functions.masked_sums,
    fused.grouped, fused.grouped, fused.chained,
)  # fmt: skip
_CONTROL = Control(BODY)
STATEMENTS = (
    *BODY, arithmetic.ranges, arithmetic.places, arithmetic.places, arithmetic.two,
    arithmetic.reshaped, accesses.loaded, narrow.two, combining.scaled, hazards.moved,
    hazards.moved, *(_CONTROL.loop,) * 6, _CONTROL.choice, _CONTROL.choice,
    patterns.floats, control.returned,
)  # fmt: skip
THREADS = (1, 1, 2, 3, 5)
CACHES = ((512 << 10, 4 << 20), (1 << 20, 32 << 20), (4 << 10, 16 << 10), (1 << 10, 1 << 10))
"""Sizes of the second and the last cache: of the host's default, and so small that stores go past
the caches and that packed operands do not fit."""
GRIDS = (
    (1, 1, 1), (1, 1, 1), (2, 1, 1), (3, 1, 1), (2, 2, 1), (1, 3, 2), (2, 2, 2), (7, 1, 1),
    (12, 1, 1),
)  # fmt: skip
TOO_SMALL = "Input shapes should have M >="
"""The error's words where a matrix unit has no instruction for so small a product."""
SECONDS, CHARACTERS = 2.0, 1 << 20
"""Budgets of compiling one program."""


def program_of(seed: int, last: Callable[[Program], None] | None = None) -> Program:
    """The program of this number, with another statement after all that do not store results."""
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
        if last is not None:
            last(made)
        accesses.results(made, source.choice((1, 2, 4)))
    return made


def function_of(text: str, seed: int) -> Any:
    """The kernel of a text."""
    name = f"<program {seed}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    scope: dict[str, Any] = {"__name__": f"program_{seed}"}
    exec(compile(text, name, "exec"), scope)
    return scope["kernel"]


@contextmanager
def environment(made: Program) -> Generator[None]:
    """A number of threads and sizes of caches, for compiling and running a program."""
    threads, (l2, l3) = made.source.choice(THREADS), made.source.choice(CACHES)
    of_name = compiler.processor

    def processor(name: str | int | None) -> CPU:
        return replace(of_name(name), l2=l2, l3=l3)

    compiler.processor = processor
    try:
        with knobs.runtime.scope():
            knobs.runtime.cpu_threads = threads
            yield
    finally:
        compiler.processor = of_name


def difference(made: Program, arrays: Mapping[int, np.ndarray]) -> str:
    """The first element that is not as it should be; "" for none."""
    for pointer in made.pointers:
        found, wanted = arrays[id(pointer.base)], pointer.base.data
        if not pointer.unknown and (bits(found) != bits(wanted)).any():
            first = int(np.flatnonzero(np.asarray(found != wanted))[0])
            return f"{pointer.name}[{first}] is {found[first]}, not {wanted[first]}"
    return ""


def check(seed: int, arch: str, show: bool = False, device: str = "cpu") -> dict[str, Any]:
    """Run the program of a seed for a processor, or on another device; its outcome."""
    made = program_of(seed)
    text = made.text() if device == "cpu" else devices.ordered(made.text())
    return outcome(made, text, seed, devices.options(seed, device, arch), show, device)


def outcome(
    made: Program, text: str, seed: int, options: dict[str, Any], show: bool, device: str,
    launch: Callable[..., Any] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Run a program whose kernel is this text; its outcome. `launch(kernel, grid, *arguments,
    **options)` runs it in another way than on the active device."""
    if show:
        print(f"# grid {made.grid}, arguments {made.scalars}, {options}\n{text}", flush=True)
    memory = devices.arrays_of(made, device)
    kernel = function_of(text, seed)
    arguments = [memory[id(p.base)].argument(p.start) for p in made.pointers]
    start = time.process_time()
    try:
        with environment(made):
            run = functools.partial(launch, kernel, made.grid) if launch else kernel[made.grid]
            compiled = run(*arguments, *made.scalars.values(), **options)
        took = time.process_time() - start
        arrays = {key: held.found() for key, held in memory.items()}
    except OutOfResources as error:
        return {"outcome": "refused" if device == "cpu" else "too large", "text": str(error)}
    except Exception as error:
        if device != "cpu" and TOO_SMALL in str(error):
            return {"outcome": "too small", "text": ""}
        problem = f"{type(error).__name__}: {error}"[:1500]
        return {"outcome": "refused", "text": problem}
    if wrong := difference(made, arrays):
        return {"outcome": "wrong", "text": wrong}
    if device != "cpu":  # others compile by way of assemblers, or are executed slowly
        return {"outcome": "right"}
    size = len(compiled.asm["llir"])
    if took > SECONDS:
        return {"outcome": "slow to compile", "text": f"{took:.1f} s"}
    if size > CHARACTERS:
        return {"outcome": "long text", "text": f"{size} characters"}
    return {"outcome": "right"}
