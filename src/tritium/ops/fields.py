"""Declarations of an op class's operands and attributes.

    class LoadOp(Op):
        name = "tt.load"
        ptr = operand()
        mask = optional()
        cache = enum_attr(CacheModifier, default=CacheModifier.NONE)

Each declaration is a descriptor: `op.ptr` is an SSA value, `op.mask` a value or None, a variadic
operand a tuple of values, `op.cache` a plain Python value. In the IR an attribute is an xDSL
`Attribute` in the op's properties; its codec translates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum
from functools import lru_cache
from typing import Any, Generic, TypeVar, overload

from xdsl.dialects.builtin import (
    ArrayAttr,
    BoolAttr,
    DenseArrayBase,
    FlatSymbolRefAttr,
    IntegerAttr,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
    i32,
)
from xdsl.ir import Attribute, Operation

T = TypeVar("T")
E = TypeVar("E", bound=IntEnum)


@lru_cache(maxsize=4096)
def integer_attr(value: int, type: Any) -> Attribute:
    """An integer attribute; cached, because xDSL takes some 10 µs to make one."""
    return IntegerAttr(value, type)


@lru_cache(maxsize=4096)
def i32_array(values: tuple[int, ...]) -> Attribute:
    """`array<i32: ...>`; cached."""
    return DenseArrayBase.from_list(i32, list(values))


class _Missing:
    def __repr__(self) -> str:
        return "<required>"


MISSING: Any = _Missing()


class OperandField:
    """A declared operand; `kind` is "one", "optional" or "variadic"."""

    def __init__(self, kind: str):
        self.kind = kind
        self.name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, op: None, owner: type) -> OperandField: ...
    @overload
    def __get__(self, op: Operation, owner: type) -> Any: ...
    def __get__(self, op: Operation | None, owner: type) -> Any:
        if op is None:
            return self
        return op.operand_group(self.name)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType]


def operand() -> Any:
    """Exactly one operand."""
    return OperandField("one")


def optional() -> Any:
    """An operand that may be absent."""
    return OperandField("optional")


def variadic() -> Any:
    """Any number of operands."""
    return OperandField("variadic")


class AttrField(Generic[T]):
    """A declared attribute: `encode` and `decode` translate between Python and the IR.

    `words` are the keywords by which a custom syntax spells the values, where it does.
    """

    def __init__(
        self,
        encode: Callable[[T], Attribute],
        decode: Callable[[Any], T],
        default: T = MISSING,
        words: Mapping[str, T] | None = None,
    ):
        self.encode, self.decode, self.default = encode, decode, default
        self.words = words
        self.name = ""
        self.typed = True
        """True if a custom syntax shows the attribute's type (`1 : i32` rather than `1`)."""
        self.joined = False
        """True if values are sets of bits, which a custom syntax spells `valu|salu`."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @property
    def required(self) -> bool:
        return self.default is MISSING

    def get(self, op: Operation) -> T:
        """The Python value of the attribute on `op`, or its default."""
        attribute = op.properties.get(self.name)
        return self.default if attribute is None else self.decode(attribute)

    @overload
    def __get__(self, op: None, owner: type) -> AttrField[T]: ...
    @overload
    def __get__(self, op: Operation, owner: type) -> T: ...
    def __get__(self, op: Operation | None, owner: type) -> AttrField[T] | T:
        return self if op is None else self.get(op)


class _Flag(AttrField[bool]):
    """Present or absent; in custom syntax its own name is the word."""

    def __set_name__(self, owner: type, name: str) -> None:
        super().__set_name__(owner, name)
        self.words = {name: True}


def i32_attr(default: int | None = MISSING) -> Any:
    """A 32-bit integer: `axis = 0 : i32`."""
    return AttrField[Any](lambda v: integer_attr(v, i32), lambda a: a.value.data, default)


def plain_i32_attr(default: int = MISSING) -> Any:
    """A 32-bit integer whose type a custom syntax leaves out: `$count` is `1`."""
    field = i32_attr(default)
    field.typed = False
    return field


def bool_attr(default: bool = MISSING) -> Any:
    """`true` or `false`."""
    return AttrField[bool](BoolAttr.from_bool, lambda a: bool(a.value.data), default)


def unit_attr() -> Any:
    """A flag that is present or absent."""
    return _Flag(lambda v: UnitAttr(), lambda a: True, False)


def string_attr(default: str = MISSING) -> Any:
    """A string."""
    return AttrField[str](StringAttr, lambda a: a.data, default)


def symbol_attr(default: str | None = MISSING) -> Any:
    """The name of a function or a buffer: `@f`."""
    return AttrField[Any](symbol, _symbol_text, default)


@lru_cache(maxsize=4096)
def symbol(name: str) -> Attribute:
    """`@name`; cached."""
    make: Any = FlatSymbolRefAttr
    return make(name)


def _symbol_text(attribute: SymbolRefAttr) -> str:
    return attribute.string_value()


def i32_array_attr(default: tuple[int, ...] = MISSING) -> Any:
    """`array<i32: 1, 0>`, in Python a tuple of ints."""
    return AttrField[tuple[int, ...]](
        lambda v: i32_array(tuple(v)), lambda a: a.get_values(), default
    )


def words_attr() -> Any:
    """Some words, in Python a tuple of them."""
    return AttrField[tuple[str, ...]](
        lambda v: ArrayAttr(map(StringAttr, v)), lambda a: tuple(s.data for s in a.data), ()
    )


def raw_attr(default: Any = MISSING) -> Any:
    """Any attribute, kept as it is in the IR (constants, types, encodings, arrays)."""
    return AttrField[Attribute](lambda v: v, lambda a: a, default)


def enum_attr(
    enum: type[E],
    default: E | None = MISSING,
    integer_type: Any = i32,
    words: Mapping[str, E] | None = None,
) -> Any:
    """An enumeration: an integer in the generic syntax; in custom syntax a word, the member's
    lower-case name unless `words` gives others (`evictionPolicy = evict_last`)."""
    spelled = {member.name.lower(): member for member in enum}
    for word, member in (words or {}).items():
        spelled = {w: m for w, m in spelled.items() if m is not member} | {word: member}
    return AttrField[Any](
        lambda v: integer_attr(int(v), integer_type), lambda a: enum(a.value.data), default, spelled
    )


def mask_attr(bits: Mapping[str, int], default: int = MISSING) -> Any:
    """A set of bits, in Python a 32-bit integer: `valu|salu`."""
    field = AttrField[int](
        lambda v: integer_attr(int(v), i32), lambda a: a.value.data, default, bits
    )
    field.joined = True
    return field


def flags_attr(attribute: Callable[[tuple[str, ...]], Attribute]) -> Any:
    """A set of flags, in Python a tuple of their names; `[flags(x)]` in a syntax string prints
    the word of the field's attribute: `fastmath<nnan, ninf>`."""
    return AttrField[tuple[str, ...]](attribute, lambda a: a.data, ())
