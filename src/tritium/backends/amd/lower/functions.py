"""Functions of floats that AMD GPUs have instructions for."""

from __future__ import annotations

from typing import Any

from tritium.codegen.gpu.context import Context
from tritium.codegen.gpu.emitter import Emitter
from tritium.codegen.gpu.functions import NO_FEATURES, VectorMath, linked
from tritium.codegen.llvm.writer import Value, const, mangle
from tritium.ops.ttir.extern import common_symbol

_LOG2_E = 1.4426950408889634
_ULP = 2.5
REGISTERS = "hip"
"""The library of an op that reads a register of the processor."""


class AMDFunctions(VectorMath):
    """LLVM's sequences around `v_exp_f32`, `v_log_f32`, `v_sqrt_f32`, `v_rsq_f32`, `v_rcp_f32`; our
    own functions for the others and for doubles. Exponentials are 2^(x log2 e): the product adds
    |x| / 2^24 relatively."""

    def call(self, e: Emitter, name: str, *values: Value) -> Value:
        x = values[0]
        if name in ("sqrt", "rsqrt"):
            root = self._root(e, x)
            return root if name == "sqrt" else self.divide(e, const(x.type, 1.0), root, True)
        if x.type == "double":
            return super().call(e, name, *values)
        if name == "exp":
            name, x = "exp2", e.f.op("fmul", x, const("float", _LOG2_E))
        if name in ("exp2", "log", "log2", "log10"):
            return e.f.intrinsic(name, x)
        return super().call(e, name, *values)

    def divide(self, e: Emitter, a: Value, b: Value, approximate: bool) -> Value:
        """Rounded to nearest, as of the reference; a float within 2.5 ulp if `approximate`."""
        if not approximate:
            return e.f.op("fdiv", a, b)
        return e.f.emit(a.type, f"fdiv contract {a}, {b.ref}{_within(e, a.type)}")

    def external(self, c: Context, op: Any, *values: Value) -> Value:
        """A function of the bitcode that the op or an option names, or one of ours: by its name in
        AMD's library, or in the common one. Or what the processor says of itself."""
        if op.libname == REGISTERS:
            return _register(c, op.symbol)
        from tritium.codegen.llvm.vmath.libdevice import (  # few kernels call one
            call_symbol,
            symbols,
        )

        symbol = common_symbol(op.symbol)
        if op.libpath or symbol not in symbols():
            return linked(c, op, *values)
        return call_symbol(c.f, symbol, *values, features=NO_FEATURES)

    def _root(self, e: Emitter, x: Value) -> Value:
        name, within = f"llvm.sqrt.{mangle(x.type)}", _within(e, x.type)
        return e.f.call(x.type, name, x, flags="contract", suffix=within)


def _register(c: Context, symbol: str) -> Value:
    if symbol == "memrealtime":
        return c.f.call("i64", "llvm.readsteadycounter")
    hardware: Any = c.hardware
    number, first, count = _UNIT["gfx9" if hardware.arch.startswith("gfx9") else "gfx11"]
    return c.f.call("i32", "llvm.amdgcn.s.getreg", c.i32(number | first << 6 | (count - 1) << 11))


_UNIT = {"gfx9": (4, 8, 8), "gfx11": (23, 10, 4)}
"""The hardware register that numbers compute units, the first bit of the number, and its bits."""


def _within(e: Emitter, type: str) -> str:
    """The metadata of an instruction whose result, a float, may be off a little."""
    if type != "float":
        return ""
    number = const("float", _ULP)
    return f", !fpmath {e.f.module.add_metadata(f'!{{{number}}}')}"
