"""Guards: what native code checks to know that nothing it relies on has changed in Python."""

from __future__ import annotations

from typing import Any

from tritium.native.records import Record, allocate

GUARD = Record(("where", "ptr"), ("key", "ptr"), ("expected", "ptr"))
"""Something that must be as it was: a dict whose item under `key` is `expected` (null: none), or,
with `key` null, a list that must be empty."""

Guard = tuple[Any, Any, Any]
"""(dict, key, expected item or `ABSENT`), or (list, None, None): it must be empty."""

ABSENT: Any = object()

API = ("PyDict_GetItemWithError", "PyList_Size")


def item_guard(where: dict[Any, Any], key: Any) -> Guard:
    """The guard that an item of a dict stays the object that it is (or absent)."""
    return where, key, where.get(key, ABSENT)


def holds(guard: Guard) -> bool:
    """True if a guard holds now."""
    where, key, expected = guard
    return not where if key is None else where.get(key, ABSENT) is expected


def write_guards(guards: list[Guard]) -> tuple[int, Any]:
    """Guards in memory: the address, and what keeps them alive."""
    address, memory = allocate(GUARD.size * max(len(guards), 1), 64)
    for i, (where, key, expected) in enumerate(guards):
        GUARD.write(
            address + i * GUARD.size, where=id(where), key=0 if key is None else id(key),
            expected=0 if key is None or expected is ABSENT else id(expected),
        )  # fmt: skip
    return address, (memory, guards)
