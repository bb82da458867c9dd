"""The interval of the offsets in a tile of pointers, as scalars: whether a whole tile is in bounds
is then one test, without a look at each element.

`offsets_of(pointer)` describes the tile: the scalar pointer that it starts from and the offsets
that are added. `Ends` finds formulas of their least and largest number, in 64 bits, and the
conditions under which no arithmetic of the tile wraps around on the way to them; `Formulas` makes
ops of these.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from xdsl.ir import SSAValue

from tritium.analysis.intervals import Intervals, has_interval, is_number, unordered
from tritium.ir import types as ir
from tritium.ir.intervals import Interval, total
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
    constant_value,
)
from tritium.ops.base import Op
from tritium.passes.rewriting import Builder

_WIDEST = 62
"""Bits of a magnitude that a sum in 64 bits may have."""
_FAR = 45
"""Bits of an offset; times an element's size it is a distance between addresses."""
_MOST_OPS = 64
"""Values that an offset is computed from."""


@dataclass(frozen=True, eq=False)
class Formula:
    """A number of 64 bits that is known when the kernel runs; its magnitude is below `2**bits`."""

    op: type[Op] | None
    """The op that computes it; None for the value of a scalar, sign-extended."""
    operands: tuple[Any, ...]
    bits: int


End = int | Formula


class Condition(NamedTuple):
    """A comparison that must hold for an interval to be right."""

    predicate: CmpIPredicate
    left: End
    right: End



class Offsets(NamedTuple):
    """The pointers `start + sum(offsets)`, in elements."""

    start: SSAValue
    offsets: tuple[SSAValue, ...]


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


class NoEndsError(Exception):
    """Error: nothing but the type is known of a value that an offset is computed from."""


