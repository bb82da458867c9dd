"""Functions that take floats apart or put them together: exact ones."""

from __future__ import annotations

import math

from tritium.codegen.llvm.vmath.lanes import FLOAT, Lanes, avx512, avx512_width, select
from tritium.codegen.llvm.vmath.registry import apply, function


@function("round", float=0.5, double=0.5)
def round(x: Lanes) -> Lanes:
    """Round to the nearest integer, halves away from zero."""
    return x.intrinsic("round")


@function("fdim", float=0.5, double=0.5, arity=2)
def fdim(x: Lanes, y: Lanes) -> Lanes:
    return select(x <= y, 0.0, x - y)


@function("saturate", float=0.5, double=0.5)
def saturate(x: Lanes) -> Lanes:
    """Clamped to [0, 1]; NaN becomes 0, and so does -0."""
    return select(x > 0.0, x.at_most(1.0), 0.0)


@function("nextafter", float=0.5, double=0.5, arity=2)
def nextafter(x: Lanes, y: Lanes) -> Lanes:
    bits = x.bits()
    away = (x < y).compare("eq", x > 0.0)
    step = select(away, bits + 1, bits - 1).as_float()
    smallest = bits.constant(1).as_float().with_sign_of(y)
    value = select(x.equals(0.0), smallest, step)
    unordered = x.make(x.function.fcmp("uno", x.value, y.value))
    return select(unordered, x + y, select(x.equals(y), y, value))


@function("remainder", float=0.5, double=0.5, arity=2, wide=True, outlined=2)
def remainder(x: Lanes, y: Lanes) -> Lanes:
    """x less the nearest multiple of y, the even one in a tie (IEEE 754's remainder)."""
    a, b = x.abs(), y.abs()
    # Modulo 2b, unless that overflows, so that the parity of the quotient is known; then take
    # away b once or twice (as in fdlibm). All of it is exact.
    a = select(b > 2.0**1022, a, apply("fmod", a, b + b))
    # Comparing with b / 2, or doubled where that would lose a bit.
    tiny = b < 2.0**-1000
    a2, b2 = select(tiny, a + a, a), select(tiny, b, b * 0.5)
    above = a2 > b2
    a = select(above, a - b, a)
    a2 = select(tiny, a + a, a)
    a = select(above & (a2 >= b2), a - b, a)
    value = a.flip_sign(x)
    defined = (x.abs() < math.inf) & (b > 0.0)
    value = select(defined, select(b.equals(math.inf), x, value), math.nan)
    return select(x.is_nan() | y.is_nan(), x + y, value)


def exponent(x: Lanes) -> Lanes:
    """The exponent of finite x, not 0, as an integer of the lane's width."""
    format = x.format
    tiny = x.abs() < format.smallest_normal
    bits = select(tiny, x * 2.0 ** (format.fraction + 2), x).abs().bits() >> format.fraction
    return bits - select(tiny, bits.constant(format.bias + format.fraction + 2), format.bias)


@function("logb", float=0.5, double=0.5)
def logb(x: Lanes) -> Lanes:
    value = exponent(x).cast("sitofp", x.base)
    value = select(x.equals(0.0), -math.inf, value)
    return select(x.abs() < math.inf, value, x * x)


def ilogb(x: Lanes) -> Lanes:
    """The exponent as an i32: the least one for 0 and NaN, the largest for infinity."""
    value = exponent(x)
    value = value if value.base == "i32" else value.cast("trunc", "i32")
    value = select(x.equals(0.0) | x.is_nan(), -(2**31), value)
    return select(x.abs().equals(math.inf), 2**31 - 1, value)


def scale(x: Lanes, n: Lanes) -> Lanes:
    """x * 2^n of i32 lanes n, rounded once."""
    limit = 300 if x.format is FLOAT else 2200
    n = n.intrinsic("smin", n.constant(limit)).intrinsic("smax", n.constant(-limit))
    if x.format is FLOAT:  # exact in double, but for the conversion
        wide = x.cast("fpext", "double")
        factor = ((n.cast("sext", "i64") + 1023) << 52).as_float()
        return (wide * factor).cast("fptrunc", "float")
    if avx512_width(x):
        return avx512("scalef", x, n.cast("sitofp", "double"))
    # Steps that leave a normal number until the last one; down by 2^-1022 times 2^53.
    for _ in range(2):
        up, down = n > 1023, n < -1022
        x = x * select(up, x.constant(2.0**1023), select(down, x.constant(2.0**-969), 1.0))
        n = n - select(up, n.constant(1023), select(down, n.constant(-969), 0))
    n = n.intrinsic("smin", n.constant(1023)).intrinsic("smax", n.constant(-1022))
    return x * ((n.cast("sext", "i64") + 1023) << 52).as_float()


def reciprocal_high(x: Lanes) -> Lanes:
    """1/x from the upper half of x, to the upper half of a double (PTX's rcp.approx.ftz.f64)."""
    high = -(2**32)
    top = (x.bits() & high).as_float()
    top = select(top.abs() < top.format.smallest_normal, top.constant(0.0).with_sign_of(x), top)
    value = ((1.0 / top).bits() & high).as_float()
    value = select(value.abs() < value.format.smallest_normal, value * 0.0, value)
    return select(x.is_nan(), x, value)
