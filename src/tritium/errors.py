"""The error tree. Every error that a user can cause derives from `TritonError`.

The class names are the reference's, so that `except triton.CompilationError` keeps working.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # a bundle starts without `typing`
if TYPE_CHECKING:
    import ast
    from typing import Any, TypeVar

    _Error = TypeVar("_Error", bound="CompilationError")


class TritonError(Exception):
    """Base class of all errors that Tritium raises on purpose."""


class OpError(TritonError, ValueError):
    """An op was given operands or attributes that it does not accept.

    Raised by `Op.infer`; the frontend turns it into a `CompilationError` at the user's line and
    the verifier into a verification error. The message reads "what was given; what is allowed".

    Attributes:
        location: of the op, where a later stage refuses it.
    """

    location: Any = None


class CompilationError(TritonError):
    """An error in the user's kernel, with the source lines before it and a caret under it.

    Args:
        src: the source text of the function, or None when it is unknown.
        node: the AST node at which the error was found (`lineno` counts from 1 within `src`).
        error_message: what was wrong and what would be right.
    """

    source_line_count_max_in_message = 12

    def __init__(self, src: str | None, node: ast.AST | None, error_message: object = None):
        self.src = src
        self.node = node
        self.error_message = error_message
        self.message = self._format()
        super().__init__(self.message)

    def _format(self) -> str:
        message = "" if self.error_message is None else str(self.error_message)
        line, column = getattr(self.node, "lineno", None), getattr(self.node, "col_offset", 0)
        if line is None:
            return message or "compilation failed"
        text = f"at {line}:{column}:"
        if self.src:
            lines = self.src.split("\n")[:line]
            shown = lines[-self.source_line_count_max_in_message :]
            text += "\n" + "\n".join([*shown, " " * column + "^"])
        else:
            text += " <source unavailable>"
        return f"{text}\n{message}" if message else text

    @classmethod
    def in_function(cls: type[_Error], function: Any, node: ast.AST, message: object) -> _Error:
        """The error at a node of a kernel function. A note below it (from Python 3.11 on) gives
        the function's name, its file, and the line in the file."""
        error = cls(function.src, node, message)
        line: int | None = getattr(node, "lineno", None)
        if line is not None and sys.version_info >= (3, 11):
            place = f"{function.file_name}:{function.first_line + line - 1}"
            error.add_note(f"in the kernel function {function.__name__!r}, {place}")
        return error

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> tuple[Any, ...]:
        # Exceptions pickle through `args`, which holds only the formatted text.
        state = {"__notes__": notes} if (notes := getattr(self, "__notes__", None)) else None
        return type(self), (self.src, self.node, self.error_message), state


class CompileTimeAssertionFailure(CompilationError):
    """`tl.static_assert` did not hold."""


class UnsupportedLanguageConstruct(CompilationError):
    """Python that has no meaning inside a kernel."""


class RefusedOpError(CompilationError, OpError):
    """An `OpError` of a stage after the frontend, at the line of the op."""


class UnsupportedOpError(CompilationError, NotImplementedError):
    """The target has no instructions for an op, at the line of the op."""


class InterpreterError(TritonError):
    """A kernel failed under `TRITON_INTERPRET=1`; the cause is chained."""

    def __init__(self, error_message: str | None = None):
        self.error_message = error_message
        super().__init__(error_message or "")

    def __str__(self) -> str:
        return self.error_message or ""

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.error_message,)


class OutOfResources(TritonError):
    """A kernel needs more of a hardware resource than the device has."""

    def __init__(self, required: int, limit: int, name: str):
        self.required, self.limit, self.name = required, limit, name
        reduced = "`num_warps`" if name == "threads" else "block sizes or `num_stages`"
        super().__init__(
            f"out of resource: {name}, Required: {required}, Hardware limit: {limit}. "
            f"Reducing {reduced} may help."
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.required, self.limit, self.name)


class PTXASError(TritonError):
    """ptxas rejected or crashed on the generated PTX."""

    def __init__(self, error_message: str | None = None):
        self.error_message = error_message or ""
        super().__init__(self.error_message)

    def __str__(self) -> str:
        return f"PTXAS error: {self.error_message}"


class StageFileError(TritonError, RuntimeError):
    """A file that stands in for a stage of the compilation cannot be used; the cause is chained."""


HOW_TO_REPORT = """\
This is a fault of Tritium, not of the kernel. To report it, run the program again with
TRITON_ALWAYS_COMPILE=1 TRITON_KERNEL_DUMP=1 TRITON_DUMP_DIR=reproducer
and send the folder `reproducer` with this text (tritium doctor --json says what machine it was).
TRITON_FRONT_END_DEBUGGING=1 shows the compiler's frames."""
"""The advice to a user who meets a fault of the compiler."""


class InternalError(TritonError, RuntimeError):
    """A fault of the compiler. The cause is chained.

    Attributes:
        details: the cause with all frames, as text.
    """

    def __init__(self, message: str, details: str = ""):
        super().__init__(f"internal error of the compiler: {message}")
        self.message, self.details = message, details

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.message, self.details)


class AutotunerError(TritonError):
    """Autotuning could not choose a configuration."""

    def __init__(self, error_message: str | None = None):
        self.error_message = error_message or ""
        super().__init__(self.error_message)

    def __str__(self) -> str:
        return f"Autotuner error: {self.error_message}"


def message_of(error: object) -> str:
    """The text of an error for a command's user: of a file, its name and what is wrong with it."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error)
