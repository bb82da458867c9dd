"""Elementwise ops as LLVM instructions, for scalars and vectors alike.

Each rule takes the context, the op and its operands' values (all scalars, or all vectors with the
same number of lanes) and returns the result. Sixteen-bit floats are computed in float and rounded
after each op, which for + - * / and sqrt is the same as rounding once (float has more than twice
their precision). Processors with arithmetic of fp16 compute these in it, to the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tritium.backends.cpu.lower.context import Context
from tritium.backends.cpu.lower.types import fp, value_type
from tritium.codegen.llvm import elementwise as table
from tritium.codegen.llvm.types import FORMATS
from tritium.codegen.llvm.vmath import call
from tritium.codegen.llvm.writer import BITS_OF, Function, Value, const, lanes, scalar, vector
from tritium.codegen.registry import lowers
from tritium.ir import types as ir
from tritium.ops import arith, math
from tritium.ops.base import Op
from tritium.ops.ttir.numeric import ClampFOp

_NARROW = {BITS_OF["half"]: "fp16", BITS_OF["bfloat"]: "bf16"}


def in_float(c: Context, values: tuple[Value, ...], compute: Callable[..., Value]) -> Value:
    """`compute` on operands of sixteen bits as floats; a result that is a float is rounded to their
    type again."""
    base = scalar(values[0].type)
    name = _NARROW.get(base)
    if name is None:
        return compute(*values)
    wide = [fp(c.f, v, name, "fp32", features=c.features) for v in values]
    result = compute(*wide)
    is_float = scalar(result.type) == "float"
    return fp(c.f, result, "fp32", name, features=c.features) if is_float else result


def has_half(c: Context) -> bool:
    """True if the processor has arithmetic of fp16."""
    return not c.features.isdisjoint(("avx512fp16", "fullfp16"))


def directly(c: Context, values: tuple[Value, ...], compute: Callable[..., Value]) -> Value:
    """`compute`, which rounds once, on fp16 as such where the processor has its arithmetic; else
    `in_float`."""
    type = values[0].type
    if scalar(type) != BITS_OF["half"] or not has_half(c):
        return in_float(c, values, compute)
    held = vector("half", lanes(type))
    result = compute(*(c.f.cast("bitcast", v, held) for v in values))
    return c.f.cast("bitcast", result, type) if result.type == held else result


def _quietly(c: Context, values: tuple[Value, ...], compute: Callable[..., Value]) -> Value:
    """`directly`, for minima and maxima that leave out NaN. AArch64's instructions give NaN for a
    signaling one, which the conversion to float makes a quiet one: there, in float."""
    return (in_float if c.host.arm else directly)(c, values, compute)


_quiet = table.shared_rules(_quietly, value_type)
for _op, _rule in table.shared_rules(directly, value_type).items():
    leaves_nan = _op in (arith.MinNumFOp, arith.MaxNumFOp, ClampFOp)
    lowers("cpu", _op)(_quiet[_op] if leaves_nan else _rule)
lowers("cpu", math.SqrtOp)(table.intrinsic(directly, "sqrt"))


@lowers("cpu", *table.SHIFTS)
def shift(c: Context, op: Op, a: Value, b: Value) -> Value:
    """Shifts by the width or more are defined here as in `evaluate`, not poison."""
    opcode = table.SHIFTS[type(op)]
    bits = int(scalar(a.type)[1:])
    known = _splat_number(b)
    if known is not None and 0 <= known < bits:
        return c.f.op(opcode, a, b)
    limit = const(b.type, bits - 1)
    if opcode == "ashr":
        return c.f.op(opcode, a, c.f.intrinsic("umin", b, limit))
    inside = c.f.icmp("ule", b, limit)
    shifted = c.f.op(opcode, a, c.f.intrinsic("umin", b, limit))
    return c.f.select(inside, shifted, const(a.type, 0))


def _splat_number(value: Value) -> int | None:
    """The number in all lanes of a constant."""
    text = value.ref
    if text.startswith("splat ("):
        text = text[7:-1].split(" ")[1]
    return int(text) if text.lstrip("-").isdigit() else None


@lowers("cpu", *table.DIVISIONS)
def divide(c: Context, op: Op, a: Value, b: Value) -> Value:
    """Integer division; by zero it gives zero (the processor would trap)."""
    opcode = table.DIVISIONS[type(op)]
    signed, remainder = opcode.startswith("s"), opcode.endswith("rem")
    known = _splat_number(b)
    if known is not None and known not in (0, -1):
        return c.f.op(opcode, a, b)
    f, zero = c.f, const(b.type, 0)
    undefined = f.icmp("eq", b, zero)
    safe = f.select(undefined, const(b.type, 1), b)
    bits = int(scalar(a.type)[1:])
    if lanes(a.type) > 1 and bits <= 32:
        result = _divide_as_float(c, a, safe, signed)
        if remainder:
            result = f.op("sub", a, f.op("mul", result, safe))
        return f.select(undefined, zero, result)
    if signed:
        return _divide_signed(c, a, safe, remainder, undefined)
    return f.select(undefined, zero, f.op("urem" if remainder else "udiv", a, safe))


def _divide_signed(c: Context, a: Value, safe: Value, remainder: bool, undefined: Value) -> Value:
    """The most negative number divided by -1 wraps (the processor would trap)."""
    f, zero = c.f, const(safe.type, 0)
    minus = f.icmp("eq", safe, const(safe.type, -1))
    safe = f.select(minus, const(safe.type, 1), safe)
    result = f.op("srem" if remainder else "sdiv", a, safe)
    if not remainder:
        result = f.select(minus, f.op("sub", zero, result), result)
    return f.select(undefined, zero, result)


def _divide_as_float(c: Context, a: Value, b: Value, signed: bool) -> Value:
    """Quotients of n <= 32 bits by way of floats, which is exact and, unlike integer division, has
    vector instructions: a quotient is at least 2^-n (relatively) away from any integer that it is
    not; float rounds to within 2^-24 (n <= 16), double to within 2^-53."""
    f, kind, bits = c.f, a.type, int(scalar(a.type)[1:])
    held, word = (vector(t, lanes(kind)) for t in ("float" if bits <= 16 else "double", "i32"))
    minus = f.icmp("eq", b, const(kind, -1)) if signed and bits == 32 else None
    if minus is not None:  # -2^31 / -1 does not fit
        b = f.select(minus, const(kind, 1), b)
    if word != kind:
        a, b = (f.cast("sext" if signed else "zext", x, word) for x in (a, b))
    sign = "si" if signed or bits < 32 else "ui"
    quotient = f.op("fdiv", f.cast(f"{sign}tofp", a, held), f.cast(f"{sign}tofp", b, held))
    whole = f.cast(f"fpto{sign}", quotient, word)
    if minus is not None:
        whole = f.select(minus, f.op("sub", const(kind, 0), a), whole)
    return whole if word == kind else f.cast("trunc", whole, kind)


@lowers("cpu", arith.FloorDivSIOp, arith.CeilDivSIOp, arith.CeilDivUIOp)
def divide_rounded(c: Context, op: arith.DivisionOp, a: Value, b: Value) -> Value:
    """Division rounded down or up: truncated, then corrected by one where something is left."""
    f, signed, up = c.f, not op.is_unsigned, not isinstance(op, arith.FloorDivSIOp)
    zero, one = const(a.type, 0), const(a.type, 1)
    undefined = f.icmp("eq", b, zero)
    safe = f.select(undefined, one, b)
    if signed:
        quotient = _divide_signed(c, a, safe, False, undefined)
    else:
        quotient = f.op("udiv", a, safe)
    rest = f.op("sub", a, f.op("mul", quotient, safe))
    inexact = f.icmp("ne", rest, zero)
    if signed:
        different = f.icmp("slt", f.op("xor", rest, safe), zero)
        if up:
            different = f.op("xor", different, const(different.type, 1))
        inexact = f.op("and", inexact, different)
    corrected = f.op("add" if up else "sub", quotient, one)
    return f.select(undefined, zero, f.select(inexact, corrected, quotient))


def _float_binary(opcode: str) -> Callable[..., Value]:
    def rule(c: Context, op: Op, a: Value, b: Value) -> Value:
        flags = c.contract if scalar(a.type) in ("float", "double") else ""
        return directly(c, (a, b), partial(c.f.op, opcode, flags=flags))

    return rule


for _op, _opcode in table.FLOAT_BINARY.items():
    lowers("cpu", _op)(_float_binary(_opcode))


@lowers("cpu", arith.RemFOp)
def remainder(c: Context, op: Op, a: Value, b: Value) -> Value:
    return in_float(c, (a, b), partial(call, c.f, "fmod", features=c.features))


@lowers("cpu", arith.NegFOp)
def negate(c: Context, op: Op, a: Value) -> Value:
    return _sign_bit(c, a, "xor")


@lowers("cpu", math.AbsFOp)
def absolute(c: Context, op: Op, a: Value) -> Value:
    if scalar(a.type) == "i8":
        return table.clear_sign(c, op, a)
    return _sign_bit(c, a, "and")


def _sign_bit(c: Context, a: Value, opcode: str) -> Value:
    """Flip (xor) or clear (and) the sign; sixteen bits as integers."""
    if scalar(a.type) not in _NARROW:
        return c.f.fneg(a) if opcode == "xor" else c.f.intrinsic("fabs", a)
    bits = vector("i16", lanes(a.type))
    mask = -0x8000 if opcode == "xor" else 0x7FFF
    word = c.f.op(opcode, c.f.cast("bitcast", a, bits), const(bits, mask))
    return c.f.cast("bitcast", word, a.type)


@lowers("cpu", arith.SIToFPOp, arith.UIToFPOp)
def to_float(c: Context, op: Op, a: Value) -> Value:
    """Integers to floats. Floats below 32 bits go by way of one that holds the integer, or of those
    that it cannot hold the odd neighbour (`odd_multiple`): they are rounded once."""
    result = ir.element_type(op.results[0].type)
    signed = isinstance(op, arith.SIToFPOp)
    bits = int(scalar(a.type)[1:])
    name = FORMATS[result]
    wide = name if name in ("fp32", "fp64") else "fp32" if bits <= 32 else "fp64"
    if name != wide and bits >= 32:
        a = odd_multiple(c.f, a, 8 if bits == 32 else 11, signed)
    held = vector("float" if wide == "fp32" else "double", lanes(a.type))
    number = c.f.cast("sitofp" if signed else "uitofp", a, held)
    # Bytes have no more digits than a bfloat16, the shortest of these floats.
    return fp(c.f, number, wide, name, features=c.features, exact=bits <= 8)


def odd_multiple(f: Function, a: Value, drop: int, signed: bool) -> Value:
    """Integers that `drop` bits less can tell, and for others, which have too many digits
    and are near no float of 16 bits, the odd one of the neighbouring multiples of 2**drop: rounding
    that to a float of fewer digits rounds the integer (Boldo and Melquiond 2008)."""
    kept = int(scalar(a.type)[1:]) - drop
    mask, unit = (1 << drop) - 1, 1 << drop
    lost = f.op("add", f.op("and", a, const(a.type, mask)), const(a.type, mask))
    odd = f.op("or", f.op("and", a, const(a.type, -unit)), f.op("and", lost, const(a.type, unit)))
    if signed:
        moved = f.op("add", a, const(a.type, 1 << kept))
        return f.select(f.icmp("ult", moved, const(a.type, 2 << kept)), a, odd)
    return f.select(f.icmp("ult", a, const(a.type, 1 << kept)), a, odd)


@lowers("cpu", arith.FPToSIOp, arith.FPToUIOp)
def to_integer(c: Context, op: Op, a: Value) -> Value:
    """Toward zero; where it does not fit as the op says, which LLVM leaves undefined."""
    source = FORMATS[ir.element_type(op.operands[0].type)]
    if source not in ("fp32", "fp64"):
        a = fp(c.f, a, source, "fp32", features=c.features)
    to = vector(value_type(op.results[0].type), lanes(a.type))
    bits = int(scalar(to)[1:])
    if bits < 32:
        return c.f.cast("trunc", _to_signed(c, a, 32), to)
    if isinstance(op, arith.FPToSIOp):
        return _to_signed(c, a, bits)
    half = const(a.type, 2.0 ** (bits - 1))
    high = c.f.fcmp("oge", a, half)
    low = _to_signed(c, c.f.select(high, c.f.op("fsub", a, half), a), bits)
    return c.f.op("xor", low, c.f.select(high, const(to, -(1 << (bits - 1))), const(to, 0)))


def _to_signed(c: Context, a: Value, bits: int) -> Value:
    """The smallest integer for what does not fit."""
    limit = 2.0 ** (bits - 1)
    if "sse2" in c.features:
        # So does the instruction; the fence, which costs nothing, keeps LLVM from folding what is
        # undefined to it where it knows the number.
        inside = c.f.intrinsic("arithmetic.fence", a)
    else:
        fits = c.f.fcmp("olt", c.f.intrinsic("fabs", a), const(a.type, limit))
        inside = c.f.select(fits, a, const(a.type, -limit))
    return c.f.cast("fptosi", inside, vector(f"i{bits}", lanes(a.type)))


@lowers("cpu", arith.ExtFOp, arith.TruncFOp)
def float_cast(c: Context, op: Op, a: Value) -> Value:
    source, target = (FORMATS[ir.element_type(v.type)] for v in (op.operands[0], op.results[0]))
    rounding = "rtne"
    if isinstance(op, arith.TruncFOp):
        mode = op.roundingmode
        if mode is arith.RoundingMode.TOWARD_ZERO:
            rounding = "rtz"
        elif mode is not arith.RoundingMode.TO_NEAREST_EVEN:
            raise NotImplementedError(f"arith.truncf: rounding mode {mode.name.lower()}")
    return fp(c.f, a, source, target, features=c.features, rounding=rounding)


def _math(name: str) -> Callable[..., Value]:
    def rule(c: Context, op: Op, *values: Value) -> Value:
        return in_float(c, values, partial(call, c.f, name, features=c.features))

    return rule


for _op, _name in (
    (math.ExpOp, "exp"), (math.Exp2Op, "exp2"), (math.ExpM1Op, "expm1"), (math.LogOp, "log"),
    (math.Log2Op, "log2"), (math.Log10Op, "log10"), (math.Log1POp, "log1p"), (math.SinOp, "sin"),
    (math.CosOp, "cos"), (math.TanOp, "tan"), (math.TanhOp, "tanh"), (math.ErfOp, "erf"),
    (math.RsqrtOp, "rsqrt"),
):  # fmt: skip
    lowers("cpu", _op)(_math(_name))


@lowers("cpu", math.FmaOp)
def fused_multiply_add(c: Context, op: Op, a: Value, b: Value, d: Value) -> Value:
    """Rounded once: numbers of sixteen bits are multiplied exactly as doubles, and their sum is
    rounded to odd, which the rounding to sixteen bits then cannot mistake for a tie."""
    name = _NARROW.get(scalar(a.type))
    if name is None or (name == "fp16" and has_half(c)):
        return directly(c, (a, b, d), c.f.fma)
    f = c.f
    a, b, d = (fp(f, v, name, "fp64", features=c.features) for v in (a, b, d))
    product = f.op("fmul", a, b)
    total = f.op("fadd", product, d)
    added = f.op("fsub", total, product)
    lost = f.op("fsub", product, f.op("fsub", total, added))
    lost = f.op("fadd", lost, f.op("fsub", d, added))
    bits = f.cast("bitcast", total, total.type.replace("double", "i64"))
    zero, one = const(a.type, 0.0), const(bits.type, 1)
    # `lost` is NaN beside an infinite sum, and then not ordered.
    grows = f.op("xor", f.cast("bitcast", lost, bits.type), bits)
    step = f.op("or", f.op("ashr", grows, const(bits.type, 63)), one)
    even = f.icmp("eq", f.op("and", bits, one), const(bits.type, 0))
    adjusts = f.op("and", f.fcmp("one", lost, zero), even)
    odd = f.cast("bitcast", f.op("add", bits, step), total.type)
    return fp(f, f.select(adjusts, odd, total), "fp64", name, features=c.features)
