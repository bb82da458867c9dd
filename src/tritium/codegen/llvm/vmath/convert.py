"""Conversions between float formats as straight-line LLVM IR on scalars or vectors.

How lanes of a format are held: `fp64` as double, `fp32` as float, `fp16` as half, `bf16` as bfloat,
or these two as their bits (`llvm.BITS_OF`), and the 8-bit formats as i8.

    name        ml_dtypes name      exponent/fraction bits, bias    infinity   NaN
    fp8e5       float8_e5m2         5/2, 15                         yes        yes
    fp8e5b16    float8_e5m2fnuz     5/2, 16                         no         0x80 only
    fp8e4nv     float8_e4m3fn       4/3, 7                          no         0x7f, 0xff only
    fp8e4b8     float8_e4m3fnuz     4/3, 8                          no         0x80 only
    fp8e4b15    (none)              4/3, 15                         no         none

Rounding: to nearest, ties to even, or towards zero, of the exact value (a double is not rounded to
float first). Out of range: bf16 and fp16 give infinity (the largest number when rounding towards
zero). An 8-bit format saturates at its largest number, infinities included, as `cvt.satfinite`
does on NVIDIA GPUs (to which the reference compiles); with `saturate=False` it gives infinity, or
NaN where there is none, as ml_dtypes does. fp8e4b15 always saturates, at 0x7e (1.75) as in the
reference, though 0x7f reads as 1.875; a NaN becomes that too. (The reference rounds fp8e4b15 by
truncation to fp16 and then ties away from zero; here it is as any other format.) The sign of NaNs
is kept, their payload is not.

The integer arithmetic is used for bf16 even where AVX512_BF16 exists: its conversion takes
subnormal inputs for zero.
"""

from __future__ import annotations

from dataclasses import dataclass

from tritium.codegen.llvm.vmath.lanes import Features, Lanes, concat, select
from tritium.codegen.llvm.writer import BITS_OF, Function, Value, scalar

_INFINITY = 0x7F800000  # of float


@dataclass(frozen=True)
class SmallFormat:
    """A format of 8 or 16 bits: sign, exponent, fraction.

    `kind`: "ieee" (infinities, many NaNs), "fn" (no infinity; all ones is NaN), "fnuz" (no infinity
    nor -0, whose code is NaN), "finite" (neither).
    """

    name: str
    storage: str
    bits: int
    fraction: int
    bias: int
    kind: str

    @property
    def magnitude(self) -> int:
        """The mask of everything but the sign."""
        return (1 << (self.bits - 1)) - 1

    @property
    def infinity(self) -> int:
        """The code of infinity ("ieee" only)."""
        return self.magnitude & -(1 << self.fraction)

    @property
    def largest(self) -> int:
        """The code of the largest finite number."""
        if self.kind == "ieee":
            return self.infinity - 1
        return self.magnitude if self.kind == "fnuz" else self.magnitude - 1

    @property
    def largest_number(self) -> float:
        """The largest finite number."""
        exponent, fraction = divmod(self.largest, 1 << self.fraction)
        return (1 + fraction / (1 << self.fraction)) * 2.0 ** (exponent - self.bias)

    @property
    def nan(self) -> int:
        """The code of the NaN that conversions give, without its sign."""
        if self.kind == "ieee":
            return self.infinity | 1 << (self.fraction - 1)
        return {"fn": self.magnitude, "fnuz": self.magnitude + 1, "finite": self.largest}[self.kind]

    @property
    def as_wide_as_float(self) -> bool:
        """True if the exponent is float's, so that subnormal numbers are no special case."""
        return self.bias == 127


_SMALL = {
    s.name: s
    for s in (
        SmallFormat("fp16", "half", 16, 10, 15, "ieee"),
        SmallFormat("bf16", "bfloat", 16, 7, 127, "ieee"),
        SmallFormat("fp8e5", "i8", 8, 2, 15, "ieee"),
        SmallFormat("fp8e5b16", "i8", 8, 2, 16, "fnuz"),
        SmallFormat("fp8e4nv", "i8", 8, 3, 7, "fn"),
        SmallFormat("fp8e4b8", "i8", 8, 3, 8, "fnuz"),
        SmallFormat("fp8e4b15", "i8", 8, 3, 15, "finite"),
    )
}
STORAGE: dict[str, str] = {
    "fp64": "double",
    "fp32": "float",
    **{name: small.storage for name, small in _SMALL.items()},
}
"""The LLVM lane type that holds each format."""


