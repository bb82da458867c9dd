"""Launching: `jit`, autotuning, the active driver, the caches."""

from tritium.errors import AutotunerError, InterpreterError, OutOfResources
from tritium.runtime.allocation import set_allocator
from tritium.runtime.async_compile import AsyncCompileMode, FutureKernel
from tritium.runtime.autotuner import Autotuner, Config, Heuristics, autotune, heuristics
from tritium.runtime.cache import RedisRemoteCacheBackend, RemoteCacheBackend
from tritium.runtime.driver import driver
from tritium.runtime.jit import (
    JITFunction,
    KernelInterface,
    MockTensor,
    TensorWrapper,
    constexpr_function,
    jit,
    reinterpret,
)

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
    "jit",
    "reinterpret",
    "set_allocator",
]
