"""Compilation: sources, stages, the compiled kernel. `compile` is the entry point."""

from types import ModuleType

from tritium import reference_paths
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

reference_paths.extend(__name__, __path__)


def __getattr__(name: str) -> ModuleType:
    return reference_paths.attribute(__name__, name)
