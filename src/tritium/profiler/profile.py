"""Sessions: what is recorded, from `start` to `finalize`."""

from __future__ import annotations

import functools
import importlib.util
import itertools
import os
from collections.abc import Callable
from typing import Any, NamedTuple

from tritium import knobs
from tritium.backends.active import driver
from tritium.profiler.flags import flags
from tritium.profiler.hooks.hook import Hook, HookManager
from tritium.profiler.hooks.instrumentation import InstrumentationHook
from tritium.profiler.hooks.launch import LaunchHook
from tritium.profiler.mode import BaseMode, InstrumentationMode, PCSampling
from tritium.profiler.registry import Session, sessions
from tritium.profiler.scope import leave_all
from tritium.profiler.timing import timing

DEFAULT_PROFILE_NAME = "proton"
BACKENDS = ("events", "cupti", "instrumentation")
OTHER_BACKENDS = ("roctracer", "rocprofiler")
CONTEXTS = ("shadow", "python")
DATA = {"tree": ("hatchet", "hatchet_msgpack"), "trace": ("chrome_trace",)}
"""The formats of files by what is kept, the usual one first."""
_PERIODIC = "periodic_flushing"

_numbers = itertools.count()


class _Mode(NamedTuple):
    """The meaning of `mode`: the format of periodic files, the mode of instrumentation, and the
    cycles between samples."""

    periodic: str | None = None
    instrumentation: Any = None
    interval: int | None = None


def start(
    name: str | None = None,
    *,
    context: str | None = "shadow",
    data: str | None = "tree",
    backend: str | None = None,
    mode: str | BaseMode | None = None,
    hook: str | Hook | None = None,
) -> int | None:
    """Begin a session; returns its number, or None where `TRITON_PROTON_DISABLE` is set or the
    command `proton` runs the program. A session that is open under the same name goes on, active,
    with `hook` added: one file cannot hold two.

    Args:
        name: path of the file to write, without its suffix; "proton" by default.
        context: "shadow": launches are recorded under the scopes around them; "python": under
            the Python frames.
        data: "tree" of scopes and kernels, or "trace": a timeline, too.
        backend: "events": launches are timed by events of the active driver; "cupti": all kernels
            of an NVIDIA GPU, by cupti-python; "instrumentation": records inside kernels
            (`profiler.language`). None chooses one of the first two.
        mode: "periodic_flushing" (with ":format=..."): each phase is a file of its own; for
            "instrumentation" a `profiler.mode` or its text; for "cupti" also "pcsampling" (with
            ":interval=1000", cycles): samples of the program counter by source line.
        hook: "triton" to record kernels' `launch_metadata`, or a `Hook`.

    Raises `ValueError` for other values, `NotImplementedError` for those of the reference that are
    not built, `RuntimeError` where a backend does not run here.
    """
    if knobs.proton.disable or flags.command_line:
        return None
    _check_path(name)
    _check("context", context, CONTEXTS)
    _check("data", data, tuple(DATA))
    _check("backend", backend, (None, *BACKENDS), OTHER_BACKENDS)
    if not isinstance(hook, Hook):
        _check("hook", hook, (None, "triton"))
    chosen_backend = backend or ("cupti" if _samples(mode) else _usual_backend())
    asked = _mode(mode, chosen_backend, str(data))
    chosen_backend = chosen_backend if asked.interval is None else PCSampling().name
    session = Session(
        str(name or DEFAULT_PROFILE_NAME), str(context), str(data), chosen_backend, asked.periodic
    )
    added = [] if hook is None else [hook if isinstance(hook, Hook) else LaunchHook()]
    for number, other in sessions.items():
        if os.path.abspath(other.name) == os.path.abspath(session.name):
            _continue(number, other, session, added)
            return number
    hooks: list[Hook] = [_backend_hook(chosen_backend, asked), *added]
    if not sessions:
        leave_all()
    number = next(_numbers)
    sessions[number], flags.profiling_on = session, True
    try:
        for each in hooks:
            HookManager.register(each, number)
    except BaseException:  # a backend that does not run here
        discard(number)
        raise
    return number


def _check_path(name: object) -> None:
    if name is not None and not isinstance(name, (str, os.PathLike)):
        raise TypeError(f"profiler.start: name is {name!r}; the path of a file is required")


def _continue(number: int, open_one: Session, asked: Session, hooks: list[Hook]) -> None:
    """Let an open session go on for a `start` that asked for one of the same name. Raises
    `ValueError` where the two would record in different ways."""
    for argument in ("context", "data", "backend", "periodic"):
        before, now = getattr(open_one, argument), getattr(asked, argument)
        if before != now:
            raise ValueError(
                f"profiler.start: session {number} is open with the name {open_one.name!r} and "
                f"{argument}={before!r}, not {now!r}; finalize it first, or choose another name"
            )
    activate(number)
    for hook in hooks:
        HookManager.register(hook, number)


def _check(argument: str, value: Any, built: tuple[Any, ...], others: tuple[str, ...] = ()) -> None:
    if value in others:
        raise NotImplementedError(
            f"profiler.start: {argument}={value!r} is not built; use {built[1]!r}"
        )
    if value not in built:
        known = ", ".join(map(repr, (*built, *others)))
        raise ValueError(f"profiler.start: {argument}={value!r}; one of {known} is required")


def _usual_backend() -> str:
    cuda = driver.active.get_current_target().backend == "cuda"
    return "cupti" if cuda and importlib.util.find_spec("cupti") is not None else "events"


