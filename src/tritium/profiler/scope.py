"""Scopes: names under which launches are recorded. Without a session they do nothing."""

from __future__ import annotations

import functools
import itertools
import threading
import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, NamedTuple, TypeVar

from tritium.profiler.flags import flags
from tritium.profiler.metric import metrics_of
from tritium.profiler.recording import HOST, Span
from tritium.profiler.registry import record, record_span, scopes, states
from tritium.profiler.tree import CPU_TIME, EXCLUSIVE

F = TypeVar("F", bound=Callable[..., Any])


class _Begun(NamedTuple):
    """The beginning of a scope: when, and with which metrics."""

    time: int
    metrics: dict[str, Any]


_ids = itertools.count()
_begins: ContextVar[tuple[tuple[int, str, _Begun], ...]] = ContextVar("begins", default=())
"""The number, the name and the beginning of each scope around that `enter_scope` has begun."""


def _begin(name: str, metrics: dict[str, Any] | None) -> _Begun:
    if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"profiler.scope: name is {name!r:.80}; a string is required")
    known = metrics_of(metrics, f"profiler.scope({name!r})") if metrics else {}
    scopes.set((*scopes.get(), name))
    record(known)
    return _Begun(time.perf_counter_ns(), known)


def _end(begun: _Begun) -> None:
    now, thread = time.perf_counter_ns(), threading.current_thread().name
    details = {"metrics": begun.metrics} if begun.metrics else {}
    record_span(Span(scopes.get(), begun.time, now, HOST, thread, details))
    scopes.set(scopes.get()[:-1])


def leave_all() -> None:
    """Forget the scopes and states around, which are those of sessions that have ended."""
    for around in (scopes, states, _begins):
        around.set(())


def enter_scope(name: str, *, metrics: dict[str, Any] | None = None) -> int | None:
    """Begin a scope of this thread; `metrics` (numbers by name) are added to it. Returns its
    number, None where no session is open."""
    if not flags.profiling_on:
        return None
    begun, number = _begin(name, metrics), next(_ids)
    _begins.set((*_begins.get(), (number, name, begun)))
    return number


def exit_scope(name: str | None = None, *, metrics: dict[str, Any] | None = None) -> int | None:
    """End the scope that `enter_scope` began last; returns its number. Raises `IndexError` if there
    is none, `ValueError` if it has another name."""
    if not flags.profiling_on:
        return None
    around = _begins.get()
    if not around:
        raise IndexError(f"exit_scope: there is no scope {name or 'to end'}")
    number, inside, begun = around[-1]
    if name not in (None, inside):
        raise ValueError(f"exit_scope: {name!r} is not the innermost scope, which is {inside!r}")
    if metrics:
        record(added := metrics_of(metrics, f"profiler.exit_scope({name!r})"))
        begun = begun._replace(metrics={**begun.metrics, **added})
    _begins.set(around[:-1])
    _end(begun)
    return number


class Around:
    """A context manager that is a decorator of functions, too."""

    def __enter__(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__}.__enter__")

    def __exit__(self, *_: object) -> None:
        raise NotImplementedError(f"{type(self).__name__}.__exit__")

    def _copy(self) -> Any:
        """Another one: calls may be inside of each other."""
        raise NotImplementedError(f"{type(self).__name__}._copy")

    def __call__(self, function: F) -> F:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            with self._copy():
                return function(*args, **kwargs)

        return wrapper  # pyright: ignore[reportReturnType]


class scope(Around):
    """A named part of a program: a context manager, or a decorator of a function.

    Args:
        name: what it is called in the profile.
        metrics: numbers to add to it each time.
    """

    def __init__(self, name: str, metrics: dict[str, Any] | None = None):
        self.name, self.metrics = name, metrics
        self._begun: _Begun | None = None

    def _copy(self) -> scope:
        return type(self)(self.name, self.metrics)

    def __enter__(self) -> scope:
        if flags.profiling_on:
            self._begun = _begin(self.name, self.metrics)
        return self

    def __exit__(self, *_: object) -> None:
        begun, self._begun = self._begun, None
        if begun is not None:
            self._leave(begun)

    def _leave(self, begun: _Begun) -> None:
        _end(begun)


class cpu_timed_scope(scope):
    """A scope whose time on the host is measured: the metric `cpu_time (ns)`.

    Raises `ValueError` where `metrics` has a `cpu_time` of its own.
    """

    def __init__(self, name: str, metrics: dict[str, Any] | None = None):
        if metrics and "cpu_time" in metrics:
            raise ValueError(f"cpu_timed_scope({name!r}): metrics: 'cpu_time' is measured")
        super().__init__(name, metrics)

    def _leave(self, begun: _Begun) -> None:
        record({f"{CPU_TIME}{EXCLUSIVE}": time.perf_counter_ns() - begun.time})
        super()._leave(begun)
