"""`tritium run`: execute a program as `python PROG` would, with `triton` naming Tritium."""

from __future__ import annotations

import builtins
import io
import os
import runpy
import sys
from collections.abc import Callable, Sequence
from types import ModuleType, TracebackType

import typer

from tritium import compat


def run_program(arguments: Sequence[str]) -> None:
    """Run `PROG ARGS...` or `-m MODULE ARGS...`; ends as the program ends.

    Args:
        arguments: the program, as for `python`: a .py file, a folder or zip file with a
            `__main__`, or `-m` and a module's name; then what it finds in `sys.argv[1:]`.
    """
    compat.install()
    if arguments[0] == "-m":
        if len(arguments) < 2:
            raise typer.BadParameter("-m needs the name of a module")
        _run_module(arguments[1], arguments[2:])
        return
    program = arguments[0]
    if program.startswith("-"):
        raise typer.BadParameter(f"unknown option {program}; usage: tritium run PROG ARGS...")
    if not os.path.exists(program):
        raise typer.BadParameter(f"{program}: no such file")
    sys.argv = list(arguments)
    if os.path.isdir(program) or _is_zip(program):
        _as_python_would(lambda: runpy.run_path(program, run_name="__main__"), program)
    else:
        _run_file(program)


def _is_zip(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(4) == b"PK\x03\x04"


def _run_module(name: str, arguments: Sequence[str]) -> None:
    sys.argv = ["-m", *arguments]  # runpy puts the module's file in the first place
    sys.path.insert(0, os.getcwd())
    _as_python_would(lambda: runpy.run_module(name, run_name="__main__", alter_sys=True), None)


def _run_file(program: str) -> None:
    # Not runpy.run_path: it takes `__main__` away when the program's last line has run, and
    # threads and exit handlers, which run after it, still look things up there.
    module = ModuleType("__main__")
    module.__file__ = program
    module.__builtins__ = builtins  # type: ignore[attr-defined]  # as Python does for __main__
    sys.modules["__main__"] = module
    sys.path.insert(0, os.path.dirname(os.path.realpath(program)))

    def execute() -> None:
        with io.open_code(os.path.abspath(program)) as file:
            source = file.read()
        exec(compile(source, program, "exec"), module.__dict__)

    _as_python_would(execute, program)


def _as_python_would(execute: Callable[[], object], program: str | None) -> None:
    """Run it; report an exception with the program's frames only, as `python` would."""
    try:
        execute()
    except SystemExit:
        raise
    except BaseException as error:
        error.__traceback__ = _from_program(error.__traceback__, program)
        sys.excepthook(type(error), error, error.__traceback__)
        status = 130 if isinstance(error, KeyboardInterrupt) else 1
        raise SystemExit(status) from None


def _from_program(trace: TracebackType | None, program: str | None) -> TracebackType | None:
    """Skip the frames of this file and of runpy."""
    own = (__file__, runpy.__file__, "<frozen runpy>")
    while trace is not None and trace.tb_frame.f_code.co_filename in own:
        trace = trace.tb_next
    return trace
