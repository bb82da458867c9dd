"""Structs: classes whose instances are values in kernels.

@tl.core._aggregate
class Tile:
    data: tl.tensor
    size: tl.constexpr

    def __init__(self, data, size):
        self.data = data
        self.size = size

    @triton.jit
    def doubled(self):
        return Tile(self.data * 2, self.size)
"""

from __future__ import annotations

import builtins
import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

from tritium.ir.types import Type
from tritium.language.jit.function import JITCallable
from tritium.language.values.base import Handle, base_type, base_value, class_of, mark_builtin
from tritium.language.values.constexpr import constexpr, scalar_of, unwrap
from tritium.language.values.tuples import tuple, type_of, wrap

C = TypeVar("C", bound="builtins.type[object]")
_BEGUN = "_begun"
"""The attribute that an object has while its `__init__` runs."""


class aggregate_type(base_type):
    """The type of an aggregate: its class, and the types of its fields."""

    def __init__(self, cls: builtins.type[Any], fields: Sequence[builtins.tuple[str, base_type]]):
        self.cls = cls
        self.fields = builtins.tuple(fields)

    def __eq__(self, other: object) -> bool:
        other = unwrap(other)
        return (
            isinstance(other, aggregate_type)
            and self.cls is other.cls
            and self.fields == other.fields
        )

    def __hash__(self) -> int:
        return hash((self.cls, self.fields))

    def __repr__(self) -> str:
        return f"{self.cls.__name__}<{', '.join(f'{n}: {t}' for n, t in self.fields)}>"

    def carries(self, other: object) -> bool:
        """True also where fields have other types of the same values: a product in flight is a
        block after it is waited for."""
        if not isinstance(other, aggregate_type) or self.cls is not other.cls:
            return False
        pairs = zip((t for _, t in self.fields), (t for _, t in other.fields), strict=True)
        return all(a == b or (a.flatten_types() and a.flatten_types() == b.flatten_types())
                   for a, b in pairs)  # fmt: skip

    def mangle(self) -> str:
        name = f"{self.cls.__module__}.{self.cls.__qualname__}"
        return f"{name}<{', '.join(t.mangle() for _, t in self.fields)}>"

    def flatten_types(self) -> list[Type]:
        return [ir for _, t in self.fields for ir in t.flatten_types()]

    def unflatten(self, handles: Sequence[Handle], cursor: int) -> builtins.tuple[Any, int]:
        value = object.__new__(self.cls)
        for name, type in self.fields:
            member, cursor = type.unflatten(handles, cursor)
            object.__setattr__(value, name, member)
        return value, cursor


class _BoundMethod:
    """A method that is written in the kernel language, with its object."""

    def __init__(self, function: JITCallable, owner: object):
        self.__self__ = owner
        self.__func__ = function
        self.must_use_result = function.must_use_result
        mark_builtin(self)  # pyright: ignore[reportArgumentType]

    def __call__(self, *args: object, **kwargs: object) -> Any:
        return self.__func__(self.__self__, *args, **kwargs)


def _check(cls: builtins.type[Any], name: str, value: Any, annotation: Any) -> Any:
    """The value of a field as it is stored. Raises `TypeError` for a wrong type."""
    if annotation is constexpr and not isinstance(value, base_value):
        return constexpr(value)
    value = wrap(value)
    if inspect.isclass(annotation) and annotation is not constexpr:
        value = scalar_of(value)
    if annotation is constexpr:
        fits = not value.flatten()
    elif isinstance(annotation, base_type):
        fits = value.type == annotation
    elif inspect.isclass(annotation):
        fits = isinstance(value, annotation)
    else:
        fits = True
    if not fits:
        wanted = getattr(annotation, "__name__", annotation)
        raise TypeError(
            f"Expected {wanted} for attribute '{name}' of {cls.__name__}, got "
            f"{type(value).__name__}"
        )
    return value


def aggregate(cls: C) -> C:
    """Decorator: `tl.core._aggregate` of objects whose fields cannot be assigned once they are
    made; `aggregate_replace` makes changed ones."""
    return cast("C", _aggregate(cls, frozen=True))


