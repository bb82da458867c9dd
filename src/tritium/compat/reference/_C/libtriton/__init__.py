"""The reference's native library, as far as programs import it, over Tritium's IR and runtime."""

from __future__ import annotations

from tritium import knobs
from tritium.compiler.key import cache_invalidating_env_vars
from tritium.runtime.specialize import native_specialize_impl

from . import interpreter as interpreter
from . import ir as ir
from . import linear_layout as linear_layout
from . import llvm as llvm
from . import nvidia as nvidia
from . import passes as passes

__all__ = [
    "get_cache_invalidating_env_vars",
    "getenv",
    "getenv_bool",
    "interpreter",
    "ir",
    "linear_layout",
    "llvm",
    "native_specialize_impl",
    "nvidia",
    "passes",
]

getenv = knobs.getenv
get_cache_invalidating_env_vars = cache_invalidating_env_vars


def getenv_bool(key: str, default: bool) -> bool:
    """True if an environment variable says yes; `default` if it is not set."""
    value = knobs.getenv(key)
    return default if value is None else value.lower() in knobs.TRUE_WORDS