def fp(
    f: Function,
    value: Value,
    src: str,
    dst: str,
    *,
    features: Features,
    rounding: str = "rtne",
    saturate: bool = True,
    bits: bool = False,
    exact: bool = False,
) -> Value:
    """`value`, lanes of the format `src`, converted to the format `dst`.

    Args:
        rounding: "rtne" (to nearest, ties to even) or "rtz" (towards zero).
        saturate: what an 8-bit `dst` does with numbers out of its range; see above.
        bits: give 16-bit floats as their bits.
        exact: all numbers are known to be of the format `dst`.

    Raises:
        ValueError: an unknown format or rounding.
        TypeError: `value` is not held as the format `src` is.
    """
    for name in (src, dst):
        if name not in STORAGE:
            raise ValueError(f"float format {name!r}; there are {', '.join(STORAGE)}")
    if rounding not in ("rtne", "rtz"):
        raise ValueError(f"rounding {rounding!r}; it must be 'rtne' or 'rtz'")
    if scalar(value.type) not in (STORAGE[src], BITS_OF.get(STORAGE[src])):
        raise TypeError(f"{src} lanes of type {value.type}; they must be {STORAGE[src]}")
    if src == dst:
        return value
    if dst in _SMALL:
        to = _SMALL[dst]
        if to.as_wide_as_float and src in _SMALL:
            exact |= _SMALL[src].fraction <= to.fraction
        held = BITS_OF.get(to.storage, to.storage) if bits else to.storage
        x = _to_float(Lanes(f, value, features), src)
        if exact and to.as_wide_as_float:
            return (x.bits() >> 16).cast("trunc", "i16").cast("bitcast", held).value
        return _narrow(x, to, held, rounding, saturate).value
    x = Lanes(f, value, features)
    if src == "fp64":
        return _from_double(x, rounding).value
    single = x if src == "fp32" else _widen(x, _SMALL[src])
    return single.value if dst == "fp32" else single.cast("fpext", "double").value


def _to_float(x: Lanes, src: str) -> Lanes:
    """Round to float; a double that has no equal float becomes its odd neighbour."""
    if src == "fp64":
        return _from_double(x, "odd")
    return x if src == "fp32" else _widen(x, _SMALL[src])


def _from_double(x: Lanes, rounding: str) -> Lanes:
    """Round to float: "rtne", "rtz", or "odd" (towards the odd neighbour), which a second rounding
    to a shorter format sees through (Boldo and Melquiond 2008)."""
    single = x.cast("fptrunc", "float")
    if rounding == "rtne":
        return single
    back = single.cast("fpext", "double")
    bits = single.bits()
    above = back.abs() > x.abs()
    if rounding == "rtz":
        return select(above, bits - 1, bits).as_float()
    inexact_even = back.compare("one", x) & (bits & 1).equals(0)
    return select(inexact_even, select(above, bits - 1, bits + 1), bits).as_float()


def _has_half_conversions(features: Features) -> bool:
    return any(name in features for name in ("f16c", "avx512f", "neon"))


def _widen(x: Lanes, s: SmallFormat) -> Lanes:
    """Widen to float, exactly."""
    if s.name == "bf16":
        return (x.cast("bitcast", "i16").cast("zext", "i32") << 16).as_float()
    if _has_half_conversions(x.features) and s.name in ("fp16", "fp8e5"):
        if s.name == "fp8e5":  # the upper half of an fp16
            x = x.cast("zext", "i16") << 8
        return x.cast("bitcast", "half").cast("fpext", "float")
    code = x.cast("bitcast", f"i{s.bits}").cast("zext", "i32")
    magnitude = code & s.magnitude
    shifted = magnitude << (23 - s.fraction)
    normal = shifted + ((127 - s.bias) << 23)
    subnormal = magnitude.cast("sitofp", "float") * 2.0 ** (1 - s.bias - s.fraction)
    bits = select(magnitude < (1 << s.fraction), subnormal.bits(), normal)
    if s.kind == "ieee":
        bits = select(magnitude >= s.infinity, shifted | _INFINITY, bits)
    elif s.kind != "finite":
        bits = select((magnitude if s.kind == "fn" else code).equals(s.nan), 0x7FC00000, bits)
    sign = (code & (s.magnitude + 1)) << (32 - s.bits)
    return (bits | sign).as_float()


