"""exp, exp2, exp10, expm1 and what is made of them: sinh, cosh, tanh.

Range reduction x = n ln2 + r, |r| <= ln2/2, with ln2 as two parts of which the first times n is
exact (Cody and Waite 1980); polynomials in r by `tools/fit_polynomials.py`; scaling by 2^n in two
steps, so that subnormal results are rounded once.
"""

from __future__ import annotations

import math

from tritium.codegen.llvm.vmath import coefficients as c
from tritium.codegen.llvm.vmath.lanes import (
    FLOAT,
    Lanes,
    avx512,
    has_fma,
    in_full_registers,
    ldexp,
    ldexp_bias,
    look_up,
    nearest,
    polynomial,
    power_of_two,
    scaled_nearest,
    select,
    two_product,
    two_sum,
)
from tritium.codegen.llvm.vmath.registry import function


def reduce_by_ln2(x: Lanes) -> tuple[Lanes, Lanes, Lanes]:
    """r, n and n's integer (see `nearest`) with x = n ln2 + r."""
    single = x.format is FLOAT
    log2e = (c.LOG2E_F32 if single else c.LOG2E_F64)[0]
    high, low = c.LN2_SPLIT_F32 if single else c.LN2_SPLIT_F64
    n, integer = scaled_nearest(x, log2e, ldexp_bias(x.format))
    return n.fma(-low, n.fma(-high, x)), n, integer


def expm1_reduced(r: Lanes) -> Lanes:
    """e^r - 1 for |r| <= ln2/2."""
    q = polynomial(r, c.EXP_F32 if r.format is FLOAT else c.EXP_F64)
    return (r * r).fma(q, r)


def exp_pair(high: Lanes, low: Lanes, factor: Lanes) -> Lanes:
    """factor * e^(high + low) for |low| far below 1, `high` within or just past the range of exp
    and a factor not far from 1."""
    r, n, integer = reduce_by_ln2(high)
    return ldexp(expm1_reduced(r + low).fma(factor, factor), n, integer)


@function("exp", float=1.0, double=1.0)
def exp(x: Lanes) -> Lanes:
    # Beyond the bounds the result is infinity or 0; clamping keeps n finite.
    low, high = (-104.0, 88.75) if x.format is FLOAT else (-746.0, 709.8)
    x = x.at_most(high).at_least(low)
    if x.format is FLOAT and "avx512f" in x.features:
        return in_full_registers(_exp_by_table, x)
    if x.format is FLOAT and "avx2" in x.features and has_fma(x.features):
        return in_full_registers(_exp_by_short_table, x, 256)
    r, n, integer = reduce_by_ln2(x)
    if has_fma(x.features):
        q = polynomial(r, c.EXP_F32 if x.format is FLOAT else c.EXP_F64)
        return ldexp(r.fma(r.fma(q, 1.0), 1.0), n, integer)
    return ldexp(expm1_reduced(r) + 1.0, n, integer)  # rounds less than a product would


def _exp_by_table(x: Lanes) -> Lanes:
    """e^x for floats as 2^n e^r with n in sixteenths: their powers of two are in one register, and
    a smaller r needs a shorter polynomial."""
    rounder = x.constant(x.format.rounder / 16)
    shifted = x.fma(c.LOG2E_F32[0], rounder)
    n = shifted - rounder
    high, low = c.LN2_SPLIT_F32
    r = n.fma(-low, n.fma(-high, x))
    scale = look_up(c.EXP2_SIXTEENTHS_F32, shifted.bits())
    less = r.fma(polynomial(r, c.EXP_SIXTEENTH_F32), 1.0) * r  # e^r - 1
    return avx512("scalef", scale.fma(less, scale), n)  # which rounds n down


def _exp_by_short_table(x: Lanes) -> Lanes:
    """e^x for floats as 4^h 2^(k/4) e^r with k from 0 to 7, whose powers of two are in one register
    of AVX2: six instructions less than those of a polynomial for halves and of `ldexp`."""
    rounder = x.constant(x.format.rounder / 4 + ldexp_bias(x.format))
    shifted = x.fma(c.LOG2E_F32[0], rounder)
    n = shifted - rounder
    high, low = c.LN2_SPLIT_F32
    r = n.fma(-low, n.fma(-high, x))
    number = shifted.bits()  # 4 (n + the bias), and the rounder's bits, which are shifted out
    half = (number >> 3) << x.format.fraction  # 2^h
    scale = (look_up(c.EXP2_QUARTERS_F32, number) + half).as_float()
    less = (r * r).fma(polynomial(r, c.EXP_QUARTER_F32), r)  # e^r - 1
    return scale.fma(less, scale) * half.as_float()


