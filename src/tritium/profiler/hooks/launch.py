"""Recording of kernels' `launch_metadata`."""

from __future__ import annotations

import itertools
import re
from contextvars import ContextVar
from typing import Any, NamedTuple

from tritium.profiler.hooks.hook import Hook, HookManager
from tritium.profiler.metric import is_metric, metrics_of
from tritium.profiler.registry import Session, sessions
from tritium.profiler.state import COMPUTE_METADATA_SCOPE_NAME as COMPUTE_METADATA_SCOPE_NAME
from tritium.profiler.state import metadata_state

_RESERVED = ("name", "function", "stream")


class Described(NamedTuple):
    """A launch as its kernel's `launch_metadata` describes it."""

    name: str
    metrics: dict[str, Any]


_described: ContextVar[Described | None] = ContextVar("described", default=None)
in_hook: ContextVar[bool] = ContextVar("in_hook", default=False)
"""True while `launch_metadata` is computed."""
enabled: ContextVar[bool] = ContextVar("enabled", default=False)
"""True in a launch that is described."""
id: ContextVar[int | None] = ContextVar("id", default=None)
op_name: ContextVar[str | None] = ContextVar("op_name", default=None)
"""The number, which no other launch has, and the name of the last one that was described."""
_numbers = itertools.count()


class LaunchHook(Hook):
    """Calls kernels' `launch_metadata`; the numbers in it become metrics, and `name` the kernel's
    name. There is one object of the class, which sessions share."""

    priority = 100
    _only: LaunchHook | None = None

    def __new__(cls) -> LaunchHook:
        if cls._only is None:
            cls._only = super().__new__(cls)
            cls._only.configure()
        return cls._only

    def configure(self, *, include: str | None = None, exclude: str | None = None) -> None:
        """Describe only kernels whose name begins as the regular expression `include` says, and not
        as `exclude` does. Raises `ValueError` for a bad expression."""
        self._include, self._exclude = _compiled("include", include), _compiled("exclude", exclude)

    def _wants(self, name: str) -> bool:
        if self._include is not None and not self._include.match(name):
            return False
        return self._exclude is None or not self._exclude.match(name)

    def enter(self, metadata: Any) -> None:
        if in_hook.get():  # a kernel that launch_metadata launches
            return
        _described.set(None)  # of a launch that failed
        enabled.set(False)
        raw = str(metadata.data.get("name"))
        if not self._wants(raw):
            return
        in_hook.set(True)
        try:
            with metadata_state(raw):
                known = dict(metadata.get())
                name = str(known["name"])
                given = {n: v for n, v in known.items() if n not in _RESERVED and is_metric(v)}
                metrics = metrics_of(given, f"launch_metadata of {raw}")
        finally:
            in_hook.set(False)
        if self._wants(name):
            id.set(next(_numbers))
            op_name.set(name)
            enabled.set(True)
            _described.set(Described(name, metrics))
        else:
            _described.set(Described(raw, {}))

    def exit(self, metadata: Any) -> None:
        if not in_hook.get():
            _described.set(None)
            enabled.set(False)


def described(session: Session) -> Described | None:
    """The description of the launch that is under way, where a session has the hook active."""
    for number, other in sessions.items():
        if other is session and HookManager.session_hooks[number].get(LaunchHook()):
            return None if in_hook.get() else _described.get()
    return None


def _compiled(name: str, expression: str | None) -> re.Pattern[str] | None:
    try:
        return None if expression is None else re.compile(expression)
    except re.error as error:
        raise ValueError(f"LaunchHook.configure: {name} is {expression!r}: {error}") from None
