"""Language values as control flow sees them: flattened to IR handles, compared, made dynamic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from tritium import language as tl
from tritium.language.builtins.casts import constant, to_tensor
from tritium.language.values.base import base_type, base_value, is_sequence
from tritium.language.values.constexpr import (
    as_assigned,
    constexpr,
    is_assigned,
    scalar_of,
    unassigned,
    unwrap,
)
from tritium.language.values.tuples import tuple_type, type_of
from tritium.language.values.types import dtype


def wrap(value: Any) -> Any:
    """A plain Python value as the language sees it: numbers, strings, None, dtypes and lists of
    compile-time values become constexprs, tuples and other lists language tuples; language values
    and other objects stay."""
    if isinstance(value, base_value):
        return value
    if value is None or isinstance(value, (bool, int, float, str, base_type)):
        return constexpr(value)
    parts = cast("Sequence[Any]", value)
    if isinstance(parts, list) and not any(map(is_of_language, parts)):
        return constexpr(value)
    if is_sequence(value):
        wrapped = [wrap(v) for v in parts]
        names = getattr(value, "_fields", None)
        return tl.tuple(wrapped, tuple_type(map(type_of, wrapped), names))
    return value


def is_of_language(value: Any) -> bool:
    """True if it is a language value, or a sequence with one somewhere."""
    return any(map(is_of_language, value)) if is_sequence(value) else isinstance(value, base_value)


def assigned(value: Any) -> Any:
    """A value as an assignment to a plain name leaves it: compile-time numbers in it are not weak
    any more (see `AssignedInt`)."""
    value = wrap(value)
    return constexpr(as_assigned(value.value)) if is_number(value) else _members(value, assigned)


def undeclared(value: Any) -> Any:
    """A constant of a parameter that is not declared one: an integer (1, mostly) computes as the
    scalar that it is for other values; a float, constant because the caller made it one, keeps all
    its digits."""
    value = wrap(value)
    if is_number(value):
        return value if isinstance(value.value, float) else assigned(value)
    return _members(value, undeclared)


def _members(value: Any, change: Callable[[Any], Any]) -> Any:
    """A value, changed in each member if it is a tuple that has constants."""
    if isinstance(value, tl.tuple) and any(isinstance(v, constexpr) for v in value.values):
        values = [change(v) for v in value.values]
        return tl.tuple(values, tuple_type(map(type_of, values), value.type.fields))
    return value


TENSOR_ATTRIBUTES = frozenset(
    name for name in dir(tl.tensor) if not name.startswith("_") and not hasattr(constexpr(0), name)
) | {"type"}
"""Attributes that scalars have and Python numbers do not."""


def owner_of(value: Any, attribute: str) -> Any:
    """The object on which `value.attribute` is looked up: for a number that stands for a scalar,
    that scalar where tensors have the attribute; for another compile-time value, what it holds
    where `constexpr` has no such attribute. The type of a tuple is that of its members."""
    if attribute == "type":
        value = _with_scalars(value)
    if not isinstance(value, constexpr):
        return value
    if attribute in TENSOR_ATTRIBUTES and is_assigned(value.value):
        return to_tensor(value)
    if attribute in TENSOR_ATTRIBUTES and attribute != "type" and isinstance(value.value, bool):
        return to_tensor(value)  # whether a truth value was assigned is not known
    return value if attribute == "value" or hasattr(value, attribute) else value.value


def _with_scalars(value: Any) -> Any:
    """A tuple with the scalars that its assigned numbers stand for; other values as they are."""
    if isinstance(value, constexpr) and isinstance(value.value, tuple):
        value = wrap(value.value)
    if isinstance(value, tl.tuple):
        values = [scalar_of(_with_scalars(v)) for v in value.values]
        return tl.tuple(values, tuple_type(map(type_of, values), value.type.fields))
    return value


def declared(value: Any) -> constexpr:
    """A compile-time value as one declared `tl.constexpr`: a number is weak."""
    return constexpr(unassigned(unwrap(value)))


def is_dynamic(value: Any) -> bool:
    """True if any part of the value exists only when the kernel runs."""
    if isinstance(value, constexpr):
        return False
    if is_sequence(value):
        return any(is_dynamic(v) for v in value)
    if isinstance(value, (tl.range, tl.static_range)):
        return any(is_dynamic(v) for v in (value.start, value.end, value.step))
    if isinstance(value, tl.condition):
        return is_dynamic(value.condition)
    return isinstance(value, base_value) and bool(value.flatten())


def is_number(value: Any) -> bool:
    """True if the value is a compile-time number, which a branch or loop may make dynamic."""
    return isinstance(value, constexpr) and isinstance(value.value, (bool, int, float))


def carriable(value: Any) -> bool:
    """True if a loop can carry the value from one iteration to the next."""
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
    """True if a Python number is of the type's kind, so that it may be taken as of the type."""
    if isinstance(number, bool):
        return type_.is_int1()
    return type_.is_floating() or (type_.is_int() and isinstance(number, int))


