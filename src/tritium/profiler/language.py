"""Scopes and events inside of kernels (`import triton.profiler.language as pl`).

They do nothing unless kernels are instrumented (`flags.instrumentation_on`), which is not built.
"""

from __future__ import annotations

from typing import Any

from tritium.language.decorators import builtin
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
    """Record the start or the end of a scope. Raises `NotImplementedError` where kernels are to be
    instrumented."""
    if flags.instrumentation_on:
        raise NotImplementedError(f"profiler.language: {scope_name}: instrumentation is not built")


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
    """An event of the kernel."""
    record(True, name)
    return Event()


def record_event(event: Event, is_start: Any) -> None:
    """Record the start or the end of an event."""
    record(is_start, event)


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
