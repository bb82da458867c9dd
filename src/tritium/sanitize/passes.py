"""The passes of the sanitizer, by mode."""

from __future__ import annotations

from typing import Any

from tritium.passes.base import Pass
from tritium.passes.ttir.tensor_pointers import TensorPointers
from tritium.sanitize.bounds import CheckBounds
from tritium.sanitize.sites import Site


def sanitizer(mode: str) -> tuple[list[Pass], dict[str, Any]]:
    """The passes that put the checks of a mode (`bounds`) into ttir, and the part of the kernel's
    metadata that they fill."""
    sites: list[Site] = []
    pointers: list[int] = []
    passes: list[Pass] = [TensorPointers()]
    if "bounds" in mode.split(","):
        passes.append(CheckBounds(sites=sites, pointers=pointers))
    return passes, {"sites": sites, "pointers": pointers}
