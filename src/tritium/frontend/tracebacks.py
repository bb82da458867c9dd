"""Hiding the compiler's own frames from the errors that users see.

A kernel's error is about the kernel: `at line:column` with the source. The frames of the visitors
that found it are noise, unless one debugs the compiler (TRITON_FRONT_END_DEBUGGING=1).
"""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

from xdsl.utils.exceptions import VerifyException

from tritium.language.jit import function

_HERE = str(Path(__file__).parent), function.__file__  # which hands calls back to the visitors


_NEVER_THE_USERS = (AssertionError, UnboundLocalError)
"""Exceptions that this package raises for nothing that a kernel says."""
_ABOUT_OPS = ("tritium.ops.", "tritium.ir.", "xdsl.")
"""Modules that work on ops alone: values of the kernel's own are not looked up there."""
_LOOKUPS = (AttributeError, LookupError, NameError)


def is_fault(error: Exception) -> bool:
    """True for an error of the compiler, raised while a kernel's source was visited."""
    if isinstance(error, VerifyException):
        return True
    innermost, trace = "", error.__traceback__
    while trace is not None:
        innermost, trace = trace.tb_frame.f_globals.get("__name__", ""), trace.tb_next
    if isinstance(error, _NEVER_THE_USERS):
        return innermost.startswith(("tritium.", "xdsl."))
    return isinstance(error, _LOOKUPS) and innermost.startswith(_ABOUT_OPS)


def hide_frontend_frames(error: BaseException) -> None:
    """Remove the frames of this package from the traceback of an error and of its causes."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        current.__traceback__ = _filtered(current.__traceback__)
        current = current.__cause__ or current.__context__


def _filtered(traceback: TracebackType | None) -> TracebackType | None:
    while traceback is not None and _is_ours(traceback):
        traceback = traceback.tb_next
    frame = traceback
    while frame is not None:
        following = frame.tb_next
        while following is not None and _is_ours(following):
            following = following.tb_next
        frame.tb_next = following
        frame = following
    return traceback


def _is_ours(traceback: TracebackType) -> bool:
    return traceback.tb_frame.f_code.co_filename.startswith(_HERE)
