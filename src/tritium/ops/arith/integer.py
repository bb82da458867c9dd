"""Integer arithmetic. Integers are signless and wrap; signedness is in the op.

Where the result is undefined (division by zero, a shift by the width or more) `evaluate` gives
what its docstring says, so that it never raises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np
from xdsl.ir import SSAValue

from tritium.ir import intervals
from tritium.ir import types as ir
from tritium.ir.intervals import Algebra, Interval
from tritium.ops import axis_info as facts
from tritium.ops.arith.constant import constant_value
from tritium.ops.arith.flags import OverflowAttr
from tritium.ops.axis_info import AxisInfo
from tritium.ops.elementwise import BinaryOp, function, of_operands
from tritium.ops.fields import flags_attr
from tritium.ops.memory import Context


def unsigned(value: Any) -> Any:
    """The same bits as unsigned integers; booleans become 0 and 1."""
    value = np.asarray(value)
    return value.view(np.uint8 if value.dtype == np.bool_ else f"u{value.dtype.itemsize}")


def signed(value: Any) -> Any:
    """The value as signed integers; booleans become 0 and -1, the two values of one bit."""
    value = np.asarray(value)
    return -value.view(np.int8) if value.dtype == np.bool_ else value


def like(result: Any, operand: Any) -> Any:
    """The low bits of `result` in the dtype of `operand`."""
    dtype = np.asarray(operand).dtype
    return (result & 1).astype(dtype) if dtype == np.bool_ else result.astype(dtype, copy=False)


class IntegerBinaryOp(BinaryOp):
    """Two integers of one type. `compute` gets them as signed or, with `is_unsigned`, unsigned
    numbers and may return any integers congruent to the result."""

    is_unsigned: ClassVar[bool] = False
    compute: ClassVar[Callable[[Any, Any], Any]]
    """The operation on NumPy arrays."""
    piecewise = True

    def evaluate(self, context: Context, lhs: Any, rhs: Any) -> Any:
        view = unsigned if self.is_unsigned else signed
        return like(type(self).compute(view(lhs), view(rhs)), lhs)


class WrappingOp(IntegerBinaryOp):
    """An operation that may carry a promise not to overflow."""

    is_unsigned = modular = in_pairs = True
    piecewise = False
    syntax = "$lhs, $rhs flags(overflowFlags) attrs : type(result)"
    overflowFlags = flags_attr(OverflowAttr)


class AddIOp(WrappingOp):
    """`a + b`, wrapping."""

    name = "arith.addi"
    builders = ("create_add",)
    adds = associative = True
    atomic = "ADD"
    weights = (1, 1)
    commutative = True
    neutral = 0
    compute = function(np.add)

    def axis_info(self, operands: Sequence[AxisInfo]) -> AxisInfo:
        return facts.add(*operands)

    def interval(self, algebra: Algebra, operands: Sequence[Interval]) -> Interval:
        first, second = operands
        certain = intervals.fills_low_bits(algebra, self.lhs, second) or intervals.fills_low_bits(
            algebra, self.rhs, first
        )
        return intervals.total(algebra, self.results[0].type, "add", first, second, certain)


def addend(op: object, term: SSAValue) -> SSAValue | None:
    """The number that a sum of integers adds to one of its operands; None of other ops."""
    if not isinstance(op, AddIOp) or term not in op.operands:
        return None
    return op.rhs if op.lhs is term else op.lhs


class SubIOp(WrappingOp):
    """`a - b`, wrapping."""

    name = "arith.subi"
    builders = ("create_sub",)
    right_neutral = 0
    cancels = True
    weights = (1, -1)
    compute = function(np.subtract)

    def axis_info(self, operands: Sequence[AxisInfo]) -> AxisInfo:
        return facts.subtract(*operands)

    def interval(self, algebra: Algebra, operands: Sequence[Interval]) -> Interval:
        first, second = operands
        return intervals.total(algebra, self.results[0].type, "sub", first, second)


class MulIOp(WrappingOp):
    """`a * b`, wrapping."""

    name = "arith.muli"
    builders = ("create_mul",)
    associative = True
    multiplies = True
    absorbing = 0
    commutative = True
    neutral = 1
    compute = function(np.multiply)

    def axis_info(self, operands: Sequence[AxisInfo]) -> AxisInfo:
        return facts.multiply(*operands)

    interval = of_operands(intervals.product)


class ShLIOp(WrappingOp):
    """`a << b`; 0 for a shift by the width or more."""

    name = "arith.shli"
    builders = ("create_shl",)
    right_neutral = 0
    compute = function(np.left_shift)
    axis_info = of_operands(facts.shift_left)
    interval = of_operands(intervals.shifted_left)


class ShRUIOp(IntegerBinaryOp):
    """`a >> b`, zeros coming in; 0 for a shift by the width or more."""

    name = "arith.shrui"
    builders = ("create_lshr",)
    in_pairs = True
    right_neutral = 0
    is_unsigned = True
    compute = function(np.right_shift)
    axis_info = of_operands(facts.shift_right)

    def interval(self, algebra: Algebra, operands: Sequence[Interval]) -> Interval:
        return intervals.no_larger(algebra, self.results[0].type, operands[0])


class ShRSIOp(IntegerBinaryOp):
    """`a >> b`, copies of the sign coming in."""

    name = "arith.shrsi"
    builder_family = ""
    builders = ("create_ashr",)
    in_pairs = True
    right_neutral = 0

    @staticmethod
    def compute(lhs: Any, rhs: Any) -> Any:
        amount = np.minimum(unsigned(rhs), lhs.dtype.itemsize * 8 - 1)
        return np.right_shift(lhs, amount.astype(lhs.dtype))

    axis_info = of_operands(facts.shift_right)

    def interval(self, algebra: Algebra, operands: Sequence[Interval]) -> Interval:
        return intervals.toward_zero(algebra, self.results[0].type, operands[0])


class AndIOp(IntegerBinaryOp):
    """Bitwise and."""

    name = "arith.andi"
    builders = ("create_and",)
    in_pairs = True
    associative = idempotent = True
    absorbing = 0
    atomic = "AND"
    extends = "su"
    commutative = True
    neutral = -1
    compute = function(np.bitwise_and)
    axis_info = of_operands(facts.bit_and)
    interval = of_operands(intervals.no_larger)


class OrIOp(IntegerBinaryOp):
    """Bitwise or."""

    name = "arith.ori"
    builders = ("create_or",)
    in_pairs = True
    associative = idempotent = True
    absorbing = -1
    atomic = "OR"
    extends = "su"
    commutative = True
    neutral = 0
    compute = function(np.bitwise_or)
    interval = of_operands(intervals.bits_of_either)


class XOrIOp(IntegerBinaryOp):
    """Bitwise exclusive or."""

    name = "arith.xori"
    builders = ("create_xor",)
    in_pairs = True
    associative = cancels = True
    atomic = "XOR"
    extends = "su"
    commutative = True
    neutral = 0
    compute = function(np.bitwise_xor)
    interval = of_operands(intervals.bits_of_either)


class ExtremeOp(IntegerBinaryOp):
    """The smaller or the larger of two numbers."""

    commutative = True
    idempotent = True

    def forwarded_values(self) -> Iterator[tuple[SSAValue, SSAValue]]:
        yield self.lhs, self.result
        yield self.rhs, self.result

    def axis_info(self, operands: Sequence[AxisInfo]) -> AxisInfo:
        a, b = operands
        both = a.non_negative and b.non_negative
        return facts.extreme(self.results[0].type, a, b, both)


class MinSIOp(ExtremeOp):
    """The smaller, as signed numbers."""

    name = "arith.minsi"
    atomic = "MIN"
    extends = "s"
    compute = function(np.minimum)

    @classmethod
    def identity_of(cls, type: ir.Type) -> int:
        return ~MaxSIOp.identity_of(type)

    interval = of_operands(partial(intervals.extreme, smallest=True))


class MaxSIOp(ExtremeOp):
    """The larger, as signed numbers."""

    name = "arith.maxsi"
    atomic = "MAX"
    extends = "s"
    compute = function(np.maximum)

    @classmethod
    def identity_of(cls, type: ir.Type) -> int:
        return -1 << (ir.bit_width(type) - 1)

    def axis_info(self, operands: Sequence[AxisInfo]) -> AxisInfo:
        a, b = operands
        return facts.extreme(self.results[0].type, a, b, a.non_negative or b.non_negative)

    interval = of_operands(partial(intervals.extreme, smallest=False))


class MinUIOp(ExtremeOp):
    """The smaller, as unsigned numbers."""

    name = "arith.minui"
    atomic = "UMIN"
    extends = "su"
    neutral = -1
    is_unsigned = True
    compute = function(np.minimum)


class MaxUIOp(ExtremeOp):
    """The larger, as unsigned numbers."""

    name = "arith.maxui"
    atomic = "UMAX"
    extends = "su"
    neutral = 0
    is_unsigned = True
    compute = function(np.maximum)


class DivisionOp(IntegerBinaryOp):
    """Undefined for a zero divisor, where `evaluate` gives 0; so not to be speculated."""

    speculatable = False
    cost = 3
    """Mostly of indices, which divide once for several elements."""

    @property
    def is_speculatable(self) -> bool:
        divisor = constant_value(self.operands[1])
        return divisor is not None and bool(np.all((divisor != 0) & (divisor != -1)))

    def evaluate(self, context: Context, lhs: Any, rhs: Any) -> Any:
        zero = np.asarray(rhs) == 0
        result = super().evaluate(context, lhs, np.where(zero, np.ones_like(rhs), rhs))
        return np.where(zero, np.zeros_like(result), result)  # pyright: ignore[reportUnknownVariableType]


class RemainderOp(DivisionOp):
    """The remainder of a division."""


class DivUIOp(DivisionOp):
    """`a / b` of unsigned numbers, rounded toward zero."""

    name = "arith.divui"
    builder_family = ""
    builders = ("create_udiv", "create_idiv")
    right_neutral = 1
    is_unsigned = True
    compute = function(np.floor_divide)

    def axis_info(self, operands: Sequence[AxisInfo]) -> AxisInfo:
        a, b = operands
        found = facts.divide(self.results[0].type, a, b)
        return found if b.known == 1 else found._replace(non_negative=a.non_negative)

    def interval(self, algebra: Algebra, operands: Sequence[Interval]) -> Interval:
        return intervals.no_larger(algebra, self.results[0].type, operands[0])


class RemUIOp(RemainderOp):
    """The remainder of `divui`."""

    name = "arith.remui"
    builders = ("create_urem",)
    is_unsigned = True
    compute = function(np.remainder)
    axis_info = of_operands(partial(facts.remainder, continues=True))

    def interval(self, algebra: Algebra, operands: Sequence[Interval]) -> Interval:
        dividend, divisor = operands
        if divisor.positive_constant:
            return Interval(0, divisor.low - 1)
        return intervals.no_larger(algebra, self.results[0].type, dividend)


class DivSIOp(DivisionOp):
    """`a / b` of signed numbers, rounded toward zero."""

    name = "arith.divsi"
    builder_family = ""
    builders = ("create_sdiv", "create_idiv")
    right_neutral = 1

    @staticmethod
    def compute(lhs: Any, rhs: Any) -> Any:
        return np.floor_divide(lhs - np.fmod(lhs, rhs), rhs)

    def axis_info(self, operands: Sequence[AxisInfo]) -> AxisInfo:
        a, b = operands
        # Rounding toward zero makes the groups around zero differ.
        if b.known != 1 and not a.non_negative:
            return facts.uniform(self.results[0].type, operands)
        return facts.divide(self.results[0].type, a, b)

    interval = of_operands(intervals.quotient)


class RemSIOp(RemainderOp):
    """The remainder of `divsi`; it has the sign of `a`."""

    name = "arith.remsi"
    builders = ("create_srem",)
    compute = function(np.fmod)

    def axis_info(self, operands: Sequence[AxisInfo]) -> AxisInfo:
        return facts.remainder(self.results[0].type, *operands, continues=operands[0].non_negative)

    interval = of_operands(intervals.remainder)


class FloorDivSIOp(DivisionOp):
    """`a / b` of signed numbers, rounded toward minus infinity."""

    name = "arith.floordivsi"
    right_neutral = 1
    compute = function(np.floor_divide)

    def axis_info(self, operands: Sequence[AxisInfo]) -> AxisInfo:
        a, b = operands
        # A negative divisor makes the quotient fall.
        if b.known != 1 and not b.non_negative:
            return facts.uniform(self.results[0].type, operands)
        return facts.divide(self.results[0].type, a, b)

    interval = of_operands(intervals.quotient)


def _ceiling(lhs: Any, rhs: Any) -> Any:
    floor = np.floor_divide(lhs, rhs)
    return floor + (floor * rhs != lhs)


class CeilDivSIOp(DivisionOp):
    """`a / b` of signed numbers, rounded toward plus infinity."""

    name = "arith.ceildivsi"
    right_neutral = 1
    compute = function(_ceiling)

    interval = of_operands(intervals.quotient)


class CeilDivUIOp(DivisionOp):
    """`a / b` of unsigned numbers, rounded up."""

    name = "arith.ceildivui"
    right_neutral = 1
    is_unsigned = True
    compute = function(_ceiling)
