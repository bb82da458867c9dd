"""The reference's path of the compiler's parts: `triton.compiler.compiler`."""

from tritium.backends.base import make_backend
from tritium.compiler.compile import compile
from tritium.compiler.kernel import CompiledKernel, LazyDict
from tritium.compiler.sources import ASTSource, IRSource
from tritium.target import GPUTarget

__all__ = [
    "ASTSource",
    "CompiledKernel",
    "GPUTarget",
    "IRSource",
    "LazyDict",
    "compile",
    "make_backend",
]
