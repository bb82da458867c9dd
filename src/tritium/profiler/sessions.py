"""Sessions: what is recorded, from `start` to `finalize`."""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tritium import knobs
from tritium.backends.active import driver
from tritium.profiler.flags import flags
from tritium.profiler.tree import COUNT, TIME, Node

DEFAULT_PROFILE_NAME = "proton"
_METRICS = ("flops", "flops8", "flops16", "flops32", "flops64", "bytes")


@dataclass
class _Session:
    name: str
    metadata: bool
    active: bool = True
    root: Node = field(default_factory=lambda: Node("ROOT"))
    times: list[tuple[Node, Any, Any]] = field(default_factory=list[tuple[Node, Any, Any]])

    def settle(self) -> None:
        """Add up the times of launches that were recorded."""
        for node, begin, end in self.times:
            end.synchronize()
            node.add({TIME: round(begin.elapsed_time(end) * 1e6)})
        self.times.clear()


scopes: ContextVar[tuple[str, ...]] = ContextVar("scopes", default=())
"""The names of the scopes around, the outermost first."""

_sessions: dict[int, _Session] = {}
_numbers = itertools.count()
_open: list[Any] = []


def start(
    name: str | None = None,
    *,
    context: str | None = "shadow",
    data: str | None = "tree",
    backend: str | None = None,
    mode: Any = None,
    hook: str | None = None,
) -> int | None:
    """Begin a session; returns its number, or None where `TRITON_PROTON_DISABLE` is set.

    Args:
        name: path of the file to write, without its suffix; "proton" by default.
        context: "shadow": launches are recorded under the scopes around them.
        data: "tree".
        backend: None: launches are timed by events of the active driver.
        mode: None.
        hook: "triton" to record kernels' `launch_metadata`, or None.

    Raises `NotImplementedError` for other values that the reference has, `ValueError` for others.
    """
    if knobs.proton.disable:
        return None
    for argument, value, built, others in (
        ("context", context, ("shadow",), ("python",)),
        ("data", data, ("tree",), ("trace",)),
        ("backend", backend, (None,), ("cupti", "roctracer", "instrumentation")),
        ("hook", hook, (None, "triton"), ("launch",)),
    ):
        if value not in built:
            kind = NotImplementedError if value in others else ValueError
            raise kind(f"profiler.start: {argument}={value!r} is not built; use {built[-1]!r}")
    if mode is not None:
        raise NotImplementedError(f"profiler.start: mode={mode!r} is not built; use None")
    number = next(_numbers) if _sessions else _first()
    _sessions[number] = _Session(name or DEFAULT_PROFILE_NAME, hook == "triton")
    _listen()
    return number


def _first() -> int:
    """Numbers begin anew when no session is left."""
    global _numbers
    _numbers = itertools.count()
    return next(_numbers)


def chosen(session: int | None, function: str) -> list[int]:
    """The numbers of a session or of all. Raises `ValueError` for one that there is not."""
    if session is None:
        return list(_sessions)
    if session not in _sessions:
        raise ValueError(f"profiler.{function}: there is no session {session}")
    return [session]


def activate(session: int | None = None) -> None:
    """Record again, in a session or in all."""
    for number in chosen(session, "activate"):
        _sessions[number].active = True
    _listen()


def deactivate(session: int | None = None, flushing: bool = False) -> None:
    """Record nothing until `activate`, in a session or in all; with `flushing` wait for the
    launches that were recorded."""
    for number in chosen(session, "deactivate"):
        _sessions[number].active = False
        if flushing:
            _sessions[number].settle()
    _listen()


def finalize(session: int | None = None, output_format: str | None = "") -> None:
    """End a session, or all, and write `<name>.hatchet`.

    Raises `NotImplementedError` for another `output_format` than "hatchet" (the default).
    """
    if output_format not in ("", None, "hatchet"):
        raise NotImplementedError(f"profiler.finalize: output_format={output_format!r} is not "
                                  "built; use 'hatchet'")  # fmt: skip
    for number in chosen(session, "finalize"):
        ended = _sessions.pop(number)
        ended.settle()
        Path(f"{ended.name}.hatchet").write_text(
            json.dumps([ended.root.to_json(), _devices(ended.root)], default=str), encoding="utf-8"
        )
    _listen()


def profile(
    function: Callable[..., Any] | None = None, *, name: str | None = None, **options: Any
) -> Any:
    """Decorator: a session around each call of a function; `options` are those of `start`."""
    if function is None:
        return functools.partial(profile, name=name, **options)

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        session = start(name, **options)
        try:
            return function(*args, **kwargs)
        finally:
            if session is not None:
                finalize(session)

    return wrapper


def record(path: Sequence[str], metrics: Mapping[str, Any]) -> None:
    """Add metrics to a node, in all active sessions."""
    for session in _sessions.values():
        if session.active:
            session.root.at(path).add(metrics)


def _listen() -> None:
    """Have launches reported while a session is active."""
    flags.profiling_on = bool(_sessions)
    wanted = any(session.active for session in _sessions.values())
    for chain, hook in (
        (knobs.runtime.launch_enter_hook, _enter), (knobs.runtime.launch_exit_hook, _exit),
    ):  # fmt: skip
        if not isinstance(chain, knobs.HookChain):
            raise NotImplementedError("the profiler beside a launch hook that is no HookChain")
        (chain.add if wanted else chain.remove)(hook)


def _event() -> Any:
    event = driver.active.get_device_interface().Event(enable_timing=True)
    event.record()
    return event


def _enter(metadata: Any) -> None:
    _open.append(_event())


def _exit(metadata: Any) -> None:
    begin, end = _open.pop(), _event()
    device = {
        "device_id": str(driver.active.get_current_device()),
        "device_type": driver.active.get_current_target().backend.upper(),
    }
    for session in _sessions.values():
        if session.active:
            known = metadata.get() if session.metadata else metadata.data
            node = session.root.at([*scopes.get(), str(known["name"])])
            node.add({COUNT: 1, **{n: known[n] for n in _METRICS if n in known}})
            node.metrics.update(device)
            session.times.append((node, begin, end))


def _devices(root: Node) -> dict[str, Any]:
    """The description of the devices in hatchet files."""
    kind = driver.active.get_current_target()
    number = driver.active.get_current_device()
    properties = driver.active.utils.get_device_properties(number)
    entry = {
        "arch": str(kind.arch),
        "num_sms": properties.get("multiprocessor_count", 0),
        "clock_rate": properties.get("sm_clock_rate", 0),
        "memory_clock_rate": properties.get("mem_clock_rate", 0),
        "bus_width": properties.get("mem_bus_width", 0),
    }
    return {kind.backend.upper(): {str(number): entry}}
