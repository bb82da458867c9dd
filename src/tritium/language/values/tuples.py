"""Tuples of language values; a named tuple's field names are part of the type."""

from __future__ import annotations

import builtins
import collections
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

from tritium.ir.types import Type
from tritium.language.values.base import Handle, base_type, base_value
from tritium.language.values.constexpr import constexpr, constexpr_type, unwrap


class tuple_type(base_type):
    """The types of a tuple's members; `fields` are the names where it is a named tuple."""

    def __init__(self, types: Iterable[Any], fields: Sequence[str] | None = None):
        self.types = [type_of(None) if t is None else t for t in types]
        self.fields = list(fields) if fields else None

    @property
    def name(self) -> str:
        """The types, with their fields where they have any."""
        members = map(str, self.types)
        if self.fields is not None:
            members = (f"{f}:{type}" for f, type in zip(self.fields, members, strict=True))
        return f"[{','.join(members)}]"

    def __eq__(self, other: object) -> bool:
        other = unwrap(other)
        return (
            isinstance(other, tuple_type)
            and self.types == other.types
            and self.fields == other.fields
        )

    def __hash__(self) -> int:
        return hash(("tuple", *self.types))

    def __repr__(self) -> str:
        return self.name

    def __iter__(self) -> Iterator[base_type]:
        return iter(self.types)

    def __len__(self) -> int:
        return len(self.types)

    def __getitem__(self, index: int) -> base_type:
        return self.types[index]

    def mangle(self) -> str:
        return "T" + "_".join(t.mangle() for t in self.types) + "T"

    def flatten_types(self) -> list[Type]:
        return [ir for t in self.types for ir in t.flatten_types()]

    def unflatten(self, handles: Sequence[Handle], cursor: int) -> builtins.tuple[tuple, int]:
        values: list[Any] = []
        for member in self.types:
            value, cursor = member.unflatten(handles, cursor)
            values.append(value)
        return tuple(values, self), cursor


class tuple(base_value):
    """A tuple in a kernel: indexing, slicing, `+`, `*`, comparison, `len`, unpacking.

    Plain Python members count as compile-time values. Raises `IndexError` and `AttributeError` as
    Python's (named) tuples do.
    """

    def __init__(self, args: Iterable[Any], type: tuple_type | None = None):
        given = args
        self.values = [tuple(a) if _is_plain_tuple(a) else a for a in args]
        if type is None:
            type = tuple_type([type_of(v) for v in self.values], getattr(given, "_fields", None))
        self.type: tuple_type = type

    def _constexpr_members(self) -> builtins.tuple[Any, ...]:
        members = builtins.tuple(unwrap(v) for v in self.values)
        names = self.type.fields
        return members if names is None else _named(builtins.tuple(names))(*members)

    def flatten(self) -> list[Handle]:
        return [h for v in self.values if isinstance(v, base_value) for h in v.flatten()]

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, builtins.slice):
            parts = (unwrap(index.start), unwrap(index.stop), unwrap(index.step))
            return tuple(self.values[builtins.slice(*parts)])
        index = unwrap(index)
        if not isinstance(index, int):
            raise TypeError(
                f"tuple index must be a compile-time integer or slice; got {type(index).__name__}"
            )
        if not -len(self.values) <= index < len(self.values):
            raise IndexError(
                f"tuple index {index} is out of range: it has {len(self.values)} elements"
            )
        return self.values[index]

    def __getattr__(self, name: str) -> Any:
        kind = self.__dict__.get("type")
        names = None if kind is None else kind.fields
        if names is not None and name in names:
            return self.values[names.index(name)]
        raise AttributeError(f"tuple has no field '{name}'")

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values)

    def __len__(self) -> int:
        return len(self.values)

    def __add__(self, other: object) -> tuple:
        return tuple([*self.values, *unwrap_sequence(other, "+")])

    def __radd__(self, other: object) -> tuple:
        return tuple([*unwrap_sequence(other, "+"), *self.values])

    def __mul__(self, count: object) -> tuple:
        count = unwrap(count)
        if not isinstance(count, int):
            raise TypeError(f"a tuple can be repeated by a compile-time integer; got {count!r}")
        return tuple(self.values * count)

    __rmul__ = __mul__

    def __eq__(self, other: object) -> Any:
        return self._compare(other)

    def __ne__(self, other: object) -> Any:
        equal = self._compare(other)
        return constexpr(not equal.value) if isinstance(equal, constexpr) else ~equal

    def _compare(self, other: Any) -> Any:
        if isinstance(other, constexpr):
            other = other.value
        if not _is_sequence(other) or len(other) != len(self):
            return constexpr(False)
        result: Any = constexpr(True)
        for mine, theirs in zip(self, other, strict=True):
            equal = mine == theirs
            if isinstance(equal, base_value) and not isinstance(equal, constexpr):
                result = equal if isinstance(result, constexpr) else result & equal
            elif not equal:
                return constexpr(False)
        return result

    def __hash__(self) -> int:
        return hash(builtins.tuple(self.values))

    def __repr__(self) -> str:
        names = self.type.fields
        members = [repr(v) for v in self.values]
        if names:
            members = [f"{n}={m}" for n, m in zip(names, members, strict=True)]
        return f"({', '.join(members)}{',' if len(members) == 1 else ''})"


@lru_cache
def _named(fields: builtins.tuple[str, ...]) -> Callable[..., builtins.tuple[Any, ...]]:
    """The class of named tuples with these fields that compile-time values have."""
    make: Callable[..., Any] = collections.namedtuple  # of fields that are not in the text
    return make("named", fields)


def _is_plain_tuple(value: object) -> bool:
    return isinstance(value, builtins.tuple)


def _is_sequence(value: object) -> bool:
    return isinstance(value, (tuple, builtins.tuple, list))


def unwrap_sequence(value: Any, operator: str) -> list[Any]:
    """The members of a tuple or list operand."""
    if isinstance(value, constexpr):
        value = value.value
    if not _is_sequence(value):
        raise TypeError(f"tuple {operator} {type(value).__name__}: the other must be a tuple")
    return list(value)


def type_of(value: Any) -> base_type:
    """The language type of any value that may occur in a kernel."""
    if isinstance(value, base_value):
        return value.type
    if _is_plain_tuple(value):
        return tuple(value).type
    return constexpr_type(value)


def wrap(value: Any) -> base_value:
    """A Python value as a language value: tuples as `tl.tuple`, all else as `constexpr`."""
    if isinstance(value, base_value):
        return value
    if _is_plain_tuple(value):
        wrapped = [wrap(v) for v in value]
        return tuple(
            wrapped, tuple_type([v.type for v in wrapped], getattr(value, "_fields", None))
        )
    return constexpr(value)
