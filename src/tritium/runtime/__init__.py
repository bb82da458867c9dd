"""Launching: `jit`, autotuning, the active driver, the caches.

What not every program needs is imported when it is first asked for.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tritium.backends.allocation import set_allocator
from tritium.errors import AutotunerError, InterpreterError, OutOfResources
from tritium.runtime.async_compile import AsyncCompileMode, FutureKernel
from tritium.runtime.driver import driver
from tritium.runtime.jit import (
    JITFunction,
    KernelInterface,
    MockTensor,
    TensorWrapper,
    constexpr_function,
    reinterpret,
)

if TYPE_CHECKING:
    from tritium.runtime.autotuner import Autotuner, Config, Heuristics, autotune, heuristics
    from tritium.runtime.cache import RedisRemoteCacheBackend, RemoteCacheBackend

__all__ = [
    "AsyncCompileMode",
    "Autotuner",
    "AutotunerError",
    "Config",
    "FutureKernel",
    "Heuristics",
    "InterpreterError",
    "JITFunction",
    "KernelInterface",
    "MockTensor",
    "OutOfResources",
    "RedisRemoteCacheBackend",
    "RemoteCacheBackend",
    "TensorWrapper",
    "autotune",
    "constexpr_function",
    "driver",
    "heuristics",
    "reinterpret",
    "set_allocator",
]

_LATER = {
    "Autotuner": "autotuner",
    "Config": "autotuner",
    "Heuristics": "autotuner",
    "autotune": "autotuner",
    "heuristics": "autotuner",
    "RedisRemoteCacheBackend": "cache",
    "RemoteCacheBackend": "cache",
}


def __getattr__(name: str) -> Any:
    home = _LATER.get(name)
    if home is None:
        # Programs reach these as attributes, without an import of their own.
        if name in ("_allocation", "autotuner", "build", "cache", "errors"):
            return importlib.import_module(f"{__name__}.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value
