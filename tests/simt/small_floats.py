"""Conversions to 16-bit floats, under the names by which LLVM calls them where the processor has no
instruction: `__truncsfbf2` rounds a float to bfloat."""

from __future__ import annotations

from tritium.codegen.llvm.vmath import convert
from tritium.codegen.llvm.writer import Function, Module

_TYPES = {"sf": ("float", "fp32"), "df": ("double", "fp64"), "hf": ("half", "fp16"),
          "bf": ("bfloat", "bf16")}  # fmt: skip
_CONVERSIONS = {
    "__truncsfbf2": ("sf", "bf"), "__truncdfbf2": ("df", "bf"), "__truncdfhf2": ("df", "hf"),
}  # fmt: skip
NAMES = tuple(_CONVERSIONS)


def small_floats_ir() -> str:
    """The LLVM IR of the functions: integer arithmetic, which calls none of them."""
    module = Module()
    for name, (source, target) in _CONVERSIONS.items():
        (kind, source_name), (result, target_name) = _TYPES[source], _TYPES[target]
        f = Function(module, name, [(kind, "x", "")], result)
        bits = convert.fp(
            f, f.arguments[0], source_name, target_name, features=frozenset(), bits=True
        )
        f.ret(f.cast("bitcast", bits, result))
    return module.text()
