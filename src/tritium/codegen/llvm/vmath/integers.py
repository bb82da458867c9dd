"""Integer functions, and conversions between floats and integers.

A conversion to integers saturates; NaN becomes 0 for 32-bit results of floats and otherwise the
integer with only its highest bit set (PTX ISA, `cvt`).
"""

from __future__ import annotations

from tritium.codegen.llvm.vmath.lanes import Lanes, select
from tritium.codegen.llvm.writer import const, mangle, vector

_ROUNDINGS = {"rn": "roundeven", "rz": "trunc", "ru": "ceil", "rd": "floor"}


def to_integer(x: Lanes, direction: str, base: str, signed: bool) -> Lanes:
    """Floats rounded in `direction` ("rn", ... or "away" from zero in ties) to i32 or i64."""
    whole = x.intrinsic("round" if direction == "away" else _ROUNDINGS[direction])
    type = vector(base, x.count)
    name = f"llvm.fpto{'s' if signed else 'u'}i.sat.{mangle(type)}.{mangle(x.value.type)}"
    value = x.make(x.function.call(type, name, whole.value))
    if (x.base, base) == ("float", "i32"):
        return value  # the intrinsic has 0 for NaN
    return select(x.is_nan(), -(2 ** (31 if base == "i32" else 63)), value)


def _arithmetic_shift(x: Lanes, by: int) -> Lanes:
    return x.make(x.function.op("ashr", x.value, x.constant(by).value))


def _count(x: Lanes, name: str, *more: bool) -> Lanes:
    flags = [const("i1", m) for m in more]
    value = x.make(x.function.intrinsic(name, x.value, *flags))
    return value if value.base == "i32" else value.cast("trunc", "i32")


def leading_zeros(x: Lanes) -> Lanes:
    return _count(x, "ctlz", False)


def population(x: Lanes) -> Lanes:
    return _count(x, "ctpop")


def find_first_set(x: Lanes) -> Lanes:
    """The position of the lowest one bit, from 1; 0 if there is none."""
    return select(x.equals(0), 0, _count(x, "cttz", False) + 1)


def reverse_bits(x: Lanes) -> Lanes:
    return x.intrinsic("bitreverse")


def absolute(x: Lanes) -> Lanes:
    return x.make(x.function.intrinsic("abs", x.value, const("i1", False)))


def high_product(x: Lanes, y: Lanes, extend: str) -> Lanes:
    """The upper half of the double-width product; `extend` is sext or zext."""
    bits = 32 if x.base == "i32" else 64
    wide = f"i{2 * bits}"
    product = x.cast(extend, wide) * y.cast(extend, wide)
    return (product >> bits).cast("trunc", x.base)


def _low_24(x: Lanes, signed: bool) -> Lanes:
    return _arithmetic_shift(x << 8, 8) if signed else x & 0xFFFFFF


def product_24(x: Lanes, y: Lanes, signed: bool) -> Lanes:
    """The product of the low 24 bits, its low 32 bits."""
    return _low_24(x, signed) * _low_24(y, signed)


def average(x: Lanes, y: Lanes, signed: bool, up: bool) -> Lanes:
    """(x + y) / 2 rounded down, or up, without overflow."""
    difference = x ^ y
    half = _arithmetic_shift(difference, 1) if signed else difference >> 1
    return (x | y) - half if up else (x & y) + half


def absolute_difference(x: Lanes, y: Lanes, z: Lanes, signed: bool) -> Lanes:
    """|x - y| + z."""
    kind = "s" if signed else "u"
    return x.intrinsic(f"{kind}max", y) - x.intrinsic(f"{kind}min", y) + z


def permute_bytes(x: Lanes, y: Lanes, selector: Lanes) -> Lanes:
    """Byte i is byte s of the eight of (x, y), s being bits 4i to 4i + 2 of the selector."""
    both = x.cast("zext", "i64") | (y.cast("zext", "i64") << 32)
    result = x.constant(0)
    for i in range(4):
        position = (((selector >> (4 * i)) & 7) << 3).cast("zext", "i64")
        byte = (both >> position).cast("trunc", "i32") & 0xFF
        result = result | (byte << (8 * i))
    return result


def from_halves(high: Lanes, low: Lanes) -> Lanes:
    """The double with these upper and lower 32 bits."""
    return ((high.cast("zext", "i64") << 32) | low.cast("zext", "i64")).as_float()