def same(left: Any, right: Any) -> bool:
    """True if two values are known to be the same: equal constants, or the same IR values."""
    if left is right:
        return True
    if isinstance(left, constexpr) and isinstance(right, constexpr):
        a, b = unassigned(left.value), unassigned(right.value)
        return type(a) is type(b) and bool(a == b)
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


# What Python's operators mean that no class can define for itself


def identical(left: Any, right: Any) -> bool:
    """`left is right`: for compile-time values whether they are equal and of one type."""
    left, right = unassigned(unwrap(left)), unassigned(unwrap(right))
    if isinstance(left, base_value) or isinstance(right, base_value):
        return left is right
    return left is right or (type(left) is type(right) and bool(left == right))


def contains(container: Any, item: Any) -> bool:
    """`item in container`. Raises `TypeError` unless both are compile-time values."""
    if is_dynamic(item) or is_dynamic(container):
        raise TypeError("`in` is only supported for compile-time values")
    if isinstance(container, (tl.range, tl.static_range)):
        container = range(*(unwrap(v) for v in (container.start, container.end, container.step)))
    return unwrap(item) in unwrap(container)


def scalar_condition(value: Any) -> tl.tensor:
    """A run-time condition as a scalar i1. Raises `TypeError` or `ValueError` where it is none."""
    if not isinstance(value, tl.tensor):
        raise TypeError(f"a condition must be a number or a scalar; got {value!r}")
    if value.type.is_block():
        if unwrap(value.numel) != 1:
            raise ValueError(
                "Boolean value of Tensor with more than one value is ambiguous; reduce it "
                "to a scalar (`tl.max(x)`, say) or use `tl.where`"
            )
        value = value.item()
    return value.to(tl.int1)


def mismatch(name: str, then: base_type, otherwise: base_type) -> str:
    """The error for a variable to which the branches of an `if` give different types."""
    blocks = [t for t in (then, otherwise) if isinstance(t, dtype) and t.is_block()]
    alike = len(blocks) == 2 and len({(t.scalar, tuple(t.shape)) for t in blocks}) == 1
    change = "`convert_layout` one of them" if alike else "cast one of them with `.to(...)`"
    return (
        f"Mismatched type for {name} between then block ({then}) and else block "
        f"({otherwise}); {change}"
    )


def unpacked(value: Any, count: int, star: int | None) -> list[Any]:
    """The values for `count` targets of an assignment, of which the one at `star` (if any) takes
    what the others leave, as a tuple. Raises `TypeError` where their number is wrong."""
    value = value.value if isinstance(value, constexpr) else value
    if not isinstance(value, tl.tuple) and not is_sequence(value):
        raise TypeError(f"cannot unpack non-iterable value {value!r}; a tuple is required")
    values = [wrap(v) for v in value]
    wanted = count if star is None else count - 1
    if len(values) < wanted:
        least = "" if star is None else "at least "
        raise TypeError(
            f"not enough values to unpack (expected {least}{wanted}, got {len(values)})"
        )
    if star is None and len(values) > wanted:
        raise TypeError(f"too many values to unpack (expected {wanted}, got {len(values)})")
    if star is not None:
        after = count - star - 1
        rest = len(values) - after
        values = [*values[:star], tl.tuple(values[star:rest]), *values[rest:]]
    return values


def spread(value: Any) -> list[Any]:
    """The values that `*value` stands for in a display or call. Raises `TypeError` for what is no
    tuple."""
    value = value.value if isinstance(value, constexpr) else value
    if not isinstance(value, tl.tuple) and not is_sequence(value):
        raise TypeError(f"only a tuple can be unpacked with `*`; got {value!r}")
    return [wrap(v) for v in value]


def items_of(value: Any) -> list[Any]:
    """The items of a comprehension's iterable. Raises `TypeError` for what is none."""
    value = value.value if isinstance(value, constexpr) else value
    if isinstance(value, (tl.range, tl.static_range)):
        bounds = [unwrap(v) for v in (value.start, value.end, value.step)]
        if all(isinstance(b, int) for b in bounds):
            return [constexpr(i) for i in range(*bounds)]
    elif isinstance(value, tl.tuple) or is_sequence(value):
        return [wrap(v) for v in value]
    raise TypeError("a comprehension can only run over a tuple or a constant range")


def check_loop(iterator: Any) -> None:
    """Raise `TypeError` for what no `for` runs over."""
    if isinstance(iterator, tl.static_range):
        bounds = [unwrap(v) for v in (iterator.start, iterator.end, iterator.step)]
        if not all(isinstance(b, int) for b in bounds):
            raise TypeError(f"the bounds of `static_range` must be compile-time ints; got {bounds}")
    elif not isinstance(iterator, tl.range):
        raise TypeError(
            f"Only `range` and `static_range` iterators are currently supported; got {iterator!r}"
        )


def formatted(value: Any, conversion: str, spec: str) -> str:
    """One part of an f-string. Raises `TypeError` for a value known only at run time."""
    if is_dynamic(value):
        raise TypeError(
            "an f-string can only contain compile-time values; "
            "use `tl.device_print` for values known at run time"
        )
    value = unwrap(value)
    convert: Any = {"s": str, "r": repr, "a": ascii}.get(conversion)
    return format(value if convert is None else convert(value), spec)
