"""Functions that need an AMD GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tritium.language.decorators import builtin
from tritium.language.emitter import current


def _refused(name: str, instead: str) -> NotImplementedError:
    target = current().features.target
    where = f"the target is {target.backend!r}" if target else "the interpreter has none"
    return NotImplementedError(f"{name} needs an AMD GPU (target 'hip'); {where}: {instead}")


def only_on_hip(name: str, instead: str, arity: int = 0) -> Callable[..., Any]:
    """A function of the language, of so many arguments, that reports that the target is no AMD
    GPU; `instead` names what other targets have."""

    def none(_semantic: object = None) -> Any:
        raise _refused(name, instead)

    def one(arg0: object, _semantic: object = None) -> Any:
        raise _refused(name, instead)

    def two(arg0: object, arg1: object, _semantic: object = None) -> Any:
        raise _refused(name, instead)

    def three(arg0: object, arg1: object, arg2: object, _semantic: object = None) -> Any:
        raise _refused(name, instead)

    function = (none, one, two, three)[arity]
    function.__name__ = function.__qualname__ = name.rpartition(".")[2]
    function.__doc__ = f"`{name}`, for AMD GPUs."
    return builtin(function)


_CUDA_HAS = "NVIDIA GPUs have extra.cuda.{}()"
memrealtime = only_on_hip("hip.memrealtime", _CUDA_HAS.format("globaltimer"))
smid = only_on_hip("hip.smid", _CUDA_HAS.format("smid"))
num_threads = only_on_hip("hip.num_threads", _CUDA_HAS.format("num_threads"))
num_warps = only_on_hip("hip.num_warps", _CUDA_HAS.format("num_warps"))
