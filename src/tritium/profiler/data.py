"""Records of open sessions, by phase."""

from __future__ import annotations

from typing import Any

from tritium.profiler.msgpack import packed
from tritium.profiler.profile import chosen, flush
from tritium.profiler.recording import Recording
from tritium.profiler.registry import Session, sessions


def get(session: int | None = 0, phase: int = 0) -> Any:
    """The tree and the devices of a phase, as the hatchet file has them; None for no session."""
    if session is None:
        return None
    flush(_session(session, "get"))
    return _recording(session, phase, "get").to_json()


def get_msgpack(session: int | None = 0, phase: int = 0) -> bytes | None:
    """`get` as MessagePack."""
    return None if session is None else packed(get(session, phase))


def advance_phase(session: int | None = 0) -> int | None:
    """Begin another phase; returns its number."""
    return None if session is None else _session(session, "advance_phase").advance()


def is_phase_complete(session: int | None = 0, phase: int = 0) -> bool:
    """True if nothing is recorded in a phase any more: another one has begun, and what was
    launched in this one is done (which is waited for)."""
    if session is None:
        return False
    known = _session(session, "is_phase_complete")
    if phase >= known.phase:
        _recording(session, phase, "is_phase_complete")
        return False
    flush(known)
    return True


def clear(session: int | None = 0, phase: int = 0, clear_up_to_phase: bool = False) -> None:
    """Forget what a phase has recorded; with `clear_up_to_phase` those before it, too."""
    if session is None:
        return
    known = _session(session, "clear")
    _recording(session, phase, "clear")
    flush(known)
    for number in [n for n in known.phases if n == phase or (clear_up_to_phase and n < phase)]:
        if number == known.phase:
            known.phases[number] = Recording(known.data == "trace")
        else:
            del known.phases[number]


def _session(number: int, function: str) -> Session:
    return sessions[chosen(number, f"data.{function}")[0]]


def _recording(session: int, phase: int, function: str) -> Recording:
    phases = _session(session, function).phases
    if phase not in phases:
        raise ValueError(
            f"profiler.data.{function}: session {session} has no phase {phase!r}; it has "
            f"{', '.join(map(str, phases))}"
        )
    return phases[phase]
