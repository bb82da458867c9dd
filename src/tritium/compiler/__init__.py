"""Compilation: sources, stages, the compiled kernel. `compile` is the entry point."""

import importlib
from types import ModuleType

from tritium.backends.base import make_backend
from tritium.compiler.compile import compile
from tritium.compiler.kernel import CompiledKernel, LazyDict
from tritium.compiler.key import get_cache_key
from tritium.compiler.sources import ASTSource, IRSource
from tritium.errors import CompilationError

__all__ = [
    "ASTSource",
    "CompilationError",
    "CompiledKernel",
    "IRSource",
    "LazyDict",
    "compile",
    "get_cache_key",
    "make_backend",
]


def __getattr__(name: str) -> ModuleType:
    # Programs reach these as attributes, without an import of their own.
    if name in ("code_generator", "compiler", "errors"):
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
