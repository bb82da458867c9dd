"""Errors of stages: what an op does not take at its line in the kernel; faults of the compiler
itself with the kernel, its source line and the stage."""

from __future__ import annotations

import ast
import linecache
import sys
import traceback
from collections.abc import Iterator
from types import TracebackType
from typing import Any

from xdsl.ir import Operation
from xdsl.utils.exceptions import VerifyException

from tritium import knobs
from tritium.errors import (
    HOW_TO_REPORT,
    CompilationError,
    InternalError,
    OpError,
    RefusedOpError,
    UnsupportedOpError,
)
from tritium.ir.locations import source_position

_PROGRAMMING = (
    AssertionError, AttributeError, LookupError, NameError, RecursionError, TypeError,
    ArithmeticError, StopIteration, VerifyException,
)  # fmt: skip
"""Exceptions that Python and xDSL raise for a wrong program."""


def is_fault(error: Exception, src: Any) -> bool:
    """True if an error that a stage of compiling `src` raised is a fault of the compiler."""
    frames = [frame for frame, _ in _frames(error.__traceback__)]
    modules = [frame.f_globals.get("__name__", "").partition(".")[0] for frame in frames]
    names = [frame.f_code.co_name for frame in frames]
    at = names.index("run_stages") + 1 if "run_stages" in names else 0
    while frames[at:] and frames[at].f_globals is frames[at - 1].f_globals:  # as `run` of a stage
        at += 1
    if modules[at : at + 1] not in (["tritium"], ["contextlib"]):  # a stage of the user's
        return False
    # Text that LLVM does not take, unless the user wrote it.
    rejected = modules[-1] == "llvmlite" or str(error).startswith("invalid LLVM IR")
    return isinstance(error, _PROGRAMMING) or (rejected and hasattr(src, "fn"))


def at_source(error: Exception, src: Any) -> CompilationError | None:
    """The error with the source of the op that a stage refused; None for other errors, and where
    the op's place is not known."""
    kinds: dict[type[Exception], type[CompilationError]] = {
        OpError: RefusedOpError, NotImplementedError: UnsupportedOpError,
    }  # fmt: skip
    kind, function = kinds.get(type(error)), getattr(src, "fn", None)
    location = getattr(error, "location", None)
    place = _position(error) if location is None else source_position(location)
    if kind is None or function is None or place is None:
        return None
    file, line, column = place
    text, first = "".join(linecache.getlines(file)), 1
    own = line - function.first_line + 1
    if function.file_name == file and 1 <= own <= len(function.src.splitlines()):
        text, first = function.src, function.first_line
    node = ast.Pass(lineno=line - first + 1, col_offset=max(0, column - 1))
    return kind(text or None, node, error)


def internal_error(error: Exception, src: Any, stage: str) -> InternalError | CompilationError:
    """The report of a fault; the cause is chained to it, without the compiler's frames. A kernel
    that is nested too deeply for Python's stack gets a `CompilationError`."""
    details = "".join(traceback.format_exception(error))
    message = f"{type(error).__name__}: {error}".rstrip(": ")
    report = InternalError(f"{message}\n{context(error, src, stage)}", details)
    if isinstance(error, RecursionError) and "maximum recursion depth" in message:
        report = CompilationError(None, None, (
            f"{_place(error, src, stage)}: this is nested too deeply (each `elif`, and each `if` "
            f"that returns, nests what follows it): Python's recursion limit is "
            f"{sys.getrecursionlimit()}"
        ))  # fmt: skip
    if not knobs.compilation.front_end_debugging:
        error.__traceback__ = _innermost(error.__traceback__)
    return report


def context(error: BaseException, src: Any, stage: str) -> str:
    """The lines of a report below its first: where it was, and what to do."""
    return f"  {_place(error, src, stage)}\n{HOW_TO_REPORT}"


def _place(error: BaseException, src: Any, stage: str) -> str:
    """Kernel, stage, and the source line of the op that was worked on."""
    function = getattr(src, "fn", None)
    place = f"kernel '{src.name}', stage '{stage}'"
    found = _position(error)
    if found is not None:
        file, line, _ = found
        place += f", {file}:{line}"
        if function is not None and file == function.file_name and line in _lines(function):
            place += f" (line {line - function.first_line + 1} of the function)"
    elif function is not None:
        place += f", {function.file_name}:{function.first_line}"
    return place


def _lines(function: Any) -> range:
    """The lines of its file that a function takes; a helper's line is outside."""
    return range(function.first_line, function.first_line + len(function.src.splitlines()))


def _position(error: BaseException) -> tuple[str, int, int] | None:
    """File, line and column of the op that was worked on, from the innermost frame that has one."""
    current: BaseException | None = error
    while current is not None:
        for frame, _ in reversed(list(_frames(current.__traceback__))):
            for value in list(frame.f_locals.values()):
                op = value if isinstance(value, Operation) else _op_of(value)
                if isinstance(op, Operation) and hasattr(op, "location"):
                    place = source_position(op.location)
                    if place is not None:
                        return place
        current = current.__cause__
    return None


def _op_of(value: Any) -> Any:
    """The attribute `op` of a value of a frame; None where it has none, or does not give it."""
    try:
        return getattr(value, "op", None)
    except Exception:  # of whatever class the value is
        return None


def _frames(trace: TracebackType | None) -> Iterator[tuple[Any, TracebackType]]:
    while trace is not None:
        yield trace.tb_frame, trace
        trace = trace.tb_next


def _innermost(trace: TracebackType | None) -> TracebackType | None:
    return list(_frames(trace))[-1][1] if trace is not None else None
