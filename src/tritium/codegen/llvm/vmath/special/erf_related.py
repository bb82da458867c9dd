"""erfcx and normcdf; erfinv, erfcinv and normcdfinv.

The inverses: with y = erfc(x) and w = -log(y (2 - y)), x is 1 - y times a function of w where w is
small, and a function of sqrt(w) beyond (after Giles 2012, with fits of our own).
"""

from __future__ import annotations

import math

from tritium.codegen.llvm.vmath import coefficients as c
from tritium.codegen.llvm.vmath.erf import erfcx_near
from tritium.codegen.llvm.vmath.exp import exp_pair
from tritium.codegen.llvm.vmath.lanes import Lanes, polynomial, select, two_product
from tritium.codegen.llvm.vmath.registry import apply, function
from tritium.codegen.llvm.vmath.special import coefficients as s


@function("erfcx", float=0.51, double=4.0, wide=True)
def erfcx(x: Lanes) -> Lanes:
    a = x.abs()
    inverse = 1.0 / a
    far = inverse * polynomial(inverse * inverse, s.ERFCX_FAR)
    value = select(a < 26.0, erfcx_near(a.at_most(27.0)), far)
    b = a.at_most(27.0)  # beyond, e^(x^2) overflows
    high, low = two_product(b, b)
    # Near 0 by 1 - erf(x), as erfc is.
    near = 1.0 - x.fma(polynomial(high, c.ERF_F64), x)
    small = a < 0.5
    power = exp_pair(high, low, select(small, near, 2.0))
    return select(small, power, select(x < 0.0, power - value, value))


@function("normcdf", float=0.51, double=4.0, wide=True)
def normcdf(x: Lanes) -> Lanes:
    """erfc(-x / sqrt(2)) / 2, with the argument in a pair: its error counts x^2 times."""
    a, a_low = two_product(x.abs().at_most(39.0), c.SQRT_HALF_F64[0])
    a_low = x.abs().at_most(39.0).fma(c.SQRT_HALF_F64[1], a_low)
    high, low = two_product(a, a)
    low = low + (a + a) * a_low
    value = exp_pair(-high, -low, erfcx_near(a.at_most(27.5)) * 0.5)
    value = select(x > 0.0, 1.0 - value, value)
    near = 0.5 * a.fma(polynomial(high, c.ERF_F64), a)
    return select(a < 0.5, near.with_sign_of(x) + 0.5, value)


def _inverse(y: Lanes, x: Lanes) -> Lanes:
    """The z with erfc(|z|) = y and the sign of x, where x = 1 - y as exactly as may be, y <= 1."""
    w = -apply("log", y * (2.0 - y))
    centre = x * polynomial(w - 3.125, s.ERFINV_CENTRE)
    root = w.sqrt()
    tail = select(
        root < 5.0,
        polynomial(root - 3.75, s.ERFINV_TAIL_A),
        select(
            root < 10.0,
            polynomial(root - 7.5, s.ERFINV_TAIL_B),
            polynomial(root - 18.75, s.ERFINV_TAIL_C),
        ),
    )
    tail = select(y.equals(0.0), math.inf, tail).with_sign_of(x)
    return select(w < 6.25, centre, tail)


@function("erfinv", float=0.51, double=3.0, wide=True, outlined=1)
def erfinv(x: Lanes) -> Lanes:
    return _inverse(1.0 - x.abs(), x)


@function("erfcinv", float=0.51, double=4.0, wide=True, outlined=1)
def erfcinv(y: Lanes) -> Lanes:
    return _inverse(y.at_most(2.0 - y), 1.0 - y)


@function("normcdfinv", float=0.51, double=5.0, wide=True, outlined=1)
def normcdfinv(p: Lanes) -> Lanes:
    root = -apply("erfcinv", p + p)
    value = root.fma(2.0 * c.SQRT_HALF_F64[0], root * (2.0 * c.SQRT_HALF_F64[1]))
    return select(root.abs().equals(math.inf), root, value)
