"""Intervals of the integers that values are: the walk from a value to what it is computed from.

`Intervals` asks the ops' own `interval` hooks (`ir/intervals.py`), operands first. A subclass is
the algebra of the ends, and says where the walk stops: `Ranges` knows numbers alone; the tiles of
the CPU compute ends by code, the sanitizer by formulas.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from xdsl.ir import Block, SSAValue

from tritium.ir import types as ir
from tritium.ir.intervals import Algebra, End, Interval, type_limits
from tritium.ops.arith.integer import DivisionOp
from tritium.ops.base import Op, Range
from tritium.ops.scf import is_counted

MOST_VALUES = 64
"""Values that `range_of` looks at, where it is asked seldom."""


class Intervals(Algebra, ABC):
    """The intervals of values, found when first asked for."""

    def __init__(self) -> None:
        self._known: dict[SSAValue, Interval] = {}
        #: Values that the walk has come to, and gone on from.
        self._walked = 0

    @abstractmethod
    def from_op(self, value: SSAValue) -> bool:
        """True if the interval of a value is what the op that defines it says."""

    @abstractmethod
    def of_source(self, value: SSAValue) -> Interval:
        """The interval of a value that the walk stops at."""

    def of(self, value: SSAValue) -> Interval:
        """The interval of an integer or of a tile of integers."""
        known = self._known
        stack, by_ops = [value], dict[SSAValue, bool]()
        while stack:  # operands first: chains may be long
            current = stack[-1]
            if current in known:
                stack.pop()
            elif current in by_ops:
                known[current] = self._find(current, by_ops[current])
                stack.pop()
            else:
                by_ops[current] = self.from_op(current)
                if by_ops[current]:
                    self._walked += 1
                    stack += [v for v in _integers(current) if v not in known]
        return known[value]

    def _find(self, value: SSAValue, by_op: bool) -> Interval:
        if not by_op:
            return self.of_source(value)
        owner: Any = value.owner
        return owner.interval(self, self.of_operands(owner))

    def of_operands(self, op: Op) -> list[Interval]:
        """The intervals of the operands of an op, as its hook gets them."""
        known = self._known
        return [known[v] if v in known else self.of(v) for v in op.operands]

    assumes = False

    def unknown(self, type: ir.Type, wraps: bool = False) -> Interval:
        return Interval(*type_limits(type), (), wraps)


def has_interval(value: SSAValue) -> bool:
    """True if the op that defines a value says of its interval more than the type does."""
    owner = value.owner
    return isinstance(owner, Op) and owner.has_interval


def is_number(value: SSAValue) -> bool:
    """True if a value is an integer, or a tile of integers, of more than one bit."""
    return ir.is_integer(value.type) and ir.bit_width(value.type) > 1


def unordered(value: SSAValue) -> Interval:
    """The interval of what is no number, such as an operand that an op only chooses by; the one
    set bit of an i1 is 1 to some ops and -1 to others."""
    if ir.is_integer(value.type):
        return Interval(-1, 1)
    return Interval(*type_limits(ir.i64), (), True)


def _integers(value: SSAValue) -> list[SSAValue]:
    owner: Any = value.owner
    return [v for v in owner.operands if ir.is_integer(v.type)]


class Ranges(Intervals):
    """Intervals whose ends are all numbers; of values of the run time nothing is known, nor of
    those behind the first `most`."""

    def __init__(self, most: int = MOST_VALUES) -> None:
        super().__init__()
        self._most = most

    def from_op(self, value: SSAValue) -> bool:
        return is_number(value) and has_interval(value) and self._walked < self._most

    def of_source(self, value: SSAValue) -> Interval:
        return self.unknown(value.type) if is_number(value) else unordered(value)

    def least(self, a: End, b: End, type: ir.Type) -> End:
        return min(a, b)

    def most(self, a: End, b: End, type: ir.Type) -> End:
        return max(a, b)

    def combined(self, opcode: str, left: End, right: End, type: ir.Type) -> End:
        return {"add": left + right, "sub": left - right, "mul": left * right}[opcode]

    def not_below(self, end: End, limit: int) -> Any:
        return None if end >= limit else False

    def fitted(
        self, type: ir.Type, low: End, high: End, conditions: tuple[Any, ...], wraps: bool,
        certain: bool = False,
    ) -> Interval:  # fmt: skip
        least, largest = type_limits(type)
        if certain or (least <= low and high <= largest):
            return Interval(low, high, (), wraps)
        return self.unknown(type, wraps=True)

    def multiple(self, value: SSAValue) -> int:
        return 1


_BOUNDED, _UNBOUNDED = 1 << 200, 1 << 400
"""Larger than sums and products of numbers with a bound, and where there is none."""


class AssumedRanges(Ranges):
    """Intervals of index arithmetic that does not overflow, where numbers of the run time are taken
    for so large that a difference is not negative: `n - 16` is not, but `tl.arange(0, 64) - 16` and
    `tl.arange(0, 64) - n` are, and so is `program_id * 64 - 16`, in the first program. A scalar
    from which a number of the run time is subtracted is taken to be the larger one."""

    def __init__(self) -> None:
        super().__init__(most=_UNBOUNDED)

    def _find(self, value: SSAValue, by_op: bool) -> Interval:
        owner: Any = value.owner
        if by_op and isinstance(owner, DivisionOp):
            dividend, divisor = self.of_operands(owner)
            if dividend.non_negative and divisor.non_negative:
                return Interval(0, dividend.high)
        return super()._find(value, by_op)

    def of_source(self, value: SSAValue) -> Interval:
        owner: Any = value.owner
        loop = owner.parent_op() if isinstance(owner, Block) else None
        if is_counted(loop) and value is owner.args[0]:
            low, high, *_ = self.of(loop.lower)
            return Interval(low, max(high, type_limits(value.type)[1]))
        return super().of_source(value)

    def unknown(self, type: ir.Type, wraps: bool = False) -> Interval:
        return Interval(0, _UNBOUNDED)

    def fitted(
        self, type: ir.Type, low: End, high: End, conditions: tuple[Any, ...], wraps: bool,
        certain: bool = False,
    ) -> Interval:  # fmt: skip
        bounded = high < _BOUNDED and (low > -_BOUNDED or bool(ir.shape_of(type)))
        return Interval(low if bounded else max(low, 0), min(high, _UNBOUNDED))


def range_of(value: SSAValue, most: int = MOST_VALUES) -> Range | None:
    """The least and the largest signed number that any element of a value can be; None where
    nothing better than its type is known. `most`: values looked at, the operands' own included."""
    if not is_number(value) or not has_interval(value):
        return None
    found = Ranges(most).of(value)
    ends = found.low, found.high
    return None if ends == type_limits(value.type) else ends
