"""Numbers of 4 and 8 bits times powers of two, and numbers divided by these."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tritium.codegen.gpu.casts import e2m1_numbers, float_from, shared_registers
from tritium.codegen.gpu.context import Context, layout_of
from tritium.codegen.gpu.types import GPU
from tritium.codegen.llvm.types import FORMATS
from tritium.codegen.llvm.writer import Value, const
from tritium.codegen.registry import lowers
from tritium.ir import types as ir
from tritium.ir.layouts.pieces import register_coordinates
from tritium.ops import ttgir
from tritium.ops.ttgir.amd.scaled import E2M1_BOUNDS

_NAN = const("float", float("nan"))


@lowers(GPU, ttgir.ScaledUpcastFp4Op)
def upcast_fp4(c: Context, op: Any) -> None:
    axis: int = op.axis
    count = ir.shape_of(op.results[0].type)[axis] // ir.shape_of(op.scale.type)[axis]
    registers, scales = shared_registers(c, op, op.scale, count), c.tile(op.scale)
    _set(c, op, e2m1_numbers(c, op, op.input, "fp32"), [scales[r] for r in registers])


@lowers(GPU, ttgir.ScaledDowncastFp8Op)
def downcast_fp8(c: Context, op: Any) -> None:
    target = FORMATS[ir.element_type(op.results[0].type)]
    c.set(op.results[0], [float_from(c, v, "fp32", target) for v in _quotients(c, op)])


@lowers(GPU, ttgir.ScaledDowncastFp4Op)
def downcast_fp4(c: Context, op: Any) -> None:
    """A thread has both numbers of each of its bytes."""
    axis: int = op.axis
    shared_registers(c, op, op.results[0], 2, op.input)
    codes = [_e2m1_code(c, number) for number in _quotients(c, op)]
    held = dict(zip(register_coordinates(layout_of(op.input.type)), codes, strict=True))
    found: list[Value] = []
    for place in register_coordinates(layout_of(op.results[0].type)):
        low, high = (
            held[(*place[:axis], 2 * place[axis] + i, *place[axis + 1 :])] for i in range(2)
        )
        byte = c.f.op("or", low, c.f.op("shl", high, c.i32(4)))
        found.append(c.f.cast("trunc", byte, "i8"))
    c.set(op.results[0], found)


def _quotients(c: Context, op: Any) -> list[Value]:
    """The numbers, as floats, divided by their scales."""
    format, axis = FORMATS[ir.element_type(op.input.type)], int(op.axis)
    count = ir.shape_of(op.input.type)[axis] // ir.shape_of(op.scale.type)[axis]
    scales, known = c.tile(op.scale), dict[int, Any]()
    registers = shared_registers(c, op, op.scale, count, op.input)
    for register in registers:
        if register not in known:
            known[register] = _factors(c, scales[register], inverse=True)
    return [
        _times(c, float_from(c, number, format, "fp32"), *known[register])
        for number, register in zip(c.tile(op.input), registers, strict=True)
    ]


def _e2m1_code(c: Context, number: Value) -> Value:
    """The code of the nearest number of e2m1, of two that are as near an even one; of NaN that of
    the largest."""
    size, code = c.f.intrinsic("fabs", number), c.i32(0)
    for place, bound in enumerate(E2M1_BOUNDS):
        beyond = c.f.fcmp("uge" if place % 2 else "ugt", size, const("float", bound))
        code = c.f.op("add", code, c.f.cast("zext", beyond, "i32"))
    sign = c.f.op("lshr", c.f.cast("bitcast", number, "i32"), c.i32(28))
    return c.f.op("or", code, c.f.op("and", sign, c.i32(8)))


@lowers(GPU, ttgir.ScaledUpcastFp8Op)
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


def _factors(c: Context, scale: Value, inverse: bool = False) -> tuple[Value, Value, Value]:
    """A power of two, or its inverse, as a product of two that are normal numbers; true if it is
    NaN."""
    code = scale
    if scale.type != "i8":  # bfloat16, of which the exponent counts
        code = c.f.op("lshr", c.as_type(scale, "i16"), const("i16", 7))
    code = c.f.op("and", c.f.cast("zext", code, "i32"), c.i32(255))
    exponent = c.f.op("sub", c.i32(254), code) if inverse else code
    half = c.f.op("ashr", exponent, c.i32(1))
    rest = c.f.op("sub", exponent, half)
    first, second = (
        c.f.cast("bitcast", c.f.op("shl", c.f.op("add", part, c.i32(bias)), c.i32(23)), "float")
        for part, bias in ((half, 64), (rest, 63))
    )
    return first, second, c.f.icmp("eq", code, c.i32(255))


def _times(c: Context, number: Value, first: Value, second: Value, is_nan: Value) -> Value:
    product = c.f.op("fmul", c.f.op("fmul", number, first), second)
    return c.f.select(is_nan, _NAN, product)
