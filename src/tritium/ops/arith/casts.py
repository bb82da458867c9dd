"""Conversions between number types."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any

import numpy as np

from tritium.ir import intervals
from tritium.ir import types as ir
from tritium.ir.intervals import Algebra, Interval
from tritium.ops import axis_info as facts
from tritium.ops.arith.flags import FastMathAttr
from tritium.ops.arith.integer import signed, unsigned
from tritium.ops.axis_info import AxisInfo
from tritium.ops.base import Op
from tritium.ops.elementwise import CastOp, SameBitsOp
from tritium.ops.fields import AttrField, enum_attr, flags_attr
from tritium.ops.memory import Context


class RoundingMode(IntEnum):
    """The rounding of `arith.truncf`, numbered as MLIR does."""

    TO_NEAREST_EVEN, DOWNWARD, UPWARD, TOWARD_ZERO, TO_NEAREST_AWAY = range(5)


class IntegerExtensionOp(CastOp):
    """An integer as one of another type that holds it (`index` may be narrower)."""

    widened_operand = "operand"

    def axis_info(self, operands: Sequence[AxisInfo]) -> AxisInfo:
        if ir.element_type(self.operand.type) == ir.i1:
            return super().axis_info(operands)
        return facts.widen(operands[0])


class ExtSIOp(IntegerExtensionOp):
    """Widen, copying the sign bit (an i1 becomes 0 or -1)."""

    name = "arith.extsi"
    builders = ("create_int_cast operand result True",)
    widens = True
    composes = True
    weights = (1,)

    def evaluate(self, context: Context, operand: Any) -> Any:
        return signed(operand).astype(ir.numpy_dtype(self.result_types[0]))

    def interval(self, algebra: Algebra, operands: Sequence[Interval]) -> Interval:
        return intervals.sign_extended(self.operand.type, operands[0])


class ExtUIOp(IntegerExtensionOp):
    """Widen with zeros."""

    name = "arith.extui"
    builders = ("create_int_cast operand result False",)
    widens = True
    composes = True
    non_negative = True

    def evaluate(self, context: Context, operand: Any) -> Any:
        return unsigned(operand).astype(ir.numpy_dtype(self.result_types[0]))

    def interval(self, algebra: Algebra, operands: Sequence[Interval]) -> Interval:
        return intervals.zero_extended(algebra, self.operand.type, operands[0])


class TruncIOp(CastOp):
    """Keep the low bits."""

    name = "arith.trunci"
    builders = ("create_int_cast operand result False",)
    widens = False
    composes = True

    def evaluate(self, context: Context, operand: Any) -> Any:
        dtype = ir.numpy_dtype(self.result_types[0])
        low = np.asarray(operand) & 1 if dtype == np.bool_ else np.asarray(operand)
        return low.astype(dtype)

    def axis_info(self, operands: Sequence[AxisInfo]) -> AxisInfo:
        return facts.narrow(operands[0])

    def interval(self, algebra: Algebra, operands: Sequence[Interval]) -> Interval:
        return intervals.converted(algebra, self.operand.type, self.results[0].type, operands[0])


class FloatCastOp(CastOp):
    """A conversion between floating-point types."""

    syntax = "$operand flags(fastmath) attrs : type(operand) to type(result)"
    source = target = "float"
    fastmath = flags_attr(FastMathAttr)


class ExtFOp(FloatCastOp):
    """Widen a floating-point number, exactly."""

    name = "arith.extf"
    builders = ("create_fp_ext operand result",)
    exact = "resize"
    widens = True
    composes = True

    def evaluate(self, context: Context, operand: Any) -> Any:
        return np.asarray(operand).astype(ir.numpy_dtype(self.result_types[0]))


class TruncFOp(FloatCastOp):
    """Narrow a floating-point number, to nearest even unless `roundingmode` says otherwise."""

    name = "arith.truncf"
    builders = ("create_fp_trunc operand result",)
    exact = "resize"
    cost = 3
    syntax = "$operand [$roundingmode] flags(fastmath) attrs : type(operand) to type(result)"
    widens = False
    roundingmode: AttrField[RoundingMode] = enum_attr(RoundingMode, RoundingMode.TO_NEAREST_EVEN)

    def evaluate(self, context: Context, operand: Any) -> Any:
        return round_float(operand, ir.numpy_dtype(self.result_types[0]), self.roundingmode)


def odd_float32(value: np.ndarray) -> np.ndarray:
    """Float64 numbers or integers in float32, inexact ones with an odd last bit: rounding that to
    16 bits or fewer is the same as rounding the number itself (Boldo and Melquiond, "When double
    rounding is odd", 2005)."""
    exact: np.ndarray = value if value.dtype.kind == "f" else _odd_float64(value)
    nearest: np.ndarray = exact.astype(np.float32)
    inexact = np.isfinite(exact) & (nearest != exact)
    beyond = np.abs(nearest) > np.abs(exact)
    toward_zero: np.ndarray = np.where(beyond, np.nextafter(nearest, np.float32(0)), nearest)
    odd = (toward_zero.view(np.uint32) | np.uint32(1)).view(np.float32)
    return np.where(inexact, odd, nearest)


def _odd_float64(value: np.ndarray) -> np.ndarray:
    signed_value = value if value.dtype.kind == "u" else np.abs(value.astype(np.int64))
    magnitude: np.ndarray = signed_value.astype(np.uint64)  # 2**63 of the smallest int64, too
    low: Any = np.uint64(0x7FF)
    kept: Any = magnitude & ~low
    lost: Any = magnitude != kept
    odd = kept | (lost.astype(np.uint64) << np.uint64(11))
    large = magnitude >= np.uint64(1 << 53)
    found: Any = np.where(large, odd, magnitude)
    rounded: np.ndarray = found.astype(np.float64)
    return np.where(value < 0, -rounded, rounded)


def round_integer(value: Any, dtype: np.dtype) -> Any:
    """Integers in a floating-point dtype, to nearest even."""
    if dtype.name == "bfloat16":  # whose own conversion rounds twice
        value = odd_float32(np.asarray(value))
    return value.astype(dtype)


def round_float(value: Any, dtype: np.dtype, mode: RoundingMode) -> Any:
    """`value` in the narrower floating-point `dtype`.

    Directed modes correct the nearest value by one step where it lies on the wrong side; toward
    zero, what overflows becomes the largest finite number.
    """
    value = np.asarray(value)
    # ml_dtypes rounds float64 twice on its way to its types.
    twice = str(value.dtype) == "float64" and str(dtype) not in ("float16", "float32", "float64")
    nearest = (odd_float32(value) if twice else value).astype(dtype)
    if mode is RoundingMode.TO_NEAREST_EVEN:
        return nearest
    if mode is RoundingMode.TO_NEAREST_AWAY:
        raise NotImplementedError("arith.truncf to_nearest_away")
    back: Any = nearest.astype(value.dtype)
    away = {
        RoundingMode.TOWARD_ZERO: np.abs(back) > np.abs(value),
        RoundingMode.DOWNWARD: back > value,
        RoundingMode.UPWARD: back < value,
    }[mode]
    below = {
        RoundingMode.TOWARD_ZERO: np.zeros_like(value),
        RoundingMode.DOWNWARD: np.full_like(value, -np.inf),
        RoundingMode.UPWARD: np.full_like(value, np.inf),
    }[mode]
    rounded: Any = np.where(away, np.nextafter(nearest, below.astype(dtype)), nearest)  # pyright: ignore[reportUnknownVariableType]
    return rounded  # pyright: ignore[reportUnknownVariableType]


class SIToFPOp(CastOp):
    """A signed integer to a floating-point number, to nearest even."""

    name = "arith.sitofp"
    builders = ("create_si_to_fp operand result",)
    exact = "bits"
    source, target = "integer", "float"

    def evaluate(self, context: Context, operand: Any) -> Any:
        return round_integer(signed(operand), ir.numpy_dtype(self.result_types[0]))


class UIToFPOp(CastOp):
    """An unsigned integer to a floating-point number, to nearest even."""

    name = "arith.uitofp"
    builders = ("create_ui_to_fp operand result",)
    exact = "bits"
    source, target = "integer", "float"

    def evaluate(self, context: Context, operand: Any) -> Any:
        return round_integer(unsigned(operand), ir.numpy_dtype(self.result_types[0]))


def _truncated(operand: Any, bits: int) -> Any:
    """Floats as signed integers of 32 bits (64, if `bits` is more), toward zero. What does not
    fit, NaN too, gives the smallest integer, as NumPy's conversion and the processor's do on
    x86-64."""
    wide = np.trunc(np.asarray(operand).astype(np.float64))
    dtype, limit = (np.int64, 2.0**63) if bits == 64 else (np.int32, 2.0**31)
    fits = (wide >= -limit) & (wide < limit)
    return np.where(fits, wide, -limit).astype(dtype)


def _low_bits(wide: Any, op: Op) -> Any:
    dtype = ir.numpy_dtype(op.result_types[0])
    return (wide & wide.dtype.type(1)).astype(dtype) if dtype == np.bool_ else wide.astype(dtype)


class FPToSIOp(CastOp):
    """Truncate to a signed integer; the smallest one where it does not fit (the low bits of that
    of 32 bits, where the type has fewer). A GPU saturates, and gives 0 for NaN."""

    name = "arith.fptosi"
    builders = ("create_fp_to_si operand result",)
    exact = "bits"
    source, target = "float", "integer"

    def evaluate(self, context: Context, operand: Any) -> Any:
        return _low_bits(_truncated(operand, ir.bit_width(self.result_types[0])), self)


class FPToUIOp(CastOp):
    """Truncate to an unsigned integer. Negative numbers and NaN become what they are as signed
    integers of the same width, with the same bits; what is too large becomes 0. Fewer than 32 bits
    are the low ones of a signed integer of 32. A GPU saturates, and gives 0 for NaN."""

    name = "arith.fptoui"
    builders = ("create_fp_to_ui operand result",)
    exact = "bits"
    source, target = "float", "integer"

    def evaluate(self, context: Context, operand: Any) -> Any:
        bits = ir.bit_width(self.result_types[0])
        if bits < 32:
            return _low_bits(_truncated(operand, 32), self)
        value, half = np.asarray(operand).astype(np.float64), 2.0 ** (bits - 1)
        high = value >= half
        low = _truncated(np.where(high, value - half, value), bits)
        return low ^ np.where(high, np.iinfo(low.dtype).min, low.dtype.type(0))


class BitcastOp(SameBitsOp):
    """The same bits as another type of the same width."""

    name = "arith.bitcast"
    exact = "bits"
    composes = True


class IndexCastOp(IntegerExtensionOp):
    """Convert between `index` and an integer type, copying the sign."""

    name = "arith.index_cast"
    weights = (1,)

    def evaluate(self, context: Context, operand: Any) -> Any:
        return signed(operand).astype(ir.numpy_dtype(self.result_types[0]))

    def interval(self, algebra: Algebra, operands: Sequence[Interval]) -> Interval:
        return intervals.converted(algebra, self.operand.type, self.results[0].type, operands[0])
