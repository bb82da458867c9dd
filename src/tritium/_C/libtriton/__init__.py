"""What programs import from the reference's native library, over our own IR and runtime."""

from __future__ import annotations

import inspect
from typing import Any

from tritium import knobs
from tritium._C.libtriton import ir as ir
from tritium._C.libtriton import nvidia as nvidia
from tritium.compiler.key import cache_invalidating_env_vars
from tritium.language.function import KernelParam
from tritium.runtime.specialize import Specializer

__all__ = [
    "get_cache_invalidating_env_vars",
    "getenv",
    "getenv_bool",
    "ir",
    "native_specialize_impl",
    "nvidia",
]

getenv = knobs.getenv
get_cache_invalidating_env_vars = cache_invalidating_env_vars


def getenv_bool(key: str, default: bool) -> bool:
    """Whether an environment variable says yes; `default` if it is not set."""
    value = knobs.getenv(key)
    return default if value is None else value.lower() in knobs.TRUE_WORDS


def native_specialize_impl(
    backend: Any, arg: Any, is_const: bool, specialize_value: bool, align: bool
) -> tuple[Any, Any]:
    """(kernel type, specialization) of a launch argument.

    Args:
        backend: the backend, or its class, that says what integers are specialized for.
        arg: the argument.
        is_const: whether a pointer is only read through.
        specialize_value: whether 1 and multiples of 16 matter.
        align: whether divisibility by 16 does.
    """
    annotation = "const" if is_const else inspect.Parameter.empty
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameter = inspect.Parameter("arg", kind, annotation=annotation)
    return Specializer(KernelParam(0, parameter, not specialize_value, not align), backend)(arg)
