"""The inverse hyperbolic functions, by log1p of what has no cancellation (fdlibm's forms)."""

from __future__ import annotations

import math

from tritium.codegen.llvm.vmath import coefficients as c
from tritium.codegen.llvm.vmath.lanes import FLOAT, Lanes, select
from tritium.codegen.llvm.vmath.registry import apply, function

_LARGE = 2.0**28  # beyond, x * x + 1 and x * x - 1 are x * x


def _log_twice(a: Lanes) -> Lanes:
    """log(2 a) of large a, which may overflow when doubled."""
    high, low = (c.LN2_F32 if a.format is FLOAT else c.LN2_F64)[:2]
    return apply("log", a) + low + high


@function("asinh", float=3.0, double=3.0)
def asinh(x: Lanes) -> Lanes:
    a = x.abs()
    b = a.at_most(_LARGE)
    square = b * b
    near = apply("log1p", b + square / ((square + 1.0).sqrt() + 1.0))
    return select(a > _LARGE, _log_twice(a), near).with_sign_of(x)


@function("acosh", float=3.0, double=3.0)
def acosh(x: Lanes) -> Lanes:
    t = x.at_most(_LARGE) - 1.0
    near = apply("log1p", t + (t * (t + 2.0)).sqrt())
    return select(x < 1.0, math.nan, select(x > _LARGE, _log_twice(x), near))


@function("atanh", float=3.0, double=2.5)
def atanh(x: Lanes) -> Lanes:
    a = x.abs()
    twice = a + a
    # For small a, 2a + 2a * a / (1 - a): the larger term is exact.
    quotient = select(a < 0.5, twice * a, twice) / (1.0 - a)
    return (apply("log1p", select(a < 0.5, twice + quotient, quotient)) * 0.5).with_sign_of(x)
