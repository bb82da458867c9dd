"""Intervals of integers: `Op.interval` gives that of an op's result by those of its operands.

An end of an interval is a Python integer where it is known when compiling. Other ends are values of
an `Algebra`, which computes with them, such as code that is emitted. Where all `conditions` of an
interval hold, the elements are those that the same arithmetic on unbounded integers has.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from xdsl.ir import SSAValue

from tritium.ir import types as ir

End = Any
"""A Python integer, or a value of the algebra."""


class Interval(NamedTuple):
    """`low <= element <= high`, if `conditions` hold. `wraps`: some sum, difference or product on
    the way may have wrapped around under any condition; the interval is right all the same."""

    low: End
    high: End
    conditions: tuple[Any, ...] = ()
    wraps: bool = False
    span: int | None = None
    """At most how far the ends are apart, where that is known when compiling."""

    @property
    def uniform(self) -> bool:
        """True if all elements are the same number."""
        return self.low == self.high

    @property
    def non_negative(self) -> bool:
        """True if it is known when compiling that no element is negative."""
        return isinstance(self.low, int) and self.low >= 0

    @property
    def positive_constant(self) -> bool:
        """True if all elements are one positive number that is known when compiling."""
        return isinstance(self.low, int) and self.uniform and self.low > 0


class Algebra(Protocol):
    """Arithmetic with ends, in a width in which that of elements of `type` does not overflow."""

    assumes: bool
    """True if a condition of the run time is better than a wider interval."""

    def least(self, a: End, b: End, type: ir.Type) -> End:
        """The smaller end."""
        ...

    def most(self, a: End, b: End, type: ir.Type) -> End:
        """The larger end."""
        ...

    def combined(self, opcode: str, left: End, right: End, type: ir.Type) -> End:
        """add, sub or mul of two ends."""
        ...

    def not_below(self, end: End, limit: int) -> Any:
        """The condition that an end is at least `limit`; None if that is certain."""
        ...

    def fitted(
        self, type: ir.Type, low: End, high: End, conditions: tuple[Any, ...], wraps: bool,
        certain: bool = False,
    ) -> Interval:  # fmt: skip
        """The interval of arithmetic whose result would be `low` to `high` without wrapping;
        `certain`: nothing wraps."""
        ...

    def unknown(self, type: ir.Type, wraps: bool = False) -> Interval:
        """All numbers of a type."""
        ...

    def multiple(self, value: SSAValue) -> int:
        """A power of two that all elements of a value are multiples of."""
        ...


def type_limits(type: ir.Type) -> tuple[int, int]:
    """The smallest and the largest signed number of an integer type."""
    bits = ir.bit_width(ir.element_type(type))
    return -(1 << (bits - 1)), (1 << (bits - 1)) - 1


def known(low: int, high: int) -> Interval:
    """The interval between two numbers."""
    return Interval(low, high, span=high - low)


def _joined(low: End, high: End, *sources: Interval) -> Interval:
    """An interval that follows from others."""
    conditions = tuple(dict.fromkeys(c for s in sources for c in s.conditions))
    return Interval(low, high, conditions, any(s.wraps for s in sources))


def union(algebra: Algebra, type: ir.Type, first: Interval, *others: Interval) -> Interval:
    """The interval of elements that are each in one of some intervals."""
    for second in others:
        low = algebra.least(first.low, second.low, type)
        first = _joined(low, algebra.most(first.high, second.high, type), first, second)
    return first


def extreme(
    algebra: Algebra, type: ir.Type, first: Interval, second: Interval, smallest: bool
) -> Interval:
    """The interval of the smaller, or the larger, of two numbers."""
    pick = algebra.least if smallest else algebra.most
    low, high = pick(first.low, second.low, type), pick(first.high, second.high, type)
    return _joined(low, high, first, second)._replace(wraps=False)


def total(
    algebra: Algebra, type: ir.Type, opcode: str, first: Interval, second: Interval,
    certain: bool = False,
) -> Interval:  # fmt: skip
    """The interval of a sum ("add") or a difference ("sub"); `certain`: it does not wrap."""
    ends = (second.low, second.high) if opcode == "add" else (second.high, second.low)
    low = algebra.combined(opcode, first.low, ends[0], type)
    high = algebra.combined(opcode, first.high, ends[1], type)
    if _is_hopeless(type, first, second):
        return algebra.unknown(type, wraps=True)
    joined = _joined(low, high, first, second)
    found = algebra.fitted(type, low, high, joined.conditions, joined.wraps, certain)
    if first.span is None or second.span is None:
        return found
    return found._replace(span=first.span + second.span)


def _is_hopeless(type: ir.Type, *operands: Interval) -> bool:
    """True if nothing is known of one operand, and the other is a number of the run time."""
    limits = type_limits(type)
    full = any((i.low, i.high) == limits for i in operands)
    return full and not all(isinstance(end, int) for i in operands for end in (i.low, i.high))


def fills_low_bits(algebra: Algebra, value: SSAValue, other: Interval) -> bool:
    """True if all elements are multiples of a power of two that is larger than the numbers of the
    other interval, which are not negative: no carry of their sum leaves the type."""
    if not isinstance(other.low, int) or not isinstance(other.high, int) or other.low < 0:
        return False
    return other.high < min(algebra.multiple(value), type_limits(value.type)[1] + 1)


def product(algebra: Algebra, type: ir.Type, first: Interval, second: Interval) -> Interval:
    """The interval of a product."""
    if _is_hopeless(type, first, second):
        return algebra.unknown(type, wraps=True)
    if second.non_negative and not first.non_negative:
        first, second = second, first
    if first.non_negative and second.non_negative:
        low = algebra.combined("mul", first.low, second.low, type)
        high = algebra.combined("mul", first.high, second.high, type)
    else:
        ends = [
            algebra.combined("mul", x, y, type)
            for x in dict.fromkeys((first.low, first.high))
            for y in dict.fromkeys((second.low, second.high))
        ]
        low = high = ends[0]
        for end in ends[1:]:
            low, high = algebra.least(low, end, type), algebra.most(high, end, type)
    joined = _joined(low, high, first, second)
    found = algebra.fitted(type, low, high, joined.conditions, joined.wraps)
    for one, other in ((first, second), (second, first)):
        if one.span == 0 and other.span == 0:
            return found._replace(span=0)
        if one.span == 0 and isinstance(one.low, int) and other.span is not None:
            return found._replace(span=other.span * abs(one.low))
    return found


def shifted_left(algebra: Algebra, type: ir.Type, value: Interval, amount: Interval) -> Interval:
    """The interval of `value << amount`."""
    bits = ir.bit_width(ir.element_type(type))
    if not isinstance(amount.low, int) or not amount.uniform or not 0 <= amount.low < bits - 1:
        return algebra.unknown(type, wraps=True)
    factor = 1 << amount.low
    return product(algebra, type, value, known(factor, factor))


def toward_zero(algebra: Algebra, type: ir.Type, value: Interval) -> Interval:
    """The interval of numbers with the sign of an operand that are no farther from zero."""
    low, high = algebra.least(value.low, 0, type), algebra.most(value.high, 0, type)
    return Interval(low, high, value.conditions)


def remainder(algebra: Algebra, type: ir.Type, dividend: Interval, divisor: Interval) -> Interval:
    """The interval of the remainder of signed numbers, which has the dividend's sign."""
    found = toward_zero(algebra, type, dividend)
    if isinstance(divisor.low, int) and divisor.uniform and divisor.low:
        most = abs(divisor.low) - 1
        low = algebra.most(found.low, -most, type)
        return found._replace(low=low, high=algebra.least(found.high, most, type))
    if not algebra.assumes:
        return found
    signs = algebra.not_below(dividend.low, 0), algebra.not_below(divisor.low, 1)
    most = algebra.combined("sub", divisor.high, 1, type)
    joined = _joined(0, algebra.least(dividend.high, most, type), dividend, divisor)
    added = tuple(c for c in signs if c is not None)
    return joined._replace(conditions=(*joined.conditions, *added))


