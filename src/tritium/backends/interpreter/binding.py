"""Matches the arguments of a call with a function's parameters, with Python's own messages."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from inspect import BoundArguments, Parameter
from typing import Any


def bind(
    name: str, signature: inspect.Signature, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> BoundArguments:
    """Arguments by parameter, defaults filled in. Raises the `TypeError` that Python raises for a
    call of a function of that name (`Signature.bind` words it differently)."""
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(_mismatch(name, signature, args, kwargs) or f"{name}() {error}") from None
    bound.apply_defaults()
    return bound


def _mismatch(
    name: str, signature: inspect.Signature, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> str:
    """Python's error for the same call of a function with the same parameters."""
    empty = Parameter.empty
    parameters = [
        p.replace(annotation=empty, default=empty if p.default is empty else None)
        for p in signature.parameters.values()
    ]
    bare = signature.replace(parameters=parameters, return_annotation=empty)
    scope: dict[str, Any] = {}
    exec(f"def {name}{bare}: pass", scope)
    try:
        scope[name](*args, **kwargs)
    except TypeError as error:
        return str(error)
    return ""
