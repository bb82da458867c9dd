"""The table of lowering rules by backend and op class: `@lowers` fills it, emitters read it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from tritium.ops.base import Op

Rule = Callable[..., Any]
R = TypeVar("R", bound=Rule)

RULES: dict[str, dict[type[Op], Rule]] = {}
"""Rules by backend (or part of one: `cpu.scalar`) and op class."""


SCRATCH: dict[str, dict[type[Op], Rule]] = {}
"""The bytes of scratch memory that an op's lowering needs for itself, by backend and op class."""
ROUNDS: dict[str, dict[type[Op], Rule]] = {}
"""These bytes where the lowering works in `2**n` rounds, by backend and op class."""


def lowers(
    backend: str, *classes: type[Op], scratch: Callable[[Any], int] | None = None,
    rounds: Callable[[Any, int], int | None] | None = None,
) -> Callable[[R], R]:  # fmt: skip
    """Register the decorated function as the lowering of these op classes for `backend`.

    `scratch`: the shared memory, in bytes, that the lowering of an op needs for itself; `rounds`:
    that which it needs in `2**n` rounds, None where it cannot work in that number of rounds.
    """

    def register(rule: R) -> R:
        table = RULES.setdefault(backend, {})
        for op_class in classes:
            assert op_class not in table, f"{backend}: {op_class.name} has two lowerings"
            table[op_class] = rule
            if scratch is not None:
                SCRATCH.setdefault(backend, {})[op_class] = scratch
            if rounds is not None:
                ROUNDS.setdefault(backend, {})[op_class] = rounds
        return rule

    return register


def scratch_bytes(backend: str, op: Op) -> int:
    """The bytes of scratch memory of an op; 0 where its lowering needs none."""
    size = SCRATCH.get(backend, {}).get(type(op))
    return 0 if size is None else size(op)


def scratch_in_rounds(backend: str, op: Op, rounds: int) -> int | None:
    """The bytes of scratch of an op that is lowered to `2**rounds` rounds; None if it cannot be."""
    size = ROUNDS.get(backend, {}).get(type(op))
    return None if size is None else size(op, rounds)


def rules(backend: str) -> dict[type[Op], Rule]:
    """The table of one backend, empty at first."""
    return RULES.setdefault(backend, {})
