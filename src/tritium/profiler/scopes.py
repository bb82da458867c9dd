"""Scopes: names under which launches are recorded."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any, TypeVar

from tritium.profiler import sessions

F = TypeVar("F", bound=Callable[..., Any])


def enter_scope(name: str, *, metrics: dict[str, Any] | None = None) -> None:
    """Begin a scope of this thread; `metrics` (numbers by name) are added to it."""
    sessions.scopes.set((*sessions.scopes.get(), name))
    if metrics:
        sessions.record(sessions.scopes.get(), metrics)


def exit_scope(name: str | None = None, *, metrics: dict[str, Any] | None = None) -> None:
    """End the innermost scope. Raises `ValueError` if there is none, or it has another name."""
    path = sessions.scopes.get()
    if not path or (name is not None and path[-1] != name):
        inside = repr(path[-1]) if path else "none"
        raise ValueError(f"exit_scope: {name!r} is not the innermost scope, which is {inside}")
    if metrics:
        sessions.record(path, metrics)
    sessions.scopes.set(path[:-1])


enter_state = enter_scope
"""Begin a state: what happens in it is recorded under its name."""


def exit_state() -> None:
    """End the innermost state."""
    exit_scope()


class scope:
    """A named part of a program: a context manager, or a decorator of a function.

    Args:
        name: what it is called in the profile.
        metrics: numbers to add to it each time.
    """

    def __init__(self, name: str, metrics: dict[str, Any] | None = None):
        self.name, self.metrics = name, metrics

    def __enter__(self) -> scope:
        enter_scope(self.name, metrics=self.metrics)
        return self

    def __exit__(self, *_: object) -> None:
        exit_scope(self.name)

    def __call__(self, function: F) -> F:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            with type(self)(self.name, self.metrics):
                return function(*args, **kwargs)

        return wrapper  # pyright: ignore[reportReturnType]


class cpu_timed_scope(scope):
    """A scope whose time on the host is measured: the metric `cpu_time (ns)`."""

    def __enter__(self) -> scope:
        super().__enter__()
        self._start = time.perf_counter_ns()
        return self

    def __exit__(self, *_: object) -> None:
        spent = time.perf_counter_ns() - self._start
        sessions.record(sessions.scopes.get(), {"cpu_time (ns)": spent})
        super().__exit__()


class state(scope):
    """A state of the program; recorded like a scope."""

    def __init__(self, name: str):
        super().__init__(name)


class metadata_state(state):
    """The state in which a kernel's `launch_metadata` is computed."""

    def __init__(self, kernel_name: str | None = None):
        super().__init__(f"__proton_launch_metadata:{kernel_name}" if kernel_name else
                         "__proton_launch_metadata")  # fmt: skip
