"""Functions of CUDA's libdevice by its names, elementwise on fp32 and fp64.

Each is `extern_elementwise` with the symbols of the two types. A target without libdevice
implements the symbols itself.
"""

from __future__ import annotations

from typing import Any

from tritium.language import casts
from tritium.language.base import mark_builtin
from tritium.language.external import extern_elementwise
from tritium.language.types import dtype, float32, float64


def _apply(name: str, *args: Any) -> Any:
    table: dict[tuple[dtype, ...], tuple[str, dtype]] = {
        (float32,) * len(args): (f"__nv_{name}f", float32),
        (float64,) * len(args): (f"__nv_{name}", float64),
    }
    values = [casts.to_tensor(a) for a in args]
    return extern_elementwise("libdevice", "", values, table, True)


@mark_builtin
def abs(arg0: Any) -> Any:
    """The magnitude."""
    return _apply("fabs", arg0)


@mark_builtin
def acos(arg0: Any) -> Any:
    """The angle in [0, pi] with this cosine."""
    return _apply("acos", arg0)


@mark_builtin
def acosh(arg0: Any) -> Any:
    """The inverse of cosh."""
    return _apply("acosh", arg0)


@mark_builtin
def asin(arg0: Any) -> Any:
    """The angle in [-pi/2, pi/2] with this sine."""
    return _apply("asin", arg0)


@mark_builtin
def asinh(arg0: Any) -> Any:
    """The inverse of sinh."""
    return _apply("asinh", arg0)


@mark_builtin
def atan(arg0: Any) -> Any:
    """The angle with this tangent."""
    return _apply("atan", arg0)


@mark_builtin
def atan2(arg0: Any, arg1: Any) -> Any:
    """The angle of the point (x, y)."""
    return _apply("atan2", arg0, arg1)


@mark_builtin
def atanh(arg0: Any) -> Any:
    """The inverse of tanh."""
    return _apply("atanh", arg0)


@mark_builtin
def cbrt(arg0: Any) -> Any:
    """The cube root."""
    return _apply("cbrt", arg0)


@mark_builtin
def ceil(arg0: Any) -> Any:
    """The next integer upward."""
    return _apply("ceil", arg0)


@mark_builtin
def copysign(arg0: Any, arg1: Any) -> Any:
    """x with the sign of y."""
    return _apply("copysign", arg0, arg1)


@mark_builtin
def cos(arg0: Any) -> Any:
    """The cosine."""
    return _apply("cos", arg0)


@mark_builtin
def cosh(arg0: Any) -> Any:
    """The hyperbolic cosine."""
    return _apply("cosh", arg0)


@mark_builtin
def erf(arg0: Any) -> Any:
    """The error function."""
    return _apply("erf", arg0)


@mark_builtin
def erfc(arg0: Any) -> Any:
    """1 - erf(x)."""
    return _apply("erfc", arg0)


@mark_builtin
def exp(arg0: Any) -> Any:
    """e to the power of x."""
    return _apply("exp", arg0)


@mark_builtin
def exp10(arg0: Any) -> Any:
    """10 to the power of x."""
    return _apply("exp10", arg0)


@mark_builtin
def exp2(arg0: Any) -> Any:
    """2 to the power of x."""
    return _apply("exp2", arg0)


@mark_builtin
def expm1(arg0: Any) -> Any:
    """exp(x) - 1."""
    return _apply("expm1", arg0)


@mark_builtin
def floor(arg0: Any) -> Any:
    """The next integer downward."""
    return _apply("floor", arg0)


@mark_builtin
def fmod(arg0: Any, arg1: Any) -> Any:
    """The remainder with the sign of x."""
    return _apply("fmod", arg0, arg1)


@mark_builtin
def hypot(arg0: Any, arg1: Any) -> Any:
    """sqrt(x * x + y * y)."""
    return _apply("hypot", arg0, arg1)


@mark_builtin
def lgamma(arg0: Any) -> Any:
    """The logarithm of the gamma function."""
    return _apply("lgamma", arg0)


@mark_builtin
def log(arg0: Any) -> Any:
    """The natural logarithm."""
    return _apply("log", arg0)


@mark_builtin
def log10(arg0: Any) -> Any:
    """The logarithm to base 10."""
    return _apply("log10", arg0)


@mark_builtin
def log1p(arg0: Any) -> Any:
    """log(1 + x)."""
    return _apply("log1p", arg0)


@mark_builtin
def log2(arg0: Any) -> Any:
    """The logarithm to base 2."""
    return _apply("log2", arg0)


@mark_builtin
def nearbyint(arg0: Any) -> Any:
    """The nearest integer, even in a tie."""
    return _apply("nearbyint", arg0)


@mark_builtin
def pow(arg0: Any, arg1: Any) -> Any:
    """x to the power of y."""
    return _apply("pow", arg0, arg1)


@mark_builtin
def rint(arg0: Any) -> Any:
    """The nearest integer, even in a tie."""
    return _apply("rint", arg0)


@mark_builtin
def round(arg0: Any) -> Any:
    """The nearest integer, away from zero in a tie."""
    return _apply("round", arg0)


@mark_builtin
def rsqrt(arg0: Any) -> Any:
    """1 / sqrt(x)."""
    return _apply("rsqrt", arg0)


@mark_builtin
def sin(arg0: Any) -> Any:
    """The sine."""
    return _apply("sin", arg0)


@mark_builtin
def sinh(arg0: Any) -> Any:
    """The hyperbolic sine."""
    return _apply("sinh", arg0)


@mark_builtin
def sqrt(arg0: Any) -> Any:
    """The square root."""
    return _apply("sqrt", arg0)


@mark_builtin
def tan(arg0: Any) -> Any:
    """The tangent."""
    return _apply("tan", arg0)


@mark_builtin
def tanh(arg0: Any) -> Any:
    """The hyperbolic tangent."""
    return _apply("tanh", arg0)


@mark_builtin
def trunc(arg0: Any) -> Any:
    """The next integer toward zero."""
    return _apply("trunc", arg0)
