"""Scans."""

from __future__ import annotations

from tritium.backends.cpu.lower.context import Context
from tritium.backends.cpu.tiles.ir import Nest


def lower_scan(context: Context, nest: Nest) -> None:
    """Write the loops of a scan."""
    raise context.unsupported(nest.roots[0].op)
