"""Mathematical functions, elementwise on floating-point tensors."""

from __future__ import annotations

from typing import Any

from tritium.language.builtins import arithmetic, casts
from tritium.language.builtins.build import build
from tritium.language.decorators import builtin, tensor_member
from tritium.language.values.tensor import TensorLike, tensor
from tritium.ops import math as ops
from tritium.ops import ttir
from tritium.ops.base import Op

_FLOATS = ["fp32", "fp64"]
_WORDS = ["int32", "int64", "uint32", "uint64"]


def check_dtypes(allowed: list[str], *values: Any) -> None:
    """Raises `ValueError` for a tensor whose dtype is not among the allowed ones."""
    for value in values:
        if isinstance(value, tensor) and value.dtype.name not in allowed:
            raise ValueError(f"Expected dtype {allowed} but got {value.dtype.name}")


def unary(cls: type[Op], x: TensorLike, allowed: list[str] = _FLOATS) -> tensor:
    """An elementwise op on one tensor of an allowed dtype."""
    value = casts.to_tensor(x)
    check_dtypes(allowed, value)
    return build(cls, value, like=value)


@tensor_member
@builtin
def exp(x: TensorLike) -> tensor:
    """e to the power of `x` (fp32, fp64; `ValueError` for others)."""
    return unary(ops.ExpOp, x)


@tensor_member
@builtin
def exp2(x: TensorLike) -> tensor:
    """2 to the power of `x` (fp32, fp64; `ValueError` for others)."""
    return unary(ops.Exp2Op, x)


@tensor_member
@builtin
def log(x: TensorLike) -> tensor:
    """The natural logarithm (fp32, fp64; `ValueError` for others)."""
    return unary(ops.LogOp, x)


@tensor_member
@builtin
def log2(x: TensorLike) -> tensor:
    """The logarithm to base 2 (fp32, fp64; `ValueError` for others)."""
    return unary(ops.Log2Op, x)


@tensor_member
@builtin
def cos(x: TensorLike) -> tensor:
    """The cosine of an angle in radians (fp32, fp64; `ValueError` for others)."""
    return unary(ops.CosOp, x)


@tensor_member
@builtin
def sin(x: TensorLike) -> tensor:
    """The sine of an angle in radians (fp32, fp64; `ValueError` for others)."""
    return unary(ops.SinOp, x)


@tensor_member
@builtin
def sqrt(x: TensorLike) -> tensor:
    """The square root, perhaps off by an ulp (fp32, fp64; `ValueError` for others)."""
    return unary(ops.SqrtOp, x)


@tensor_member
@builtin
def sqrt_rn(x: TensorLike) -> tensor:
    """The square root, correctly rounded (fp32; `ValueError` for others)."""
    return unary(ttir.PreciseSqrtOp, x, ["fp32"])


@tensor_member
@builtin
def rsqrt(x: TensorLike) -> tensor:
    """1 / sqrt(x) (fp32, fp64; `ValueError` for others)."""
    return unary(ops.RsqrtOp, x)


@tensor_member
@builtin
def erf(x: TensorLike) -> tensor:
    """The error function (fp32, fp64; `ValueError` for others)."""
    return unary(ops.ErfOp, x)


@tensor_member
@builtin
def floor(x: TensorLike) -> tensor:
    """The next integer downward (fp32, fp64; `ValueError` for others)."""
    return unary(ops.FloorOp, x)


@tensor_member
@builtin
def ceil(x: TensorLike) -> tensor:
    """The next integer upward (fp32, fp64; `ValueError` for others)."""
    return unary(ops.CeilOp, x)


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
