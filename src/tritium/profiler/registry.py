"""The sessions of this process, and the place in the program under which they record."""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from tritium.profiler.recording import Path, Recording, Span
from tritium.profiler.tree import EXCLUSIVE

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_RUNNERS = tuple(os.path.join(_PACKAGE, *path)
                 for path in (("cli", "run.py"), ("profiler", "proton.py")))  # fmt: skip
"""The files of the commands that run a program; frames around theirs are not the program's."""

scopes: ContextVar[Path] = ContextVar("scopes", default=())
"""The names of the scopes around, the outermost first."""

states: ContextVar[Path] = ContextVar("states", default=())
"""The names of the states around."""


@dataclass
class Session:
    """Record of a program from `start` to `finalize`.

    Attributes:
        context: "shadow" (scopes) or "python" (frames): what launches are recorded under.
        periodic: the format in which each phase is written when the next one begins; None to keep
            phases.
        phases: by number; the last one is written to.
    """

    name: str
    context: str
    data: str
    backend: str
    periodic: str | None = None
    active: bool = True
    phases: dict[int, Recording] = field(default_factory=dict[int, Recording])
    phase: int = 0

    def __post_init__(self) -> None:
        self.phases[0] = self._new()

    def _new(self) -> Recording:
        return Recording(self.data == "trace")

    @property
    def now(self) -> Recording:
        """The recording of the current phase."""
        return self.phases[self.phase]

    def advance(self) -> int:
        """Begin another phase; returns its number."""
        before, number = self.now, self.phase
        self.phases[self.phase + 1] = self._new()
        self.phase += 1
        if self.periodic is not None:
            before.settle()
            before.write(f"{self.name}.part_{number}", self.periodic)
            del self.phases[number]
        return self.phase

    def place(self) -> Path:
        """The path under which a launch is recorded now."""
        around = frames() if self.context == "python" else scopes.get()
        return (*around, *states.get())


sessions: dict[int, Session] = {}
"""The sessions by number."""


def active() -> list[Session]:
    """The sessions that record."""
    return [session for session in sessions.values() if session.active]


def record(metrics: Mapping[str, Any]) -> None:
    """Add metrics to the innermost scope, in all active sessions: to its node of the state around,
    a node's own ones to the scope itself."""
    own = {name: value for name, value in metrics.items() if name.endswith(EXCLUSIVE)}
    rest = {name: value for name, value in metrics.items() if name not in own}
    for session in active():
        around = frames() if session.context == "python" else ()
        place = (*around, *scopes.get())
        session.now.add(place, own)
        if rest:
            session.now.add((*place, *states.get()), rest)


def record_span(span: Span) -> None:
    """Add a scope to timelines."""
    for session in active():
        session.now.span(span)


def frames() -> Path:
    """The Python frames of the caller's program, `file:line@function`, the outermost first."""
    found: list[str] = []
    frame = inspect.currentframe()
    while frame is not None:
        code = frame.f_code
        file = code.co_filename
        if file in _RUNNERS:
            break
        if not file.startswith((_PACKAGE, "<frozen")):
            found.append(f"{file}:{frame.f_lineno}@{code.co_name}")
        frame = frame.f_back
    return tuple(reversed(found))
