"""Widening of loaded elements to the type that a dot computes in."""

from __future__ import annotations

from tritium.backends.cpu.dot.operand import BFLOAT16, ELEMENT_BYTES, FLOAT16, Operand
from tritium.backends.cpu.dot.plan import Host
from tritium.codegen.llvm.writer import Function, Value, const, lanes, scalar, vector


def widen(f: Function, host: Host, operand: Operand, value: Value, to: str) -> Value:
    """The value (scalar or vector) of `operand.element` lanes as lanes of type `to`."""
    count, source = lanes(value.type), scalar(value.type)
    if operand.convert is not None:
        value = operand.convert(f, value)
        source = scalar(value.type)
    if source == to:
        return value
    if to == BFLOAT16:
        return _upper_half(f, value)
    if source.startswith("i"):
        opcode = "zext" if operand.unsigned else "sext"
        if ELEMENT_BYTES[source] > ELEMENT_BYTES[to]:
            opcode = "trunc"
        return f.cast(opcode, value, vector(to, count))
    if source == BFLOAT16:
        value = bfloat_to_float(f, value)
    elif source == FLOAT16 and host.half:
        value = f.cast("bitcast", value, vector("half", count))
        value = f.cast("fpext", value, vector("float", count))
    elif source == FLOAT16:
        value = half_to_float(f, value)
    opcode = "fptrunc" if ELEMENT_BYTES[source] > ELEMENT_BYTES[to] else "fpext"
    return f.cast(opcode, value, vector(to, count))


def _upper_half(f: Function, value: Value) -> Value:
    """fp32 numbers that bfloat16 holds exactly, as such."""
    count = lanes(value.type)
    word = vector("i32", count)
    bits = f.op("lshr", f.cast("bitcast", value, word), const(word, 16))
    short = f.cast("trunc", bits, vector("i16", count))
    return f.cast("bitcast", short, vector(BFLOAT16, count))


def bfloat_to_float(f: Function, value: Value) -> Value:
    """bfloat16 to fp32: its bits are the upper half."""
    count = lanes(value.type)
    word = vector("i32", count)
    bits = f.cast("zext", f.cast("bitcast", value, vector("i16", count)), word)
    return f.cast("bitcast", f.op("shl", bits, const(word, 16)), vector("float", count))


def half_to_float(f: Function, value: Value) -> Value:
    """fp16 to fp32 by integer arithmetic, for hosts whose `fpext` would be a library call.

    The exponent and mantissa, moved to their places in an fp32, are off by a factor of 2^112, which
    a multiplication puts right for subnormals too; infinities and NaNs get their exponent back.
    """
    count = lanes(value.type)
    word, real = vector("i32", count), vector("float", count)
    bits = f.cast("zext", f.cast("bitcast", value, vector("i16", count)), word)
    magnitude = f.op("and", bits, const(word, 0x7FFF))
    moved = f.cast("bitcast", f.op("shl", magnitude, const(word, 13)), real)
    scaled = f.cast("bitcast", f.op("fmul", moved, const(real, 2.0**112)), word)
    special = f.icmp("ugt", magnitude, const(word, 0x7BFF))
    scaled = f.op("or", scaled, f.select(special, const(word, 0x7F800000), const(word, 0)))
    sign = f.op("shl", f.op("and", bits, const(word, 0x8000)), const(word, 16))
    return f.cast("bitcast", f.op("or", scaled, sign), real)


def float_to_half(f: Function, value: Value) -> Value:
    """fp32 to fp16, to nearest even, by integer arithmetic (hosts without the instruction).

    Normal results: add half an fp16 ulp less one (plus the bit that decides ties) and shift.
    Subnormal ones: adding 0.5 leaves the rounded fp16 mantissa in the lowest bits of the fp32.
    """
    count = lanes(value.type)
    word, real = vector("i32", count), vector("float", count)
    bits = f.cast("bitcast", value, word)
    magnitude = f.op("and", bits, const(word, 0x7FFFFFFF))
    odd = f.op("and", f.op("lshr", magnitude, const(word, 13)), const(word, 1))
    rebased = f.op("add", magnitude, const(word, 0xFFF - (112 << 23)))
    normal = f.op("lshr", f.op("add", rebased, odd), const(word, 13))
    nudged = f.op("fadd", f.cast("bitcast", magnitude, real), const(real, 0.5))
    small = f.op("sub", f.cast("bitcast", nudged, word), const(word, 0x3F000000))
    is_small = f.icmp("ult", magnitude, const(word, 113 << 23))
    result = f.select(is_small, small, normal)
    is_big = f.icmp("ugt", magnitude, const(word, 0x477FEFFF))
    result = f.select(is_big, const(word, 0x7C00), result)
    is_nan = f.icmp("ugt", magnitude, const(word, 0x7F800000))
    result = f.select(is_nan, const(word, 0x7E00), result)
    sign = f.op("and", f.op("lshr", bits, const(word, 16)), const(word, 0x8000))
    short = f.cast("trunc", f.op("or", result, sign), vector("i16", count))
    return f.cast("bitcast", short, vector(FLOAT16, count))
