"""The reference's path of the compiler's parts: `triton.compiler.compiler`."""

from tritium.backends.active import driver
from tritium.backends.base import make_backend
from tritium.cache import get_cache_manager
from tritium.compiler.compile import compile
from tritium.compiler.kernel import CompiledKernel, LazyDict
from tritium.compiler.key import get_cache_key
from tritium.compiler.sources import ASTSource, IRSource
from tritium.target import GPUTarget

__all__ = [
    "ASTSource",
    "CompiledKernel",
    "GPUTarget",
    "IRSource",
    "LazyDict",
    "compile",
    "driver",
    "get_cache_key",
    "get_cache_manager",
    "make_backend",
]
