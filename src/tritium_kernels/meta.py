"""Functions as arguments of kernels: values that they hold, parameters that they have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tritium


@dataclass(frozen=True)
class Closure:
    """A `jit` function, and the arguments that it is called with after those of its caller."""

    fn: Any
    captured: tuple[Any, ...] = ()


@tritium.constexpr_function
def takes(fn: Any, name: str) -> bool:
    """Tell if a `jit` function has a parameter of this name."""
    return name in fn.arg_names
