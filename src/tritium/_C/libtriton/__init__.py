"""What programs import from the reference's native library, over our own IR and runtime."""

from __future__ import annotations

import inspect
from typing import Any

from tritium._C.libtriton import ir as ir
from tritium.language.function import KernelParam
from tritium.runtime.specialize import Specializer

__all__ = ["ir", "native_specialize_impl"]


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
