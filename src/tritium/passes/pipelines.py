"""The sequences of passes that the compiler runs."""

from __future__ import annotations

from tritium.passes.base import Pass
from tritium.passes.ttir import (
    CSE,
    LICM,
    Canonicalize,
    Combine,
    Inline,
    ReorderBroadcast,
    SymbolDCE,
    Unroll,
)


def ttir() -> list[Pass]:
    """From what the frontend writes to the ttir that backends take."""
    return [
        Inline(),
        Canonicalize(),
        Combine(),
        ReorderBroadcast(),
        CSE(),
        LICM(),
        Unroll(),
        Canonicalize(),
        CSE(),
        SymbolDCE(),
    ]
