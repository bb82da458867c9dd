"""Names that programs import for other generations of GPUs, so that they can be imported; using one
raises `NotImplementedError` with the name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tritium.language.values.base import mark_builtin


def not_built(module: str, classes: str, functions: str) -> Callable[[str], Any]:
    """The `__getattr__` of a module that has these names (separated by spaces)."""
    place = module.partition(".experimental.")[2]

    def refuse(name: str) -> Callable[..., Any]:
        def refused(*args: Any, **kwargs: Any) -> Any:
            raise NotImplementedError(f"{place}.{name} is not built")

        refused.__name__ = name
        return refused

    found = {name: type(name, (), {"__init__": refuse(name)}) for name in classes.split()}
    found |= {name: mark_builtin(refuse(name)) for name in functions.split()}

    def attribute(name: str) -> Any:
        if name not in found:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        return found[name]

    return attribute
