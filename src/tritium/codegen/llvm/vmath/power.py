"""pow, cbrt and rcbrt."""

from __future__ import annotations

import math

from tritium.codegen.llvm.vmath import coefficients as c
from tritium.codegen.llvm.vmath.exp import exp, exp_pair
from tritium.codegen.llvm.vmath.lanes import (
    FLOAT,
    Lanes,
    fast_two_sum,
    polynomial,
    select,
    two_product,
    two_sum,
)
from tritium.codegen.llvm.vmath.log import log_of_parts, split
from tritium.codegen.llvm.vmath.registry import function


def log_pair(x: Lanes) -> tuple[Lanes, Lanes]:
    """log(x) for positive finite doubles as a sum of two, to some 2^-67.

    log(m) = 2s + 2/3 s^3 + s^5 (...) with s = f / (2 + f): the first two terms in pairs, the rest
    is below 2^-12 of them, where a double is enough.
    """
    e, m = split(x)
    f = m - 1.0
    den, den_low = fast_two_sum(f.constant(2.0), f)
    s = f / den
    product, product_low = two_product(s, den)
    s_low = ((f - product) - product_low - s * den_low) / den
    z, z_low = two_product(s, s)
    z_low = z_low + (s + s) * s_low
    # 2 atanh(s) = 2 s (1 + z/3 + z^2 tail), tail = (L(z) - 2/3) / (2 z), fitted as ATANH_TAIL.
    third, third_low = two_product(z, c.THIRD_F64[0])
    third_low = third_low + z.fma(c.THIRD_F64[1], z_low * c.THIRD_F64[0])
    third_low = third_low + (z * z) * polynomial(z, c.ATANH_TAIL_F64)
    third, third_low = fast_two_sum(third, third_low)
    high, low = two_product(s + s, third)
    low = low + (s + s).fma(third_low, (s_low + s_low) * third)
    high, carry = fast_two_sum(s + s, high)
    low = low + carry + (s_low + s_low)
    # e ln2: exact in its first part.
    first = e * c.LN2_SPLIT_F64[0]
    total, lost = two_sum(first, high)
    rest = e * c.LN2_SPLIT_F64[1]
    total, more = two_sum(total, rest)
    return fast_two_sum(total, lost + more + low)


def _power_double(a: Lanes, y: Lanes) -> Lanes:
    """a^y for a >= 0: 0 and infinity arrive through the clamped exponent."""
    high, low = log_pair(select(a < math.inf, a.at_least(5e-324), 1.7976931348623157e308))
    # |y log a| matters only up to 746 or so; the clamp on y keeps products finite.
    limit = a.constant(2.0**70)
    y = y.at_most(limit).at_least(-limit)
    p, p_low = two_product(y, high)
    p_low = y.fma(low, p_low)
    inside = p.abs() < 750.0
    p = p.at_most(710.0).at_least(-746.5)
    return exp_pair(p, select(inside, p_low, 0.0), a.constant(1.0))


def _power_float(a: Lanes, y: Lanes) -> Lanes:
    """a^y for a >= 0 of floats, computed in doubles, so that no pairs are needed."""
    wide = a.at_most(3.4028234663852886e38).cast("fpext", "double")
    e, m = split(wide.at_least(1e-46))
    product = y.cast("fpext", "double") * log_of_parts(e, m - 1.0)
    return exp(product.at_most(100.0).at_least(-120.0)).cast("fptrunc", "float")


@function("pow", float=1.0, double=1.5, arity=2, outlined=1)
def power(x: Lanes, y: Lanes) -> Lanes:
    if x.format is FLOAT:
        value = _power_float(x.abs(), y)
    else:
        value = _power_double(x.abs(), y)
    a, ay = x.abs(), y.abs()
    # Parity of y: integers are those that trunc keeps; above 2^(fraction+1) all are even.
    whole = y.intrinsic("trunc").equals(y)
    half = y * 0.5
    odd = whole & half.intrinsic("trunc").compare("une", half)
    up = (a > 1.0).compare("eq", y > 0.0)  # a^y is large: base and exponent on the same side
    extreme = a.equals(0.0) | a.equals(math.inf) | ay.equals(math.inf)
    value = select(extreme, select(up, x.constant(math.inf), 0.0), value)
    value = select((x < 0.0) & ~whole & (a < math.inf) & (ay < math.inf), math.nan, value)
    value = select(odd, value.with_sign_of(x), value)
    value = select(x.is_nan() | y.is_nan(), x + y, value)
    one = y.equals(0.0) | x.equals(1.0) | (x.equals(-1.0) & ay.equals(math.inf))
    return select(one, 1.0, value)


