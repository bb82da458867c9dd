"""Bessel functions: J, Y of orders 0, 1 and n, and the modified I of orders 0 and 1.

Up to 12 each stretch around a zero z has a polynomial in x - z, so that the result is relatively
accurate there; Y has besides 2/pi log(x) J near 0. Beyond, Hankel's expansions (Abramowitz and
Stegun 9.2.5), where the absolute error is some 1e-16 of the amplitude.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tritium.codegen.llvm.vmath import coefficients as c
from tritium.codegen.llvm.vmath.exp import exp_pair
from tritium.codegen.llvm.vmath.lanes import Lanes, polynomial, select
from tritium.codegen.llvm.vmath.registry import apply, function, repeat_while
from tritium.codegen.llvm.vmath.special import coefficients as s

_ASYMPTOTIC = 12.0
_TWO_OVER_PI = c.TWO_OVER_PI_F64[0]


def _past(x: Lanes, zero: Sequence[float]) -> Lanes:
    """x - zero, which is exact near the zero."""
    return (x - zero[0]) - zero[1]


def _at(x: Lanes, zero: Sequence[float], coefficients: Sequence[float]) -> Lanes:
    u = _past(x, zero)
    return u * polynomial(u, coefficients)


def _hankel(a: Lanes, p: Sequence[float], q: Sequence[float]) -> tuple[Lanes, Lanes, Lanes, Lanes]:
    """P, Q, sin a + cos a and sin a - cos a, the latter times sqrt(1 / (pi a))."""
    a = a.at_least(_ASYMPTOTIC)
    y = _ASYMPTOTIC / a
    y = y * y
    sine, cosine = apply("sin", a), apply("cos", a)
    amplitude = (c.INVERSE_PI_F64[0] / a).sqrt()
    return (
        polynomial(y, p),
        polynomial(y, q) / a,
        (sine + cosine) * amplitude,
        (sine - cosine) * amplitude,
    )


def _j0_near(a: Lanes) -> Lanes:
    z = a * a
    return select(a < 0.9, 1.0 + z * polynomial(z, s.J0_NEAR), _at(a, s.J0_ZERO1, s.J0_AT1))


def _j1_near(a: Lanes) -> Lanes:
    z = a * a
    small = a * (0.5 + z * polynomial(z, s.J1_NEAR))
    return select(a < 2.0, small, _at(a, s.J1_ZERO1, s.J1_AT1))


@function("j0", float=0.51, double=5.0, wide=True, outlined=1)
def j0(x: Lanes) -> Lanes:
    a = x.abs()
    p, q, plus, minus = _hankel(a, s.HANKEL_P0, s.HANKEL_Q0)
    far = select(a.equals(math.inf), 0.0, p * plus - q * minus)
    far = select(a < _ASYMPTOTIC, _at(a, s.J0_ZERO4, s.J0_AT4), far)
    middle = select(a < 7.1, _at(a, s.J0_ZERO2, s.J0_AT2), _at(a, s.J0_ZERO3, s.J0_AT3))
    return select(a < 4.0, _j0_near(a), select(a < 10.2, middle, far))


@function("j1", float=0.51, double=5.0, wide=True, outlined=1)
def j1(x: Lanes) -> Lanes:
    a = x.abs()
    p, q, plus, minus = _hankel(a, s.HANKEL_P1, s.HANKEL_Q1)
    far = select(a.equals(math.inf), 0.0, p * minus + q * plus)
    middle = select(a < 8.6, _at(a, s.J1_ZERO2, s.J1_AT2), _at(a, s.J1_ZERO3, s.J1_AT3))
    value = select(a < 5.45, _j1_near(a), select(a < _ASYMPTOTIC, middle, far))
    return value.flip_sign(x)


def _log_ratio(x: Lanes, zero: Sequence[float]) -> Lanes:
    """log(x / zero), accurate near the zero too."""
    far = apply("log", x) - math.log(zero[0])
    near = apply("log1p", (_past(x, zero) / zero[0]).at_least(-0.5))
    return select((x > 0.6 * zero[0]) & (x < 2.0 * zero[0]), near, far)


def _domain(x: Lanes, value: Lanes) -> Lanes:
    """NaN below 0, -inf at 0."""
    return select(x < 0.0, math.nan, select(x.equals(0.0), -math.inf, value))


@function("y0", float=0.51, double=5.0, wide=True, outlined=1)
def y0(x: Lanes) -> Lanes:
    zero = s.Y0_ZERO1
    regular = _past(x, zero) * (x + zero[0]) * polynomial(x * x, s.Y0_NEAR)
    near = _TWO_OVER_PI * (_log_ratio(x, zero) * _j0_near(x)) + regular
    p, q, plus, minus = _hankel(x, s.HANKEL_P0, s.HANKEL_Q0)
    far = select(x.equals(math.inf), 0.0, p * minus + q * plus)
    far = select(x < _ASYMPTOTIC, _at(x, s.Y0_ZERO4, s.Y0_AT4), far)
    middle = select(x < 5.5, _at(x, s.Y0_ZERO2, s.Y0_AT2), _at(x, s.Y0_ZERO3, s.Y0_AT3))
    return _domain(x, select(x < 2.4, near, select(x < 8.6, middle, far)))


@function("y1", float=0.51, double=5.0, wide=True, outlined=1)
def y1(x: Lanes) -> Lanes:
    zero = s.Y1_ZERO1
    regular = _past(x, zero) * (x + zero[0]) * polynomial(x * x, s.Y1_NEAR) / x
    near = _TWO_OVER_PI * (_log_ratio(x, zero) * _j1_near(x)) + regular
    p, q, plus, minus = _hankel(x, s.HANKEL_P1, s.HANKEL_Q1)
    far = select(x.equals(math.inf), 0.0, q * minus - p * plus)
    far = select(x < _ASYMPTOTIC, _at(x, s.Y1_ZERO4, s.Y1_AT4), far)
    middle = select(x < 7.0, _at(x, s.Y1_ZERO2, s.Y1_AT2), _at(x, s.Y1_ZERO3, s.Y1_AT3))
    return _domain(x, select(x < 3.8, near, select(x < 10.2, middle, far)))


def _upward(n: Lanes, x: Lanes, first: Lanes, second: Lanes) -> Lanes:
    """The function of order n from those of orders 0 and 1, by f_k+1 = 2k/x f_k - f_k-1."""

    def active(k: Lanes, before: Lanes, now: Lanes) -> Lanes:
        return k < n

    def step(k: Lanes, before: Lanes, now: Lanes) -> list[Lanes]:
        following = (k + k) / x * now - before
        following = select(now.equals(-math.inf), now, following)
        going = k < n
        return [k + 1.0, select(going, now, before), select(going, following, now)]

    value = repeat_while(active, step, [n.constant(1.0), first, second])[2]
    return select(n.equals(0.0), first, value)


def _ratios(n: Lanes, order: Lanes, a: Lanes) -> Lanes:
    """J_n(a) / J_order(a) for n >= order >= a - 1: the product of J_k / J_k-1, by its continued
    fraction, taken from far enough above n."""
    start = (n + n.sqrt() * 4.0 + 20.0).intrinsic("floor")

    def active(k: Lanes, ratio: Lanes, product: Lanes) -> Lanes:
        return (k > order) & (n > order)

    def step(k: Lanes, ratio: Lanes, product: Lanes) -> list[Lanes]:
        ratio = a / (k + k - a * ratio)
        wanted = (k <= n) & (k > order)
        return [k - 1.0, ratio, select(wanted, product * ratio, product)]

    return repeat_while(active, step, [start, n.constant(0.0), n.constant(1.0)])[2]


@function("jn", float=0.51, double=math.inf, arity=2, wide=True, outlined=1)
def jn(n: Lanes, x: Lanes) -> Lanes:
    """Upward as far as that is stable (to the order |x|), from there on by ratios. The error is
    absolute, some 1e-15."""
    a = x.abs()
    whole = a.intrinsic("floor")
    order = select(whole < n, whole, n)
    value = _upward(order, a, apply("j0", a), apply("j1", a)) * _ratios(n, order, a)
    value = select(a.equals(math.inf), 0.0, value)
    odd = (n * 0.5).intrinsic("trunc").compare("une", n * 0.5)
    return select(n < 0.0, math.nan, select(odd, value.flip_sign(x), value))


@function("yn", float=0.51, double=math.inf, arity=2, wide=True, outlined=1)
def yn(n: Lanes, x: Lanes) -> Lanes:
    value = _upward(n, x, apply("y0", x), apply("y1", x))
    return select(n < 0.0, math.nan, _domain(x, select(x.equals(math.inf), 0.0, value)))


def _modified(a: Lanes, far: Sequence[float]) -> Lanes:
    """e^a / sqrt(a) times the polynomial in 16/a - 1, for a >= 8."""
    b = a.at_most(720.0).at_least(8.0)
    return exp_pair(b, b.constant(0.0), polynomial(16.0 / b - 1.0, far) / b.sqrt())


@function("cyl_bessel_i0", float=0.51, double=4.0, wide=True, outlined=1)
def i0(x: Lanes) -> Lanes:
    a = x.abs()
    near = polynomial(a * a * (1 / 64), s.I0_NEAR)
    return select(a < 8.0, near, _modified(a, s.I0_FAR))


@function("cyl_bessel_i1", float=0.51, double=4.0, wide=True, outlined=1)
def i1(x: Lanes) -> Lanes:
    a = x.abs()
    near = a * polynomial(a * a * (1 / 64), s.I1_NEAR)
    return select(a < 8.0, near, _modified(a, s.I1_FAR)).with_sign_of(x)
