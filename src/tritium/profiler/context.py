"""Where launches are recorded."""

from __future__ import annotations

from tritium.profiler import sessions


def depth(session: int | None = 0) -> int | None:
    """The number of scopes around; None where no session is open. Raises `ValueError` for a session
    that there is not."""
    if not sessions.flags.profiling_on:
        return None
    sessions.chosen(session, "context.depth")
    return len(sessions.scopes.get())