def _aggregate(cls: builtins.type[Any], frozen: bool = False) -> builtins.type[Any]:
    """Decorator: makes a class with annotated fields a value type of the kernel language.

    Annotations are `tl.tensor`, `tl.constexpr`, `tl.tuple`, a language type, or another aggregate.
    `__init__` is plain Python and must set every field. A class without one, or that adds fields to
    those that its bases' `__init__` sets, is made from its fields, inherited ones first, in order
    or by name; a value in the class is a field's default. Methods may be plain or `@triton.jit`,
    and may come from base classes. A jitted function of the class is called through an object, or
    through the class: `Tile.make(n)`.

    Raises `TypeError` for a jitted `__init__`, a field of the wrong type or arguments that do not
    fit the fields, `AttributeError` for a field that `__init__` leaves out.
    """
    annotations = _annotations(cls)
    members = _members(cls)
    initialise: Any = _initialiser(cls, members, annotations)
    if isinstance(initialise, JITCallable):
        raise TypeError(f"{cls.__name__}.__init__ cannot be a @triton.jit function")

    aggregate_value: Any = _value_class(cls, annotations, members, initialise, frozen)
    for name, member in members.items():
        if isinstance(member, JITCallable):
            setattr(aggregate_value, name, _Method(member))
            continue
        if isinstance(member, (staticmethod, classmethod)):
            # Called as it is, to make an object of tensors, say.
            mark_builtin(cast("Any", member).__func__)
        if name in vars(cls) and not name.startswith("__"):
            setattr(aggregate_value, name, member)  # where programs assign it anew
    aggregate_value.__name__ = cls.__name__
    aggregate_value.__qualname__ = cls.__qualname__
    aggregate_value.__module__ = cls.__module__
    return aggregate_value


def _value_class(
    cls: builtins.type[Any], annotations: Mapping[str, object], members: Mapping[str, object],
    initialise: Callable[..., None], frozen: bool,
) -> builtins.type[object]:  # fmt: skip
    """A subclass of `cls` whose objects are values of the kernel language, with fields by name."""

    class aggregate_value(cls, base_value):
        __doc__ = cls.__doc__
        __aggregate_fields__ = annotations
        __aggregate_members__ = members

        def __init__(self, *args: object, **kwargs: object):
            outermost = _BEGUN not in self.__dict__  # one of a base class may be called within
            object.__setattr__(self, _BEGUN, True)
            initialise(self, *args, **kwargs)
            if outermost:
                object.__delattr__(self, _BEGUN)
            for name in annotations:
                if name not in self.__dict__:
                    raise AttributeError(
                        f"constructor for {cls.__name__} did not initialize attribute '{name}'"
                    )

        def __setattr__(self, name: str, value: object) -> None:
            if name not in annotations:
                raise AttributeError(f"{cls.__name__} has no field '{name}'")
            if frozen and _BEGUN not in self.__dict__:
                raise AttributeError(
                    f"cannot assign to field '{name}' on immutable aggregate {cls.__name__}; "
                    "aggregate_replace makes a changed one"
                )
            object.__setattr__(self, name, _check(cls, name, value, annotations[name]))

        @property
        def type(self) -> aggregate_type:  # pyright: ignore[reportIncompatibleVariableOverride]
            fields = [(n, type_of(getattr(self, n))) for n in annotations]
            return aggregate_type(builtins.type(self), fields)

        def flatten(self) -> list[Handle]:
            return [h for n in annotations for h in getattr(self, n).flatten()]

        def _fork(self, copies: dict[int, Any]) -> Any:
            """A copy whose fields can be assigned without changing this one."""
            copy = copies.get(id(self))
            if copy is None:
                copy = copies[id(self)] = object.__new__(builtins.type(self))
                copy.__dict__.update({n: fork(v, copies) for n, v in self.__dict__.items()})
            return copy

    return aggregate_value


def _initialiser(
    cls: builtins.type[Any], members: dict[str, Any], annotations: dict[str, Any]
) -> Callable[..., None]:
    """The `__init__` of the class or a base, or one that takes the fields."""
    for base in reversed(_bases(cls)):
        own = vars(base).get("__aggregate_members__", vars(base))
        if "__init__" in own:
            return members["__init__"]
        if vars(base).get("__annotations__"):
            break  # of fields that no `__init__` further up sets
    defaults = {name: members[name] for name in annotations if name in members}
    return _from_fields(cls.__name__, list(annotations), defaults)