@function("cbrt", float=1.0, double=1.5)
def cbrt(x: Lanes) -> Lanes:
    if x.format is FLOAT:
        inverse, wide, tiny = _inverse_cbrt(x.abs())
        root = inverse * inverse * wide
        value = select(tiny, root * 2.0**-8, root).cast("fptrunc", "float")
    else:
        root, low, scale = _cbrt_pair(x.abs())
        value = (root + low) * scale
    ordinary = (x.abs() > 0.0) & (x.abs() < math.inf)
    return select(ordinary, value.with_sign_of(x), x)


def _inverse_cbrt(a: Lanes) -> tuple[Lanes, Lanes, Lanes]:
    """b^(-1/3) (to some 2^-40, without a division) and b as doubles, for positive floats a = b;
    but a = b / 2^24 where the third result holds."""
    tiny = a < a.format.smallest_normal
    scaled = select(tiny, a * 2.0**24, a)
    # An integer as a float's pattern is its logarithm, nearly: right to 5 bits.
    guess = scaled.bits().cast("sitofp", "float").fma(-1.0 / 3.0, 1419967116.0)
    y = guess.cast("fptosi", "i32").as_float()
    wide = scaled.cast("fpext", "double")
    for step in range(4):  # Newton's iteration for y^-3 = a, the last one in double
        if step == 3:
            y, scaled = y.cast("fpext", "double"), wide
        y = y * (scaled * y * (y * y)).fma(-1.0 / 3.0, 4.0 / 3.0)
    return y, wide, tiny


@function("rcbrt", float=0.51, double=1.0)
def rcbrt(x: Lanes) -> Lanes:
    if x.format is FLOAT:
        inverse, _, tiny = _inverse_cbrt(x.abs())
        value = select(tiny, inverse * 2.0**8, inverse)
        return _rcbrt_limits(x, value.cast("fptrunc", "float"))
    root, low, scale = _cbrt_pair(x.abs())
    guess = 1.0 / root
    product, product_low = two_product(guess, root)
    # What guess lacks of 1 / (root + low), relative to it.
    residual = (1.0 - product) - product_low - guess * low
    return _rcbrt_limits(x, (guess + guess * residual) / scale)


def _rcbrt_limits(x: Lanes, value: Lanes) -> Lanes:
    a = x.abs()
    value = select(a.equals(0.0), math.inf, select(a.equals(math.inf), 0.0, value))
    return select(x.is_nan(), x, value).with_sign_of(x)


def _cbrt_pair(a: Lanes) -> tuple[Lanes, Lanes, Lanes]:
    """The cube root of a positive double times 2^(k/3) as a pair, and 2^(-k/3)."""
    root, a, scale = _cbrt_double(a, steps=3)
    # A last Newton step with the residual a - root^3 in a pair.
    square, square_low = two_product(root, root)
    cube, cube_low = two_product(root, square)
    residual = (a - cube) - cube_low - root * square_low
    return root, residual / (square * 3.0), scale


def _cbrt_double(a: Lanes, steps: int) -> tuple[Lanes, Lanes, Lanes]:
    """The cube root of a positive a * 2^k, a * 2^k, and 2^(-k/3), with k such that nothing here is
    subnormal or overflows."""
    tiny, huge = a < a.format.smallest_normal, a > 2.0**1000
    a = a * select(tiny, 2.0**54, select(huge, a.constant(2.0**-54), 1.0))
    # Dividing the exponent and fraction by 3 as an integer is right to 5 bits (Kahan). Done on the
    # upper 32 bits, where a double can do it.
    upper = (a.bits() >> 32).cast("trunc", "i32").cast("sitofp", "double")
    guess = upper.fma(1.0 / 3.0, 715094163.0).cast("fptosi", "i32").cast("zext", "i64")
    root = (guess << 32).as_float()
    for _ in range(steps):
        cube = root * root * root
        # Halley's iteration: triples the number of right bits.
        root = root - root * ((cube - a) / (cube + cube + a))
    return root, a, select(tiny, 2.0**-18, select(huge, a.constant(2.0**18), 1.0))
