"""Mathematical functions, elementwise on floating-point tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from tritium.language.builtins import arithmetic, casts
from tritium.language.builtins.build import build
from tritium.language.decorators import builtin, tensor_member
from tritium.language.values.tensor import TensorLike, tensor
from tritium.ops import math as ops
from tritium.ops import ttir
from tritium.ops.base import Op

_FLOATS = ["fp32", "fp64"]
_WORDS = ["int32", "int64", "uint32", "uint64"]


def check_dtypes(allowed: list[str], *values: object) -> None:
    """Raises `ValueError` for a tensor whose dtype is not among the allowed ones."""
    for value in values:
        if isinstance(value, tensor) and value.dtype.name not in allowed:
            raise ValueError(f"Expected dtype {allowed} but got {value.dtype.name}")


def unary(cls: type[Op], x: TensorLike, allowed: list[str] = _FLOATS) -> tensor:
    """An elementwise op on one tensor of an allowed dtype."""
    value = casts.to_tensor(x)
    check_dtypes(allowed, value)
    return build(cls, value, like=value)


_Function: TypeAlias = Callable[[TensorLike], tensor]


def _function(name: str, cls: type[Op], allowed: list[str] = _FLOATS) -> _Function:
    """The function of one tensor that is the op."""

    def function(x: TensorLike) -> tensor:
        return unary(cls, x, allowed)

    function.__name__ = function.__qualname__ = name
    about = (cls.__doc__ or "").partition(";")[0].rstrip(".")
    function.__doc__ = f"{about} ({', '.join(allowed)}; `ValueError` for others)."
    return tensor_member(builtin(function))


exp, exp2 = _function("exp", ops.ExpOp), _function("exp2", ops.Exp2Op)
log, log2 = _function("log", ops.LogOp), _function("log2", ops.Log2Op)
cos, sin = _function("cos", ops.CosOp), _function("sin", ops.SinOp)
sqrt, rsqrt = _function("sqrt", ops.SqrtOp), _function("rsqrt", ops.RsqrtOp)
sqrt_rn = _function("sqrt_rn", ttir.PreciseSqrtOp, ["fp32"])
erf = _function("erf", ops.ErfOp)
floor, ceil = _function("floor", ops.FloorOp), _function("ceil", ops.CeilOp)


@tensor_member
@builtin
def abs(x: TensorLike) -> tensor:
    """The magnitude of numbers of any dtype; unsigned ones stay."""
    return arithmetic.absolute(x)


@builtin
def fdiv(x: TensorLike, y: TensorLike, ieee_rounding: bool = False, approx: bool = False) -> tensor:
    """`x / y`, of which one at least is floating-point.

    Args:
        ieee_rounding: round correctly.
        approx: within 2 units in the last place where 2**-126 <= |y| <= 2**126 (fp32 only).

    Raises `TypeError` for integers, `ValueError` for both flags together or another dtype.
    """
    return arithmetic.fdiv(x, y, bool(ieee_rounding), bool(approx))


@builtin
def div_rn(x: TensorLike, y: TensorLike) -> tensor:
    """`x / y`, correctly rounded (fp32; `ValueError` for others)."""
    check_dtypes(["fp32"], x, y)
    return arithmetic.fdiv(x, y, True)


@builtin
def fma(x: TensorLike, y: TensorLike, z: TensorLike) -> tensor:
    """`x * y + z` of floating-point tensors, rounded once."""
    return arithmetic.fma(x, y, z)


@builtin
def umulhi(x: TensorLike, y: TensorLike) -> tensor:
    """The upper half of the product of 32- or 64-bit integers taken as unsigned numbers.

    Raises `ValueError` for other dtypes.
    """
    check_dtypes(_WORDS, x, y)
    return arithmetic.multiply_high(x, y)
