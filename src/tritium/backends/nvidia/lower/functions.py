"""Functions of floats: the hardware's approximations where the language's precision allows them,
NVIDIA's libdevice for the others and for double precision."""

from __future__ import annotations

from functools import partial

from tritium.backends.nvidia.lower.hardware import ELEMENTWISE
from tritium.codegen.gpu.context import Context
from tritium.codegen.gpu.elementwise import in_float
from tritium.codegen.gpu.types import value_type
from tritium.codegen.llvm.writer import Value, const
from tritium.codegen.registry import lowers
from tritium.ops import arith, math, ttir
from tritium.ops.base import Op
from tritium.ops.ttir.extern import ExternElementwiseOp

_LOG2_E = 1.4426950408889634

_LIBDEVICE: dict[type[Op], str] = {
    math.ExpM1Op: "expm1", math.LogOp: "log", math.Log2Op: "log2", math.Log10Op: "log10",
    math.Log1POp: "log1p", math.SinOp: "sin", math.CosOp: "cos", math.TanOp: "tan",
    math.TanhOp: "tanh", math.ErfOp: "erf",
}  # fmt: skip


def external(c: Context, name: str, *values: Value) -> Value:
    """libdevice's function of floats or doubles."""
    suffix = "f" if values[0].type == "float" else ""
    return c.f.call(values[0].type, f"__nv_{name}{suffix}", *values)


@lowers(ELEMENTWISE, *_LIBDEVICE)
def library_function(c: Context, op: Op, *values: Value) -> Value:
    return in_float(c, values, partial(external, c, _LIBDEVICE[type(op)]))


@lowers(ELEMENTWISE, arith.RemFOp)
def remainder(c: Context, op: Op, a: Value, b: Value) -> Value:
    """By doubles: the remainder of floats is exact there, and libdevice's function of floats takes
    subnormal numbers for zero where it flushes (`enable_reflect_ftz`)."""
    if a.type == "double":
        return external(c, "fmod", a, b)

    def compute(*floats: Value) -> Value:
        wide = [c.f.cast("fpext", x, "double") for x in floats]
        return c.f.cast("fptrunc", external(c, "fmod", *wide), "float")

    return in_float(c, (a, b), compute)


def _approx(c: Context, instruction: str, x: Value) -> Value:
    return c.asm("float", f"{instruction} $0, $1;", "=f,f", x, effects=False)


@lowers(ELEMENTWISE, math.ExpOp, math.Exp2Op)
def exponential(c: Context, op: Op, a: Value) -> Value:
    """2^(x log2 e) by `ex2.approx` (2 ulp of 2^y; the product adds |x| / 2^24 relatively)."""
    natural = isinstance(op, math.ExpOp)
    if a.type == "double":
        return external(c, "exp" if natural else "exp2", a)

    def compute(x: Value) -> Value:
        if natural:
            x = c.f.op("fmul", x, const("float", _LOG2_E))
        return _approx(c, "ex2.approx.f32", x)

    return in_float(c, (a,), compute)


@lowers(ELEMENTWISE, math.SqrtOp, math.RsqrtOp)
def square_root(c: Context, op: Op, a: Value) -> Value:
    name = "sqrt" if isinstance(op, math.SqrtOp) else "rsqrt"
    if a.type == "double":
        return c.f.intrinsic("sqrt", a) if name == "sqrt" else external(c, name, a)
    return in_float(c, (a,), partial(_approx, c, f"{name}.approx.f32"))


@lowers(ELEMENTWISE, arith.DivFOp)
def divide(c: Context, op: Op, a: Value, b: Value) -> Value:
    """float: within 2 ulp (`div.full.f32`), the language's `/`; `tt.precise_divf` is exact."""
    if a.type == "double":
        return c.f.op("fdiv", a, b)
    return in_float(c, (a, b), partial(c.f.call, "float", "llvm.nvvm.div.full"))


@lowers(ELEMENTWISE, ttir.ApproxDivFOp)
def divide_approximately(c: Context, op: Op, a: Value, b: Value) -> Value:
    return c.f.call("float", "llvm.nvvm.div.approx.f", a, b)


@lowers(ELEMENTWISE, ExternElementwiseOp)
def external_function(c: Context, op: ExternElementwiseOp, *values: Value) -> Value:
    """A function of libdevice, or of the bitcode that the op or an option names."""
    if op.libpath:
        c.libraries.add(op.libpath)
    return c.f.call(value_type(op.results[0].type), op.symbol, *values)
