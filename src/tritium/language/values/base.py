"""The base class of kernel language values: a type, and a flat list of IR handles.

A tensor has one handle, a tuple those of its members, a compile-time constant none. The frontend
carries structured values through branches, loops and calls by flattening them and putting them
together again: `type.unflatten(value.flatten(), 0) == (value, len(handles))`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Protocol, TypeVar

from tritium.ir.types import Type

F = TypeVar("F", bound=Callable[..., Any])

BUILTIN_MARK = "__tritium_builtin__"
REFERENCE_MARK = "__triton_builtin__"
"""The attribute that programs set on their own functions to be called with language values."""
_DEFINED_IN = "__tritium_module__"
"""The attribute that keeps the name of a function's module once `__module__` is another."""


class Handle(Protocol):
    """The handle of a `tl.tensor`: an SSA value, or an evaluated array with its type."""

    @property
    def type(self) -> Type: ...


class base_type:
    """The type of a language value. Equal types have equal `mangle()`."""

    def flatten_types(self) -> list[Type]:
        """The IR types of the handles of a value of this type."""
        raise NotImplementedError(f"{type(self).__name__}.flatten_types")

    def unflatten(self, handles: Sequence[Handle], cursor: int) -> tuple[Any, int]:
        """A value of this type from `handles[cursor:]`, and the position after it."""
        raise NotImplementedError(f"{type(self).__name__}.unflatten")

    def carries(self, other: object) -> bool:
        """True if a loop that begins with a value of this type may go on with one of the other."""
        return self == other

    def mangle(self) -> str:
        """A name for the type that may be part of a symbol."""
        raise NotImplementedError(f"{type(self).__name__}.mangle")


class base_value:
    """A value in a kernel. `type` (a `base_type`) says what `flatten` yields; `remedy`, for values
    that stand for a block without being one, how a program gets that."""

    type: Any
    remedy: ClassVar[str] = ""

    def flatten(self) -> list[Handle]:
        """The IR handles that make up the value."""
        raise NotImplementedError(f"{type(self).__name__}.flatten")


def class_of(value: object) -> Any:
    """`type(value)`, for code that goes on to call it."""
    return type(value)


def is_sequence(value: object) -> bool:
    """True if it is a Python tuple or list."""
    return isinstance(value, (tuple, list))


def as_tuple(value: Any) -> tuple[Any, ...]:
    """The members of a tuple or list; anything else as the only member."""
    return tuple(value) if is_sequence(value) else (value,)


def mark_builtin(fn: F) -> F:
    """Mark a Python function as one that kernels may call with language values."""
    setattr(fn, BUILTIN_MARK, True)
    return fn


def is_builtin(fn: object) -> bool:
    """True if kernels call `fn` itself, at compile time, with language values as arguments."""
    return bool(getattr(fn, BUILTIN_MARK, False) or getattr(fn, REFERENCE_MARK, False))


def module_of(value: object) -> str:
    """The name of the module that defines a function, type or object; "" if it tells none.

    `__module__` of a function of the language may be the alias's name: see `rename_module`.
    """
    return getattr(value, _DEFINED_IN, None) or getattr(value, "__module__", None) or ""


def rename_module(fn: object, name: str) -> None:
    """Let `fn.__module__` be another name of its module, which `module_of` does not follow."""
    setattr(fn, _DEFINED_IN, module_of(fn))
    fn.__module__ = name
