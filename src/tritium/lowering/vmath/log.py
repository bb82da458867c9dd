"""log, log2, log10, log1p.

x = 2^e m with m in [sqrt(1/2), sqrt(2)), so that f = m - 1 is exact and log has no cancellation
near 1. Floats: a polynomial in f. Doubles: log(1 + f) = 2 atanh(f / (2 + f)), as in fdlibm.
"""

from __future__ import annotations

import math

from tritium.lowering.vmath import coefficients as c
from tritium.lowering.vmath.lanes import FLOAT, Lanes, polynomial, select
from tritium.lowering.vmath.registry import function

_SQRT_HALF = {"float": 0x3F3504F3, "double": 0x3FE6A09E667F3BCD}


def split(x: Lanes) -> tuple[Lanes, Lanes]:
    """e (a float) and m with x = 2^e m, sqrt(1/2) <= m < sqrt(2), for positive finite x."""
    format = x.format
    step = format.fraction + 2
    tiny = x < format.smallest_normal
    bits = select(tiny, x * 2.0**step, x).bits() - _SQRT_HALF[format.type]
    # Biased, so that a logical shift will do (AVX2 has no arithmetic one for i64), and read as a
    # float through the rounder (nor a conversion from i64).
    biased = (bits + (format.bias << format.fraction)) >> format.fraction
    number = (biased + (format.rounder_bits - format.bias)).as_float() - select(
        tiny, x.constant(format.rounder + step), format.rounder
    )
    fraction = bits & ((1 << format.fraction) - 1)
    return number, (fraction + _SQRT_HALF[format.type]).as_float()


def log1p_reduced(f: Lanes) -> Lanes:
    """f - log(1 + f) for m = 1 + f from sqrt(1/2) to sqrt(2): what log(1 + f) lacks of f."""
    if f.format is FLOAT:
        return f * f * (f * -1.0).fma(polynomial(f, c.LOG_F32), 0.5)
    s = f / (f + 2.0)
    z = s * s
    half_square = f * f * 0.5
    return half_square - s * (half_square + z * polynomial(z, c.ATANH_F64))


def _finish(x: Lanes, result: Lanes) -> Lanes:
    """The special cases: log(0) = -inf, log(+inf) = +inf, NaN below 0 and for NaN."""
    result = select(x.equals(math.inf), x, result)
    other = select(x.equals(0.0), x.constant(-math.inf), math.nan)
    return select(x > 0.0, result, other)


def _scaled(
    e: Lanes, f: Lanes, log_of_2: tuple[float, ...] | None, base: tuple[float, ...]
) -> Lanes:
    """e * log_of_2 + log(1 + f) * base; log_of_2 is None for 1, base a sum of floats."""
    t = log1p_reduced(f)
    low = f.fma(base[1], t * -base[0])
    fraction = f.fma(base[0], low)
    if log_of_2 is None:
        return e + fraction
    return e.fma(log_of_2[0], e.fma(log_of_2[1], fraction))


@function("log", float=1.5, double=1.5)
def log(x: Lanes) -> Lanes:
    e, m = split(x)
    return _finish(x, log_of_parts(e, m - 1.0))


def log_of_parts(e: Lanes, f: Lanes) -> Lanes:
    """e ln2 + log(1 + f)."""
    high, low = c.LN2_SPLIT_F32 if e.format is FLOAT else c.LN2_SPLIT_F64
    return e.fma(high, f - e.fma(-low, log1p_reduced(f)))


@function("log2", float=1.5, double=1.5)
def log2(x: Lanes) -> Lanes:
    e, m = split(x)
    return _finish(x, _scaled(e, m - 1.0, None, c.LOG2E_F32 if x.format is FLOAT else c.LOG2E_F64))


@function("log10", float=2.0, double=2.0)
def log10(x: Lanes) -> Lanes:
    e, m = split(x)
    single = x.format is FLOAT
    base = c.LOG10E_F32 if single else c.LOG10E_F64
    return _finish(
        x, _scaled(e, m - 1.0, c.LOG10_2_SPLIT_F32 if single else c.LOG10_2_SPLIT_F64, base)
    )


@function("log1p", float=1.5, double=1.5)
def log1p(x: Lanes) -> Lanes:
    u = x + 1.0
    # What the sum lost, exact for the smaller of x and 1; scaled as m is (Kahan's correction).
    lost = select(x.abs() < 1.0, x - (u - 1.0), 1.0 - (u - x))
    e, m = split(u)
    scale = _reciprocal_power(e.at_most(100.0))  # beyond, what was lost does not matter
    result = log_of_parts(e, lost.fma(scale, m - 1.0))
    return select(x.equals(0.0), x, _finish(u, result))


def _reciprocal_power(e: Lanes) -> Lanes:
    """2^-e for an integer e in the range of normal exponents."""
    bits = (e.constant(e.format.rounder) - e).bits()
    return ((bits + e.format.bias) << e.format.fraction).as_float()
