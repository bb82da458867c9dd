"""The interval of the offsets in a tile of pointers, as scalars: whether a whole tile is in bounds
is then one test, without a look at each element.

`offsets_of(pointer)` describes the tile: the scalar pointer that it starts from and the offsets
that are added. `Ends` computes their least and largest number, in 64 bits, and the conditions under
which no arithmetic of the tile wraps around on the way to them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from xdsl.ir import SSAValue

from tritium.ir import types as ir
from tritium.ops.arith import (
    AddIOp,
    AndIOp,
    CmpIOp,
    CmpIPredicate,
    ExtSIOp,
    MaxSIOp,
    MinSIOp,
    MulIOp,
    SubIOp,
)
from tritium.ops.base import Op
from tritium.passes.rewriting import Builder

_WIDEST = 62
"""Bits of a magnitude that a sum in 64 bits may have."""
_FAR = 45
"""Bits of an offset; times an element's size it is a distance between addresses."""
_DEEPEST = 24
"""Ops between an offset and the scalars that it is computed from."""

End = int | SSAValue


class Offsets(NamedTuple):
    """The pointers `start + sum(offsets)`, in elements."""

    start: SSAValue
    offsets: tuple[SSAValue, ...]


class Interval(NamedTuple):
    """`low <= element <= high`, magnitudes below `2**bits`."""

    low: End
    high: End
    bits: int


def offsets_of(pointer: SSAValue) -> Offsets | None:
    """The start and the offsets of a tile of pointers; None for one that is loaded, chosen or
    carried by a loop."""
    offsets: list[SSAValue] = []
    while ir.shape_of(pointer.type):
        made = pointer.owner
        if isinstance(made, Op) and made.weights == (1, 1):
            pointer, offset = made.operands
            offsets.append(offset)
        elif isinstance(made, Op) and made.movement is not None and len(made.operands) == 1:
            pointer = made.operands[0]
        else:
            return None
    return Offsets(pointer, tuple(offsets)) if offsets else None


def has_ends(value: SSAValue, depth: int = _DEEPEST) -> bool:
    """Whether `Ends` knows an interval of an integer, or of a tile of integers."""
    if not ir.shape_of(value.type):
        return ir.element_type(value.type) != ir.i1 and ir.bit_width(value.type) <= 64
    made = value.owner
    if depth == 0 or not isinstance(made, Op) or len(made.results) != 1:
        return False
    if made.integer_range(_nothing) is not None and not made.operands:
        return True
    if made.interval_rule or made.movement is not None or made.weights:
        return all(has_ends(operand, depth - 1) for operand in made.operands)
    return False


def _nothing(value: SSAValue) -> None:
    """The range of an operand that is not looked at."""


