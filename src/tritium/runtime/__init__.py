"""Launching: `jit`, autotuning, the active driver, the caches.

What not every program needs is imported when it is first asked for.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tritium import reference_paths
from tritium.errors import AutotunerError, InterpreterError, OutOfResources
from tritium.launch.allocation import set_allocator
from tritium.runtime.driver import driver
from tritium.runtime.jit import (
    JITFunction,
    KernelInterface,
    MockTensor,
    TensorWrapper,
    constexpr_function,
    reinterpret,
)
from tritium.runtime.workers.async_compile import AsyncCompileMode, FutureKernel

if TYPE_CHECKING:
    from tritium.cache.base import RemoteCacheBackend
    from tritium.cache.remote import RedisRemoteCacheBackend
    from tritium.runtime.autotuning.autotuner import Autotuner, autotune
    from tritium.runtime.autotuning.configs import Config
    from tritium.runtime.autotuning.heuristics import Heuristics, heuristics

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

reference_paths.extend(__name__, __path__)

_LATER = {
    "Autotuner": "runtime.autotuning.autotuner",
    "Config": "runtime.autotuning.configs",
    "Heuristics": "runtime.autotuning.heuristics",
    "autotune": "runtime.autotuning.autotuner",
    "heuristics": "runtime.autotuning.heuristics",
    "RedisRemoteCacheBackend": "cache.remote",
    "RemoteCacheBackend": "cache.base",
}


def __getattr__(name: str) -> Any:
    home = _LATER.get(name)
    if home is None:
        return reference_paths.attribute(__name__, name)
    value = getattr(importlib.import_module(f"tritium.{home}"), name)
    globals()[name] = value
    return value
