"""Language values as control flow sees them: flattened to IR handles, compared, made dynamic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tritium import language as tl
from tritium.language.base import base_type, base_value, is_sequence
from tritium.language.casts import constant, to_tensor
from tritium.language.constexpr import constexpr, unwrap
from tritium.language.tuples import tuple_type, type_of
from tritium.language.types import dtype


def wrap(value: Any) -> Any:
    """A plain Python value as the language sees it: numbers, strings, None and dtypes become
    constexprs, tuples and lists language tuples; language values and other objects stay."""
    if isinstance(value, base_value):
        return value
    if value is None or isinstance(value, (bool, int, float, str, base_type)):
        return constexpr(value)
    if is_sequence(value):
        wrapped = [wrap(v) for v in value]
        names = getattr(value, "_fields", None)
        return tl.tuple(wrapped, tuple_type(map(type_of, wrapped), names))
    return value


def is_dynamic(value: Any) -> bool:
    """Whether any part of the value exists only when the kernel runs."""
    if isinstance(value, constexpr):
        return False
    if is_sequence(value):
        return any(is_dynamic(v) for v in value)
    return isinstance(value, base_value) and bool(value.flatten())


def is_number(value: Any) -> bool:
    """Whether the value is a compile-time number, which a branch or loop may make dynamic."""
    return isinstance(value, constexpr) and isinstance(value.value, (bool, int, float))


def carriable(value: Any) -> bool:
    """Whether a loop can carry the value from one iteration to the next."""
    if isinstance(value, tl.tuple):
        return all(carriable(v) for v in value.values)
    return is_number(value) or (isinstance(value, base_value) and not isinstance(value, constexpr))


def make_dynamic(value: Any, like: base_type | None = None) -> Any:
    """The value with its compile-time numbers turned into scalars in the IR, of the dtypes that
    `like` has at the same places where that is given and is a scalar's."""
    if isinstance(value, tl.tuple):
        members = getattr(like, "types", None)
        if members is None or len(members) != len(value.values):
            members = [None] * len(value.values)
        values = [make_dynamic(v, m) for v, m in zip(value.values, members, strict=True)]
        return tl.tuple(values, tuple_type(map(type_of, values), value.type.fields))
    if is_number(value):
        number = unwrap(value)
        if isinstance(like, dtype) and not like.is_block() and _represents(like, number):
            return constant(number, like)
        return to_tensor(number)
    return value


def _represents(type_: dtype, number: Any) -> bool:
    """Whether a Python number is of the type's kind, so that it may be taken as of the type."""
    if isinstance(number, bool):
        return type_.is_int1()
    return type_.is_floating() or (type_.is_int() and isinstance(number, int))


def same(left: Any, right: Any) -> bool:
    """Whether two values are known to be the same: equal constants, or the same IR values."""
    if left is right:
        return True
    if isinstance(left, constexpr) and isinstance(right, constexpr):
        return type(left.value) is type(right.value) and bool(left.value == right.value)
    if isinstance(left, base_value) and isinstance(right, base_value):
        if left.type != right.type:
            return False
        pairs = list(zip(left.flatten(), right.flatten(), strict=True))
        return all(a is b for a, b in pairs) and (bool(pairs) or isinstance(left, tl.tuple))
    return False


def flatten(values: Sequence[Any]) -> list[Any]:
    """The IR handles of several values, one after the other."""
    handles: list[Any] = []
    for value in values:
        handles += value.flatten()
    return handles


def unflatten(types: Sequence[base_type], handles: Sequence[Any]) -> list[Any]:
    """Values of the given types made of the handles, the inverse of `flatten`."""
    values: list[Any] = []
    cursor = 0
    for type_ in types:
        value, cursor = type_.unflatten(handles, cursor)
        values.append(value)
    assert cursor == len(handles), "too many handles"
    return values


def ir_types(types: Sequence[base_type]) -> list[Any]:
    """The IR types that values of these types flatten to."""
    return [t for type_ in types for t in type_.flatten_types()]
