"""Functions of an external library and inline assembly, applied to each element."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import erf, erfc, gamma, lgamma, prod
from typing import Any

import numpy as np
from xdsl.ir import Attribute

from tritium.errors import OpError
from tritium.ir import types as ir
from tritium.ops.arith.integer import unsigned
from tritium.ops.base import Effects, Op
from tritium.ops.elementwise import check_same_shape
from tritium.ops.evaluation import Context
from tritium.ops.fields import bool_attr, i32_attr, string_attr, variadic


def _scalar(function: Callable[[float], float]) -> Callable[[Any], Any]:
    def apply(value: float) -> float:
        try:
            return function(value)
        except (ValueError, OverflowError):
            return float("nan") if value != value or value <= 0 else float("inf")

    return np.frompyfunc(apply, 1, 1)


def _exp10(x: Any) -> Any:
    return 10.0**x


def _reciprocal_cbrt(x: Any) -> Any:
    return 1 / np.cbrt(x)


def _rsqrt(x: Any) -> Any:
    return 1 / np.sqrt(x)


def _round(x: Any) -> Any:
    """To the nearest integer, halves away from zero."""
    whole = np.trunc(x)
    return whole + np.where(np.abs(x - whole) >= 0.5, np.copysign(1.0, x), 0.0)


FLOAT_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "acos": np.arccos, "acosh": np.arccosh, "asin": np.arcsin, "asinh": np.arcsinh,
    "atan": np.arctan, "atan2": np.arctan2, "atanh": np.arctanh, "cbrt": np.cbrt,
    "ceil": np.ceil, "copysign": np.copysign, "cos": np.cos, "cosh": np.cosh,
    "erf": _scalar(erf), "erfc": _scalar(erfc), "exp": np.exp, "exp10": _exp10,
    "exp2": np.exp2, "expm1": np.expm1, "fabs": np.abs, "floor": np.floor, "fmax": np.fmax,
    "fmin": np.fmin, "fmod": np.fmod, "hypot": np.hypot, "ldexp": np.ldexp,
    "lgamma": _scalar(lgamma), "log": np.log, "log10": np.log10, "log1p": np.log1p,
    "log2": np.log2, "nearbyint": np.rint, "pow": np.power, "rcbrt": _reciprocal_cbrt,
    "rint": np.rint, "rsqrt": _rsqrt, "sin": np.sin, "sinh": np.sinh,
    "sqrt": np.sqrt, "tan": np.tan, "tanh": np.tanh, "tgamma": _scalar(gamma),
    "trunc": np.trunc, "round": _round,
}  # fmt: skip
"""libdevice functions by name without `__nv_` and the `f` of the float32 form, on float64."""


def _population(value: Any) -> Any:
    return np.unpackbits(unsigned(value)[..., None].view(np.uint8), axis=-1).sum(-1)


INTEGER_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "__nv_abs": np.abs, "__nv_llabs": np.abs, "__nv_max": np.maximum, "__nv_min": np.minimum,
    "__nv_popc": _population, "__nv_popcll": _population,
}  # fmt: skip


class ExternElementwiseOp(Op):
    """`symbol` of the library `libname` (at `libpath`, or found by the backend), per element.

    `ExternElementwiseOp.build(arguments, result=type, libname="libdevice", libpath="",
    symbol="__nv_asinf", pure=True)`. `evaluate` knows the symbols of `FLOAT_FUNCTIONS` and
    `INTEGER_FUNCTIONS` and computes in float64.
    """

    name = "tt.extern_elementwise"
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

    def memory_effects(self) -> frozenset[str]:
        return Effects.NONE if self.pure else frozenset({Effects.OTHER})

    def evaluate(self, context: Context, arguments: tuple[Any, ...]) -> Any:
        symbol, dtype = self.symbol, ir.numpy_dtype(self.result_types[0])
        if symbol in INTEGER_FUNCTIONS:
            return INTEGER_FUNCTIONS[symbol](*arguments).astype(dtype)
        name = symbol.removeprefix("__nv_")
        function = FLOAT_FUNCTIONS.get(name) or FLOAT_FUNCTIONS.get(name.removesuffix("f"))
        if function is None:
            raise NotImplementedError(f"reference semantics of the external function {symbol}")
        wide = [np.asarray(a, np.float64 if a.dtype.kind != "i" else None) for a in arguments]
        return np.asarray(function(*wide)).astype(dtype)


class ElementwiseInlineAsmOp(Op):
    """Target assembly for every element, or for every `packed_element` neighbours at once.

    `ElementwiseInlineAsmOp.build(arguments, result=[types], asm_string=..., constraints=...,
    pure=True, packed_element=1)`.
    """

    name = "tt.elementwise_inline_asm"
    syntax = "$asm_string attrs [$arguments : type(arguments)] -> type(results)"
    arguments = variadic()
    asm_string = string_attr()
    constraints = string_attr()
    pure = bool_attr()
    packed_element = i32_attr()

    @classmethod
    def infer(
        cls, arguments: Sequence[ir.Type], *, packed_element: int, result: Any, **attrs: Any
    ) -> Sequence[ir.Type]:
        results = (result,) if isinstance(result, Attribute) else tuple(result or ())
        shape = check_same_shape(cls.name, *arguments, *results) if results else ()
        if packed_element < 1 or (shape and prod(shape) % packed_element):
            raise OpError(
                f"{cls.name}: packed_element is {packed_element}; "
                f"a divisor of {prod(shape)} elements is required"
            )
        return results

    def memory_effects(self) -> frozenset[str]:
        return Effects.NONE if self.pure else frozenset({Effects.OTHER})

    def evaluate(self, context: Context, arguments: tuple[Any, ...]) -> Any:
        raise NotImplementedError(f"reference semantics of inline assembly: {self.asm_string!r}")


OPS: tuple[type[Op], ...] = (ExternElementwiseOp, ElementwiseInlineAsmOp)
