"""Arithmetic that `arith` and `math` do not have."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any

import ml_dtypes
import numpy as np

from tritium.errors import OpError
from tritium.ir import types as ir
from tritium.ops import axis_info as facts
from tritium.ops.arith.casts import ExtFOp, RoundingMode, TruncFOp, round_float
from tritium.ops.arith.integer import unsigned
from tritium.ops.axis_info import AxisInfo
from tritium.ops.base import Op
from tritium.ops.elementwise import (
    BinaryOp,
    CastOp,
    SameBitsOp,
    UnaryOp,
    check_kind,
    check_same,
    check_same_shape,
    describe,
)
from tritium.ops.fields import enum_attr, operand
from tritium.ops.memory import Context


class Rounding(IntEnum):
    """The rounding of `tt.fp_to_fp`: toward zero, or to nearest even."""

    RTZ, RTNE = range(2)


class PropagateNan(IntEnum):
    """True if a NaN operand makes the result NaN (ALL) or is passed over (NONE)."""

    NONE = 0
    ALL = 0xFFFF


def saturated(value: np.ndarray, dtype: Any) -> np.ndarray:
    """Numbers brought between the largest finite ones of a type."""
    top: Any = ml_dtypes.finfo(dtype).max.astype(np.float64)  # pyright: ignore[reportUnknownVariableType]
    return np.clip(value.astype(np.float64), -top, top)  # pyright: ignore[reportUnknownArgumentType]


class FpToFpOp(CastOp):
    """Convert to another floating-point type. To 8 bits, numbers beyond the largest finite one (and
    infinities) become that one, as GPUs convert; rounding is needed where the type narrows."""

    name = "tt.fp_to_fp"
    builder_family = ""
    builders = ("create_fp_to_fp operand result rounding",)
    exact = "resize"
    cost = 6
    syntax = "$operand [, rounding = $rounding] attrs : type(operand) -> type(result)"
    source = target = "float"
    rounding = enum_attr(Rounding, None)

    @classmethod
    def infer(cls, operand: ir.Type, *, result: Any = None, **attrs: Any) -> ir.Type:
        super().infer(operand, result=result)
        if attrs["rounding"] is None and ir.bit_width(result) < ir.bit_width(operand):
            raise OpError(
                f"{cls.name}: from {describe(operand)} to {describe(result)}; a narrowing "
                "conversion needs a rounding mode"
            )
        return result

    def evaluate(self, context: Context, operand: Any) -> Any:
        dtype, operand = ir.numpy_dtype(self.result_types[0]), np.asarray(operand)
        toward_zero = self.rounding is Rounding.RTZ
        mode = RoundingMode.TOWARD_ZERO if toward_zero else RoundingMode.TO_NEAREST_EVEN
        if dtype.itemsize == 1:
            operand = saturated(operand, dtype)
        return round_float(operand, dtype, mode)


def float_cast(
    source: ir.Type, target: ir.Type, rounding: Rounding | None = None
) -> tuple[type[CastOp], dict[str, Any]]:
    """The op that converts numbers of one floating-point type to another of a different width, and
    its attributes. A number that is not in the target goes to the nearest (even) one by default."""
    before, after = ir.bit_width(source), ir.bit_width(target)
    if rounding is None and 8 not in (before, after):
        return (ExtFOp if after > before else TruncFOp), {}
    if after < before and rounding is None:
        rounding = Rounding.RTNE
    return FpToFpOp, {"rounding": rounding}


class BitcastOp(SameBitsOp):
    """The same bits as another type of the same width; pointers have 64 bits."""

    name = "tt.bitcast"
    builder_family = ""
    builders = ("create_bitcast operand result",)
    exact = "bits"
    memory_operands = ("operand",)
    syntax = "$operand attrs : type(operand) -> type(result)"

    def axis_info(self, operands: Sequence[AxisInfo]) -> AxisInfo:
        kind, (given,) = self.results[0].type, operands
        if not ir.is_pointer(kind):
            return facts.uniform(kind, operands)
        # Multiples of bytes stay so; neighbours are so in elements of the size before.
        axes = range(len(given.constancy))
        return facts.unknown(kind)._replace(
            divisibility=tuple(given.every(axis) for axis in axes), constancy=given.constancy
        )


class PtrToIntOp(CastOp):
    """The address as an i64."""

    name = "tt.ptr_to_int"
    builder_family = ""
    builders = ("create_ptr_to_int operand result",)
    syntax = "$operand attrs : type(operand) -> type(result)"

    @classmethod
    def infer(cls, operand: ir.Type, *, result: Any = None, **attrs: Any) -> ir.Type:
        if not ir.is_pointer(operand):
            raise OpError(f"{cls.name}: operand is {describe(operand)}; a pointer is required")
        wanted = ir.with_element(operand, ir.i64)
        if result not in (None, wanted):
            raise OpError(f"{cls.name}: result is {describe(result)}; {describe(wanted)} required")
        return wanted

    def evaluate(self, context: Context, operand: Any) -> Any:
        return np.asarray(operand).view(np.int64)


class IntToPtrOp(CastOp):
    """An i64 as an address."""

    name = "tt.int_to_ptr"
    builder_family = ""
    builders = ("create_int_to_ptr operand result",)
    syntax = "$operand attrs : type(operand) -> type(result)"

    @classmethod
    def infer(cls, operand: ir.Type, *, result: Any = None, **attrs: Any) -> ir.Type:
        check_same_shape(cls.name, operand, result)
        if ir.element_type(operand) != ir.i64 or not ir.is_pointer(result):
            raise OpError(
                f"{cls.name}: from {describe(operand)} to {describe(result)}; "
                "i64 to a pointer is required"
            )
        return result

    def evaluate(self, context: Context, operand: Any) -> Any:
        return np.asarray(operand).view(np.uint64)


class ClampFOp(Op):
    """`x`, but at least `min` and at most `max`. A NaN `x` gives NaN with `propagateNan = all`,
    else `min`."""

    name = "tt.clampf"
    builder_family = "ternary_op x min max op"
    exact = "clamp"
    elementwise = True
    syntax = "$x, $min, $max, propagateNan = $propagateNan attrs : type(result)"
    x = operand()
    min = operand()
    max = operand()
    propagateNan = enum_attr(PropagateNan)

    @classmethod
    def infer(cls, x: ir.Type, min: ir.Type, max: ir.Type, **attrs: Any) -> ir.Type:
        check_kind(cls.name, "float", check_same(cls.name, x, min, max))
        return x

    def evaluate(self, context: Context, x: Any, min: Any, max: Any) -> Any:
        if self.propagateNan is PropagateNan.ALL:
            return np.minimum(np.maximum(x, min), max)
        return np.fmin(np.fmax(x, min), max)


class PreciseSqrtOp(UnaryOp):
    """The square root, correctly rounded."""

    name = "tt.precise_sqrt"
    exact = "root"
    cost = 6

    def evaluate(self, context: Context, operand: Any) -> Any:
        return np.sqrt(operand)


class PreciseDivFOp(BinaryOp):
    """`a / b`, correctly rounded."""

    name = "tt.precise_divf"
    exact = "quotient"
    cost = 4
    kind = "float"

    def evaluate(self, context: Context, lhs: Any, rhs: Any) -> Any:
        return np.divide(lhs, rhs)


class ApproxDivFOp(BinaryOp):
    """`a / b` of f32, off by 2 units in the last place where 2**-126 <= |b| <= 2**126."""

    name = "tt.approx_divf"
    exact = "quotient"

    @classmethod
    def infer(cls, lhs: ir.Type, rhs: ir.Type, **attrs: Any) -> ir.Type:
        if ir.element_type(check_same(cls.name, lhs, rhs)) != ir.f32:
            raise OpError(f"{cls.name}: operands have type {describe(lhs)}; f32 is required")
        return lhs

    def evaluate(self, context: Context, lhs: Any, rhs: Any) -> Any:
        return np.divide(lhs, rhs)


class MulHiUIOp(BinaryOp):
    """The high half of the product of unsigned integers."""

    name = "tt.mulhiui"
    builder_family = ""
    builders = ("create_umulhi",)
    cost = 3
    commutative = True

    def evaluate(self, context: Context, lhs: Any, rhs: Any) -> Any:
        dtype = np.asarray(lhs).dtype
        bits = dtype.itemsize * 8
        a, b = unsigned(lhs).astype(np.uint64), unsigned(rhs).astype(np.uint64)
        if bits < 64:
            return (a * b >> np.uint64(bits)).astype(f"u{dtype.itemsize}").view(dtype)
        # Schoolbook multiplication in halves of 32 bits; no partial sum exceeds 64 bits.
        low, shift = np.uint64(0xFFFFFFFF), np.uint64(32)
        a0, a1, b0, b1 = a & low, a >> shift, b & low, b >> shift
        middle = a1 * b0 + (a0 * b0 >> shift)
        other = a0 * b1 + (middle & low)
        return (a1 * b1 + (middle >> shift) + (other >> shift)).view(dtype)
