"""Conversions between floating-point types, 8-bit ones included.

Some hardware converts 8-bit formats; elsewhere, and for the other formats and roundings, integer
arithmetic does (`codegen.llvm.vmath.convert`). Narrowing to fp8 saturates.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from tritium.codegen.gpu.context import Context, layout_of
from tritium.codegen.gpu.elementwise import CASTS, ELEMENTWISE
from tritium.codegen.gpu.shape import axis_layout, source_registers
from tritium.codegen.gpu.types import GPU, value_type
from tritium.codegen.llvm.types import FORMATS
from tritium.codegen.llvm.vmath import convert
from tritium.codegen.llvm.writer import Value, const, scalar
from tritium.codegen.registry import lowers
from tritium.ir import types as ir
from tritium.ir.layouts.encodings import LANE, WARP
from tritium.ir.layouts.linear import LinearLayout
from tritium.ir.layouts.pieces import register_coordinates
from tritium.ops import arith, ttgir
from tritium.ops.base import Op

_WIDE = {"half": "fp16", "float": "fp32"}
_ORDER = ("fp16", "bf16", "fp32", "fp64")
_FEATURES = frozenset({"f16c"})
"""Conversions that `convert` may use: every GPU converts half in hardware."""


@lowers(ELEMENTWISE, *CASTS)
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
    by_hardware = c.hardware.conversions.fp8
    if source in small and (wide := by_hardware(c, a, source, target)) is not None:
        if (wide.type, target) == ("float", "bf16"):
            return convert.fp(c.f, wide, "fp32", target, features=_FEATURES, exact=True)
        return float_from(c, wide, _WIDE[scalar(wide.type)], target, toward_zero)
    if source not in small and not toward_zero:
        found = by_hardware(c, a, source, target)
        if found is not None:
            return found
    rounding = "rtz" if toward_zero else "rtne"
    return convert.fp(c.f, a, source, target, features=_FEATURES, rounding=rounding)


def _between_large(c: Context, a: Value, source: str, target: str, toward_zero: bool) -> Value:
    kind = {"fp64": "double", "fp32": "float", "fp16": "half", "bf16": "bfloat"}
    if (source, target) == ("fp64", "bf16") and not toward_zero:
        return c.f.cast("fptrunc", odd_float(c, a), "bfloat")
    if {source, target} == {"fp16", "bf16"} or (source, target) == ("fp64", "bf16"):
        middle = _between_large(c, a, source, "fp32", toward_zero)
        return _between_large(c, middle, "fp32", target, toward_zero)
    if _ORDER.index(source) < _ORDER.index(target):
        return c.f.cast("fpext", a, kind[target])
    if not toward_zero:
        return c.f.cast("fptrunc", a, kind[target])
    return c.hardware.conversions.toward_zero(c, a, kind[target])


@lowers(ELEMENTWISE, arith.SIToFPOp, arith.UIToFPOp)
def integer_to_float(c: Context, op: Op, a: Value) -> Value:
    """Round integers to floating-point numbers, to nearest even."""
    signed = isinstance(op, arith.SIToFPOp)
    opcode, target = "sitofp" if signed else "uitofp", value_type(op.results[0].type)
    twice = target == "bfloat" and not c.hardware.conversions.integer_to_bfloat
    if twice and a.type in ("i32", "i64"):
        return c.f.cast("fptrunc", odd_float(c, a, signed), target)
    return c.f.cast(opcode, a, target)


def odd_float(c: Context, a: Value, signed: bool = True) -> Value:
    """A double or an integer as a float: toward zero, with an odd last bit where that is inexact.
    Rounded to 16 bits this gives what the number itself does; the nearest float would be rounded
    twice."""
    near = c.hardware.conversions.toward_zero(c, a, "float", signed=signed)
    if a.type == "double":
        inexact = c.f.fcmp("une", c.f.cast("fpext", near, "double"), a)
    else:
        back = "fptosi" if signed else "fptoui"
        inexact = c.f.icmp("ne", c.f.cast(back, near, a.type), a)
    bits = c.f.cast("bitcast", near, "i32")
    odd = c.f.op("or", bits, c.f.cast("zext", inexact, "i32"))
    return c.f.cast("bitcast", odd, "float")


_E2M1 = int.from_bytes(np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], ">f2").tobytes()[::2], "little")
"""The upper bytes of the eight magnitudes of e2m1 in float16; the lower bytes are 0."""


@lowers(GPU, ttgir.Fp4ToFpOp)
def fp4_to_float(c: Context, op: Any) -> None:
    """A thread has both numbers of each of its bytes."""
    type = op.results[0].type
    held = e2m1_numbers(c, op, op.src, FORMATS[ir.element_type(type)])
    c.set(op.results[0], held)


def e2m1_numbers(c: Context, op: Any, source: SSAValue, target: str) -> list[Value]:
    """The numbers of bytes, two of each along the op's axis, in a format of `FORMATS`, as the op's
    result has them."""
    layout = layout_of(op.results[0].type)
    along = axis_layout(layout, op.axis)
    if any(x & 1 for n in (LANE, WARP) for x in along.columns_of(n)):
        raise c.unsupported(op, "elements would move between threads")
    codes = [c.f.cast("zext", byte, "i64") for byte in c.tile(source)]
    return [
        _from_e2m1(c, codes[r], 4 * (place & 1), target)
        for r, (place,) in zip(shared_registers(c, op, source, 2), register_coordinates(along),
                               strict=True)
    ]  # fmt: skip


def shared_registers(
    c: Context, op: Any, source: SSAValue, count: int, of: SSAValue | None = None
) -> Sequence[int]:
    """The registers of a tile whose elements are each for `count` elements of a tile along the op's
    axis, by the registers of that; `of`: the tile if it is not the op's result."""
    layout, axis = layout_of((of or op.results[0]).type), op.axis
    bits = count.bit_length() - 1
    bases = {
        name: [[x >> bits * (i == axis) for i, x in enumerate(basis)]
               for basis in layout.bases(name)]
        for name in layout.in_names
    }  # fmt: skip
    sizes = {
        name: layout.out_size(name) >> bits * (i == axis) for i, name in enumerate(layout.out_names)
    }
    registers = source_registers(layout_of(source.type), LinearLayout.of(bases, sizes))
    if registers is None:
        raise c.unsupported(op, "elements would move between threads")
    return registers


def _from_e2m1(c: Context, codes: Value, first: int, target: str) -> Value:
    """The number whose four bits begin at bit `first`, in a format of `FORMATS`."""
    code = c.f.op("lshr", codes, const("i64", first))
    shift = c.f.op("shl", c.f.op("and", code, const("i64", 7)), const("i64", 3))
    upper = c.f.op("and", c.f.op("lshr", const("i64", _E2M1), shift), const("i64", 255))
    sign = c.f.op("shl", c.f.op("and", code, const("i64", 8)), const("i64", 12))
    bits = c.f.op("or", c.f.op("shl", upper, const("i64", 8)), sign)
    half = c.f.cast("bitcast", c.f.cast("trunc", bits, "i16"), "half")
    return float_from(c, half, "fp16", target)
