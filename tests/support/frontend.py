"""Compile a kernel to ttir and run it by the reference semantics."""

from __future__ import annotations

from typing import Any

import numpy as np

from tritium.frontend.module import compile_function
from tritium.frontend.visitor import FrontendOptions
from tritium.ir.printing import print_module
from tritium.language.emitter import TargetFeatures
from tritium.language.jit.function import JITCallable
from tritium.ops.evaluation import Evaluator
from tritium.ops.memory import Memory
from tritium.runtime.specialize import canonical_dtype, int_type


def signature_of(kernel: JITCallable, args: dict[str, Any]) -> tuple[dict[str, Any], dict]:
    """Types and constants for arguments by name, without value specialization."""
    signature: dict[str, Any] = {}
    constants: dict[tuple[int, ...], Any] = {}
    for param in kernel.params:
        value = args.get(param.name, param.default)
        if param.is_constexpr or value is None:
            signature[param.name] = "constexpr"
            constants[(param.num,)] = value
        elif isinstance(value, np.ndarray):
            signature[param.name] = "*" + canonical_dtype(value.dtype)
        elif isinstance(value, float):
            signature[param.name] = "fp32"
        elif isinstance(value, bool):
            signature[param.name] = "u1"
        else:
            signature[param.name] = int_type(value)
    return signature, constants


def compile_kernel(kernel: JITCallable, debugging: bool = False, **args: Any) -> Any:
    """The verified module of a kernel for these arguments."""
    signature, constants = signature_of(kernel, args)
    module = compile_function(
        kernel, signature, constants, {}, TargetFeatures(), FrontendOptions(debugging=debugging)
    )
    module.verify()
    return module


def text_of(kernel: JITCallable, **args: Any) -> str:
    """The module's text, without locations."""
    return print_module(compile_kernel(kernel, **args), locations=False)


def evaluate(kernel: JITCallable, grid: tuple[int, ...] = (1,), **args: Any) -> None:
    """Run the kernel by the reference semantics; arrays are changed in place."""
    module = compile_kernel(kernel, **args)
    values, ranges = [], []
    for param in kernel.params:
        value = args.get(param.name, param.default)
        if param.is_constexpr or value is None:
            continue
        if isinstance(value, np.ndarray):
            address = value.__array_interface__["data"][0]
            ranges.append((address, value.nbytes))
            values.append(np.uint64(address))
        elif isinstance(value, float):
            values.append(np.float32(value))
        elif isinstance(value, bool):
            values.append(np.bool_(value))
        else:
            values.append(np.int32(value) if int_type(value) == "i32" else np.int64(value))
    Evaluator(module, Memory(ranges)).launch(kernel.__name__, values, grid)
