"""Functions of floats on one element: the processor's (`hardware.Functions`), by their names."""

from __future__ import annotations

from functools import partial
from typing import Any

from tritium.codegen.gpu.context import Context
from tritium.codegen.gpu.elementwise import in_float
from tritium.codegen.gpu.emitter import Emitter
from tritium.codegen.gpu.types import ELEMENTWISE, value_type
from tritium.codegen.llvm import vmath
from tritium.codegen.llvm.writer import Value
from tritium.codegen.registry import lowers, rules
from tritium.ops import arith, math, ttir
from tritium.ops.base import Op
from tritium.ops.ttir.extern import ExternElementwiseOp

NO_FEATURES: frozenset[str] = frozenset()
_OPS: list[type[Op]] = [
    value for value in vars(math).values()
    if isinstance(value, type) and issubclass(value, Op) and value.__module__ == math.__name__
    and value is not Op and value not in rules(ELEMENTWISE)
]  # fmt: skip


class VectorMath:
    """Our own functions (`codegen.llvm.vmath`)."""

    def call(self, e: Emitter, name: str, *values: Value) -> Value:
        if name == "sqrt":
            return e.f.intrinsic("sqrt", *values)
        return vmath.call(e.f, name, *values, features=NO_FEATURES)

    def divide(self, e: Emitter, a: Value, b: Value, approximate: bool) -> Value:
        return e.f.op("fdiv", a, b)

    def external(self, c: Context, op: Any, *values: Value) -> Value:
        from tritium.codegen.llvm.vmath.libdevice import (  # few kernels call one
            call_symbol,
            symbols,
        )

        if op.symbol not in symbols() or op.libpath:
            raise c.unsupported(op, f"symbol '{op.symbol}' of {op.libpath or op.libname}")
        return call_symbol(c.f, op.symbol, *values, features=NO_FEATURES)


@lowers(ELEMENTWISE, *_OPS)
def function(c: Context, op: Op, *values: Value) -> Value:
    name = op.name.partition(".")[2]
    return in_float(c, values, partial(c.hardware.functions.call, c, name))


@lowers(ELEMENTWISE, arith.RemFOp)
def remainder(c: Context, op: Op, a: Value, b: Value) -> Value:
    return in_float(c, (a, b), partial(c.hardware.functions.call, c, "fmod"))


@lowers(ELEMENTWISE, arith.DivFOp, ttir.ApproxDivFOp)
def divide(c: Context, op: Op, a: Value, b: Value) -> Value:
    approximate = isinstance(op, ttir.ApproxDivFOp)
    return in_float(c, (a, b), partial(c.hardware.functions.divide, c, approximate=approximate))


def linked(c: Context, op: Any, *values: Value) -> Value:
    """A function of the bitcode that the op or an option names."""
    if op.libpath:
        c.libraries.add(op.libpath)
    return c.f.call(value_type(op.results[0].type), op.symbol, *values)


@lowers(ELEMENTWISE, ExternElementwiseOp)
def external(c: Context, op: Any, *values: Value) -> Value:
    return c.hardware.functions.external(c, op, *values)