class Ends(Intervals):
    """Intervals of offsets. Modular arithmetic is that of unbounded integers, and the elements
    themselves count only behind it, so that sums that wrap around there and back are right."""

    assumes = True

    def __init__(self) -> None:
        super().__init__()
        self.conditions: dict[Condition, None] = {}
        self._made: dict[Any, Formula] = {}

    def of_tile(self, tile: Offsets) -> Interval | None:
        """The interval of the sums of offsets, in elements; None where nothing is known of some."""
        try:
            first, *rest = (self._offset(offset) for offset in tile.offsets)
        except NoEndsError:
            return None
        for other in rest:
            first = total(self, ir.i64, "add", first, other)
        return first

    def _offset(self, value: SSAValue) -> Interval:
        """The interval of what is added to pointers: the number itself, not one that has wrapped
        around."""
        width = ir.bit_width(ir.element_type(value.type))
        return self._fitted(self.of(value), min(width - 1, _FAR))

    def from_op(self, value: SSAValue) -> bool:
        tile = bool(ir.shape_of(value.type))
        return tile and is_number(value) and has_interval(value) and self._walked < _MOST_OPS

    def of_source(self, value: SSAValue) -> Interval:
        if not is_number(value):
            return unordered(value)
        width, owner = ir.bit_width(value.type), value.owner
        if isinstance(owner, Op) and constant_value(value) is not None:
            return owner.interval(self, ())
        if ir.shape_of(value.type) or width > 64:
            raise NoEndsError
        scalar = self.make(None, value, bits=width - 1 if width < 64 else 64)
        return Interval(scalar, scalar, span=0)

    def unknown(self, type: ir.Type, wraps: bool = False) -> Interval:
        raise NoEndsError

    def of_operands(self, op: Op) -> list[Interval]:
        found = super().of_operands(op)
        if op.modular or op.movement is not None:
            return found
        return [
            self._fitted(i, min(ir.bit_width(v.type) - 1, _WIDEST)) if is_number(v) else i
            for v, i in zip(op.operands, found, strict=True)
        ]

    def _fitted(self, found: Interval, bits: int) -> Interval:
        """The same interval, under the condition that its magnitude is below `2**bits`."""
        ends = found.low, found.high
        if max(map(_bits, ends)) <= bits:
            return found
        half = 1 << bits
        self.require("SGE", found.low, -half)
        self.require("SLT", found.high, half)
        low, high = (self._known_as(end, bits) for end in ends)
        return found._replace(low=low, high=high)

    def _known_as(self, end: End, bits: int) -> End:
        """An end whose magnitude is below `2**bits` where the conditions hold."""
        if isinstance(end, int) or end.bits <= bits:
            return end
        return self.make(end.op, *end.operands, bits=bits)

    def require(self, predicate: str, left: End, right: End) -> None:
        """Add a condition."""
        self.conditions[Condition(CmpIPredicate[predicate], left, right)] = None

    def make(self, op: type[Op] | None, *operands: Any, bits: int) -> Formula:
        """The formula of an op, or of a scalar; equal ones are the same object."""
        key = op, operands, bits
        return self._made.setdefault(key, Formula(op, operands, bits))

    # Arithmetic

    def combined(self, opcode: str, left: End, right: End, type: ir.Type) -> End:
        if isinstance(left, int) and isinstance(right, int):
            return {"add": left + right, "sub": left - right, "mul": left * right}[opcode]
        if right == 0 and opcode != "mul":
            return left
        if opcode == "mul":
            if _bits(left) + _bits(right) > _WIDEST:
                left, right = (self._end_fitted(end, _WIDEST // 2) for end in (left, right))
            return self.make(MulIOp, left, right, bits=_bits(left) + _bits(right))
        left, right = (self._end_fitted(end, _WIDEST - 1) for end in (left, right))
        bits = max(_bits(left), _bits(right)) + 1
        if opcode == "add":
            return self.make(AddIOp, left, right, bits=bits)
        return self.make(SubIOp, left, right, bits=bits)

    def _end_fitted(self, end: End, bits: int) -> End:
        return self._fitted(Interval(end, end), bits).low

    def least(self, a: End, b: End, type: ir.Type) -> End:
        if isinstance(a, int) and isinstance(b, int):
            return min(a, b)
        return a if a == b else self.make(MinSIOp, a, b, bits=max(_bits(a), _bits(b)))

    def most(self, a: End, b: End, type: ir.Type) -> End:
        if isinstance(a, int) and isinstance(b, int):
            return max(a, b)
        return a if a == b else self.make(MaxSIOp, a, b, bits=max(_bits(a), _bits(b)))

    def not_below(self, end: End, limit: int) -> Any:
        if not isinstance(end, int) or end < limit:
            self.require("SGE", end, limit)

    def fitted(
        self, type: ir.Type, low: End, high: End, conditions: tuple[Any, ...], wraps: bool,
        certain: bool = False,
    ) -> Interval:  # fmt: skip
        return Interval(low, high, conditions, wraps)

    def multiple(self, value: SSAValue) -> int:
        return 1


def _bits(end: End) -> int:
    return end.bit_length() if isinstance(end, int) else end.bits


class Formulas:
    """Ops that compute formulas, made at one place."""

    def __init__(self, at: Builder):
        self.at = at
        self._made: dict[Any, SSAValue] = {}

    def value(self, end: End) -> SSAValue:
        """The i64 that an end is."""
        if isinstance(end, int):
            if end not in self._made:
                self._made[end] = self.at.constant(end, ir.i64)
            return self._made[end]
        if end.op is None:
            (scalar,) = end.operands
            wide = ir.bit_width(scalar.type) == 64
            return scalar if wide else self.make(ExtSIOp, scalar, result=ir.i64)
        return self.make(end.op, *map(self.value, end.operands))

    def make(self, op: type[Op], *operands: SSAValue, **attrs: Any) -> SSAValue:
        """The result of an op, which is made once."""
        key = op, operands
        if key not in self._made:
            self._made[key] = self.at.value(op, *operands, **attrs)
        return self._made[key]

    def plus(self, value: SSAValue, end: End) -> SSAValue:
        """The sum of an i64 and an end."""
        return value if end == 0 else self.make(AddIOp, value, self.value(end))

    def holds(self, condition: Condition) -> SSAValue:
        """A comparison of two ends, as an i1."""
        left, right = self.value(condition.left), self.value(condition.right)
        return self.at.value(CmpIOp, left, right, predicate=condition.predicate)

    def all_hold(self, conditions: Iterable[SSAValue]) -> SSAValue:
        """The conjunction of i1 values."""
        first, *rest = conditions
        for other in rest:
            first = self.at.value(AndIOp, first, other)
        return first


class Sources:
    """The ops that a value is computed by, down to scalars: what a copy of it needs."""

    def __init__(self) -> None:
        self.scalars: dict[SSAValue, None] = {}
        self._known: dict[SSAValue, bool] = {}

    def add(self, value: SSAValue) -> bool:
        """True if a value can be computed anew from scalars, which are noted."""
        if value not in self._known:
            self._known[value] = self._add(value)
        return self._known[value]

    def add_all(self, values: Iterable[SSAValue]) -> bool:
        """True if all of some values can be, and the scalars of all of them are noted."""
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
