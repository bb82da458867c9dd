"""Decorators for the functions of the language."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

from tritium.language import emitter
from tritium.language.jit.function import JITCallable
from tritium.language.values.base import BUILTIN_MARK, REFERENCE_MARK, mark_builtin
from tritium.language.values.constexpr import unwrap
from tritium.language.values.tensor import tensor

F = TypeVar("F", bound=Callable[..., Any])

# Accepted by name and ignored: functions written against the reference hand these on.
_IGNORED = frozenset({"_semantic", "_builder", "_generator"})


def hidden_arguments(fn: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """The keywords, beside those given, that a program's own builtin (one that `builtin` did not
    make) asks for as functions of the reference's style do."""
    if not hasattr(fn, REFERENCE_MARK) or hasattr(fn, BUILTIN_MARK):
        return {}
    named = set(inspect.signature(fn).parameters) - set(given)
    hidden = {
        "_semantic": emitter.current().semantic() if "_semantic" in named else None,
        "_generator": None,
    }
    return {name: value for name, value in hidden.items() if name in named}


def builtin(fn: F) -> F:
    """A function of the language: only callable in a kernel, its arguments unwrapped from
    constexpr (in tuples and lists too) before the body sees them.

    Raises `ValueError` outside of a kernel.
    """
    named = set(inspect.signature(fn).parameters)
    ignored = _IGNORED - named
    wants_semantic = "_semantic" in named

    @functools.wraps(fn)
    def wrapper(*args: object, **kwargs: object) -> Any:
        current = emitter.current()
        given = {k: unwrap(v) for k, v in kwargs.items() if k not in ignored}
        if wants_semantic and given.get("_semantic") is None:
            given["_semantic"] = current.semantic()
        return fn(*[unwrap(a) for a in args], **given)

    return mark_builtin(wrapper)  # pyright: ignore[reportReturnType]


def tensor_member(fn: F) -> F:
    """Makes a function of the language a method of `tensor`, too: `x.sum(1)` is `sum(x, 1)`."""
    if isinstance(fn, JITCallable):
        source = fn.fn

        @functools.wraps(source)
        def method(*args: object, **kwargs: object) -> Any:
            return fn(*args, **kwargs)

        setattr(tensor, source.__name__, mark_builtin(method))
    else:
        setattr(tensor, fn.__name__, fn)
    return fn  # pyright: ignore[reportReturnType]


def must_use_result(x: Any, s: str | bool = True) -> Any:
    """Decorator: dropping the function's result is an error where a kernel is compiled.

    Args:
        x: the function; or, as in `@must_use_result("why")`, a text to add to the message.
        s: that text, where the function is given directly.
    """
    if isinstance(x, str):
        text = x
        return partial(must_use_result, s=text)
    x.must_use_result = s
    return x


def extern(fn: F) -> F:
    """The name that the reference gives to `builtin` for functions of external libraries."""
    return builtin(fn)
