"""Elementwise ops of the `tt` dialect: conversions, clamping, precise division, high products,
functions of libdevice."""

from __future__ import annotations

from functools import partial

from tritium.backends.cpu.lower.context import Context
from tritium.backends.cpu.lower.elementwise.arithmetic import directly
from tritium.backends.cpu.lower.emitter import Emitter
from tritium.backends.cpu.lower.types import fp, value_type
from tritium.backends.cpu.lower.values import Lanes, Linear
from tritium.codegen.llvm.types import FORMATS
from tritium.codegen.llvm.writer import Value, const, lanes, scalar, vector
from tritium.codegen.registry import lowers
from tritium.ir import types as ir
from tritium.ops import arith
from tritium.ops.base import Op
from tritium.ops.ttir.extern import ExternElementwiseOp
from tritium.ops.ttir.numeric import (
    ApproxDivFOp,
    BitcastOp,
    FpToFpOp,
    IntToPtrOp,
    MulHiUIOp,
    PtrToIntOp,
    Rounding,
)


@lowers("cpu", FpToFpOp)
def fp_to_fp(c: Context, op: FpToFpOp, a: Value) -> Value:
    source, target = (FORMATS[ir.element_type(v.type)] for v in (op.operands[0], op.results[0]))
    rounding = "rtz" if op.rounding is Rounding.RTZ else "rtne"
    return fp(c.f, a, source, target, features=c.features, rounding=rounding)


@lowers("cpu", arith.BitcastOp, BitcastOp, PtrToIntOp, IntToPtrOp)
def bitcast(c: Context, op: Op, a: Value) -> Value:
    to = vector(value_type(op.results[0].type), lanes(a.type))
    if to == a.type:
        return a
    if scalar(a.type) == "ptr":
        return c.f.cast("ptrtoint", a, to)
    if scalar(to) == "ptr":
        return c.f.cast("inttoptr", a, to)
    return c.f.cast("bitcast", a, to)


@lowers("cpu.linear", BitcastOp)
def bitcast_linear(e: Emitter, op: Op, arguments: list[Lanes]) -> Linear | None:
    """Addresses stay what they are, whatever they are said to point to."""
    (a,) = arguments
    pointers = ir.is_pointer(op.operands[0].type) and ir.is_pointer(op.results[0].type)
    return a if pointers and isinstance(a, Linear) else None


@lowers("cpu", ApproxDivFOp)
def approximate_divide(c: Context, op: Op, a: Value, b: Value) -> Value:
    return directly(c, (a, b), partial(c.f.op, "fdiv"))


@lowers("cpu", MulHiUIOp)
def high_product(c: Context, op: Op, a: Value, b: Value) -> Value:
    f, count = c.f, lanes(a.type)
    bits = int(scalar(a.type)[1:])
    if bits < 64 or count == 1:
        wide = vector(f"i{2 * bits}", count)
        product = f.op("mul", f.cast("zext", a, wide), f.cast("zext", b, wide))
        return f.cast("trunc", f.op("lshr", product, const(wide, bits)), a.type)
    # Schoolbook multiplication in halves of 32 bits; no partial sum exceeds 64 bits.
    low, shift = const(a.type, 0xFFFFFFFF), const(a.type, 32)
    a0, b0 = f.op("and", a, low), f.op("and", b, low)
    a1, b1 = f.op("lshr", a, shift), f.op("lshr", b, shift)
    carry = f.op("lshr", f.op("mul", a0, b0), shift)
    middle = f.op("add", f.op("mul", a1, b0), carry)
    other = f.op("add", f.op("mul", a0, b1), f.op("and", middle, low))
    total = f.op("add", f.op("mul", a1, b1), f.op("lshr", middle, shift))
    return f.op("add", total, f.op("lshr", other, shift))


@lowers("cpu", ExternElementwiseOp)
def external(c: Context, op: ExternElementwiseOp, *values: Value) -> Value:
    """Raises NotImplementedError, naming the symbol, for functions that are not known."""
    # Here, so that kernels without such functions do not load their hundreds of coefficients.
    from tritium.codegen.llvm.vmath.libdevice import call_symbol, symbols

    if op.symbol not in symbols():
        raise c.unsupported(op, f" (symbol '{op.symbol}')")
    return call_symbol(c.f, op.symbol, *values, features=c.features)
