"""`tritium explore`: compile kernels and write the page that shows how."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from tritium.compiler import compile as compile_source
from tritium.errors import TritonError
from tritium.tools.compile import CompileArgs, compile_given, target_of
from tritium.tools.explore.record import KernelRecord, Recorder

STAGE_FILES = (".ttir", ".ttgir")


class ExploreError(TritonError):
    """There is nothing to show, or a library is missing."""


def explore(
    program: Sequence[str], output: Path, kernel: str | None, target: str | None,
    signature: str | None,
) -> tuple[Path, list[str]]:  # fmt: skip
    """Write the page; returns its path and the kernels that it shows.

    Args:
        program: a file of IR; or a program with its arguments, which is run; or with `signature` a
            file that defines the kernel, which is compiled without a launch.
        kernel: show only kernels of this name.
        target: what to compile for, where nothing is run.
        signature: as of `tritium.tools.compile`.
    """
    try:
        from tritium.tools.explore.page import render
    except ImportError as error:
        raise ExploreError(
            f"tritium explore needs jinja2 and pygments ({error}): pip install 'tritium[explore]'"
        ) from None
    records = record(program, kernel, target, signature)
    chosen = [r for r in records if kernel in (None, r.kernel.name)]
    if not chosen:
        names = ", ".join(dict.fromkeys(r.kernel.name for r in records)) or "none"
        what = f"no kernel called {kernel!r} was compiled" if kernel else "no kernel was compiled"
        raise ExploreError(f"{program[0]}: {what}; compiled: {names}")
    output.write_text(render(chosen, f"{Path(program[0]).name}"), encoding="utf-8")
    return output, [r.label for r in chosen]


def record(
    program: Sequence[str], kernel: str | None, target: str | None, signature: str | None,
    to_the_end: bool = False,
) -> list[KernelRecord]:  # fmt: skip
    """The kernels that compiling a file, or running a program, compiles. With `to_the_end` a
    program that fails is an error; else there are the kernels that it compiled before."""
    recorder, file = Recorder(), program[0]
    if not file.startswith("-") and not Path(file).is_file():
        raise ExploreError(f"{file}: no such file")
    with recorder.recording():
        if file.endswith(STAGE_FILES):
            if len(program) > 1:
                raise ExploreError(f"{program[1]}: options stand before the file")
            compile_source(file, target=target_of(target))
        elif signature is not None:
            if kernel is None:
                raise ExploreError("--signature needs the name of its kernel: --kernel NAME")
            compile_given(CompileArgs(file, kernel, signature, "1,1,1", target, num_warps=4))
        elif target is not None:
            raise ExploreError(f"--target {target}: {file} is run, on this machine; a .ttir or "
                               ".ttgir file or --signature is required")  # fmt: skip
        else:
            _run(program, to_the_end)
    return recorder.kernels


def _run(program: Sequence[str], to_the_end: bool) -> None:
    """Run a program as `tritium run` does."""
    from tritium.cli.run import run_program

    try:
        run_program(program)
    except SystemExit as end:
        if end.code in (None, 0):
            return
        message = f"the program ended with status {end.code}"
        if to_the_end:
            raise ExploreError(f"{program[0]}: {message}") from None
        sys.stderr.write(f"tritium explore: {message}\n")
