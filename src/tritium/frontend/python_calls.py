"""Calls in a kernel of what is no kernel function: the language's own functions, and Python's at
compile time. Compiled and interpreted kernels share them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tritium import language as tl
from tritium.frontend.scope import DEBUGGER
from tritium.frontend.values import is_dynamic, owner_of, wrap
from tritium.language.decorators import hidden_arguments
from tritium.language.jit.function import JITCallable
from tritium.language.values.base import base_value, class_of, is_builtin, is_sequence
from tritium.language.values.constexpr import constexpr, is_assigned, unwrap

_VALUE_BUILTINS = frozenset({len, isinstance, issubclass, hasattr, getattr, type})
"""Python builtins that look at language values themselves, not at what they stand for."""


def call_python(function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Call `function`, which is no kernel function, with language values.

    Returns a language value. Raises `TypeError` for what cannot be called, or not with values
    that are known only when the kernel runs.
    """
    owner = getattr(function, "__self__", None)
    if isinstance(owner, JITCallable):  # `run`, `warmup`
        raise owner.no_launch()
    if function is min or function is max:
        return _least(function, args, kwargs)
    if function is abs and len(args) == 1 and is_dynamic(args[0]):
        return tl.abs(args[0])
    if isinstance(function, tl.dtype):
        return _converted(function, args, kwargs)
    if calls_directly(function):
        return wrap(function(*args, **kwargs, **hidden_arguments(function, kwargs)))
    if not callable(function):
        raise TypeError(f"{function!r} is not callable")
    if getattr(function, "__name__", None) == "set_trace":  # of pdb, or of what stands for it
        raise TypeError(DEBUGGER.format("set_trace"))
    if function in _VALUE_BUILTINS:
        return _look_at(function, args, kwargs)
    if inspect.isclass(function) and hasattr(function, "_fields"):
        return wrap(function(*args, **kwargs))
    if function is tuple or function is list:
        return tl.tuple(_members(args[0]) if args else [])
    if any(is_dynamic(a) for a in (*args, *kwargs.values())):
        name = getattr(function, "__qualname__", repr(function))
        raise TypeError(
            f"the Python function `{name}` cannot be called with values known only at run "
            f"time; {_instead(function)}"
        )
    return wrap(function(*unwrap(list(args)), **unwrap(dict(kwargs))))


def _instead(function: Any) -> str:
    """The advice for a Python function that was called with values known only at run time."""
    if function is int or function is float:
        return f"convert with `.to(tl.{function.__name__}32)`"
    if inspect.isfunction(function):
        return "decorate it with @triton.jit, or use the `tl.` function for it"
    name = getattr(function, "__name__", "")
    if is_builtin(getattr(tl, name, None)) or isinstance(getattr(tl, name, None), JITCallable):
        return f"use `tl.{name}`"
    return "use functions of `tl` or `tl.extra.libdevice`"


def calls_directly(function: Any) -> bool:
    """True if calling it with language values is meant: functions, types and values of the
    language, their methods."""
    if is_builtin(function) or isinstance(getattr(function, "__self__", None), base_value):
        return True
    if inspect.isclass(function):
        return issubclass(function, (base_value, tl.range, tl.static_range, tl.condition))
    return False


def _converted(dtype: tl.dtype, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """`dtype(value)`: a number or tensor as one of the type."""
    if len(args) != 1 or kwargs:
        raise TypeError(f"{dtype!r} converts one value; got {len(args) + len(kwargs)}")
    return tl.cast(args[0], dtype)


def _least(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """`min` and `max`: of numbers at compile time, else the language's elementwise functions."""
    if not any(is_dynamic(a) for a in args):
        numbers = unwrap(list(args))
        if any(isinstance(n, float) and (n != n or str(n) == "-0.0") for n in numbers):
            raise TypeError(
                f"`{function.__name__}` of NaN or -0.0 at compile time depends on the order of the "
                f"values; use tl.{'minimum' if function is min else 'maximum'}"
            )
        return wrap(function(*numbers, **unwrap(dict(kwargs))))
    of_two: Callable[..., Any] = tl.minimum if function is min else tl.maximum
    if len(args) < 2:
        raise TypeError(f"`{of_two.__name__}` of one value: use tl.min or tl.max")
    result = args[0]
    for arg in args[1:]:
        result = of_two(result, arg)
    return result


def _look_at(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    args = [a.value if isinstance(a, constexpr) and i else a for i, a in enumerate(args)]
    if (function is hasattr or function is getattr) and len(args) > 1:
        if not isinstance(args[1], str):
            raise TypeError(f"{function.__name__}: {args[1]!r} is no name of an attribute")
        args[0] = owner_of(args[0], args[1])
    if function is isinstance:
        return constexpr(_is_instance(args[0], args[1]))
    return wrap(function(*args, **unwrap(dict(kwargs))))


def _is_instance(value: Any, classes: Any) -> bool:
    """`isinstance` in a kernel: a compile-time value is what it stands for, and a number that was
    assigned to a name a tensor, as in the reference; nothing is a `constexpr`."""
    if is_sequence(classes) or isinstance(classes, tl.tuple):
        return any(_is_instance(value, c) for c in classes)
    classes = unwrap(classes)
    if not isinstance(value, constexpr):
        return isinstance(value, classes)
    if is_assigned(value.value):
        members = getattr(classes, "__args__", (classes,))  # of a union
        return any(issubclass(tl.tensor, c) for c in members if inspect.isclass(c))
    return isinstance(value.value, classes)


def _members(value: Any) -> list[Any]:
    value = value.value if isinstance(value, constexpr) else value
    if isinstance(value, tl.range):
        value = range(*(unwrap(v) for v in (value.start, value.end, value.step)))
    if isinstance(value, tl.tuple):
        return list(value)
    if isinstance(value, base_value) or not hasattr(class_of(value), "__iter__"):
        raise TypeError(f"{value!r} cannot be made into a tuple")
    members: list[Any] = list(value)
    return [wrap(v) for v in members]
