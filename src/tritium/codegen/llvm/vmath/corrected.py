"""Operations rounded in a direction on processors that round them to nearest only: the nearest
result, and what is left of it, whose sum is rounded in the direction.

A result of floats is rounded from the nearest double: no quotient or root of two floats that is
none itself is as close to a float as a double's rounding.
"""

from __future__ import annotations

from collections.abc import Callable

from tritium.codegen.llvm.vmath.lanes import Lanes, select

Rounded = Callable[..., Lanes]
"""`directed.compute` of an operation that the processor does round in a direction."""

_EXPONENT, _BIAS = 0x7FF, 1023
_MANTISSA = -1 - (_EXPONENT << 52)
"""A mask of a double's bits without the exponent."""


def compute(
    rounded: Rounded, operation: str, direction: str, *args: Lanes, result: str = ""
) -> Lanes:
    """`fdiv`, `sqrt`, or `sitofp` and `uitofp` of i64, as `directed.compute`."""
    if operation in ("sitofp", "uitofp"):
        return _from_integer(rounded, args[0], operation, direction, result)
    if args[0].base == "float":
        wide = [a.cast("fpext", "double") for a in args]
        value = wide[0].sqrt() if operation == "sqrt" else wide[0] / wide[1]
        return rounded("fptrunc", direction, value, result="float")
    return (_root if operation == "sqrt" else _quotient)(rounded, direction, *args)


def _from_integer(
    rounded: Rounded, x: Lanes, operation: str, direction: str, result: str
) -> Lanes:
    """Both halves are exact as doubles."""
    high = (x >> 32).cast("trunc", "i32").cast(operation, "double") * 2.0**32
    low = x.cast("trunc", "i32").cast("uitofp", "double")
    total = rounded("fadd", direction, high, low)
    if result == "double":
        return total
    return rounded("fptrunc", direction, total, result=result)


def _is_finite_not_zero(x: Lanes) -> Lanes:
    size = x.abs()
    return (size > 0.0) & (size < float("inf"))


def _quotient(rounded: Rounded, direction: str, a: Lanes, b: Lanes) -> Lanes:
    """The quotient of the mantissas, whose rest is exact, then scaled, which rounds subnormal
    ones."""
    (m, e), (n, f) = _parts(a), _parts(b)
    nearest = m / n
    rest = (-nearest).intrinsic("fma", n, m)
    value = rounded("fma", direction, rest, 1.0 / n, nearest)
    exponent = e - f
    two = exponent.constant(2)
    quarter = exponent.make(exponent.function.op("ashr", exponent.value, two.value))
    scale = _power(quarter)
    for factor in (scale, scale, scale, _power(exponent - quarter * 3)):
        value = rounded("fmul", direction, value, factor)
    return select(_is_finite_not_zero(a) & _is_finite_not_zero(b), value, a / b)


def _parts(x: Lanes) -> tuple[Lanes, Lanes]:
    """The mantissa, from 1 to 2 with the sign, and the exponent (i64)."""
    small = x.abs() < 2.0**-1000
    bits = select(small, x * 2.0**200, x).bits()
    exponent = ((bits >> 52) & _EXPONENT) - _BIAS
    mantissa = ((bits & _MANTISSA) | (_BIAS << 52)).as_float()
    return mantissa, select(small, exponent - 200, exponent)


def _power(exponent: Lanes) -> Lanes:
    """2 to a power that is normal."""
    return ((exponent + _BIAS) << 52).as_float()


def _root(rounded: Rounded, direction: str, x: Lanes) -> Lanes:
    small = x < 2.0**-700
    y = select(small, x * 2.0**600, x)
    nearest = y.sqrt()
    rest = (-nearest).intrinsic("fma", nearest, y)
    value = rounded("fma", direction, rest, 0.5 / nearest, nearest)
    return select((x > 0.0) & (x < float("inf")), value * select(small, y.constant(2.0**-300), 1.0),
                  x.sqrt())  # fmt: skip
