"""Float division of a tile by one number: by its reciprocal, which is found once.

A vector division takes the divider for 10 to 16 cycles; a product and a correction do not need
it. With r = 1 / d, rounded, the quotient is

    q = a * r        then        q <- q + r * (a - q * d)        with fused multiply-adds,

which rounds correctly: in double after two corrections (Markstein, "Computation of elementary
functions on the IBM RISC System/6000", 1990: the last one starts from a q that is off by less than
an ulp), in float after one (shown by trying the 10^8 quotients closest to where rounding changes;
tests/cpu/test_division.py tries some). Only where the result is subnormal, or the dividend so small
that the remainder is (below 2^-102 in float, 2^-969 in double), may it differ from that of a
division, by one unit in the last place.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tritium.backends.cpu.lower.elementwise import in_float
from tritium.backends.cpu.lower.emitter import Emitter
from tritium.backends.cpu.lower.values import Lanes, Uniform, Vec
from tritium.lowering.llvm import Function, Value, const, lanes, scalar, vector
from tritium.lowering.registry import lowers
from tritium.ops import arith

_SPECIAL = 0x110111
"""For vfixupimm, a digit for each class of numbers (from the lowest: quiet and signaling NaN, zero,
one, -inf, inf, negative, positive): 1 replaces the corrected quotient by the first."""

_CORRECTIONS = {"float": 1, "double": 2}
_BYTES = {"float": 4, "double": 8}

# The reciprocal of a divisor smaller than 2^-e may overflow, that of one larger than 2^e loses
# digits: there the divisor, and what is divided by it, are multiplied by 2^s or 2^-s first.
_NORMAL_EXPONENT = {"float": 126, "double": 1022}
_SCALE_EXPONENT = {"float": 32, "double": 64}


@lowers("cpu.uniform", arith.DivFOp)
def divide(e: Emitter, op: arith.DivFOp, arguments: list[Lanes]) -> Vec | None:
    """A vector divided by the same number in all lanes; None if it is something else."""
    a, d = arguments
    if e.width == 1 or not isinstance(a, Vec) or not isinstance(d, Uniform):
        return None
    level = max(a.level, d.level)

    def write() -> Value:
        wide = e.once(("in float", d.value), d.level, in_float, e.context, (d.value,), _same, False)
        compute = partial(_quotient, e, Uniform(wide, d.level), op.rhs in e.facts.ordinary)
        return in_float(e.context, (a.value,), compute)

    return Vec(e.at_level(level, write), level, a.pinned or d.pinned)


def _same(value: Value) -> Value:
    return value


def is_ordinary(f: Function, divisor: Value) -> Value:
    """Whether a number's reciprocal neither overflows nor loses digits (i1)."""
    size, (low, high) = f.intrinsic("fabs", divisor), _ordinary(divisor.type)
    return f.op("and", f.fcmp("uge", size, low), f.fcmp("ule", size, high))


def _ordinary(type: str) -> tuple[Value, Value]:
    end = _NORMAL_EXPONENT[type]
    return const(type, 2.0**-end), const(type, 2.0**end)


def _quotient(e: Emitter, divisor: Uniform, ordinary: bool, a: Value) -> Value:
    f, type = e.f, divisor.value.type

    def once(name: str, write: Callable[..., Value], *arguments: Value) -> Value:
        """A number that depends on the divisor only, in all lanes."""
        return e.once((name, divisor.value), divisor.level, write, *arguments)

    def scale_of(d: Value) -> Value:
        size, (low, high) = f.intrinsic("fabs", d), _ordinary(type)
        small, large = f.fcmp("olt", size, low), f.fcmp("ogt", size, high)
        up, down = (const(type, 2.0**s) for s in (_SCALE_EXPONENT[type], -_SCALE_EXPONENT[type]))
        return f.select(small, up, f.select(large, down, const(type, 1.0)))

    def wide(value: Value) -> Value:
        return e.vec(Uniform(value, divisor.level))

    scaled = divisor.value
    if not ordinary:
        scale = once("scale", scale_of, divisor.value)
        scaled = once("scaled", partial(f.op, "fmul"), divisor.value, scale)
        a = f.op("fmul", a, wide(scale))
    r = wide(once("reciprocal", partial(f.op, "fdiv"), const(type, 1.0), scaled))
    minus_d = wide(once("negated", f.fneg, scaled))
    first = q = f.op("fmul", a, r)
    for _ in range(_CORRECTIONS[type]):
        q = f.fma(f.fma(q, minus_d, a), r, q)
    return _unless_special(e, q, first)


def _unless_special(e: Emitter, corrected: Value, first: Value) -> Value:
    """The corrected quotients, but the first ones where these are zero, which the correction loses
    the sign of, or infinite or NaN, where it is not a number."""
    f, type = e.f, first.type
    bits = 8 * _BYTES[scalar(type)]
    if "avx512f" not in e.context.features or lanes(type) * bits != 512:
        return f.select(f.fcmp("one", corrected, const(type, 0.0)), corrected, first)
    table = const(vector(f"i{bits}", lanes(type)), _SPECIAL)
    letter = "s" if bits == 32 else "d"
    mask = const("i16" if bits == 32 else "i8", -1)
    name = f"llvm.x86.avx512.mask.fixupimm.p{letter}.512"
    return f.call(type, name, corrected, first, table, const("i32", 0), mask, const("i32", 4))
