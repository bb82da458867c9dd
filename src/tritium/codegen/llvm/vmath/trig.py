"""sin, cos, tan and their inverses.

Reduction x = q pi/2 + r, |r| <= pi/4: subtracting q times pi/2 in parts for all but huge |x|
(Cody and Waite 1980), and for those, one by one behind a branch, multiplication by as many bits of
2/pi as matter (Payne and Hanek 1983). The polynomials on [-pi/4, pi/4] are our own fits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

from tritium.codegen.llvm.vmath import coefficients as c
from tritium.codegen.llvm.vmath.lanes import (
    FLOAT,
    Lanes,
    fast_two_sum,
    has_fma,
    polynomial,
    scaled_nearest,
    select,
    two_product,
    two_sum,
)
from tritium.codegen.llvm.vmath.registry import function, replace_lanes
from tritium.codegen.llvm.writer import Function, Module, Value, const

# Up to here the reduction in parts is exact enough.
_PLAIN_LIMIT = {"float": 1.0e5, "double": 1.0e9}
_LARGE, _TRIPLE = "tritium.reduce_by_half_pi", "{i64, double, double}"


class Reduced(NamedTuple):
    """x = q pi/2 + r + low with |r| <= pi/4: only q modulo 4 matters."""

    q: Lanes
    r: Lanes
    low: Lanes


def _periodic(x: Lanes, finish: Callable[[Lanes, Reduced], Lanes]) -> Lanes:
    """`finish(x, reduction of |x|)`. Huge lanes are done again one by one behind a branch, so that
    nothing but x and the result lives across it."""
    a = x.abs()
    value = finish(x, _reduce_float(a) if a.format is FLOAT else _reduce_double(a))

    def again(lane: Lanes) -> Lanes:
        return finish(lane, _reduce_large(lane.abs()))

    return replace_lanes((a > _PLAIN_LIMIT[a.base]) & (a < math.inf), value, again, x)


def _reduce_float(a: Lanes) -> Reduced:
    zero = a.constant(0.0)
    if has_fma(a.features):
        n, q = scaled_nearest(a, c.TWO_OVER_PI_F32[0])
        # The first step is exact: n * PIO2[0] is a multiple of its last place, so is the
        # difference, which is below 1.
        r = a
        for part in c.PIO2_F32:
            r = n.fma(-part, r)
        return Reduced(q, r, zero)
    # In doubles: the first part has 30 bits, so that n times it is exact.
    first = round(c.PIO2_F64[0] * 2.0**29) / 2.0**29
    second = (c.PIO2_F64[0] - first) + c.PIO2_F64[1]
    n, q = scaled_nearest(a, c.TWO_OVER_PI_F32[0])
    wide = n.cast("fpext", "double")
    r = a.cast("fpext", "double") - wide * first - wide * second
    return Reduced(q, r.cast("fptrunc", "float"), zero)


def _reduce_double(a: Lanes) -> Reduced:
    n, q = scaled_nearest(a, c.TWO_OVER_PI_F64[0])
    first, second, third = c.PIO2_F64
    if has_fma(a.features):
        difference, lost = n.fma(-first, a), None
    else:
        product, lost = two_product(n, first)
        difference = a - product
    product, product_low = two_product(n, second)
    r, low = two_sum(difference, -product)
    low = low - n.fma(third, product_low)
    if lost is not None:
        r, more = two_sum(r, -lost)
        low = low + more
    return Reduced(q, *fast_two_sum(r, low))


def _reduce_large(lane: Lanes) -> Reduced:
    """The reduction of one large finite lane."""
    f = lane.function
    if not any(known.name == _LARGE for known in f.module.functions):
        _define_large(f.module)
    wide = lane.cast("fpext", "double")
    result = f.emit(_TRIPLE, f"call fastcc {_TRIPLE} @{_LARGE}({wide.value})")
    q = lane.make(f.emit("i64", f"extractvalue {result}, 0"))
    r = lane.make(f.emit("double", f"extractvalue {result}, 1"))
    low = lane.make(f.emit("double", f"extractvalue {result}, 2"))
    if lane.format is FLOAT:
        return Reduced(q.cast("trunc", "i32"), r.cast("fptrunc", "float"), lane.constant(0.0))
    return Reduced(q, r, low)


def _define_large(module: Module) -> None:
    """Payne and Hanek's reduction of a finite double x >= 2 by pi/2: {q, r, what r lacks}.

    With x = m 2^(e-52), x * 2/pi modulo 4 needs the bits of 2/pi from weight 2^(54-e) downwards:
    a window of 192 bits leaves a fraction right to 2^-135, and no double is closer than 2^-62 to a
    multiple of pi/2.
    """
    f = Function(
        module, _LARGE, [("double", "x", "")], _TRIPLE,
        linkage="internal fastcc", attributes="nounwind willreturn memory(none) noinline cold",
    )  # fmt: skip
    words = ", ".join(str(const("i64", w)) for w in (0, *c.TWO_OVER_PI_BITS))
    table = module.constant(
        f"[{1 + len(c.TWO_OVER_PI_BITS)} x i64]", f"[{words}]", prefix="two_over_pi"
    )
    x = Lanes(f, f.arguments[0], ())
    bits = x.bits()
    m = (bits & ((1 << 52) - 1)) | (1 << 52)
    exponent = (bits >> 52) - 1023
    # The window starts 54 - e bits after the point; 64 zero bits stand before the fraction bits.
    start = exponent + (64 - 54)
    word, shift = start >> 6, start & 63
    loaded = [x.make(f.load("i64", f.gep("i64", table, (word + k).value), 8)) for k in range(4)]
    w = [x.make(f.intrinsic("fshl", a.value, b.value, shift.value)) for a, b in pairwise(loaded)]
    wide_m = m.cast("zext", "i128")
    carry = (wide_m * w[2].cast("zext", "i128")) >> 64
    middle = wide_m * w[1].cast("zext", "i128") + carry
    top = m * w[0] + (middle >> 64).cast("trunc", "i64")
    product = (top.cast("zext", "i128") << 64) | (middle & ((1 << 64) - 1))
    # Two bits of quadrant, 126 of fraction; a fraction of a half or more rounds q up.
    fraction = product << 2
    negative = fraction < 0
    q = (top >> 62) + negative.cast("zext", "i64")
    magnitude = select(negative, -fraction, fraction)
    high, low = _to_doubles(x, magnitude)
    r, r_low = two_product(high, c.PIO2_F64[0])
    r_low = r_low + (high * c.PIO2_F64[1] + low * c.PIO2_F64[0])
    r, r_low = fast_two_sum(r, r_low)
    values = [q, select(negative, -r, r), select(negative, -r_low, r_low)]
    pack = Value(_TRIPLE, "poison")
    for index, value in enumerate(values):
        pack = f.emit(_TRIPLE, f"insertvalue {pack}, {value.value}, {index}")
    f.ret(pack)


def _to_doubles(x: Lanes, magnitude: Lanes) -> tuple[Lanes, Lanes]:
    """magnitude / 2^128 (not 0) as a sum of two doubles."""
    f = x.function
    zeros = x.make(f.emit("i128", f"call i128 @llvm.ctlz.i128({magnitude.value}, i1 true)"))
    f.module.declare("llvm.ctlz.i128", "i128", ["i128", "i1"])
    normal = magnitude << zeros
    top = (normal >> 75).cast("trunc", "i64").cast("uitofp", "double")  # 53 bits: exact
    rest = ((normal >> 22) & ((1 << 53) - 1)).cast("trunc", "i64").cast("uitofp", "double")
    scale = ((1023 - zeros.cast("trunc", "i64")) << 52).as_float()
    return top * scale * 2.0**-53, rest * scale * 2.0**-106


def sin_reduced(r: Lanes, low: Lanes) -> Lanes:
    """sin(r + low) for |r| <= pi/4."""
    z = r * r
    if r.format is FLOAT:
        return (z * r).fma(polynomial(z, c.SIN_F32), r)
    cubic = (z * r) * polynomial(z, c.SIN_F64)
    return r + (cubic + low.fma(z * -0.5, low))


def cos_reduced(r: Lanes, low: Lanes) -> Lanes:
    """cos(r + low) for |r| <= pi/4."""
    z = r * r
    if r.format is FLOAT:
        return (z * z).fma(polynomial(z, c.COS_F32), z.fma(-0.5, 1.0))
    half = z * 0.5
    one = 1.0 - half
    lost = (1.0 - one) - half
    return one + ((z * z).fma(polynomial(z, c.COS_F64), lost) - r * low)


def _odd(q: Lanes) -> Lanes:
    return (q & 1).compare("ne", 0)


def _negate_if_bit_1(x: Lanes, q: Lanes) -> Lanes:
    """Negated where bit 1 of q is set."""
    return (x.bits() ^ ((q & 2) << (x.format.bits - 2))).as_float()


@function("sin", float=2.0, double=1.5, outlined=4)
def sin(x: Lanes) -> Lanes:
    def finish(x: Lanes, at: Reduced) -> Lanes:
        value = select(_odd(at.q), cos_reduced(at.r, at.low), sin_reduced(at.r, at.low))
        return _negate_if_bit_1(value, at.q).flip_sign(x)

    return _periodic(x, finish)


@function("cos", float=2.0, double=1.5, outlined=4)
def cos(x: Lanes) -> Lanes:
    def finish(_: Lanes, at: Reduced) -> Lanes:
        value = select(_odd(at.q), sin_reduced(at.r, at.low), cos_reduced(at.r, at.low))
        return _negate_if_bit_1(value, at.q + 1)

    return _periodic(x, finish)


@function("tan", float=4.0, double=3.0, outlined=4)
def tan(x: Lanes) -> Lanes:
    def finish(x: Lanes, at: Reduced) -> Lanes:
        sine, cosine, odd = sin_reduced(at.r, at.low), cos_reduced(at.r, at.low), _odd(at.q)
        return (select(odd, cosine, sine) / select(odd, -sine, cosine)).flip_sign(x)

    return _periodic(x, finish)


def _atan_reduced(t: Lanes) -> Lanes:
    """atan(t) for |t| <= tan(pi/8)."""
    z = t * t
    return (z * t).fma(polynomial(z, c.ATAN_F32 if t.format is FLOAT else c.ATAN_F64), t)


def _atan_quotient(small: Lanes, large: Lanes) -> Lanes:
    """atan(small / large) for 0 <= small <= large, small + large finite, large > 0."""
    single = small.format is FLOAT
    quarter, quarter_low = (c.PIO4_F32 if single else c.PIO4_F64)[:2]
    far = small > large * 0.4142135
    t = select(far, small - large, small) / select(far, small + large, large)
    result = _atan_reduced(t)
    return select(far, (result + quarter_low) + quarter, result)


@function("atan", float=2.5, double=2.5)
def atan(x: Lanes) -> Lanes:
    a = x.abs()
    half, half_low = (c.PIO2_F32 if x.format is FLOAT else c.PIO2_F64)[:2]
    # Past the bound the result is pi/2; the clamp keeps a + 1 exact enough and finite.
    a = a.at_most(2.0**60)
    swap = a > 1.0
    result = _atan_quotient(select(swap, 1.0, a), select(swap, a, 1.0))
    return select(swap, half - (result - half_low), result).with_sign_of(x)


@function("atan2", float=3.0, double=3.0, arity=2)
def atan2(y: Lanes, x: Lanes) -> Lanes:
    single = x.format is FLOAT
    ay, ax = y.abs(), x.abs()
    swap = ay > ax
    small, large = select(swap, ax, ay), select(swap, ay, ax)
    # Scale huge operands so that their sum is finite, tiny ones so that nothing is lost.
    huge, tiny = 2.0 ** (x.format.bias - 2), 2.0 ** (2 * x.format.fraction - x.format.bias)
    scale = select(large > huge, x.constant(0.25), select(large < tiny, x.constant(2.0**60), 1.0))
    both_infinite = small.equals(math.inf)
    small = select(both_infinite, 1.0, small * scale)
    large = select(both_infinite, 1.0, large * scale)
    large = select(large.equals(0.0), 1.0, large)
    result = _atan_quotient(small, large)
    half, half_low = (c.PIO2_F32 if single else c.PIO2_F64)[:2]
    pi, pi_low = (c.PI_F32 if single else c.PI_F64)[:2]
    result = select(swap, half - (result - half_low), result)
    negative = x.make(x.function.icmp("slt", x.bits().value, x.bits().constant(0).value))
    result = select(negative, pi - (result - pi_low), result)
    result = select(x.make(x.function.fcmp("uno", x.value, y.value)), x + y, result)
    return result.with_sign_of(y)


def _asin_parts(a: Lanes) -> tuple[Lanes, Lanes]:
    """The condition a > 1/2, and asin(a) or, there, asin(sqrt((1 - a) / 2))."""
    far = a > 0.5
    z = select(far, (1.0 - a) * 0.5, a * a)
    s = select(far, z.sqrt(), a)
    p = polynomial(z, c.ASIN_F32 if a.format is FLOAT else c.ASIN_F64)
    return far, (z * s).fma(p, s)


@function("asin", float=2.5, double=2.5)
def asin(x: Lanes) -> Lanes:
    half, half_low = (c.PIO2_F32 if x.format is FLOAT else c.PIO2_F64)[:2]
    far, p = _asin_parts(x.abs())
    return select(far, half - ((p + p) - half_low), p).with_sign_of(x)


@function("acos", float=2.5, double=2.5)
def acos(x: Lanes) -> Lanes:
    single = x.format is FLOAT
    half, half_low = (c.PIO2_F32 if single else c.PIO2_F64)[:2]
    pi, pi_low = (c.PI_F32 if single else c.PI_F64)[:2]
    far, p = _asin_parts(x.abs())
    near = half - (p.with_sign_of(x) - half_low)
    return select(far, select(x < 0.0, pi - ((p + p) - pi_low), p + p), near)
