"""lgamma and tgamma.

Below 8 the argument is brought to [1.25, 2.5] by Gamma(x + 1) = x Gamma(x), where polynomials take
over; from 8 on Stirling's series; negative arguments by reflection (Abramowitz and Stegun 6.1).
"""

from __future__ import annotations

import math

from tritium.codegen.llvm.vmath import coefficients as c
from tritium.codegen.llvm.vmath.exp import exp_pair
from tritium.codegen.llvm.vmath.lanes import Lanes, polynomial, select, two_product, two_sum
from tritium.codegen.llvm.vmath.power import log_pair
from tritium.codegen.llvm.vmath.registry import apply, function
from tritium.codegen.llvm.vmath.special import coefficients as s
from tritium.codegen.llvm.vmath.trigpi import sinpi

_STIRLING_FROM = 8.0
_PI = c.PI_F64[0]


def _to_two(a: Lanes) -> tuple[Lanes, Lanes, Lanes]:
    """t, factor and `below` with Gamma(a) = Gamma(2 + t) * factor, or / factor where `below`, for
    a from 0 to 8 and |t| <= 1/2."""
    below = a < 1.25
    r, product = a, a.constant(1.0)
    for _ in range(6):
        over = r > 2.5
        r = select(over, r - 1.0, r)
        product = select(over, product * r, product)
    small = a < 0.5
    upward = select(small, a * (a + 1.0), a)
    t = select(below, select(small, a, a - 1.0), r - 2.0)
    return t, select(below, upward, product), below


def _stirling_rest(a: Lanes) -> Lanes:
    inverse = 1.0 / a
    return inverse * polynomial(inverse * inverse, s.STIRLING)


@function("lgamma", float=0.51, double=4.0, wide=True, outlined=1)
def lgamma(x: Lanes) -> Lanes:
    """Within the bound outside of (-23, -2.26), where the result has zeros; there the absolute
    error is some 2^-51."""
    a = x.abs()
    t, factor, below = _to_two(a)
    large = a >= _STIRLING_FROM
    log = apply("log", select(large, a, factor))
    # Below 2 the first two terms cancel for the most part.
    first, low = two_product(t, polynomial(t, s.LGAMMA_TWO[1:]))
    first, lost = two_sum(t.constant(s.LGAMMA_TWO[0]), first)
    near = t * (first + (lost + low)) + select(below, -log, log)
    half_log_2pi = c.HALF_LOG_2PI_F64
    far = (a - 0.5) * (log - 1.0) + (half_log_2pi[0] - 0.5 + _stirling_rest(a))
    positive = select(large, far, near)
    sine = sinpi(a).abs()
    reflected = apply("log", _PI / (a * sine)) - positive
    pole = sine.equals(0.0) | a.equals(math.inf)
    reflected = select(a < 2.0**-70, positive, select(pole, math.inf, reflected))
    return select(x < 0.0, reflected, positive)


@function("tgamma", float=0.51, double=8.0, wide=True, outlined=1)
def tgamma(x: Lanes) -> Lanes:
    a, negative = x.abs(), x < 0.0
    t, factor, below = _to_two(a)
    two = polynomial(t, s.GAMMA_TWO)
    near = select(below, two / factor, two * factor)
    # Gamma(-a) = -pi / (sin(pi a) a Gamma(a)).
    sine = sinpi(a)
    mirror = -_PI / (sine * a)
    near = select(negative, mirror / near, near)
    # (a - 1/2) log a - a + log(2 pi) / 2 + ... in a pair, times -1 where it divides.
    b = a.at_most(200.0)
    log, log_low = log_pair(b.at_least(1.0))
    high, low = two_product(b - 0.5, log)
    low = low + (b - 0.5) * log_low
    high, lost = two_sum(high, -b)
    low = low + lost
    high, lost = two_sum(high, b.constant(c.HALF_LOG_2PI_F64[0]))
    low = low + (lost + (_stirling_rest(b) + c.HALF_LOG_2PI_F64[1]))
    high, low = select(negative, -high, high), select(negative, -low, low)
    far = exp_pair(high, low, select(negative, mirror, 1.0))
    value = select(a < _STIRLING_FROM, near, far)
    value = select(a < 2.0**-60, 1.0 / x, value)
    outside = negative & (sine.equals(0.0) | a.equals(math.inf)) & (a > 2.0**-60)
    return select(x.is_nan(), x, select(outside, math.nan, value))
