"""Hiding the compiler's own frames from the errors that users see.

A kernel's error is about the kernel: `at line:column` with the source. The frames of the visitors
that found it are noise, unless one debugs the compiler (TRITON_FRONT_END_DEBUGGING=1).
"""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

from tritium.language.jit import function

_HERE = str(Path(__file__).parent), function.__file__  # which hands calls back to the visitors


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
