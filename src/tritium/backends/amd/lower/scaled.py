"""Numbers of 4 and 8 bits times powers of two."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tritium.backends.amd.lower.hardware import AMDGPU
from tritium.codegen.gpu.casts import e2m1_numbers, float_from, shared_registers
from tritium.codegen.gpu.context import Context
from tritium.codegen.llvm.types import FORMATS
from tritium.codegen.llvm.writer import Value, const
from tritium.codegen.registry import lowers
from tritium.ir import types as ir
from tritium.ops import ttgir

_NAN = const("float", float("nan"))


@lowers(AMDGPU.name, ttgir.ScaledUpcastFp4Op)
def upcast_fp4(c: Context, op: Any) -> None:
    axis: int = op.axis
    count = ir.shape_of(op.results[0].type)[axis] // ir.shape_of(op.scale.type)[axis]
    registers, scales = shared_registers(c, op, op.scale, count), c.tile(op.scale)
    _set(c, op, e2m1_numbers(c, op, op.input, "fp32"), [scales[r] for r in registers])


@lowers(AMDGPU.name, ttgir.ScaledUpcastFp8Op)
def upcast_fp8(c: Context, op: Any) -> None:
    format = FORMATS[ir.element_type(op.input.type)]
    numbers = [float_from(c, value, format, "fp32") for value in c.tile(op.input)]
    _set(c, op, numbers, c.tile(op.scale))


def _set(c: Context, op: Any, numbers: Sequence[Value], scales: Sequence[Value]) -> None:
    target, known = FORMATS[ir.element_type(op.results[0].type)], dict[Value, Any]()
    for scale in scales:
        if scale not in known:
            known[scale] = _factors(c, scale)
    c.set(op.results[0], [
        float_from(c, _times(c, number, *known[scale]), "fp32", target)
        for number, scale in zip(numbers, scales, strict=True)
    ])  # fmt: skip


def _factors(c: Context, scale: Value) -> tuple[Value, Value, Value]:
    """A power of two as a product of two that are normal numbers, and whether it is NaN."""
    code = scale
    if scale.type != "i8":  # bfloat16, of which the exponent counts
        code = c.f.op("lshr", c.as_type(scale, "i16"), const("i16", 7))
    code = c.f.op("and", c.f.cast("zext", code, "i32"), c.i32(255))
    half = c.f.op("lshr", code, c.i32(1))
    rest = c.f.op("sub", code, half)
    first, second = (
        c.f.cast("bitcast", c.f.op("shl", c.f.op("add", part, c.i32(bias)), c.i32(23)), "float")
        for part, bias in ((half, 64), (rest, 63))
    )
    return first, second, c.f.icmp("eq", code, c.i32(255))


def _times(c: Context, number: Value, first: Value, second: Value, is_nan: Value) -> Value:
    product = c.f.op("fmul", c.f.op("fmul", number, first), second)
    return c.f.select(is_nan, _NAN, product)
