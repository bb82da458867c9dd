"""Scopes and events inside of kernels (`import triton.profiler.language as pl`).

They do nothing unless kernels are instrumented: a session with `backend="instrumentation"` is
active. Kernels in Triton's language, which compilers reorder more than Gluon's, record nothing
before `enable_semantic("triton")`.
"""

from __future__ import annotations

from typing import Any

from tritium.language import emitter
from tritium.language.builtins.build import emit
from tritium.language.decorators import builtin
from tritium.language.values.constexpr import unwrap
from tritium.ops.ttir.profile import RecordOp
from tritium.profiler.flags import flags

_semantics = {"gluon"}


class Event:
    """An event of `allocate_event`: it starts and ends at most once at a time."""

    def __init__(self, handle: Any = None):
        self.handle = handle


def enable_semantic(semantic_name: str) -> None:
    """Record in kernels of a language, "triton" or "gluon" (which is recorded by default)."""
    _check_language(semantic_name)
    _semantics.add(semantic_name)


def disable_semantic(semantic_name: str) -> None:
    """Record nothing in kernels of a language. Raises `KeyError` where nothing was recorded."""
    _check_language(semantic_name)
    _semantics.remove(semantic_name)


def _check_language(name: str) -> None:
    if name not in ("triton", "gluon"):
        raise KeyError(f"{name!r} is no language of kernels; 'triton' and 'gluon' are")


def record(is_start: Any, scope_name: Any, semantic: Any = None) -> None:
    """Record the start or the end of a scope. Raises `TypeError` in a kernel of a language that is
    not recorded (`enable_semantic`), or for a name that is no string."""
    if not flags.instrumentation_on:
        return
    name = unwrap(scope_name)
    language = "triton" if emitter.current().features.encoding is None else "gluon"
    if language not in _semantics:
        raise TypeError(
            f"profiler.language: {name!r} in a kernel of {language}, which records nothing before "
            f"enable_semantic({language!r})"
        )
    if not isinstance(name, str):
        raise TypeError(f"profiler.language: the scope's name is {name!r}; a string is required")
    emit(RecordOp, (), starts=bool(unwrap(is_start)), label=name)


@builtin
def enter_scope(name: Any) -> None:
    """Begin a scope of the kernel."""
    record(True, name)


@builtin
def exit_scope(name: Any) -> None:
    """End a scope of the kernel."""
    record(False, name)


@builtin
def allocate_event(name: Any) -> Event:
    """An event of the kernel, with a name."""
    return Event(name)


def record_event(event: Any, is_start: Any) -> None:
    """Record the start or the end of an event. Raises `TypeError` for what is none."""
    event = unwrap(event)
    if flags.instrumentation_on and not isinstance(event, Event):
        raise TypeError(f"profiler.language: {event!r} is no event of allocate_event")
    record(is_start, getattr(event, "handle", None))


@builtin
def start_event(event: Any) -> None:
    """Begin an event."""
    record_event(event, True)


@builtin
def end_event(event: Any) -> None:
    """End an event."""
    record_event(event, False)


class scope:
    """A scope of the kernel as a context manager."""

    def __init__(self, name: str):
        self.name = name

    def __enter__(self) -> None:
        enter_scope(self.name)

    def __exit__(self, *_: object) -> None:
        exit_scope(self.name)
