"""Floating-point arithmetic: IEEE 754, each result rounded once to the operands' type."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import inf, nan
from typing import Any, ClassVar

import numpy as np

from tritium.ops.arith.flags import FastMathAttr
from tritium.ops.elementwise import BinaryOp, UnaryOp, function
from tritium.ops.fields import flags_attr
from tritium.ops.memory import Context


class FloatBinaryOp(BinaryOp):
    """Two numbers of one floating-point type."""

    kind = "float"
    syntax = "$lhs, $rhs flags(fastmath) attrs : type(result)"
    fastmath = flags_attr(FastMathAttr)
    compute: ClassVar[Callable[[Any, Any], Any]]

    def evaluate(self, context: Context, lhs: Any, rhs: Any) -> Any:
        return type(self).compute(lhs, rhs)


class AddFOp(FloatBinaryOp):
    """`a + b`."""

    name = "arith.addf"
    builders = ("create_fadd",)
    adds = in_pairs = True
    exact = "sum"
    atomic = "FADD"
    commutative = True
    neutral = -0.0
    compute = function(np.add)


class SubFOp(FloatBinaryOp):
    """`a - b`."""

    name = "arith.subf"
    builders = ("create_fsub",)
    in_pairs = True
    exact = "difference"
    right_neutral = 0.0
    compute = function(np.subtract)


class MulFOp(FloatBinaryOp):
    """`a * b`."""

    name = "arith.mulf"
    builders = ("create_fmul",)
    in_pairs = True
    exact = "product"
    commutative = True
    neutral = 1.0
    compute = function(np.multiply)


class DivFOp(FloatBinaryOp):
    """`a / b`. Lowerings may be off by an ulp or two; `tt.precise_divf` may not."""

    name = "arith.divf"
    builders = ("create_fdiv",)
    exact = "quotient"
    right_neutral = 1.0
    cost = 4
    compute = function(np.divide)


class RemFOp(FloatBinaryOp):
    """The remainder of the division rounded toward zero, with the sign of `a` (C's fmod)."""

    name = "arith.remf"
    builders = ("create_frem",)
    cost = 40
    compute = function(np.fmod)


def _ordered(pick: Callable[[Any, Any], Any], negative_first: bool, lhs: Any, rhs: Any) -> Any:
    """`pick(lhs, rhs)`, with -0 below +0."""
    left_first = np.signbit(lhs) == negative_first
    zeros: Any = np.where(left_first, lhs, rhs).astype(np.asarray(lhs).dtype)  # pyright: ignore[reportUnknownVariableType]
    return np.where((lhs == 0) & (rhs == 0), zeros, pick(lhs, rhs))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


class MinimumFOp(FloatBinaryOp):
    """The smaller; NaN if either is; -0 is below +0."""

    name = "arith.minimumf"
    exact = "least"
    commutative = True
    neutral = inf
    compute = function(partial(_ordered, np.minimum, True))


class MaximumFOp(FloatBinaryOp):
    """The larger; NaN if either is; -0 is below +0."""

    name = "arith.maximumf"
    exact = "greatest"
    commutative = True
    neutral = -inf
    compute = function(partial(_ordered, np.maximum, False))


class MinNumFOp(FloatBinaryOp):
    """The smaller; the other one if one is NaN."""

    name = "arith.minnumf"
    exact = "least"
    commutative = True
    neutral = nan
    compute = function(partial(_ordered, np.fmin, True))


class MaxNumFOp(FloatBinaryOp):
    """The larger; the other one if one is NaN."""

    name = "arith.maxnumf"
    exact = "greatest"
    commutative = True
    neutral = nan
    compute = function(partial(_ordered, np.fmax, False))


class NegFOp(UnaryOp):
    """The sign flipped, of NaN too."""

    name = "arith.negf"
    builders = ("create_fneg",)
    in_pairs = True
    exact = "negative"
    involution = True
    syntax = "$operand flags(fastmath) attrs : type(operand)"
    fastmath = flags_attr(FastMathAttr)

    def evaluate(self, context: Context, operand: Any) -> Any:
        return np.negative(operand)
