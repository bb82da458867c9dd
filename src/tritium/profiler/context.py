"""The scopes in which launches are recorded."""

from __future__ import annotations

from tritium.profiler import registry
from tritium.profiler.flags import flags
from tritium.profiler.profile import chosen


def depth(session: int | None = 0) -> int | None:
    """The number of scopes, states (or frames) around; None where no session is open. Raises
    `ValueError` for a session that there is not."""
    if not flags.profiling_on:
        return None
    first = chosen(session, "context.depth")[0]
    return len(registry.sessions[first].place())