def _from_fields(cls: str, names: Sequence[str], defaults: dict[str, Any]) -> Callable[..., None]:
    """An `__init__` that takes fields in order or by name."""

    def initialise(self: object, *args: object, **kwargs: object) -> None:
        if len(args) > len(names):
            listed = ", ".join(names)
            raise TypeError(f"{cls} takes {len(names)} values ({listed}); got {len(args)}")
        given = dict(zip(names, args, strict=False))
        for name, value in kwargs.items():
            if name not in names:
                raise TypeError(f"{cls} has no field '{name}'; its fields are {', '.join(names)}")
            if name in given:
                raise TypeError(f"{cls} got two values for its field '{name}'")
            given[name] = value
        missing = [name for name in names if name not in given and name not in defaults]
        if missing:
            raise TypeError(f"{cls} needs values for its fields {', '.join(missing)}")
        for name in names:
            setattr(self, name, given[name] if name in given else defaults[name])

    return initialise


def aggregate_replace(instance: object, **changes: object) -> Any:
    """A new aggregate of the class of `instance`, made from its fields with some changed.

    Raises `TypeError` for what is no aggregate, and for names that are no fields.
    """
    if not is_mutable(instance):
        raise TypeError(f"aggregate_replace expects an aggregate instance; got {instance!r}")
    cls: Any = class_of(instance)
    names = list(cls.__aggregate_fields__)
    for name in changes:
        if name not in names:
            known = ", ".join(names)
            raise TypeError(f"aggregate_replace: {cls.__name__} has no field '{name}', but {known}")
    return cls(**{**{name: getattr(instance, name) for name in names}, **changes})


mark_builtin(aggregate_replace)


def is_mutable(value: object) -> bool:
    """True if a value is an aggregate, whose fields can be assigned."""
    # A constexpr has the attributes of what it holds, which may be an aggregate's class.
    return isinstance(value, base_value) and hasattr(builtins.type(value), "_fork")


def fork(value: Any, copies: dict[int, Any] | None = None) -> Any:
    """A copy of a value that can be mutated in place, an aggregate or a tuple with one in it;
    others as they are. `copies` are those made so far, by the `id` of what was copied: what is one
    aggregate stays one."""
    copies = {} if copies is None else copies
    if is_mutable(value):
        return value._fork(copies)
    if isinstance(value, tuple):
        members = [fork(v, copies) for v in value.values]
        if any(new is not old for new, old in zip(members, value.values, strict=True)):
            return tuple(members, value.type)
    return value


def aggregates_in(value: object) -> list[Any]:
    """The aggregates that a value is made of."""
    if is_mutable(value):
        return [value, *(a for v in value.__dict__.values() for a in aggregates_in(v))]
    if isinstance(value, tuple):
        return [a for v in value.values for a in aggregates_in(v)]
    return []


class _Method:
    """A function in the kernel language as a member of a class: of an object a bound method, of the
    class the function itself (a factory, or a method called with its object)."""

    def __init__(self, function: JITCallable):
        self.function = function

    def __get__(self, owner: object, cls: object = None) -> Callable[..., Any]:
        return self.function if owner is None else _BoundMethod(self.function, owner)


def _bases(cls: builtins.type[Any]) -> list[builtins.type[Any]]:
    """The classes that an aggregate's members come from, the most general first."""
    return [base for base in reversed(cls.__mro__) if base not in (object, base_value)]


def _members(cls: builtins.type[Any]) -> dict[str, Any]:
    """The definitions of the class and its bases, by name; of aggregates those of the original
    class."""
    members: dict[str, Any] = {}
    for base in _bases(cls):
        members.update(vars(base).get("__aggregate_members__", vars(base)))
    return members


def _annotations(cls: builtins.type[Any]) -> dict[str, Any]:
    """The fields, inherited ones first, and what they must be; text that cannot be resolved stays
    unchecked."""
    fields: dict[str, Any] = {}
    for base in _bases(cls):
        own = vars(base).get("__aggregate_fields__") or vars(base).get("__annotations__", {})
        try:
            hints = typing.get_type_hints(base)
        except Exception:  # an annotation may name what only exists inside a function
            hints = own
        fields.update({name: hints.get(name, own[name]) for name in own})
    return fields