class Ends:
    """Computes intervals, before an op.

    Attributes:
        conditions: i1 values; where one is false, no interval is right.
    """

    def __init__(self, at: Builder):
        self.at = at
        self.conditions: list[SSAValue] = []
        self._known: dict[SSAValue, Interval] = {}

    def of(self, value: SSAValue) -> Interval:
        """The interval of a value that `has_ends`."""
        if value not in self._known:
            self._known[value] = self._find(value)
        return self._known[value]

    def offset(self, value: SSAValue) -> Interval:
        """The interval of what is added to pointers: the number itself, not one that has wrapped
        around."""
        width = ir.bit_width(ir.element_type(value.type))
        return self.fit(self.of(value), min(width - 1, _FAR))

    def add(self, a: Interval, b: Interval) -> Interval:
        """The interval of sums."""
        a, b = (self.fit(x, _WIDEST - 1) for x in (a, b))
        bits = max(a.bits, b.bits) + 1
        return Interval(self.plus(a.low, b.low), self.plus(a.high, b.high), bits)

    def fit(self, a: Interval, bits: int) -> Interval:
        """The same, under the condition that its magnitude is below `2**bits`."""
        if a.bits <= bits:
            return a
        half = 1 << bits
        self.require("sge", a.low, -half)
        self.require("slt", a.high, half)
        return a._replace(bits=bits)

    def require(self, predicate: str, a: End, b: End) -> None:
        """Add a condition."""
        compared = CmpIPredicate[predicate.upper()]
        self.conditions.append(
            self.at.value(CmpIOp, self._value(a), self._value(b), predicate=compared)
        )

    def all_conditions(self) -> SSAValue:
        """Whether all hold."""
        first, *rest = self.conditions
        for other in rest:
            first = self.at.value(AndIOp, first, other)
        return first

    def plus(self, a: End, b: End) -> End:
        """`a + b` in 64 bits; a number where both are known, as of what follows."""
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        return self.at.value(AddIOp, self._value(a), self._value(b)) if b != 0 else a

    def minus(self, a: End, b: End) -> End:
        """`a - b`."""
        if isinstance(a, int) and isinstance(b, int):
            return a - b
        return self.at.value(SubIOp, self._value(a), self._value(b))

    def times(self, a: End, b: End) -> End:
        """`a * b`."""
        if isinstance(a, int) and isinstance(b, int):
            return a * b
        return self.at.value(MulIOp, self._value(a), self._value(b))

    def least(self, a: End, b: End) -> End:
        """The lesser of two."""
        if isinstance(a, int) and isinstance(b, int):
            return min(a, b)
        return self.at.value(MinSIOp, self._value(a), self._value(b))

    def largest(self, a: End, b: End) -> End:
        """The greater of two."""
        if isinstance(a, int) and isinstance(b, int):
            return max(a, b)
        return self.at.value(MaxSIOp, self._value(a), self._value(b))

    def _value(self, end: End) -> SSAValue:
        return self.at.constant(end, ir.i64) if isinstance(end, int) else end

    def _find(self, value: SSAValue) -> Interval:
        made: Any = value.owner
        known = made.integer_range(_nothing) if isinstance(made, Op) and not made.operands else None
        if known is not None:
            low, high = known
            return Interval(low, high, max(abs(low), abs(high)).bit_length())
        width = ir.bit_width(ir.element_type(value.type))
        if not ir.shape_of(value.type):
            wide = value if width == 64 else self.at.value(ExtSIOp, value, result=ir.i64)
            return Interval(wide, wide, width - 1 if width < 64 else 64)
        if made.interval_rule:
            return _RULES[made.interval_rule](self, made)
        if made.movement is not None:
            return self.of(made.operands[0])
        total: Interval | None = None
        for weight, operand in zip(made.weights, made.operands, strict=True):
            part = self.of(operand)
            if ir.bit_width(operand.type) < ir.bit_width(value.type):  # a number that was widened
                part = self.fit(part, ir.bit_width(operand.type) - 1)
            if weight < 0:
                part = self.fit(part, _WIDEST)
                part = Interval(self.minus(0, part.high), self.minus(0, part.low), part.bits)
            total = part if total is None else self.add(total, part)
        assert total is not None
        return total

    def product(self, made: Any) -> Interval:
        """The interval of products: of the ends, where one factor is a single number."""
        a, b = self.of(made.lhs), self.of(made.rhs)
        if a.bits + b.bits > _WIDEST:
            a, b = self.fit(a, _WIDEST // 2), self.fit(b, _WIDEST // 2)
        lefts, rights = dict.fromkeys((a.low, a.high)), dict.fromkeys((b.low, b.high))
        products = [self.times(x, y) for x in lefts for y in rights]
        low = high = products[0]
        for product in products[1:]:
            low, high = self.least(low, product), self.largest(high, product)
        return Interval(low, high, a.bits + b.bits)

    def remainder(self, made: Any) -> Interval:
        """The interval of remainders of numbers that are not negative, by positive ones."""
        width = ir.bit_width(ir.element_type(made.result.type)) - 1
        a, b = (self.fit(self.of(x), min(width, _WIDEST)) for x in (made.lhs, made.rhs))
        self.require("sge", a.low, 0)
        self.require("sgt", b.low, 0)
        return Interval(0, self.least(a.high, self.minus(b.high, 1)), b.bits)


_RULES: dict[str, Callable[[Ends, Any], Interval]] = {
    "product": Ends.product, "remainder": Ends.remainder,
}  # fmt: skip
"""The rules by `Op.interval_rule`."""


class Sources:
    """The ops that a value is computed by, down to scalars: what a copy of it needs."""

    def __init__(self) -> None:
        self.scalars: dict[SSAValue, None] = {}
        self._known: dict[SSAValue, bool] = {}

    def add(self, value: SSAValue) -> bool:
        """Whether a value can be computed anew from scalars, which are noted."""
        if value not in self._known:
            self._known[value] = self._add(value)
        return self._known[value]

    def add_all(self, values: Iterable[SSAValue]) -> bool:
        """Whether all of some values can be, and the scalars of all of them are noted."""
        return False not in [self.add(value) for value in values]

    def _add(self, value: SSAValue) -> bool:
        if not ir.shape_of(value.type):
            self.scalars[value] = None
            return True
        made = value.owner
        if not isinstance(made, Op) or not made.is_pure or made.regions:
            return False
        return self.add_all(made.operands)


def computed_anew(value: SSAValue, at: Builder, copies: dict[SSAValue, SSAValue]) -> SSAValue:
    """A value that `Sources` can have, computed once more from scalars."""
    if value in copies or not ir.shape_of(value.type):
        return copies.get(value, value)
    made: Any = value.owner
    for operand in made.operands:
        copies[operand] = computed_anew(operand, at, copies)
    at.copy(made, copies)
    return copies[value]
