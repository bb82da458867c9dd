"""Lowering rules of `Simt`: fused multiplications and additions, divisions, shifts.

Importing this module registers them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.simt import engine as engine
from tests.simt.hardware import SIMT
from tritium.codegen.gpu.context import Context
from tritium.codegen.gpu.elementwise import divide_rounded
from tritium.codegen.llvm import elementwise as table
from tritium.codegen.llvm.writer import Value, const
from tritium.codegen.registry import lowers
from tritium.ops import arith, math

ELEMENTWISE = f"{SIMT}.elementwise"


@lowers(ELEMENTWISE, math.FmaOp)
def fused_multiply_add(c: Context, op: Any, a: Value, b: Value, d: Value) -> Value:
    """Rounded once: the exact product of 16-bit floats and a sum in double that is rounded to
    odd."""
    if a.type not in ("half", "bfloat"):
        return c.f.fma(a, b, d)
    f, narrow = c.f, a.type
    a, b, d = (f.cast("fpext", v, "double") for v in (a, b, d))
    product = f.op("fmul", a, b)
    total = f.op("fadd", product, d)
    added = f.op("fsub", total, product)
    lost = f.op("fsub", product, f.op("fsub", total, added))
    lost = f.op("fadd", lost, f.op("fsub", d, added))
    bits = f.cast("bitcast", total, "i64")
    away = f.op("xor", f.cast("bitcast", lost, "i64"), bits)
    step = f.op("or", f.op("ashr", away, const("i64", 63)), const("i64", 1))
    even = f.icmp("eq", f.op("and", bits, const("i64", 1)), const("i64", 0))
    adjusts = f.op("and", f.fcmp("one", lost, const("double", 0.0)), even)
    odd = f.cast("bitcast", f.op("add", bits, step), "double")
    return f.cast("fptrunc", f.select(adjusts, odd, total), narrow)


def _divide_integers(op: Any) -> tuple[bool, Callable[..., Value]]:
    """Whether a division is of signed numbers, and what writes it."""
    opcode = table.DIVISIONS.get(type(op))
    if opcode is None:
        return not isinstance(op, arith.CeilDivUIOp), divide_rounded
    return opcode.startswith("s"), lambda c, op, a, b: c.f.op(opcode, a, b)


@lowers(
    ELEMENTWISE, *table.DIVISIONS, arith.FloorDivSIOp, arith.CeilDivSIOp, arith.CeilDivUIOp
)
def divide_integers(c: Context, op: Any, a: Value, b: Value) -> Value:
    """As `evaluate` has it where the processor would trap and GPUs give some number: 0 for a
    division by 0; a quotient that does not fit wraps."""
    (signed, write), f = _divide_integers(op), c.f
    zero, one = const(b.type, 0), const(b.type, 1)
    undefined = f.icmp("eq", b, zero)
    divisor = f.select(undefined, one, b)
    if signed:
        least = f.icmp("eq", a, const(a.type, -(1 << int(a.type[1:]) - 1)))
        wraps = f.op("and", least, f.icmp("eq", b, const(b.type, -1)))
        divisor = f.select(wraps, one, divisor)
    return f.select(undefined, zero, write(c, op, a, divisor))


@lowers(ELEMENTWISE, *table.SHIFTS)
def shift(c: Context, op: Any, a: Value, b: Value) -> Value:
    """By the width or more: all bits are shifted out, as on GPUs."""
    opcode, last = table.SHIFTS[type(op)], const(b.type, int(b.type[1:]) - 1)
    inside = c.f.icmp("ule", b, last)
    shifted = c.f.op(opcode, a, c.f.select(inside, b, last))
    return shifted if opcode == "ashr" else c.f.select(inside, shifted, const(a.type, 0))
