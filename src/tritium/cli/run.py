"""`tritium run`: execute a program as `python PROG` would, with `triton` naming Tritium."""

from __future__ import annotations

import builtins
import contextlib
import io
import linecache
import os
import runpy
import sys
from collections.abc import Callable, Sequence
from types import ModuleType, TracebackType

import typer

from tritium import compat, knobs
from tritium.system.programs import is_zip, objection

_until_the_end = contextlib.ExitStack()


def run_program(arguments: Sequence[str]) -> None:
    """Run `PROG ARGS...`, `-m MODULE ARGS...`, `-c TEXT ARGS...` or `- ARGS...`.

    The process ends as the program ends.

    Args:
        arguments: the program, as for `python`: a .py file, a folder or zip file with a
            `__main__`, `-m` and a module's name, `-c` and the program's text, or `-` for standard
            input; then what it finds in `sys.argv[1:]`.
    """
    compat.install()
    program, *rest = arguments
    if program == "-m":
        _run_module(_needed("-m", "the name of a module", rest), rest[1:])
    elif program == "-c":
        text = _needed("-c", "the text of a program", rest)
        sys.argv = ["-c", *rest[1:]]
        _run_text(lambda: text, "<string>")
    elif program == "-":
        sys.argv = list(arguments)
        _run_text(sys.stdin.read, "<stdin>")
    elif program.startswith("-"):
        raise typer.BadParameter(f"unknown option {program}; usage: tritium run PROG ARGS...")
    else:
        if (reason := objection(program)) is not None:
            raise typer.BadParameter(reason)
        sys.argv = list(arguments)
        # Absolute, as Python has it: the program may change its directory.
        path = os.path.abspath(program)
        if os.path.isdir(path) or is_zip(path):
            _as_python_would(lambda: runpy.run_path(path, run_name="__main__"))
        else:
            _run_file(path)


def is_program(text: str) -> bool:
    """True if a text is a program and not the names of checks."""
    return text.startswith("-") or os.path.exists(text)


def sanitize_kernels(checks: str) -> None:
    """Compile the kernels of this process, and of those it starts, with checks of the sanitizer:
    names with commas. Raises `BadParameter` for others."""
    # Here, since it loads the language, which not every program needs.
    from tritium.backends.base import REFERENCE_CHECKS, SANITIZERS
    from tritium.sanitize.kinds import EXACT

    names = (*SANITIZERS, EXACT, *REFERENCE_CHECKS)
    unknown = [name for name in checks.split(",") if name.strip() not in names]
    if unknown:
        known = ", ".join(names)
        raise typer.BadParameter(
            f"--sanitize {checks}: {unknown[0]!r} is no program and none of {known}"
        )
    knobs.compilation.instrumentation_mode = checks
    if "unwritten" in checks:
        from tritium.sanitize.allocations import new_arrays_filled

        _until_the_end.enter_context(new_arrays_filled())


def _needed(option: str, what: str, rest: Sequence[str]) -> str:
    if not rest:
        raise typer.BadParameter(f"{option} needs {what}")
    return rest[0]


def _run_module(name: str, arguments: Sequence[str]) -> None:
    sys.argv = ["-m", *arguments]  # runpy puts the module's file in the first place
    sys.path.insert(0, os.getcwd())
    _as_python_would(lambda: runpy.run_module(name, run_name="__main__", alter_sys=True))


def _run_file(path: str) -> None:
    sys.path.insert(0, os.path.dirname(os.path.realpath(path)))

    def read() -> bytes:
        with io.open_code(path) as file:
            return file.read()

    _run_main(read, path, {"__file__": path})


def _run_text(read: Callable[[], str], name: str) -> None:
    sys.path.insert(0, "")

    def read_for_kernels() -> str:
        text = read()
        # A kernel's source is read by file name and line; there is no file.
        linecache.cache[name] = len(text), None, text.splitlines(keepends=True), name
        return text

    _run_main(read_for_kernels, name, {})


def _run_main(read: Callable[[], str | bytes], name: str, variables: dict[str, object]) -> None:
    """Run a program's text as the module `__main__`."""
    # Not runpy.run_path: it takes `__main__` away when the program's last line has run, and
    # threads and exit handlers, which run after it, still look things up there.
    module = ModuleType("__main__")
    module.__dict__.update(variables, __builtins__=builtins)  # as Python does for __main__
    sys.modules["__main__"] = module
    _as_python_would(lambda: exec(compile(read(), name, "exec"), module.__dict__))


def _as_python_would(execute: Callable[[], object]) -> None:
    """Run it; report an exception with the program's frames only, as `python` would."""
    try:
        execute()
    except SystemExit:
        raise
    except BaseException as error:
        error.__traceback__ = _from_program(error.__traceback__)
        sys.excepthook(type(error), error, error.__traceback__)
        status = 130 if isinstance(error, KeyboardInterrupt) else 1
        raise SystemExit(status) from None


def _from_program(trace: TracebackType | None) -> TracebackType | None:
    """Skip the frames of this file and of runpy."""
    own = (__file__, runpy.__file__, "<frozen runpy>")
    while trace is not None and trace.tb_frame.f_code.co_filename in own:
        trace = trace.tb_next
    return trace
