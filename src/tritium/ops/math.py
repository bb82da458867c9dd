"""The `math` dialect: elementary functions.

`evaluate` computes in float64 and rounds once to the operand's type, so for narrower types it is
the correctly rounded value but for rare double rounding. Lowerings state their own error bounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from tritium.ir import types as ir
from tritium.ops.arith.casts import RoundingMode, round_float
from tritium.ops.arith.flags import FastMathAttr
from tritium.ops.base import Op
from tritium.ops.elementwise import UnaryOp, check_kind, check_same, function
from tritium.ops.fields import flags_attr, operand
from tritium.ops.memory import Context


class MathOp(UnaryOp):
    """A function of one floating-point number."""

    cost = 20
    syntax = "$operand flags(fastmath) attrs : type(operand)"
    fastmath = flags_attr(FastMathAttr)
    compute: ClassVar[Callable[[Any], Any]]

    def evaluate(self, context: Context, operand: Any) -> Any:
        operand = np.asarray(operand)
        wide = type(self).compute(operand.astype(np.float64))
        return np.asarray(wide).astype(operand.dtype)


class ExpOp(MathOp):
    """e to the power of x."""

    name = "math.exp"
    exact = "exponential"
    compute = function(np.exp)


class Exp2Op(MathOp):
    """2 to the power of x."""

    name = "math.exp2"
    exact = "power"
    compute = function(np.exp2)


class ExpM1Op(MathOp):
    """exp(x) - 1 without cancellation near 0."""

    name = "math.expm1"
    compute = function(np.expm1)


class LogOp(MathOp):
    """The natural logarithm."""

    name = "math.log"
    compute = function(np.log)


class Log2Op(MathOp):
    """The logarithm to base 2."""

    name = "math.log2"
    compute = function(np.log2)


class Log10Op(MathOp):
    """The logarithm to base 10."""

    name = "math.log10"
    compute = function(np.log10)


class Log1POp(MathOp):
    """log(1 + x) without cancellation near 0."""

    name = "math.log1p"
    compute = function(np.log1p)


class SinOp(MathOp):
    """The sine of an angle in radians."""

    name = "math.sin"
    exact = "sine"
    compute = function(np.sin)


class CosOp(MathOp):
    """The cosine of an angle in radians."""

    name = "math.cos"
    exact = "cosine"
    compute = function(np.cos)


class TanOp(MathOp):
    """The tangent of an angle in radians."""

    name = "math.tan"
    compute = function(np.tan)


class TanhOp(MathOp):
    """The hyperbolic tangent."""

    name = "math.tanh"
    compute = function(np.tanh)


class SqrtOp(MathOp):
    """The square root, perhaps off by an ulp; `tt.precise_sqrt` is not."""

    name = "math.sqrt"
    exact = "root"
    cost = 6
    compute = function(np.sqrt)


class RsqrtOp(MathOp):
    """1 / sqrt(x)."""

    name = "math.rsqrt"
    builder_family = ""
    exact = "inverse root"
    cost = 8

    @staticmethod
    def compute(value: Any) -> Any:
        return 1.0 / np.sqrt(value)


class ErfOp(MathOp):
    """The error function."""

    name = "math.erf"

    @staticmethod
    def compute(value: Any) -> Any:
        return np.frompyfunc(math.erf, 1, 1)(value)


class AbsFOp(MathOp):
    """The magnitude: the sign bit cleared, of NaN too."""

    name = "math.absf"
    builders = ("create_fabs",)
    exact = "bits"
    cost = 1
    compute = function(np.abs)


class CeilOp(MathOp):
    """The next integer upward."""

    name = "math.ceil"
    cost = 1
    compute = function(np.ceil)


class FloorOp(MathOp):
    """The next integer downward."""

    name = "math.floor"
    cost = 1
    compute = function(np.floor)


class TruncOp(MathOp):
    """The next integer toward zero."""

    name = "math.trunc"
    cost = 1
    compute = function(np.trunc)


class RoundEvenOp(MathOp):
    """The nearest integer; the even one of two."""

    name = "math.roundeven"
    cost = 1
    compute = function(np.rint)


class AbsIOp(UnaryOp):
    """The magnitude of a signed integer; the smallest one stays as it is."""

    name = "math.absi"
    builders = ("create_iabs",)
    kind = "integer"

    def evaluate(self, context: Context, operand: Any) -> Any:
        return np.abs(operand)


def fused(a: Any, b: Any, c: Any) -> Any:
    """`a * b + c`, rounded once to the operands' dtype."""
    dtype = np.asarray(a).dtype
    wide = [np.asarray(v).astype(np.float64) for v in (a, b, c)]
    if dtype == np.float64:
        return _fma(*wide)
    return round_float(_fma_odd(*wide), dtype, RoundingMode.TO_NEAREST_EVEN)


class FmaOp(Op):
    """`a * b + c`, rounded once."""

    name = "math.fma"
    builder_family = "ternary_op a b c op"
    exact = "fused"
    elementwise = in_pairs = True
    syntax = "$a, $b, $c flags(fastmath) attrs : type(a)"
    a = operand()
    b = operand()
    c = operand()
    fastmath = flags_attr(FastMathAttr)

    @classmethod
    def infer(cls, a: ir.Type, b: ir.Type, c: ir.Type, **attrs: Any) -> ir.Type:
        check_kind(cls.name, "float", check_same(cls.name, a, b, c))
        return a

    def evaluate(self, context: Context, a: Any, b: Any, c: Any) -> Any:
        return fused(a, b, c)


def _two_sum(a: Any, b: Any) -> tuple[Any, Any]:
    """The rounded sum and its error, exactly (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _fma_odd(a: Any, b: Any, c: Any) -> Any:
    """`a * b + c` rounded to odd, for factors of at most 26 bits, whose product is exact.

    A value rounded to odd with two or more bits to spare rounds once more without error (Boldo
    and Melquiond, "Emulation of FMA and correctly rounded sums", 2008).
    """
    total, error = _two_sum(a * b, c)
    bits = np.asarray(total).view(np.int64)
    inexact = np.isfinite(total) & (error != 0) & (bits & 1 == 0)
    step = np.nextafter(total, np.where(error > 0, np.inf, -np.inf))
    return np.where(inexact, step, total)


def _fma(a: Any, b: Any, c: Any) -> Any:
    """`a * b + c` in float64 with Dekker's exact product of the mantissas; the last bit may be off
    by one where the exact sum lies next to a tie, or is below the normal numbers."""
    (a_part, a_power), (b_part, b_power) = np.frexp(a), np.frexp(b)
    power, split = a_power + b_power, 134217729.0  # 2**27 + 1
    a_high = a_part * split - (a_part * split - a_part)
    b_high = b_part * split - (b_part * split - b_part)
    a_low, b_low = a_part - a_high, b_part - b_high
    product, addend = a_part * b_part, np.ldexp(c, -power)
    tail = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    total, error = _two_sum(product, addend)
    where: Any = np.where
    result = np.ldexp(total + (error + tail), power)
    result = where(product == 0, a * b + c, result)  # zeros have signs
    result = where(np.isinf(addend), c, result)  # however small the product is beside it
    return where(np.isfinite(a) & np.isfinite(b), result, a * b + c)
