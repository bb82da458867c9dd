"""The values that names had when a kernel was compiled, and whether they still have them.

A name is that of a global or, with dots, of an attribute of one: `SIZE`, `config.SIZE`, `Cfg.SIZE`.
"""

from __future__ import annotations

import copy
import gc
from collections.abc import Iterator, Mapping
from enum import Enum
from types import ModuleType
from typing import Any

from tritium.language.values.constexpr import constexpr, unwrap

Watched = dict[tuple[str, int], tuple[Any, dict[str, Any]]]
"""(name, id of the namespace that its first part is in) -> the value then, and that namespace."""


class _Absent:
    def __repr__(self) -> str:
        return "nothing (it was deleted)"


ABSENT: Any = _Absent()
"""The value of a name that has none."""


def is_stable(value: object) -> bool:
    """True if a value cannot change while it is the same object, as far as a kernel is concerned:
    hashable values promise that."""
    if isinstance(value, tuple):
        return all(map(is_stable, value))  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(value, constexpr):
        return is_stable(value.value)
    try:
        hash(value)
    except TypeError:
        return False
    return True


def as_now(value: object) -> Any:
    """The value to remember: a copy of what can change. Another value can be assigned to a
    constexpr."""
    if isinstance(value, constexpr):
        return constexpr(as_now(value.value))
    if is_stable(value):
        return value
    try:
        return copy.deepcopy(value)
    except Exception:  # whatever a user's class raises where it cannot be copied
        return value


def same(left: Any, right: Any) -> bool:
    """True if two values are the same to a kernel: 1, 1.0 and True are not."""
    left, right = unwrap(left), unwrap(right)
    if left is right:
        return True
    if type(left) is not type(right):
        return False
    if isinstance(left, float):
        return repr(left) == repr(right)  # NaN is the same, -0.0 and 0.0 are not
    if isinstance(left, (tuple, list)):
        return len(left) == len(right) and all(map(same, left, right))  # pyright: ignore[reportUnknownArgumentType]
    try:
        return bool(left == right)
    except (TypeError, ValueError):  # an array
        return repr(left) == repr(right)


def _holder(owner: object, attribute: str) -> Any:
    """The object on which the attribute is looked up: a constexpr's value, if the constexpr has no
    such attribute."""
    if isinstance(owner, constexpr) and attribute != "value" and not hasattr(constexpr, attribute):
        return owner.value
    return owner


def value_of(name: str, namespace: Mapping[str, Any]) -> Any:
    """The current value of a name, `ABSENT` if it has none."""
    first, *attributes = name.split(".")
    value = namespace.get(first, ABSENT)
    for attribute in attributes:
        value = getattr(_holder(value, attribute), attribute, ABSENT)
    return value


def change(watched: Watched) -> str | None:
    """The first change of a value since it was noted, in words; None where there is none."""
    for (name, _), (value, namespace) in watched.items():
        now = value_of(name, namespace)
        if now is not value and not same(now, value):
            text = f"Global variable {name} has changed since we compiled this kernel"
            return f"{text}, from {value!s} to {now!s}"  # a constexpr, not its value
    return None


def namespace_of(owner: type[Any]) -> dict[str, Any]:
    """The dict of a class itself, of which `vars` shows a view."""
    found: list[Any] = [d for d in gc.get_referents(vars(owner)) if isinstance(d, dict)]
    return found[0]


def places(name: str, namespace: dict[str, Any]) -> list[tuple[dict[str, Any], str]] | None:
    """The dicts, with their keys, that decide what a name means: as long as these items are the
    same objects (or absent), so is its value. None where it is computed, by a property say."""
    first, *attributes = name.split(".")
    found = [(namespace, first)]
    value = namespace.get(first, ABSENT)
    for attribute in attributes:
        owner = _holder(value, attribute)
        if owner is not value:
            found.append((vars(value), "value"))
        value = getattr(owner, attribute, ABSENT)
        if isinstance(owner, Enum):  # which never changes
            continue
        kind: Any = None
        for place in _namespaces(owner):
            found.append((place, attribute))
            if attribute in place:
                kind = type(place[attribute])  # pyright: ignore[reportUnknownVariableType]
                break
        if kind is None or (hasattr(kind, "__get__") and not isinstance(value, Enum)):
            return None
    if isinstance(value, constexpr):
        found.append((vars(value), "value"))
    return found


def _namespaces(owner: object) -> Iterator[dict[str, Any]]:
    """The dicts that an object's attributes are looked for in, in that order."""
    if isinstance(owner, ModuleType):
        yield vars(owner)
        return
    if not isinstance(owner, type) and hasattr(owner, "__dict__"):
        yield vars(owner)
    found: type[Any] = owner if isinstance(owner, type) else type(owner)
    yield from map(namespace_of, found.__mro__)
