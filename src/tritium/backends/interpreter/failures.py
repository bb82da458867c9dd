"""Errors in interpreted kernels as users see them: the kernel's line, and a caret under it."""

from __future__ import annotations

import ast
import sys
from collections.abc import Sequence
from types import CodeType, TracebackType

from tritium.backends.interpreter.rewrite import Rewritten
from tritium.errors import CompilationError, InterpreterError

_LANGUAGE = ("tritium.language.", "tritium.experimental.gluon.language.")


def failure(error: Exception, functions: Sequence[Rewritten]) -> InterpreterError:
    """The error that a launch raises for one that was raised in a kernel.

    Args:
        error: what went wrong.
        functions: the rewritten functions that may have been running.
    """
    text = f"{type(error).__name__}: {error}"
    if isinstance(error, UnboundLocalError):
        name = str(error).split("'")[1]
        text = f"NameError: {name} is not defined here: not every path to this line assigns it"
    if isinstance(error, CompilationError):
        text = f"{type(error).__name__}: {error.error_message}"
        if error.node is not None:
            return InterpreterError(str(CompilationError(error.src, error.node, text)))
    found = _innermost(error.__traceback__, functions)
    if found is None:
        return InterpreterError(text)
    rewritten, line, column = found
    node = ast.Pass(lineno=line - rewritten.line_offset, col_offset=column)
    return InterpreterError(str(CompilationError(rewritten.function.src, node, text)))


def _innermost(
    traceback: TracebackType | None, functions: Sequence[Rewritten]
) -> tuple[Rewritten, int, int] | None:
    """The last place in one of the user's functions that a traceback passes: the function, the line
    of the file, the column of the function's dedented source."""
    users = [r for r in functions if not (r.function.__module__ or "").startswith(_LANGUAGE)]
    owners = {code: r for r in users for code in _codes(r.fn.__code__)}
    found = None
    while traceback is not None:
        code = traceback.tb_frame.f_code
        rewritten = owners.get(code)
        if rewritten is not None:
            column = _column(code, traceback.tb_lasti) - rewritten.column_offset
            found = rewritten, traceback.tb_lineno, max(column, 0)
        traceback = traceback.tb_next
    return found


def _codes(code: CodeType) -> list[CodeType]:
    inner = [c for c in code.co_consts if isinstance(c, CodeType)]
    return [code, *(deeper for c in inner for deeper in _codes(c))]


def _column(code: CodeType, instruction: int) -> int:
    """The column of an instruction's expression; 0 where Python does not keep it."""
    if sys.version_info < (3, 11):
        return 0
    positions = list(code.co_positions())
    return positions[instruction // 2][2] or 0
