"""Functions with values that they hold, as arguments of kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Closure:
    """A `jit` function, and the arguments that it is called with after those of its caller."""

    fn: Any
    captured: tuple[Any, ...] = ()
