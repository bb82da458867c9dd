"""Tritium: Triton kernels compiled to native code, in pure Python.

    import tritium
    import tritium.language as tl

    @tritium.jit
    def add(x, y, out, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(out + i, tl.load(x + i, i < n) + tl.load(y + i, i < n), i < n)

Public names are imported when they are first asked for, so that `import tritium` costs a few
milliseconds and the parts that a program does not use are never loaded.
"""

from __future__ import annotations

import importlib

from tritium import reference_paths
from tritium.version import __version__ as __version__

reference_paths.extend(__name__, __path__)

TYPE_CHECKING = False  # `typing` takes as long to import as all that a bundle needs
if TYPE_CHECKING:
    from typing import Any

    from tritium import language as language
    from tritium import runtime as runtime
    from tritium import testing as testing
    from tritium import tools as tools
    from tritium.compiler import compile as compile
    from tritium.errors import CompilationError as CompilationError
    from tritium.errors import InterpreterError as InterpreterError
    from tritium.errors import OutOfResources as OutOfResources
    from tritium.errors import TritonError as TritonError
    from tritium.language.builtins.sizes import cdiv as cdiv
    from tritium.language.builtins.sizes import next_power_of_2 as next_power_of_2
    from tritium.language.core import must_use_result as must_use_result
    from tritium.runtime import AsyncCompileMode as AsyncCompileMode
    from tritium.runtime import Config as Config
    from tritium.runtime import FutureKernel as FutureKernel
    from tritium.runtime import JITFunction as JITFunction
    from tritium.runtime import KernelInterface as KernelInterface
    from tritium.runtime import MockTensor as MockTensor
    from tritium.runtime import TensorWrapper as TensorWrapper
    from tritium.runtime import autotune as autotune
    from tritium.runtime import constexpr_function as constexpr_function
    from tritium.runtime import heuristics as heuristics
    from tritium.runtime import reinterpret as reinterpret
    from tritium.runtime import set_allocator as set_allocator
    from tritium.runtime.jit import jit as jit

#: Where each public name lives: the module below `tritium`, and the name in it if that differs.
_HOMES: dict[str, str] = {
    "CompilationError": "errors",
    "InterpreterError": "errors",
    "OutOfResources": "errors",
    "TritonError": "errors",
    "compile": "compiler",
    "AsyncCompileMode": "runtime",
    "Config": "runtime",
    "FutureKernel": "runtime",
    "JITFunction": "runtime",
    "KernelInterface": "runtime",
    "MockTensor": "runtime",
    "TensorWrapper": "runtime",
    "aggregate": "language.values.aggregate:aggregate",
    "autotune": "runtime",
    "cdiv": "language.builtins.sizes",
    "constexpr_function": "runtime",
    "heuristics": "runtime",
    "jit": "runtime.jit",
    "must_use_result": "language.core",
    "next_power_of_2": "language.builtins.sizes",
    "reinterpret": "runtime",
    "set_allocator": "runtime",
}

_SUBMODULES = frozenset(
    {
        *("backends", "compat", "compiler", "errors", "experimental", "ir", "knobs", "language"),
        *("passes", "runtime", "target", "testing", "tools"),
    }
)

__all__ = [
    "CompilationError",
    "Config",
    "InterpreterError",
    "JITFunction",
    "KernelInterface",
    "MockTensor",
    "OutOfResources",
    "TensorWrapper",
    "TritonError",
    "autotune",
    "cdiv",
    "compile",
    "heuristics",
    "jit",
    "language",
    "must_use_result",
    "next_power_of_2",
    "reinterpret",
    "runtime",
    "set_allocator",
    "testing",
    "tools",
]


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return importlib.import_module(f"{__name__}.{name}")
    home = _HOMES.get(name)
    if home is None:
        return reference_paths.attribute(__name__, name)
    path, _, attribute = home.partition(":")
    value = getattr(importlib.import_module(f"{__name__}.{path}"), attribute or name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *_HOMES, *_SUBMODULES, "__version__"})
