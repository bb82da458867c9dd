"""`tritium reduce`: shrink what the compiler fails on."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tritium import knobs
from tritium.backends.pipeline import observing
from tritium.ir.printing import print_module
from tritium.system.programs import objection
from tritium.tools.compile import target_of
from tritium.tools.reduce import ReduceError, by_command, by_compiling, by_passes, reduce, supported

STAGE_FILES = (".ttir", ".ttgir")


def shrink(
    program: Sequence[str], passes: Sequence[str], command: str | None, target: str | None,
    options: dict[str, int],
) -> str:  # fmt: skip
    """The least IR that fails as a file, or a kernel of a program, does; says on standard error how
    it fails and how much is left.

    Args:
        program: a file of IR, or a program with its arguments, which is run until a kernel fails
            to compile.
        passes: what fails, where it is not compilation to machine code.
        command: a shell command that fails, in which `{}` is the file.
        target: what to compile for.
        options: `num_warps` and the like.
    """
    supported()
    file, ending = program[0], Path(program[0]).suffix
    if ending in STAGE_FILES:
        try:
            text = Path(file).read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise ReduceError(f"{file} is no text: {error}") from None
    else:
        text, ending = failing_kernel(program), ".ttir"
    if command is not None:
        outcome = by_command(command, ending)
    elif passes:
        outcome = by_passes(passes)
    else:
        outcome = by_compiling(target_of(target), ending, options)
    try:
        least, failure = reduce(text, outcome, file)
    except ReduceError as error:
        raise ReduceError(f"{file}: {error}") from None
    lines = [len(t.splitlines()) for t in (text, least)]
    sys.stderr.write(f"{failure}\n{lines[1]} of {lines[0]} lines are left\n")
    return least


def failing_kernel(program: Sequence[str]) -> str:
    """The IR of the kernel at which compilation ends a program, as the frontend gave it. Raises
    `ReduceError` where there is none."""
    from tritium.cli.run import run_program

    if not program[0].startswith("-") and (reason := objection(program[0])) is not None:
        raise ReduceError(reason)
    pending: list[str] = []

    def observe(stage: str, item: Any, unit: Any, seconds: float) -> None:
        if item is None and not pending and stage == "make_ttir":
            pending.append(print_module(unit))

    def compiled(**_: Any) -> None:
        pending.clear()

    with knobs.compilation.scope(), observing(observe):
        knobs.compilation.always_compile = True
        knobs.compilation.listener = compiled
        with contextlib.suppress(SystemExit):
            run_program(program)
    if not pending:
        raise ReduceError(f"{program[0]}: no kernel failed behind the frontend")
    return pending[0]
