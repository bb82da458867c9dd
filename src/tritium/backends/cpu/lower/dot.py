"""Dots."""

from __future__ import annotations

from tritium.backends.cpu.lower.context import Context
from tritium.backends.cpu.tiles.ir import Dot


def lower_dot(c: Context, step: Dot) -> None:
    """Write a dot."""
    raise c.unsupported(step.op)
