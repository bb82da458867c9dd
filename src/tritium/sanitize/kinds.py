"""Details of failed checks, as native code passes them and as metadata describes them, and the mode
of exact numbers. A launch needs these and none of the passes that insert checks."""

from __future__ import annotations

from typing import Any, NamedTuple

INFINITE, NAN = 1, 2
"""Kinds of findings of a check of floats; NaN goes before."""

EXACT = "exact"
"""The mode that replaces floats by exact numbers, in order to compare kernels."""

Site = dict[str, Any]
"""The description of a check: its source line, and more by its kind. Plain data, because a kernel's
metadata is stored as JSON."""


class Origin(NamedTuple):
    """The op that gave the first NaN or infinity.

    Attributes:
        how: "made" or "loaded".
        site: the op's description.
        infinity: of a NaN that was made of an infinity, the origin of the first infinity.
    """

    how: str
    site: Site
    infinity: Origin | None = None