def _samples(mode: Any) -> bool:
    """True for the mode that samples the program counter."""
    return isinstance(mode, PCSampling) or str(mode).partition(":")[0] == "pcsampling"


def _mode(mode: Any, backend: str, data: str) -> _Mode:
    if backend == "instrumentation":
        if isinstance(mode, (str, InstrumentationMode)) or mode is None:
            return _Mode(instrumentation=InstrumentationMode.parse(mode))
    elif mode is None or mode == "":
        return _Mode()
    elif _samples(mode):
        if backend != "cupti" or data != "tree":
            raise ValueError(f"profiler.start: mode={str(mode)!r} needs backend='cupti' and "
                             f"data='tree'; got {backend!r} and {data!r}")  # fmt: skip
        return _Mode(interval=PCSampling.parse(mode).interval)
    elif isinstance(mode, str) and mode.partition(":")[0] == _PERIODIC:
        _, _, option = mode.partition(":")
        key, _, kind = option.partition("=")
        if option and (key != "format" or kind not in DATA[data]):
            raise ValueError(
                f"profiler.start: mode={mode!r}; {_PERIODIC}:format= takes {', '.join(DATA[data])} "
                f"where data={data!r}"
            )
        return _Mode(periodic=kind or DATA[data][0])
    raise ValueError(
        f"profiler.start: mode={mode!r} for the backend {backend!r}; None, {_PERIODIC!r} or, for "
        "'instrumentation', 'default' or a profiler.mode is required"
    )


def _backend_hook(backend: str, mode: _Mode) -> Hook:
    if backend == "instrumentation":
        return InstrumentationHook(mode.instrumentation)
    if backend == "cupti":
        from tritium.profiler.cupti import tracing  # which an optional package is needed for

        return tracing()
    if mode.interval is not None:
        from tritium.profiler.sampling.hook import sampling  # with the compiled kernels

        return sampling(mode.interval)
    return timing


def chosen(session: int | None, function: str) -> list[int]:
    """The numbers of a session or of all. Raises `IndexError` for one that there is not."""
    if session is None:
        return list(sessions)
    if session not in sessions:
        raise IndexError(f"profiler.{function}: Session has not been initialized: {session!r}")
    return [session]


def flush(session: Session) -> None:
    """Have all launches recorded that were made."""
    for number, other in sessions.items():
        if other is session:
            for hook in HookManager.session_hooks[number]:
                getattr(hook, "flush", _nothing)()
    for recording in session.phases.values():
        recording.settle()


def _nothing() -> str:
    """Hooks of users need no flushing, and say nothing."""
    return ""


def seen(number: int) -> str:
    """Text, for messages, on the kernels that the backend of a session has seen."""
    said = [getattr(hook, "seen", _nothing)() for hook in HookManager.session_hooks[number]]
    return "; ".join(filter(None, said))


def activate(session: int | None = None) -> None:
    """Record again, in a session or in all."""
    for number in chosen(session, "activate"):
        sessions[number].active = True
        HookManager.activate(number)


def deactivate(session: int | None = None, flushing: bool = False) -> None:
    """Record nothing until `activate`, in a session or in all; with `flushing` wait for the
    launches that were recorded."""
    for number in chosen(session, "deactivate"):
        if flushing:
            flush(sessions[number])
        sessions[number].active = False
        HookManager.deactivate(number)


def finalize(session: int | None = None, output_format: str | None = "") -> None:
    """End a session, or all, and write `<name>.hatchet` (`<name>.chrome_trace` for a timeline;
    `<name>.part_<n>...` for each of several phases). The command `proton` does it itself.

    A session that has ended, or that there never was, is left alone. Raises `ValueError` for an
    `output_format` that what is kept has not.
    """
    numbers = list(sessions) if session is None else [session] if session in sessions else []
    for number in numbers:
        known = DATA[sessions[number].data]
        if output_format and output_format not in known:
            raise ValueError(
                f"profiler.finalize: output_format={output_format!r} of data="
                f"{sessions[number].data!r}; one of {', '.join(known)} is required"
            )
    if flags.command_line:
        return
    for number in numbers:
        ended = sessions[number]
        flush(ended)
        discard(number)
        kind = output_format or ended.periodic or DATA[ended.data][0]
        several = ended.periodic is not None or len(ended.phases) > 1
        for phase, recording in ended.phases.items():
            recording.write(f"{ended.name}.part_{phase}" if several else ended.name, kind)


def discard(number: int) -> None:
    """End a session without writing a file."""
    HookManager.unregister(number)
    del sessions[number]
    flags.profiling_on = bool(sessions)


def profile(
    func: Callable[..., Any] | None = None,
    *,
    name: str | None = None,
    context: str | None = "shadow",
    data: str | None = "tree",
    backend: str | None = None,
    mode: str | BaseMode | None = None,
    hook: str | Hook | None = None,
) -> Any:
    """Decorator: a session that is active in calls of a function; `finalize` writes it. The options
    are those of `start`."""
    options: Any = {"name": name, "context": context, "data": data, "backend": backend,
                    "mode": mode, "hook": hook}  # fmt: skip
    if func is None:
        return functools.partial(profile, **options)

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        session = start(**options)
        try:
            return func(*args, **kwargs)
        finally:
            if session in sessions:  # no program ended it inside
                deactivate(session)

    return wrapper