def quotient(algebra: Algebra, type: ir.Type, dividend: Interval, divisor: Interval) -> Interval:
    """The interval of the quotient of signed numbers, rounded in any way."""
    if isinstance(divisor.low, int) and divisor.low > 0:
        return toward_zero(algebra, type, dividend)
    negated = algebra.combined("sub", 0, dividend.low, type)
    most = algebra.most(dividend.high, negated, type)
    if isinstance(most, int) and most > type_limits(type)[1]:
        return algebra.unknown(type)
    return Interval(algebra.combined("sub", 0, most, type), most, dividend.conditions)


def no_larger(algebra: Algebra, type: ir.Type, *operands: Interval) -> Interval:
    """The interval of numbers from 0 to the first operand that cannot be negative."""
    for found in operands:
        if found.non_negative:
            return Interval(0, found.high, found.conditions)
    return algebra.unknown(type)


def bits_of_either(algebra: Algebra, type: ir.Type, first: Interval, second: Interval) -> Interval:
    """The interval of numbers whose bits come from two numbers."""
    ends = first.high, second.high
    if not (first.non_negative and second.non_negative) or not all(
        isinstance(end, int) for end in ends
    ):
        return algebra.unknown(type)
    bits = max(end.bit_length() for end in ends)
    return Interval(0, (1 << bits) - 1, (*first.conditions, *second.conditions))


def sign_extended(source: ir.Type, found: Interval) -> Interval:
    """The interval of elements of an integer type that are widened with copies of the sign."""
    # The set bit of an i1 is the number -1 here and 1 to other ops.
    return known(-1, 0) if ir.element_type(source) == ir.i1 else found


def zero_extended(algebra: Algebra, source: ir.Type, found: Interval) -> Interval:
    """The interval of elements of an integer type that are widened with zeros."""
    bits = ir.bit_width(ir.element_type(source))
    if bits == 1:
        return Interval(0, 1)
    condition = algebra.not_below(found.low, 0)
    if condition is None:
        return found
    if isinstance(found.low, int):
        return Interval(0, (1 << bits) - 1, (), True)
    return found._replace(conditions=(*found.conditions, condition))


def converted(algebra: Algebra, source: ir.Type, type: ir.Type, found: Interval) -> Interval:
    """The interval of signed elements of one integer type in another one."""
    least, largest = type_limits(type)
    if largest >= type_limits(source)[1]:
        return found
    low, high = found.low, found.high
    if isinstance(low, int) and isinstance(high, int) and least <= low and high <= largest:
        return found
    return algebra.unknown(type, wraps=True)