@function("exp2", float=1.25, double=1.25)
def exp2(x: Lanes) -> Lanes:
    low, high = (-151.0, 129.0) if x.format is FLOAT else (-1076.0, 1025.0)
    x = x.at_most(high).at_least(low)
    n, integer = nearest(x, ldexp_bias(x.format))
    r = x - n
    q = polynomial(r, c.EXP2_F32 if x.format is FLOAT else c.EXP2_F64)
    return ldexp(r.fma(q, 1.0), n, integer)


@function("exp10", float=1.25, double=1.25)
def exp10(x: Lanes) -> Lanes:
    single = x.format is FLOAT
    low, high = (-46.0, 39.0) if single else (-325.0, 309.0)
    x = x.at_most(high).at_least(low)
    first, rest = c.LOG10_2_SPLIT_F32 if single else c.LOG10_2_SPLIT_F64
    log2_10 = (c.LOG2_10_F32 if single else c.LOG2_10_F64)[0]
    n, integer = scaled_nearest(x, log2_10, ldexp_bias(x.format))
    ln10 = c.LN10_F32 if single else c.LN10_F64
    r = n.fma(-rest, n.fma(-first, x))
    return ldexp(expm1_reduced(r.fma(ln10[0], r * ln10[1])) + 1.0, n, integer)


@function("expm1", float=2.0, double=2.0)
def expm1(x: Lanes) -> Lanes:
    low, high = (-20.0, 88.75) if x.format is FLOAT else (-40.0, 709.8)
    half = half_expm1(x.at_most(high).at_least(low))
    return _unless_tiny(x, (half + half).with_sign_of(x))


def _unless_tiny(x: Lanes, result: Lanes) -> Lanes:
    """x itself below 2^-30 (2^-60): there the division by 4 would lose bits of subnormals."""
    return select(x.abs() < (2.0**-30 if x.format is FLOAT else 2.0**-60), x, result)


def _hyperbolic_argument(x: Lanes) -> Lanes:
    """|x|, at most a bound where sinh and cosh overflow but `half_expm1` is still well defined."""
    return x.abs().at_most(89.5 if x.format is FLOAT else 710.5)


def half_expm1(x: Lanes) -> Lanes:
    """(e^x - 1) / 2 for x from -40 to 89.5 (710.5): the half overflows where sinh does."""
    single = x.format is FLOAT
    first, second = c.LN2_SPLIT_F32 if single else c.LN2_SPLIT_F64
    n, integer = scaled_nearest(x, (c.LOG2E_F32 if single else c.LOG2E_F64)[0])
    high, rest = n.fma(-first, x), n * second
    r = high - rest
    lost = (high - r) - rest
    q = polynomial(r, c.EXP_F32 if single else c.EXP_F64)
    # 2^n (e^r - 1) + (2^n - 1), all of it divided by 4: 2^n itself may overflow. The larger terms
    # nearly cancel for n = 1.
    scale = power_of_two(integer, x.format, -2)
    less = scale - 0.25
    total, more = two_sum(scale * r, less)
    more = more + ((scale - less) - 0.25)
    quarter = total + scale.fma((r * r).fma(q, lost), more)
    return quarter + quarter


@function("tanh", float=2.5, double=2.0)
def tanh(x: Lanes) -> Lanes:
    # h / (h + 1) with h = (e^(2|x|) - 1) / 2 has no cancellation; past the bound the result is 1.
    bound = 9.5 if x.format is FLOAT else 20.0
    half = half_expm1(x.abs().at_most(bound) * 2.0)
    if x.format is FLOAT:
        return (half / (half + 1.0)).with_sign_of(x)
    divisor, lost = two_sum(half, half.constant(1.0))
    inverse = 1.0 / divisor
    quotient = half * inverse
    product, product_low = two_product(quotient, divisor)
    residual = ((half - product) - product_low) - quotient * lost
    return residual.fma(inverse, quotient).with_sign_of(x)


@function("sinh", float=2.5, double=2.5)
def sinh(x: Lanes) -> Lanes:
    h = half_expm1(_hyperbolic_argument(x))
    # With h = (e^a - 1)/2: sinh(a) = h + h / (2h + 1).
    # h / (2h + 1) as 1/2 - 1 / (4h + 2), which is right for an infinite h, would cancel near 0.
    other = select(h < math.inf, h / (h + h + 1.0), 0.5)
    return _unless_tiny(x, (h + other).with_sign_of(x))


@function("cosh", float=2.0, double=2.0)
def cosh(x: Lanes) -> Lanes:
    g = half_expm1(_hyperbolic_argument(x)) + 0.5
    return g + 0.25 / g
