"""Expected outcome of a random function.

The frontend may accept it, and then its module passes the verifier, and the kernel does natively
what it does interpreted. Or it raises `CompilationError`, whose cause is an error that somebody
wrote a message for, and not one that escaped from within the compiler.
"""

from __future__ import annotations

import linecache
import signal
import traceback
import warnings
from collections.abc import Callable, Generator
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

import tritium
from tests.conformance.support import WAYS, build, copies
from tests.frontend.random_functions import ARGUMENTS, HELPERS
from tests.support.frontend import compile_kernel
from tritium.errors import CompilationError, InterpreterError, TritonError
from tritium.runtime.jit import JITFunction


class TooLong(BaseException):
    """A program ran for longer than it was given; no `Exception`, so that nothing takes it for an
    error of the program."""


@contextmanager
def limited(seconds: int) -> Generator[None]:
    """Raise `TooLong` after some seconds: random loops need not end."""

    def stop(*_: Any) -> None:
        raise TooLong

    previous = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)


def parses(text: str) -> bool:
    """Whether Python accepts a text (f-strings with quotes in them need 3.12)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compile(text, "<random>", "exec")
        except (SyntaxError, ValueError):
            return False
    return "yield " not in text


_PACKAGE = str(Path(tritium.__file__).parent)
_RUNS_THE_PROGRAM = {
    # Where the compiler computes what the program says, and Python's own errors are right.
    ("frontend/python_calls.py", "call_python"), ("frontend/python_calls.py", "_least"),
    ("frontend/python_calls.py", "_look_at"), ("frontend/expressions.py", "binary"),
    ("frontend/expressions.py", "_comparisons"), ("frontend/expressions.py", "visit_UnaryOp"),
    ("frontend/expressions.py", "visit_Subscript"), ("frontend/values.py", "formatted"),
    ("frontend/values.py", "contains"), ("language/values/tuples.py", "__getitem__"),
    ("frontend/expressions.py", "visit_Attribute"),
    ("language/decorators.py", "wrapper"),  # calls with too few arguments
}  # fmt: skip


def complaint(text: str) -> str:
    """Fault in how the frontend takes a function; "" if there is none."""
    with warnings.catch_warnings(), redirect_stdout(StringIO()):
        warnings.simplefilter("ignore")
        kernel: Callable[..., None] = build(HELPERS + text)
        try:
            compile_kernel(JITFunction(kernel), **ARGUMENTS)
        except CompilationError as error:
            return _of_error(error)
        except Exception as error:
            return f"{type(error).__name__} came out of the frontend: {error}\n{_trace(error)}"
    return ""


def _of_error(error: CompilationError) -> str:
    cause: BaseException = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    if isinstance(cause, TritonError):
        return ""
    where = _innermost(cause.__traceback__)
    if where is None:
        return ""
    file, function, line = where
    runs = file == "language/values/constexpr.py" or (file, function) in _RUNS_THE_PROGRAM
    if line.startswith("raise ") or runs:
        return ""
    return f"{type(cause).__name__} in {file}, {function}: {cause}\n    {line}\n{_trace(cause)}"


def _innermost(trace: TracebackType | None) -> tuple[str, str, str] | None:
    """The last frame, if it is one of the compiler: file, function, and the statement."""
    found = None
    for frame, number in traceback.walk_tb(trace):
        name = frame.f_code.co_filename
        found = None
        if name.startswith(_PACKAGE):
            file = name[len(_PACKAGE) + 1 :]
            found = file, frame.f_code.co_name, _statement(name, number)
    return found


def _statement(file: str, number: int) -> str:
    """The line, or the `raise` a few lines above that it belongs to."""
    line = linecache.getline(file, number).strip()
    for back in range(1, 5):
        above = linecache.getline(file, number - back).strip()
        if above.startswith("raise ") and above.endswith("("):
            return above
    return line


def _trace(error: BaseException) -> str:
    lines = traceback.format_tb(error.__traceback__)
    return "".join(lines[-3:])


def divergence(text: str) -> str | None:
    """How a kernel that compiles differs natively and interpreted; "" if it does not, None if that
    cannot be told: it does not compile, or reads beyond its arguments."""
    # What is printed goes past Python, and is looked at elsewhere.
    text = text.replace("tl.device_print('p', ", "tl.to_tensor(").replace("print(", "repr(")
    rng = np.random.default_rng(1)
    given = {
        k: (rng.standard_normal(64) * 9).astype(v.dtype) if isinstance(v, np.ndarray) else v
        for k, v in ARGUMENTS.items()
    }
    interpreted, native = copies(given), copies(given)
    with warnings.catch_warnings(), redirect_stdout(StringIO()):
        warnings.simplefilter("ignore")
        fn = build(HELPERS + text)
        try:
            compile_kernel(JITFunction(fn), **ARGUMENTS)
        except CompilationError:
            return None
        try:
            WAYS["interpreted"](fn)[(1,)](**interpreted)
        except InterpreterError as error:
            return None if "out-of-bounds" in str(error) else f"only interpreted: {error}"
        WAYS["native"](fn)[(1,)](**native)
    for name, array in interpreted.items():
        if isinstance(array, np.ndarray):
            tolerance = 1e-2 if array.dtype == np.float16 else 1e-4
            pair = array.astype(np.float64), native[name].astype(np.float64)
            if not np.allclose(*pair, rtol=tolerance, atol=tolerance, equal_nan=True):
                return f"{name} is {array} interpreted, {native[name]} natively"
    return ""
