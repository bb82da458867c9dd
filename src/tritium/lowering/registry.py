"""Which function lowers which op for which backend: filled by `@lowers`, read by the emitters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from tritium.ops.base import Op

Rule = Callable[..., Any]
R = TypeVar("R", bound=Rule)

RULES: dict[str, dict[type[Op], Rule]] = {}
"""Rules by backend (or part of one: `cpu.scalar`) and op class."""


def lowers(backend: str, *classes: type[Op]) -> Callable[[R], R]:
    """Register the decorated function as the lowering of these op classes for `backend`."""

    def register(rule: R) -> R:
        table = RULES.setdefault(backend, {})
        for op_class in classes:
            assert op_class not in table, f"{backend}: {op_class.name} has two lowerings"
            table[op_class] = rule
        return rule

    return register


def rules(backend: str) -> dict[type[Op], Rule]:
    """The table of one backend, empty at first."""
    return RULES.setdefault(backend, {})
