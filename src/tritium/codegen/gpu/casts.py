"""Conversions between floating-point types, 8-bit ones included.

From sm_89 on the hardware converts fp8e4nv and fp8e5; elsewhere, and for the other formats and
roundings, integer arithmetic does (`codegen.llvm.vmath.convert`). Narrowing to fp8 saturates.
"""

from __future__ import annotations

from typing import Any

from tritium.codegen.gpu.context import Context
from tritium.codegen.gpu.elementwise import ELEMENTWISE
from tritium.codegen.gpu.types import value_type
from tritium.codegen.llvm.vmath import convert
from tritium.codegen.llvm.writer import Value, const
from tritium.codegen.registry import lowers
from tritium.ir import types as ir
from tritium.ops import arith, ttir
from tritium.ops.base import Op

FORMATS: dict[ir.Type, str] = {
    ir.f64: "fp64", ir.f32: "fp32", ir.f16: "fp16", ir.bf16: "bf16", ir.f8e5m2: "fp8e5",
    ir.f8e4m3fn: "fp8e4nv", ir.f8e4m3fnuz: "fp8e4b8", ir.f8e5m2fnuz: "fp8e5b16",
}  # fmt: skip
_HARDWARE = {"fp8e5": "e5m2x2", "fp8e4nv": "e4m3x2"}
_NAMES = {"fp64": "f64", "fp32": "f32", "fp16": "f16", "bf16": "bf16"}
_CODES = {"fp64": "d", "fp32": "f", "fp16": "h", "bf16": "h"}
_ORDER = ("fp16", "bf16", "fp32", "fp64")
_FEATURES = frozenset({"f16c"})
"""Conversions that `convert` may use: every GPU converts half in hardware."""


@lowers(ELEMENTWISE, arith.ExtFOp, arith.TruncFOp, ttir.FpToFpOp)
def float_cast(c: Context, op: Any, a: Value) -> Value:
    source, target = (FORMATS[ir.element_type(v.type)] for v in (op.operand, op.results[0]))
    mode = getattr(op, "roundingmode", None) or getattr(op, "rounding", None)
    toward_zero = mode is not None and mode.name in ("TOWARD_ZERO", "RTZ")
    if mode is not None and not toward_zero and mode.name not in ("TO_NEAREST_EVEN", "RTNE"):
        raise c.unsupported(op, f"rounding {mode.name.lower()}")
    return float_from(c, a, source, target, toward_zero)


def float_from(
    c: Context, a: Value, source: str, target: str, toward_zero: bool = False
) -> Value:
    """A number in another format (of `FORMATS`), rounded to nearest even or toward zero."""
    if source == target:
        return a
    small = [name for name in (source, target) if name.startswith("fp8")]
    if not small:
        return _between_large(c, a, source, target, toward_zero)
    hardware = c.hardware.arch >= 89 and all(name in _HARDWARE for name in small)
    if hardware and source in _HARDWARE:
        return float_from(c, _widen(c, a, _HARDWARE[source]), "fp16", target, toward_zero)
    if hardware and source != "fp64" and not toward_zero:
        return _narrow(c, a, source, _HARDWARE[target])
    rounding = "rtz" if toward_zero else "rtne"
    return convert.fp(c.f, a, source, target, features=_FEATURES, rounding=rounding)


def _between_large(c: Context, a: Value, source: str, target: str, toward_zero: bool) -> Value:
    kind = {"fp64": "double", "fp32": "float", "fp16": "half", "bf16": "bfloat"}
    if (source, target) == ("fp64", "bf16") and not toward_zero:
        return c.f.cast("fptrunc", odd_float(c, a, "f64", "d"), "bfloat")
    if {source, target} == {"fp16", "bf16"} or (source, target) == ("fp64", "bf16"):
        middle = _between_large(c, a, source, "fp32", toward_zero)
        return _between_large(c, middle, "fp32", target, toward_zero)
    if _ORDER.index(source) < _ORDER.index(target):
        return c.f.cast("fpext", a, kind[target])
    if not toward_zero:
        return c.f.cast("fptrunc", a, kind[target])
    bits = "i16" if target in ("fp16", "bf16") else "float"
    text = f"cvt.rz.{_NAMES[target]}.{_NAMES[source]} $0, $1;"
    constraints = f"={_CODES[target]},{_CODES[source]}"
    return c.as_type(c.asm(bits, text, constraints, a, effects=False), kind[target])


@lowers(ELEMENTWISE, arith.SIToFPOp, arith.UIToFPOp)
def integer_to_float(c: Context, op: Op, a: Value) -> Value:
    """To nearest even. Before sm_90 no instruction makes a bfloat of an integer."""
    signed = isinstance(op, arith.SIToFPOp)
    opcode, target = "sitofp" if signed else "uitofp", value_type(op.results[0].type)
    if target == "bfloat" and c.hardware.arch < 90 and a.type in ("i32", "i64"):
        name = f"{'s' if signed else 'u'}{a.type[1:]}"
        odd = odd_float(c, a, name, "r" if a.type == "i32" else "l")
        return c.f.cast("fptrunc", odd, target)
    return c.f.cast(opcode, a, target)


def odd_float(c: Context, a: Value, name: str, code: str) -> Value:
    """A double or an integer (`name` is PTX's for its type, `code` that of its registers) as a
    float: toward zero, with an odd last bit where that is inexact. Rounded to 16 bits this gives
    what the number itself does; the nearest float would be rounded twice."""
    text = f"cvt.rz.f32.{name} $0, $1;"
    near = c.asm("float", text, f"=f,{code}", a, effects=False)
    if name == "f64":
        inexact = c.f.fcmp("une", c.f.cast("fpext", near, "double"), a)
    else:
        back = "fptosi" if name[0] == "s" else "fptoui"
        inexact = c.f.icmp("ne", c.f.cast(back, near, a.type), a)
    bits = c.f.cast("bitcast", near, "i32")
    odd = c.f.op("or", bits, c.f.cast("zext", inexact, "i32"))
    return c.f.cast("bitcast", odd, "float")


def _widen(c: Context, a: Value, name: str) -> Value:
    """8 bits as half."""
    text = f"cvt.rn.f16x2.{name} $0, $1;"
    pair = c.asm("i32", text, "=r,h", c.f.cast("zext", a, "i16"), effects=False)
    return c.as_type(c.f.cast("trunc", pair, "i16"), "half")


def _narrow(c: Context, a: Value, source: str, name: str) -> Value:
    """Half, bfloat or float rounded to 8 bits; too large ones become the largest."""
    if source == "fp16":
        pair = c.f.cast("zext", c.as_type(a, "i16"), "i32")
        text, constraints = f"cvt.rn.satfinite.{name}.f16x2 $0, $1;", "=h,r"
        word = c.asm("i16", text, constraints, pair, effects=False)
    else:
        wide = c.f.cast("fpext", a, "float") if source == "bf16" else a
        text = f"cvt.rn.satfinite.{name}.f32 $0, $1, $2;"
        word = c.asm("i16", text, "=h,f,f", const("float", 0.0), wide, effects=False)
    return c.f.cast("trunc", word, "i8")
