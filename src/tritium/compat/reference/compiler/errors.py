"""The reference's path of the compiler's errors."""

from tritium.errors import (
    CompilationError,
    CompileTimeAssertionFailure,
    TritonError,
    UnsupportedLanguageConstruct,
)

__all__ = [
    "CompilationError",
    "CompileTimeAssertionFailure",
    "TritonError",
    "UnsupportedLanguageConstruct",
]
