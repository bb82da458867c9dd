"""log, log2, log10, log1p.

x = 2^e m with m from 3/4 to 3/2, so that f = m - 1 is exact and log has no cancellation
near 1. Floats: a polynomial in f. Doubles: log(1 + f) = 2 atanh(f / (2 + f)), as in fdlibm.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tritium.codegen.llvm.vmath import coefficients as c
from tritium.codegen.llvm.vmath.lanes import (
    FLOAT,
    Lanes,
    avx512,
    avx512_width,
    fast_two_sum,
    polynomial,
    select,
    two_product,
)
from tritium.codegen.llvm.vmath.registry import function

_THREE_QUARTERS = {"float": 0x3F400000, "double": 0x3FE8000000000000}


def split(x: Lanes) -> tuple[Lanes, Lanes]:
    """e (a float) and m with x = 2^e m, 3/4 <= m < 3/2, for positive finite x.

    With AVX-512 zeros give e = -inf, infinity gives e = inf and m = 1, and what is left m = NaN.
    """
    if avx512_width(x):
        m = avx512("getmant", x, 0b1011)  # NaN for negative numbers, from 3/4 to 3/2
        return avx512("getexp", x) - avx512("getexp", m), m
    format = x.format
    step = format.fraction + 2
    tiny = x < format.smallest_normal
    bits = select(tiny, x * 2.0**step, x).bits() - _THREE_QUARTERS[format.type]
    # Biased, so that a logical shift will do (AVX2 has no arithmetic one for i64), and read as a
    # float through the rounder (nor a conversion from i64).
    biased = (bits + (format.bias << format.fraction)) >> format.fraction
    number = (biased + (format.rounder_bits - format.bias)).as_float() - select(
        tiny, x.constant(format.rounder + step), format.rounder
    )
    fraction = bits & ((1 << format.fraction) - 1)
    return number, (fraction + _THREE_QUARTERS[format.type]).as_float()


def log1p_reduced(f: Lanes) -> Lanes:
    """f - log(1 + f), what log(1 + f) lacks of f, for 1 + f from 3/4 to 3/2."""
    if f.format is FLOAT:
        return f * f * (f * -1.0).fma(polynomial(f, c.LOG_F32), 0.5)
    s = f / (f + 2.0)
    z = s * s
    half_square = f * f * 0.5
    return half_square - s * (half_square + z * polynomial(z, c.ATANH_F64))


def _finish(x: Lanes, result: Lanes) -> Lanes:
    """The special cases: log(0) = -inf, log(+inf) = +inf, NaN below 0 and for NaN.

    With AVX-512 `split` is such that they come out right by themselves.
    """
    if avx512_width(x):
        return result
    result = select(x.equals(math.inf), x, result)
    other = select(x.equals(0.0), x.constant(-math.inf), math.nan)
    return select(x > 0.0, result, other)


def _scaled(e: Lanes, f: Lanes, base: Sequence[float], log_of_2: Sequence[float]) -> Lanes:
    """log(1 + f) * base + e * log_of_2, both constants given as sums of floats."""
    low = f.fma(base[1], log1p_reduced(f) * -base[0])
    if len(log_of_2) > 1:
        low = e.fma(log_of_2[1], low)
    first = e * log_of_2[0]
    # The two large terms in pairs: where they cancel in part, what rounding loses matters.
    product, product_low = two_product(f, base[0])
    high, lost = fast_two_sum(first, product)
    lost = select(high.abs() < math.inf, lost, 0.0)
    return high + (low + (lost + product_low))


@function("log", float=1.0, double=1.0)
def log(x: Lanes) -> Lanes:
    e, m = split(x)
    return _finish(x, log_of_parts(e, m - 1.0))


def log_of_parts(e: Lanes, f: Lanes) -> Lanes:
    """e ln2 + log(1 + f)."""
    high, low = c.LN2_SPLIT_F32 if e.format is FLOAT else c.LN2_SPLIT_F64
    return e.fma(high, f - e.fma(-low, log1p_reduced(f)))


@function("log2", float=2.0, double=1.5)
def log2(x: Lanes) -> Lanes:
    e, m = split(x)
    base = c.LOG2E_F32 if x.format is FLOAT else c.LOG2E_F64
    return _finish(x, _scaled(e, m - 1.0, base, (1.0,)))


@function("log10", float=1.5, double=1.5)
def log10(x: Lanes) -> Lanes:
    e, m = split(x)
    single = x.format is FLOAT
    base = c.LOG10E_F32 if single else c.LOG10E_F64
    log_of_2 = c.LOG10_2_SPLIT_F32 if single else c.LOG10_2_SPLIT_F64
    return _finish(x, _scaled(e, m - 1.0, base, log_of_2))


@function("log1p", float=2.0, double=2.0)
def log1p(x: Lanes) -> Lanes:
    u = x + 1.0
    # What the sum lost, exact for the smaller of x and 1; scaled as m is (Kahan's correction).
    lost = select(x.abs() < 1.0, x - (u - 1.0), 1.0 - (u - x))
    e, m = split(u)
    # Where e is outside these bounds what was lost is 0 or does not matter.
    scale = _reciprocal_power(e.at_most(100.0).at_least(-100.0))
    result = _finish(u, log_of_parts(e, lost.fma(scale, m - 1.0)))
    return select(x.equals(0.0) | x.equals(math.inf), x, result)


def _reciprocal_power(e: Lanes) -> Lanes:
    """2^-e for an integer e in the range of normal exponents."""
    bits = (e.constant(e.format.rounder) - e).bits()
    return ((bits + e.format.bias) << e.format.fraction).as_float()
