"""Functions of an external library and inline assembly, applied to each element."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from xdsl.ir import Attribute

from tritium.errors import OpError
from tritium.ir import types as ir
from tritium.ops.base import Op
from tritium.ops.effects import SHARED, Effects, opaque, reads, writes
from tritium.ops.elementwise import check_same_shape
from tritium.ops.fields import bool_attr, i32_attr, string_attr, variadic
from tritium.ops.memory import Context

_OCML = re.compile(r"__ocml_(\w+)_f(32|64)")
"""The names of AMD's library of functions of floats."""


def common_symbol(symbol: str) -> str:
    """The name in libdevice of a function that AMD's library has under another."""
    found = _OCML.fullmatch(symbol)
    return f"__nv_{found[1]}{'f' if found[2] == '32' else ''}" if found else symbol


class ExternElementwiseOp(Op):
    """`symbol` of the library `libname` (at `libpath`, or found by the backend), per element.

    `ExternElementwiseOp.build(arguments, result=type, libname="libdevice", libpath="",
    symbol="__nv_asinf", pure=True)`. `evaluate` knows the symbols of libdevice: what NumPy has is
    defined in `libdevice.py`, the rest by `Context.external`.
    """

    name = "tt.extern_elementwise"
    builders = ("create_extern_elementwise libname libpath symbol arguments result pure",)
    cost = 20
    syntax = "$arguments attrs : functional"
    arguments = variadic()
    libname = string_attr()
    libpath = string_attr()
    symbol = string_attr()
    pure = bool_attr()

    @classmethod
    def infer(cls, arguments: Sequence[ir.Type], *, result: ir.Type, **attrs: Any) -> ir.Type:
        check_same_shape(cls.name, *arguments, result)
        return result

    @property
    def is_elementwise(self) -> bool:
        return self.pure

    def own_effects(self) -> Effects:
        return () if self.pure else (opaque(),)

    def evaluate(self, context: Context, arguments: tuple[Any, ...]) -> Any:
        # Here, since it is large and compiling needs none of it.
        from tritium.ops.ttir.libdevice import definition

        function = definition(common_symbol(self.symbol)) or context.external(self.symbol)
        return np.asarray(function(*arguments)).astype(ir.numpy_dtype(self.result_types[0]))


class AssemblyOp(Op):
    """Base of inline assembly: its text, the constraints of its operands, results first, and
    whether it is `pure`."""

    arguments = variadic()
    asm_string = string_attr()
    constraints = string_attr()
    pure = bool_attr()

    def own_effects(self) -> Effects:
        return () if self.pure else (opaque(),)

    @property
    def operand_codes(self) -> list[str]:
        """The constraints one by one, without the spaces that programs put between them."""
        return [code for part in self.constraints.split(",") if (code := part.strip())]

    def evaluate(self, context: Context, arguments: tuple[Any, ...]) -> Any:
        """The arguments that results are tied to, where there are no instructions."""
        codes = self.operand_codes
        tied = {int(code): i for i, code in enumerate(c for c in codes if c[0] not in "=~")
                if code.isdecimal()}  # fmt: skip
        if not self.asm_string.strip() and sorted(tied) == list(range(len(self.results))):
            found = tuple(arguments[tied[i]] for i in range(len(self.results)))
            return found[0] if len(found) == 1 else found
        raise NotImplementedError(
            "inline assembly has no meaning without the processor that it is for, so it cannot be "
            f"interpreted; run the kernel compiled: {self.asm_string!r}"
        )


def _is_number(type: ir.Type) -> bool:
    """True of the types of numbers and addresses, not of pieces of on-chip memory."""
    element = ir.element_type(type)
    return ir.is_float(element) or ir.is_integer(element) or ir.is_pointer(element)


class ElementwiseInlineAsmOp(AssemblyOp):
    """Target assembly for every element, or for every `packed_element` neighbours at once.

    `ElementwiseInlineAsmOp.build(arguments, result=[types], asm_string=..., constraints=...,
    pure=True, packed_element=1)`.
    """

    name = "tt.elementwise_inline_asm"
    exact = "bits"
    may_wait = True
    cost = 20
    syntax = "$asm_string attrs [$arguments : type(arguments)] -> type(results)"
    packed_element = i32_attr()

    @classmethod
    def infer(
        cls, arguments: Sequence[ir.Type], *, packed_element: int, result: Any, **attrs: Any
    ) -> Sequence[ir.Type]:
        results = (result,) if isinstance(result, Attribute) else tuple(result or ())
        numbers = [a for a in arguments if _is_number(a)]
        if attrs.get("pure") and len(numbers) < len(arguments):
            raise OpError(f"{cls.name}: assembly with memory is not pure")
        shape = check_same_shape(cls.name, *numbers, *results) if results else ()
        if packed_element < 1 or (shape and prod(shape) % packed_element):
            raise OpError(
                f"{cls.name}: packed_element is {packed_element}; "
                f"a divisor of {prod(shape)} elements is required"
            )
        return results

    def own_effects(self) -> Effects:
        if all(_is_number(a.type) for a in self.arguments):
            return super().own_effects()
        return opaque(), reads(SHARED, "arguments"), writes(SHARED, "arguments")

    @property
    def is_elementwise(self) -> bool:
        return self.pure and self.packed_element == 1
