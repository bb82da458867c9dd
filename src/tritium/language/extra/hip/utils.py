"""Functions that need an AMD GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tritium.language.decorators import builtin
from tritium.language.emitter import current


def only_on_hip(name: str, instead: str) -> Callable[..., Any]:
    """A function of the language that reports that the target is no AMD GPU; `instead` names what
    other targets have."""

    @builtin
    def function(*args: Any, _semantic: Any = None) -> Any:
        target = current().features.target
        where = f"the target is {target.backend!r}" if target else "the interpreter has none"
        raise NotImplementedError(f"{name} needs an AMD GPU (target 'hip'); {where}: {instead}")

    function.__name__ = function.__qualname__ = name.rpartition(".")[2]
    function.__doc__ = f"`{name}`, for AMD GPUs."
    return function


memrealtime = only_on_hip("hip.memrealtime", "NVIDIA GPUs have extra.cuda.globaltimer()")