def _narrow(x: Lanes, s: SmallFormat, storage: str, rounding: str, saturate: bool) -> Lanes:
    """Narrow a float to a format that is held as `storage`."""
    if s.name == "fp16" and rounding == "rtne" and _has_half_conversions(x.features):
        return x.cast("fptrunc", "half").cast("bitcast", storage)
    bits = x.bits()
    if s.as_wide_as_float and rounding == "rtne":
        return _upper_half(x, s).cast("bitcast", storage)
    magnitude = bits & 0x7FFFFFFF
    saturates = s.bits == 8 and (saturate or s.kind == "finite")
    if saturates:
        magnitude = magnitude.as_float().at_most(s.largest_number).bits()
    code = _round(magnitude, s, rounding)
    if saturates:  # what is more than the largest number is NaN
        code = code.intrinsic("umin", code.constant(s.nan))
    elif rounding == "rtz" or s.kind != "ieee":
        code = select(code > s.largest, s.largest if rounding == "rtz" else s.nan, code)
        infinity = s.infinity if s.kind == "ieee" else s.nan
        code = select(magnitude.equals(_INFINITY), infinity, code)
    else:
        code = select(code > s.largest, s.infinity, code)
    if not saturates:
        code = select(magnitude > _INFINITY, s.nan, code)
    sign = (bits >> (32 - s.bits)) & (s.magnitude + 1)
    if s.kind == "fnuz":
        sign = select(code.equals(0), 0, sign)
    result = (code | sign).cast("trunc", f"i{s.bits}")
    return result.cast("bitcast", storage)


def _upper_half(x: Lanes, s: SmallFormat) -> Lanes:
    """The code of a float in a format that has its sign and exponent: rounding carries into the
    exponent, up to that of infinity."""
    quiet = 1 << (s.fraction - 1)
    if "avx2" in x.features and "avx512f" not in x.features and not x.count % 16:
        parts = x.chunks(8)
        return concat([
            _upper_halves(a, b, quiet) for a, b in zip(parts[::2], parts[1::2], strict=True)
        ])  # fmt: skip
    bits = x.bits()
    high = bits >> 16
    rounded = (bits + (high & 1) + 0x7FFF) >> 16
    return select(x.is_nan(), high | quiet, rounded).cast("trunc", "i16")


def _upper_halves(a: Lanes, b: Lanes, quiet: int) -> Lanes:
    """`_upper_half` of two vectors of eight, rounded as one of sixteen whose lanes alternate: 16
    instructions of AVX2 instead of 18."""
    low = _alternate(a.bits(), b.bits() << 16)
    high = _alternate(a.bits() >> 16, b.bits())
    # Up if the lower half is more than half a unit, or half a unit and the upper half is odd.
    up = low.intrinsic("usub.sat", ~high & 1) >> 15
    is_nan = _alternate(*(part.is_nan().cast("sext", "i32") for part in (a, b)))
    mixed = high + (up & ~is_nan) | (is_nan & quiet)
    in_order = (*range(0, 16, 2), *range(1, 16, 2))
    return mixed.make(mixed.function.shuffle(mixed.value, None, in_order))


def _alternate(a: Lanes, b: Lanes) -> Lanes:
    """The lower halves of a's words and the upper ones of b's, of eight words each."""
    first, second = (a.function.cast("bitcast", part.value, "<16 x i16>") for part in (a, b))
    return a.make(a.function.shuffle(first, second, [i + 16 * (i % 2) for i in range(16)]))


def _round(magnitude: Lanes, s: SmallFormat, rounding: str) -> Lanes:
    """The code of a non-negative float given by its bits, unbounded above (wrong for NaN)."""
    shift = 23 - s.fraction
    rounded = magnitude
    if rounding == "rtne":
        odd = (magnitude >> shift) & 1
        rounded = magnitude + odd + ((1 << (shift - 1)) - 1)
    code = (rounded - ((127 - s.bias) << 23)) >> shift
    if s.as_wide_as_float:
        return code
    value = magnitude.as_float()
    if rounding == "rtne":
        # The last place of this constant is that of the format's subnormal numbers.
        anchor = value.constant(2.0 ** (shift + 1 - s.bias))
        subnormal = (value + anchor).bits() - anchor.bits()
    else:
        subnormal = (value * 2.0 ** (s.bias - 1 + s.fraction)).cast("fptosi", "i32")
    return select(magnitude < ((128 - s.bias) << 23), subnormal, code)
