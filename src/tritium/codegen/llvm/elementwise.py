"""Elementwise ops that every target lowers to the same LLVM instruction or intrinsic.

The tables and rules are those of ops whose LLVM instructions mean the same on all targets; what a
target must treat with care (division by zero, functions) is in its own rules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from tritium.codegen.llvm.writer import Value, const, lanes, scalar, vector
from tritium.codegen.registry import Rule
from tritium.ir import types as ir
from tritium.ops import arith, math, ttir
from tritium.ops.base import Op

BINARY: dict[type[Op], str] = {
    arith.AddIOp: "add", arith.SubIOp: "sub", arith.MulIOp: "mul",
    arith.AndIOp: "and", arith.OrIOp: "or", arith.XOrIOp: "xor",
}  # fmt: skip
"""Integer ops that are one instruction."""

SHIFTS: dict[type[Op], str] = {
    arith.ShLIOp: "shl", arith.ShRUIOp: "lshr", arith.ShRSIOp: "ashr",
}  # fmt: skip
"""Shifts; by the width or more LLVM's are poison."""

DIVISIONS: dict[type[Op], str] = {
    arith.DivSIOp: "sdiv", arith.DivUIOp: "udiv", arith.RemSIOp: "srem", arith.RemUIOp: "urem",
}  # fmt: skip
"""Integer divisions; by zero LLVM's are undefined."""

FLOAT_BINARY: dict[type[Op], str] = {
    arith.AddFOp: "fadd", arith.SubFOp: "fsub", arith.MulFOp: "fmul", arith.DivFOp: "fdiv",
}  # fmt: skip

MIN_MAX: dict[type[Op], str] = {
    arith.MinSIOp: "smin", arith.MinUIOp: "umin", arith.MaxSIOp: "smax", arith.MaxUIOp: "umax",
    arith.MinimumFOp: "minimum", arith.MaximumFOp: "maximum",
    arith.MinNumFOp: "minnum", arith.MaxNumFOp: "maxnum",
}  # fmt: skip
"""min and max, with NaN as either the result (minimum) or as absent (minnum)."""

INTRINSICS: dict[type[Op], str] = {
    **MIN_MAX, math.CeilOp: "ceil", math.FloorOp: "floor", math.TruncOp: "trunc",
    math.RoundEvenOp: "roundeven", ttir.PreciseSqrtOp: "sqrt",
}  # fmt: skip
"""Intrinsics `llvm.<name>`."""

CASTS: dict[type[Op], str] = {
    arith.ExtSIOp: "sext", arith.ExtUIOp: "zext", arith.TruncIOp: "trunc",
}  # fmt: skip

InFloat = Callable[[Any, tuple[Value, ...], Callable[..., Value]], Value]
"""(context, operands, compute): `compute` on operands of sixteen bits as floats; a result that is
a float is rounded to their type again."""


def intrinsic(in_float: InFloat, name: str) -> Rule:
    """The rule for an op that is an intrinsic `llvm.<name>`."""

    def rule(c: Any, op: Op, *values: Value) -> Value:
        return in_float(c, values, partial(c.f.intrinsic, name))

    return rule


def clear_sign(c: Any, op: Op, a: Value) -> Value:
    """The magnitude of a float of eight bits, which is an integer here. In the formats without a
    negative zero its place is that of the NaN, which stays."""
    f = c.f
    result = f.op("and", a, const(a.type, 0x7F))
    if ir.element_type(op.operands[0].type) in (ir.f8e4m3fnuz, ir.f8e5m2fnuz):
        result = f.select(f.icmp("eq", a, const(a.type, -0x80)), a, result)
    return result


def binary(opcode: str) -> Rule:
    """The rule for an op that is one instruction."""

    def rule(c: Any, op: Op, a: Value, b: Value) -> Value:
        return c.f.op(opcode, a, b)

    return rule


def shared_rules(
    in_float: InFloat, value_type: Callable[[ir.Type], str]
) -> Mapping[type[Op], Rule]:
    """The rules that all targets share, given how one computes with 16-bit floats and the types
    that it has for values."""

    def compare_integers(c: Any, op: arith.CmpIOp, a: Value, b: Value) -> Value:
        return c.f.icmp(op.predicate.name.lower(), a, b)

    def compare_floats(c: Any, op: arith.CmpFOp, a: Value, b: Value) -> Value:
        return in_float(c, (a, b), partial(c.f.fcmp, op.predicate.name.lower()))

    def select(c: Any, op: Op, condition: Value, a: Value, b: Value) -> Value:
        if lanes(a.type) > 1 and scalar(a.type) == "i1":
            # LLVM chooses among masks in words of 16 bits, to which it converts all three on AVX2.
            off = c.f.op("xor", condition, const(condition.type, True))
            return c.f.op("or", c.f.op("and", condition, a), c.f.op("and", off, b))
        return c.f.select(condition, a, b)

    def divide(c: Any, op: Op, a: Value, b: Value) -> Value:
        return in_float(c, (a, b), partial(c.f.op, "fdiv"))

    def clamp(c: Any, op: ttir.ClampFOp, x: Value, low: Value, high: Value) -> Value:
        keeps_nan = op.propagateNan is ttir.PropagateNan.ALL
        names = ("maximum", "minimum") if keeps_nan else ("maxnum", "minnum")

        def compute(x: Value, low: Value, high: Value) -> Value:
            return c.f.intrinsic(names[1], c.f.intrinsic(names[0], x, low), high)

        return in_float(c, (x, low, high), compute)

    def absolute(c: Any, op: Op, a: Value) -> Value:
        return c.f.intrinsic("smax", a, c.f.op("sub", const(a.type, 0), a))

    def cast(c: Any, op: Op, a: Value) -> Value:
        to = vector(value_type(op.results[0].type), lanes(a.type))
        narrower = int(scalar(to)[1:]) < int(scalar(a.type)[1:])
        return c.f.cast(CASTS.get(type(op)) or ("trunc" if narrower else "sext"), a, to)

    return {
        **{cls: binary(opcode) for cls, opcode in BINARY.items()},
        **{cls: intrinsic(in_float, name) for cls, name in INTRINSICS.items()},
        **dict.fromkeys((*CASTS, arith.IndexCastOp), cast),
        arith.CmpIOp: compare_integers, arith.CmpFOp: compare_floats, arith.SelectOp: select,
        ttir.PreciseDivFOp: divide, ttir.ClampFOp: clamp, math.AbsIOp: absolute,
    }  # fmt: skip
