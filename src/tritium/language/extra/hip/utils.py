"""Functions that need an AMD GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tritium.language.builtins.build import build
from tritium.language.decorators import builtin
from tritium.language.emitter import current
from tritium.language.values.constexpr import constexpr
from tritium.language.values.tensor import tensor
from tritium.language.values.types import dtype, int32, int64
from tritium.ops import ttir

Built = Callable[[], Callable[..., Any]]
"""Finds what a function does on an AMD GPU."""


def _call(name: str, instead: str, built: Built, interpreted: bool, *args: object) -> Any:
    target = current().features.target
    if not interpreted if target is None else target.backend != "hip":
        where = f"the target is {target.backend!r}" if target else "the interpreter has none"
        raise NotImplementedError(f"{name} needs an AMD GPU (target 'hip'); {where}: {instead}")
    return built()(*args)


def only_on_hip(
    name: str, instead: str, arity: int = 0, *, built: Built, interpreted: bool = False
) -> Callable[..., Any]:
    """A function of the language, of `arity` arguments, for AMD GPUs alone, and the interpreter if
    it can be `interpreted`; `instead` names what other targets have."""

    def none(_semantic: object = None) -> Any:
        return _call(name, instead, built, interpreted)

    def one(arg0: object, _semantic: object = None) -> Any:
        return _call(name, instead, built, interpreted, arg0)

    def two(arg0: object, arg1: object, _semantic: object = None) -> Any:
        return _call(name, instead, built, interpreted, arg0, arg1)

    def three(arg0: object, arg1: object, arg2: object, _semantic: object = None) -> Any:
        return _call(name, instead, built, interpreted, arg0, arg1, arg2)

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


def _register(symbol: str, type: dtype) -> Callable[[], tensor]:
    """A property that the processor reports of itself, a scalar."""
    return lambda: build(
        ttir.ExternElementwiseOp, [], like=type, result=type.to_ir(), libname="hip", libpath="",
        symbol=symbol, pure=False,
    )  # fmt: skip


_CUDA_HAS = "NVIDIA GPUs have extra.cuda.{}()"
memrealtime = only_on_hip(
    "hip.memrealtime", _CUDA_HAS.format("globaltimer"),
    built=lambda: _register("memrealtime", int64),
)  # fmt: skip
smid = only_on_hip("hip.smid", _CUDA_HAS.format("smid"), built=lambda: _register("smid", int32))
num_threads = only_on_hip(
    "hip.num_threads", _CUDA_HAS.format("num_threads"), built=lambda: _threads
)
num_warps = only_on_hip("hip.num_warps", _CUDA_HAS.format("num_warps"), built=lambda: _warps)
