"""Functions that need an AMD GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tritium.language.decorators import builtin
from tritium.language.emitter import current
from tritium.language.values.constexpr import constexpr

Built = Callable[[], "Callable[..., Any] | None"]
"""Finds what a function does on an AMD GPU; None where it is not built."""


def _call(name: str, instead: str, built: Built, *args: object) -> Any:
    target = current().features.target
    if target is None or target.backend != "hip":
        where = f"the target is {target.backend!r}" if target else "the interpreter has none"
        raise NotImplementedError(f"{name} needs an AMD GPU (target 'hip'); {where}: {instead}")
    function = built()
    if function is None:
        raise NotImplementedError(f"{name} is not built")
    return function(*args)


def only_on_hip(
    name: str, instead: str, arity: int = 0, built: Built = lambda: None
) -> Callable[..., Any]:
    """A function of the language, of so many arguments, for AMD GPUs alone; `instead` names what
    other targets have."""

    def none(_semantic: object = None) -> Any:
        return _call(name, instead, built)

    def one(arg0: object, _semantic: object = None) -> Any:
        return _call(name, instead, built, arg0)

    def two(arg0: object, arg1: object, _semantic: object = None) -> Any:
        return _call(name, instead, built, arg0, arg1)

    def three(arg0: object, arg1: object, arg2: object, _semantic: object = None) -> Any:
        return _call(name, instead, built, arg0, arg1, arg2)

    function = (none, one, two, three)[arity]
    function.__name__ = function.__qualname__ = name.rpartition(".")[2]
    function.__doc__ = f"`{name}`, for AMD GPUs."
    return builtin(function)


def _warps() -> constexpr:
    """The launch's `num_warps`, at compile time."""
    return constexpr(current().features.asked_num_warps())


def _threads() -> constexpr:
    """The threads that run one program, at compile time."""
    features = current().features
    assert features.target is not None
    return constexpr(features.target.warp_size * features.asked_num_warps())


_CUDA_HAS = "NVIDIA GPUs have extra.cuda.{}()"
memrealtime = only_on_hip("hip.memrealtime", _CUDA_HAS.format("globaltimer"))
smid = only_on_hip("hip.smid", _CUDA_HAS.format("smid"))
num_threads = only_on_hip(
    "hip.num_threads", _CUDA_HAS.format("num_threads"), built=lambda: _threads
)
num_warps = only_on_hip("hip.num_warps", _CUDA_HAS.format("num_warps"), built=lambda: _warps)
