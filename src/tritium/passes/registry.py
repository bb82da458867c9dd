"""Passes by name, and pipelines written as text."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from tritium.errors import TritonError
from tritium.passes.base import Pass, PassManager

_registered: dict[str, type[Pass]] = {}
"""The passes of backends by name."""


class PipelineError(TritonError, LookupError):
    """A pipeline's text names no known pass or option, or cannot be read."""


@cache
def _own() -> Mapping[str, type[Pass]]:
    """The passes of this package by name. Few processes ask for passes by name, and those that
    compile for CPUs load none over ttgir."""
    from tritium.passes import ttgir, ttir

    return {cls.name: cls for cls in (*ttir.PASSES, *ttgir.PASSES)}


def available() -> Mapping[str, type[Pass]]:
    """All passes by name."""
    own = _own()
    for cls in _registered.values():
        _check_name(cls, own.get(cls.name, cls))
    return {**own, **_registered}


def _check_name(cls: type[Pass], known: type[Pass]) -> None:
    if known.__qualname__ != cls.__qualname__:
        raise ValueError(f"two passes are called {cls.name!r}: {known} and {cls}")


def register(cls: type[Pass]) -> type[Pass]:
    """Add a pass (of a backend, say) under its name; usable as a class decorator."""
    _check_name(cls, _registered.setdefault(cls.name, cls))
    return cls


def get(name: str) -> type[Pass]:
    """The pass of that name. Raises `PipelineError` with the known names if there is none."""
    try:
        return available()[name]
    except KeyError:
        known = ", ".join(sorted(available()))
        raise PipelineError(f"no pass is called {name!r}; there are {known}") from None


_ITEM = re.compile(r"\s*([\w.-]+)\s*(?:\{([^}]*)\})?\s*(,|$)")


def parse_pipeline(text: str) -> list[Pass]:
    """The passes of `canonicalize,cse,unroll{factor=4}`. Raises `PipelineError`."""
    passes: list[Pass] = []
    position = 0
    while text[position:].strip():
        match = _ITEM.match(text, position)
        if match is None:
            raise PipelineError(
                f"cannot read the pipeline {text!r} at {text[position:]!r}; "
                "expected name{option=value ...}, name, ..."
            )
        cls = get(match[1])
        passes.append(cls(**_options(cls, match[2] or "")))
        position = match.end()
    return passes


def _options(cls: type[Pass], text: str) -> dict[str, Any]:
    known = {f.name: f for f in fields(cls)}
    options: dict[str, Any] = {}
    for item in text.replace(",", " ").split():
        name, equals, value = item.partition("=")
        name = name.replace("-", "_")
        if name not in known:
            allowed = ", ".join(known) or "none"
            raise PipelineError(f"pass {cls.name} has no option {name!r}; it has: {allowed}")
        options[name] = _convert(cls, name, known[name].default, value if equals else "true")
    return options


def _convert(cls: type[Pass], name: str, default: object, value: str) -> Any:
    words = {"true": True, "1": True, "false": False, "0": False}
    try:
        if isinstance(default, bool):
            return words[value]
        return int(value) if isinstance(default, int) else value
    except (KeyError, ValueError):
        kind = "true or false" if isinstance(default, bool) else "an integer"
        raise PipelineError(
            f"pass {cls.name}: option {name} is {value!r}; it must be {kind}"
        ) from None


def run_pipeline(
    module: ModuleOp,
    text: str,
    *,
    verify_each: bool = True,
    print_after: Callable[[Pass, ModuleOp], None] | None = None,
    print_before: Callable[[Pass, ModuleOp], None] | None = None,
) -> list[tuple[str, float]]:
    """Run the pipeline `text` over `module`, in place.

    Args:
        verify_each: verify after each pass.
        print_after: called with each pass and the module after it ran.
        print_before: called likewise before it runs.

    Returns: (pass name, seconds) of each pass.

    Raises:
        PipelineError: before anything runs, for a bad pipeline.
        PassError: a pass failed.
    """
    manager = PassManager(parse_pipeline(text), verify_each, print_before, print_after)
    manager.run(module)
    return manager.timings
