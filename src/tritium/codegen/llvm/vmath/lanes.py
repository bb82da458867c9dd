"""Floating-point expressions over LLVM values, so that an algorithm reads as its formula.

`Lanes` wraps a scalar or vector `Value` together with the function that is being written and the
features of the host. Arithmetic follows IEEE 754 strictly (no fast-math flags): the error-free
transformations here depend on it. Nothing here makes control flow.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tritium.codegen.llvm.writer import Function, Value, const, const_vector, lanes, scalar, vector

Features = Container[str]


@dataclass(frozen=True)
class Format:
    """Parameters of an IEEE binary format for the algorithms."""

    type: str
    integer: str
    suffix: str  # of the names in coefficients.py
    bits: int
    fraction: int  # stored fraction bits
    bias: int

    @property
    def smallest_normal(self) -> float:
        return 2.0 ** (1 - self.bias)

    @property
    def rounder(self) -> float:
        """Added to |x| < 2^(fraction-2), leaves the nearest integer in the low bits."""
        return 1.5 * 2.0**self.fraction

    @property
    def rounder_bits(self) -> int:
        """The bit pattern of `rounder`."""
        return ((self.bias + self.fraction) << self.fraction) + (1 << (self.fraction - 1))


FLOAT = Format("float", "i32", "F32", 32, 23, 127)
DOUBLE = Format("double", "i64", "F64", 64, 52, 1023)
FORMATS = {"float": FLOAT, "double": DOUBLE}


def has_fma(features: Features) -> bool:
    """True if the host multiplies and adds in one instruction (llvm.fma is a call otherwise)."""
    return any(name in features for name in ("fma", "avx512f", "neon"))


_Operator: TypeAlias = "Callable[[Lanes, Lanes | float], Lanes]"


def _operator(opcode: str, of_floats: str = "", swap: bool = False) -> _Operator:
    """A method of `Lanes` for an instruction of two operands; `swap`: self is the right one."""

    def method(self: Lanes, other: Lanes | float) -> Lanes:
        left, right = (self.lift(other), self) if swap else (self, self.lift(other))
        chosen = of_floats if of_floats and self.is_float else opcode
        return self.make(self.function.op(chosen, left.value, right.value))

    return method


def _comparison(kind: str) -> _Operator:
    def method(self: Lanes, other: Lanes | float) -> Lanes:
        return self.compare(f"{'o' if self.is_float else 's'}{kind}", other)

    return method


class Lanes:
    """One value of an expression. Numbers mix in as constants; `&`, `|`, `<<` want integers, `>>`
    is the logical shift."""

    __slots__ = ("features", "function", "value")

    def __init__(self, function: Function, value: Value, features: Features):
        self.function, self.value, self.features = function, value, features

    # Facts

    @property
    def base(self) -> str:
        """The lane type."""
        return scalar(self.value.type)

    @property
    def count(self) -> int:
        return lanes(self.value.type)

    @property
    def format(self) -> Format:
        return FORMATS[self.base]

    @property
    def is_float(self) -> bool:
        return self.base in FORMATS

    # Building blocks

    def make(self, value: Value) -> Lanes:
        """Another value in the same function."""
        return Lanes(self.function, value, self.features)

    def constant(self, number: float | int | bool) -> Lanes:
        """The number in every lane, of this type."""
        return self.make(const(self.value.type, number))

    def lift(self, other: Lanes | float | int) -> Lanes:
        return other if isinstance(other, Lanes) else self.constant(other)

    __add__ = __radd__ = _operator("add", "fadd")
    __sub__, __rsub__ = _operator("sub", "fsub"), _operator("sub", "fsub", swap=True)
    __mul__ = __rmul__ = _operator("mul", "fmul")
    __truediv__, __rtruediv__ = _operator("fdiv"), _operator("fdiv", swap=True)
    __and__, __or__, __xor__ = map(_operator, ("and", "or", "xor"))
    __lshift__ = _operator("shl")
    __rshift__ = _operator("lshr")

    def __neg__(self) -> Lanes:
        return self.make(self.function.fneg(self.value)) if self.is_float else 0 - self

    def __invert__(self) -> Lanes:
        return self ^ (1 if self.base == "i1" else -1)

    # Comparisons (ordered: false when either is NaN)

    def compare(self, predicate: str, other: Lanes | float) -> Lanes:
        """`olt`, `une`, ... for floats, `slt`, `ult`, ... for integers."""
        compare = self.function.fcmp if self.is_float else self.function.icmp
        return self.make(compare(predicate, self.value, self.lift(other).value))

    __lt__, __le__, __gt__, __ge__ = map(_comparison, ("lt", "le", "gt", "ge"))

    def equals(self, other: Lanes | float) -> Lanes:
        return self.compare("oeq" if self.is_float else "eq", other)

    def is_nan(self) -> Lanes:
        return self.compare("uno", self)

    # Conversions

    def cast(self, opcode: str, base: str) -> Lanes:
        """`fpext`, `fptrunc`, `sitofp`, `zext`, `trunc`, ... to the lane type `base`."""
        return self.make(self.function.cast(opcode, self.value, vector(base, self.count)))

    def bits(self) -> Lanes:
        """The bit pattern as integers of the same width."""
        return self.cast("bitcast", self.format.integer)

    def as_float(self) -> Lanes:
        """Integers as the float format of the same width."""
        return self.cast("bitcast", {"i32": "float", "i64": "double"}[self.base])

    # Functions of one instruction

    def abs(self) -> Lanes:
        return self.intrinsic("fabs")

    def sqrt(self) -> Lanes:
        return self.intrinsic("sqrt")

    def intrinsic(self, name: str, *others: Lanes) -> Lanes:
        """`llvm.<name>` of this value and others of the same type."""
        return self.make(self.function.intrinsic(name, self.value, *(o.value for o in others)))

    def with_sign_of(self, other: Lanes) -> Lanes:
        return self.intrinsic("copysign", other)

    def flip_sign(self, other: Lanes) -> Lanes:
        """Negated where `other` has its sign bit set."""
        sign = -(2 ** (self.format.bits - 1))
        return (self.bits() ^ (other.bits() & sign)).as_float()

    def fma(self, factor: Lanes | float, addend: Lanes | float) -> Lanes:
        """`self * factor + addend`: one rounding where the host has it, two where it does not."""
        factor, addend = self.lift(factor), self.lift(addend)
        if has_fma(self.features):
            return self.intrinsic("fma", factor, addend)
        return self * factor + addend

    def at_most(self, bound: Lanes | float) -> Lanes:
        """min(self, bound), NaN staying NaN."""
        bound = self.lift(bound)
        return select(bound < self, bound, self)

    def at_least(self, bound: Lanes | float) -> Lanes:
        """max(self, bound), NaN staying NaN."""
        bound = self.lift(bound)
        return select(bound > self, bound, self)

    # Lanes

    def chunks(self, size: int) -> list[Lanes]:
        """The value cut into vectors of `size` lanes, which must divide the count."""
        if size == self.count:
            return [self]
        if size == 1:
            return [self.make(self.function.extract(self.value, i)) for i in range(self.count)]
        return [
            self.make(self.function.shuffle(self.value, None, range(at, at + size)))
            for at in range(0, self.count, size)
        ]


class EagerLanes(ABC, Lanes):
    """Lanes whose operations compute at once (`arrays.py`) instead of writing code."""

    __slots__ = ()

    @abstractmethod
    def apply(self, name: str, *others: Lanes) -> Lanes:
        """The function `name` of this value and others; see `registry.apply`."""

    @abstractmethod
    def any(self) -> bool:
        """True if a condition holds in some lane."""


def select(condition: Lanes, then: Lanes | float, other: Lanes | float) -> Lanes:
    """`then` where the condition holds, `other` elsewhere; at least one of them is `Lanes`."""
    if not isinstance(then, Lanes):
        assert isinstance(other, Lanes), "one arm must have a type"
        then = other.constant(then)
    other = then.lift(other)
    return then.make(then.function.select(condition.value, then.value, other.value))


def concat(parts: Sequence[Lanes]) -> Lanes:
    """The lanes of all parts (of one type, a power of two of them) in order."""
    parts = list(parts)
    first = parts[0]
    function = first.function
    if first.count == 1 and len(parts) > 1:
        whole = Value(vector(first.base, len(parts)), "poison")
        for lane, part in enumerate(parts):
            whole = function.insert(whole, part.value, lane)
        return first.make(whole)
    while len(parts) > 1:
        width = range(2 * parts[0].count)
        parts = [
            first.make(function.shuffle(a.value, b.value, width))
            for a, b in zip(parts[::2], parts[1::2], strict=True)
        ]
    return parts[0]


def polynomial(x: Lanes, coefficients: Sequence[float]) -> Lanes:
    """The polynomial at x, lowest power first.

    Horner's scheme; two interleaved ones (even and odd powers) for long polynomials, whose chain
    of dependent operations would otherwise outlast what the host can overlap.
    """
    if len(coefficients) > 8:
        square = x * x
        even = polynomial(square, coefficients[::2])
        return polynomial(square, coefficients[1::2]).fma(x, even)
    result = x.constant(coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        result = result.fma(x, coefficient)
    return result


def nearest(x: Lanes, add: int = 0) -> tuple[Lanes, Lanes]:
    """The nearest integer to x (|x| < 2^21, or 2^50 for doubles), as a float and as an integer, to
    which `add`, an even number, is added.

    The integer is the bit pattern of x + rounder: its low bits are those of the (two's complement)
    integer, its high bits are not zero; `integer - rounder_bits(x)` is the number itself.
    """
    magic = x.format.rounder + add
    shifted = x + magic
    return shifted - magic, shifted.bits()


def scaled_nearest(x: Lanes, factor: float, add: int = 0) -> tuple[Lanes, Lanes]:
    """`nearest(x * factor, add)` with the product fused where possible."""
    magic = x.format.rounder + add
    shifted = x.fma(factor, magic)
    return shifted - magic, shifted.bits()


def power_of_two(integer: Lanes, format: Format, add: int = 0) -> Lanes:
    """2^(n + add) from the integer of `nearest`; n + add must be a normal exponent.

    The shift pushes out all bits of the rounder, whose low bits are zero.
    """
    return ((integer + (format.bias + add)) << format.fraction).as_float()


def ldexp(x: Lanes, n: Lanes, integer: Lanes) -> Lanes:
    """x * 2^n with one rounding, for |n| < 2 * bias and (n, integer) from `nearest` with
    `ldexp_bias` added.

    With AVX-512 one instruction (scalef); elsewhere two multiplications by powers of two, of which
    the first is exact if x is in [1/2, 2].
    """
    if avx512_width(x):
        return avx512("scalef", x, n)
    # Both halves have the bias of an exponent. The shifts to the left push out what the rounder
    # and its half leave above.
    half, fraction = integer >> 1, x.format.fraction
    first, second = (half << fraction).as_float(), ((integer - half) << fraction).as_float()
    return x * first * second


def ldexp_bias(format: Format) -> int:
    """The number that is added to the integer of `ldexp`."""
    return 2 * format.bias


def avx512_width(x: Lanes) -> int:
    """The bits of the AVX-512 register that x fills a whole number of, 0 if there is none."""
    if "avx512f" not in x.features:
        return 0
    widths = (512, 256, 128) if "avx512vl" in x.features else (512,)
    return next((w for w in widths if x.count * x.format.bits % w == 0), 0)


def avx512(name: str, x: Lanes, *operands: Lanes | int) -> Lanes:
    """The AVX-512 instruction `name` (scalef, getexp, getmant, ...) on all of x, register by
    register. Operands are like x, or immediate."""
    width = avx512_width(x)
    size = width // x.format.bits
    parts = [[o] * (x.count // size) if isinstance(o, int) else o.chunks(size) for o in operands]
    return concat(
        [_avx512(name, width, *chunk) for chunk in zip(x.chunks(size), *parts, strict=True)]
    )


def _avx512(name: str, width: int, x: Lanes, *operands: Lanes | int) -> Lanes:
    function, type = x.function, x.value.type
    arguments = [x.value, *(const("i32", o) if isinstance(o, int) else o.value for o in operands)]
    # What masked lanes would keep; the mask; 4: round as the control register says.
    arguments += [Value(type, "zeroinitializer"), const("i16" if x.count == 16 else "i8", -1)]
    if width == 512:
        arguments.append(const("i32", 4))
    letter = "s" if x.format is FLOAT else "d"
    return x.make(function.call(type, f"llvm.x86.avx512.mask.{name}.p{letter}.{width}", *arguments))


def in_full_registers(compute: Callable[[Lanes], Lanes], x: Lanes, bits: int = 512) -> Lanes:
    """`compute(x)` in whole registers of `bits`; lanes that are added to fill one are unset."""
    count, size = x.count, bits // x.format.bits
    if count >= size:
        return compute(x)
    function = x.function
    if count == 1:
        wide = function.insert(Value(vector(x.base, size), "poison"), x.value, 0)
        return x.make(function.extract(compute(x.make(wide)).value, 0))
    lanes = range(count)
    wide = x.make(function.shuffle(x.value, None, [*lanes, *[-1] * (size - count)]))
    return x.make(function.shuffle(compute(wide).value, None, lanes))


def look_up(table: Sequence[float], index: Lanes) -> Lanes:
    """table[index mod 16] for 16 floats in registers of AVX-512 (vpermps); table[index mod 8] for 8
    integers of 32 bits in those of AVX2 (vpermd)."""
    function, size = index.function, len(table)
    base = {16: "float", 8: "i32"}[size]
    held = const_vector(vector(base, size), table)
    name = {16: "llvm.x86.avx512.permvar.sf.512", 8: "llvm.x86.avx2.permd"}[size]
    parts = [function.call(held.type, name, held, part.value) for part in index.chunks(size)]
    return concat([index.make(part) for part in parts])


# Pairs of floats: `high + low` with |low| at most half an ulp of high, after Dekker (1971).


def two_sum(a: Lanes, b: Lanes) -> tuple[Lanes, Lanes]:
    """a + b exactly (Knuth)."""
    total = a + b
    shadow = total - a
    return total, (a - (total - shadow)) + (b - shadow)


def fast_two_sum(a: Lanes, b: Lanes) -> tuple[Lanes, Lanes]:
    """a + b exactly, for |a| >= |b| or a = 0."""
    total = a + b
    return total, b - (total - a)


def two_product(a: Lanes, b: Lanes | float) -> tuple[Lanes, Lanes]:
    """a * b exactly, unless the product over- or underflows."""
    b = a.lift(b)
    product = a * b
    if has_fma(a.features):
        return product, a.intrinsic("fma", b, -product)
    (a1, a2), (b1, b2) = _halves(a), _halves(b)
    return product, ((a1 * b1 - product) + a1 * b2 + a2 * b1) + a2 * b2


def _halves(x: Lanes) -> tuple[Lanes, Lanes]:
    """x as a sum of two numbers of half the fraction bits each (Veltkamp's split)."""
    scaled = x * (2.0 ** ((x.format.fraction + 2) // 2) + 1.0)
    high = scaled - (scaled - x)
    return high, x - high
