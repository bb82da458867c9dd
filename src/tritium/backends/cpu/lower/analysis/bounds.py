"""Bounds of the integers in a tile, and under which conditions its arithmetic does not wrap around.

`Bounds(...).of(value)` is the interval that the elements lie in. Its ends are Python integers where
they are known when compiling, else scalars computed at the current position, in a type wide enough
not to overflow (i64 for up to 32 bits, else i128). A sum, difference, product or shift that may
leave its type gives a condition (i1): where all conditions hold, the tile has the elements that the
same arithmetic on unbounded integers has.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from xdsl.ir import Block, SSAValue

from tritium.backends.cpu.dot.operand import static
from tritium.backends.cpu.lower.context import Context
from tritium.backends.cpu.tiles.index_arithmetic import is_inside
from tritium.codegen.llvm.writer import Value, const
from tritium.ir import types as ir
from tritium.ops.arith import (
    AddIOp,
    AndIOp,
    CeilDivSIOp,
    DivSIOp,
    DivUIOp,
    ExtSIOp,
    ExtUIOp,
    FloorDivSIOp,
    IndexCastOp,
    MaxSIOp,
    MinSIOp,
    MulIOp,
    OrIOp,
    RemSIOp,
    RemUIOp,
    SelectOp,
    ShLIOp,
    ShRSIOp,
    ShRUIOp,
    SubIOp,
    TruncIOp,
    XOrIOp,
    constant_value,
)  # fmt: skip
from tritium.ops.base import Op
from tritium.ops.ttir.shape import MakeRangeOp

End = int | Value


_MOST_CONDITIONS = 24
"""More are not worth testing: LLVM takes seconds for a hundred of them."""


class Interval(NamedTuple):
    """`low <= element <= high`, if `conditions` hold. `wraps`: some sum, difference or product on
    the way may have wrapped around under any condition; the interval is right all the same."""

    low: End
    high: End
    conditions: tuple[Value, ...] = ()
    wraps: bool = False
    span: int | None = None
    """At most how far the ends are apart, where that is known when compiling."""

    @property
    def uniform(self) -> bool:
        """Whether all elements are the same number."""
        return self.low == self.high


def type_limits(type: ir.Type) -> tuple[int, int]:
    """The smallest and the largest signed number of an integer type."""
    bits = ir.bit_width(ir.element_type(type))
    return -(1 << (bits - 1)), (1 << (bits - 1)) - 1


def _known(low: int, high: int) -> Interval:
    return Interval(low, high, span=high - low)


def _carrier(type: ir.Type) -> str:
    return "i64" if ir.bit_width(ir.element_type(type)) <= 32 else "i128"


class Bounds:
    """Intervals of values, emitted at the current position when first asked for.

    With `loop` (an `scf.for`) and `iterations` (i64), those of all iterations of the loop.
    """

    def __init__(self, context: Context, loop: Any = None, iterations: Value | None = None):
        self.c, self.f, self.loop, self.iterations = context, context.f, loop, iterations
        self._known: dict[SSAValue, Interval] = {}

    def of(self, value: SSAValue) -> Interval:
        """The interval of an integer or of a tile of integers."""
        stack, met = [value], set[SSAValue]()
        while stack:  # operands first: chains may be long
            current = stack[-1]
            if current not in self._known and current not in met:
                met.add(current)
                stack.extend(v for v in self._needed(current) if v not in self._known)
                continue
            if current not in self._known:
                self._known[current] = self._find(current)
            stack.pop()
        return self._known[value]

    def _needed(self, value: SSAValue) -> list[SSAValue]:
        """The values whose intervals that of `value` follows from."""
        owner: Any = value.owner
        if not ir.is_integer(value.type) or ir.element_type(value.type) == ir.i1:
            return []
        if _rule_of(owner) is None or constant_value(value) is not None:
            return []
        if value in self.c.buffers:
            return []
        inside = self.loop is not None and is_inside(self.loop, value)
        if not isinstance(value.type, ir.TensorType) and not inside:
            return []
        return [v for v in owner.operands if ir.is_integer(v.type)]

    def unknown(self, value: SSAValue, wraps: bool = False) -> Interval:
        """All numbers of the type."""
        return Interval(*type_limits(value.type), (), wraps)

    def _find(self, value: SSAValue) -> Interval:
        if not ir.is_integer(value.type):
            return Interval(-(1 << 63), (1 << 63) - 1, (), True)
        if ir.element_type(value.type) == ir.i1:
            return Interval(-1, 1)
        held = constant_value(value)
        if held is not None:
            return _known(int(held.min()), int(held.max()))
        owner: Any = value.owner
        inside = self.loop is not None and is_inside(self.loop, value)
        if not isinstance(value.type, ir.TensorType) and not inside:
            scalar = self.c.scalars.get(value)
            if scalar is None or scalar.type == "i1":
                return self.unknown(value)
            end = self._widened(scalar, _carrier(value.type))
            return Interval(end, end, span=0)
        if isinstance(owner, Block):
            return self._argument(value, owner)
        rule = _rule_of(owner)
        # Each nest asks anew, which would go through all that was computed before it.
        if rule is None or value in self.c.buffers:
            return self.unknown(value)
        return rule(self, owner, value)

    def _argument(self, value: SSAValue, block: Block) -> Interval:
        """A scalar that a loop carries, or its counter."""
        if self.loop is None or block is not self.loop.body or self.iterations is None:
            return self.unknown(value)
        if isinstance(value.type, ir.TensorType):
            return self.unknown(value)
        number: int = value.index  # pyright: ignore
        if number == 0:
            start, by = self.loop.lower, self.loop.step
        else:
            start, following = self.loop.inits[number - 1], block.last_op.operands[number - 1]  # pyright: ignore
            if following is value:
                return self.of(start)
            op: Any = following.owner
            if not isinstance(op, AddIOp) or value not in op.operands:
                return self.unknown(value)
            by = op.operands[1] if op.operands[0] is value else op.operands[0]
            if is_inside(self.loop, by):
                return self.unknown(value)
        return self._progress(value, self.of(start), self.of(by))

    def _progress(self, value: SSAValue, start: Interval, by: Interval) -> Interval:
        """`start + by * iteration` for all iterations."""
        assert self.iterations is not None
        iterations = self._widened(self.iterations, "i128")
        last = self.most(self.combined("sub", iterations, 1, "i128"), 0, "i128")
        span = self.combined("mul", by.low, last, "i128")
        low = self.combined("add", start.low, self.least(span, 0, "i128"), "i128")
        high = self.combined("add", start.high, self.most(span, 0, "i128"), "i128")
        return self.fitted(value, low, high, (*start.conditions, *by.conditions), start.wraps)

    # Numbers

    def _widened(self, value: Value, type: str) -> End:
        known = static(value)
        return known if known is not None else self.f.cast("sext", value, type)

    def _end(self, end: End, type: str) -> Value:
        """An end of an interval as a value of a carrier."""
        if isinstance(end, int):
            return const(type, end)
        if end.type == type:
            return end
        return self.f.cast("trunc" if type == "i64" else "sext", end, type)

    def combined(self, opcode: str, left: End, right: End, type: str) -> End:
        """add, sub or mul of two ends."""
        if isinstance(left, int) and isinstance(right, int):
            return {"add": left + right, "sub": left - right, "mul": left * right}[opcode]
        if right == 0 and opcode != "mul":
            return left
        if left == 0 and opcode == "add":
            return right
        if opcode == "mul" and 1 in (left, right):
            return right if left == 1 else left
        return self.f.op(opcode, self._end(left, type), self._end(right, type))

    def _pick(self, name: str, pick: Callable[[int, int], int], a: End, b: End, type: str) -> Any:
        if isinstance(a, int) and isinstance(b, int):
            return pick(a, b)
        if a == b:
            return a
        return self.f.intrinsic(name, self._end(a, type), self._end(b, type))

    def least(self, a: End, b: End, type: str) -> Any:
        return self._pick("smin", min, a, b, type)

    def most(self, a: End, b: End, type: str) -> Any:
        return self._pick("smax", max, a, b, type)

    def narrow(self, value: SSAValue, found: Interval) -> Interval:
        """The interval of a tile with the condition that differences of elements fit its type."""
        largest = type_limits(value.type)[1]
        if found.wraps or (found.span is not None and found.span <= largest):
            return found
        type = _carrier(value.type)  # wide enough where the other conditions hold
        span = self.combined("sub", found.high, found.low, type)
        if isinstance(span, int):
            return found if span <= largest else found._replace(wraps=True)
        condition = self.f.icmp("sle", span, const(type, largest))
        return found._replace(conditions=(*found.conditions, condition))

    def not_below(self, end: End, limit: int) -> Value | None:
        """The condition that an end is at least `limit`; None if that is certain."""
        if isinstance(end, int):
            return None if end >= limit else const("i1", False)
        return self.f.icmp("sge", end, const(end.type, limit))

    def fitted(
        self, value: SSAValue, low: End, high: End, conditions: tuple[Value, ...], wraps: bool,
        certain: bool = False,
    ) -> Interval:  # fmt: skip
        """The interval of arithmetic whose result would be `low` to `high` without wrapping."""
        least, largest = type_limits(value.type)
        if not certain and any(
            isinstance(end, int) and not least <= end <= largest for end in (low, high)
        ):
            return self.unknown(value, wraps=True)
        added: list[Value] = []
        if not certain and isinstance(low, Value):
            added.append(self.f.icmp("sge", low, const(low.type, least)))
        if not certain and isinstance(high, Value):
            added.append(self.f.icmp("sle", high, const(high.type, largest)))
        if len(conditions) + len(added) > _MOST_CONDITIONS:
            return self.unknown(value, wraps=True)
        type = _carrier(value.type)
        low, high = (e if isinstance(e, int) else self._end(e, type) for e in (low, high))
        return Interval(low, high, tuple(dict.fromkeys((*conditions, *added))), wraps)


_Rule = Callable[[Bounds, Any, SSAValue], Interval]
_RULES: dict[type[Any], _Rule] = {}


def _rule(*classes: type[Any]) -> Callable[[_Rule], _Rule]:
    def register(rule: _Rule) -> _Rule:
        _RULES.update(dict.fromkeys(classes, rule))
        return rule

    return register


@_rule(MakeRangeOp)
def _make_range(b: Bounds, op: Any, value: SSAValue) -> Interval:
    return _known(op.start, op.end - 1)


def _rule_of(owner: object) -> _Rule | None:
    """The rule of the op that defines a value."""
    moves = isinstance(owner, Op) and owner.movement is not None
    return _moved if moves else _RULES.get(type(owner))


def _moved(b: Bounds, op: Op, value: SSAValue) -> Interval:
    """Elements of operands, as they are."""
    first, *rest = (b.of(v) for name in op.memory_operands for v in op.operand_values(name))
    return _union(b, value, first, *rest) if rest else first


@_rule(ExtSIOp)
def _same(b: Bounds, op: Any, value: SSAValue) -> Interval:
    return b.of(op.operands[0])


@_rule(SelectOp)
def _select(b: Bounds, op: Any, value: SSAValue) -> Interval:
    return _union(b, value, b.of(op.operands[1]), b.of(op.operands[2]))


def _union(b: Bounds, value: SSAValue, first: Interval, second: Interval) -> Interval:
    type = _carrier(value.type)
    low, high = b.least(first.low, second.low, type), b.most(first.high, second.high, type)
    return _joined(low, high, first, second)


def _joined(low: End, high: End, *sources: Interval) -> Interval:
    conditions = tuple(dict.fromkeys(c for s in sources for c in s.conditions))
    return Interval(low, high, conditions, any(s.wraps for s in sources))


@_rule(AddIOp, SubIOp)
def _sum(b: Bounds, op: Any, value: SSAValue) -> Interval:
    first, second = (b.of(v) for v in op.operands)
    type, opcode = _carrier(value.type), "add" if isinstance(op, AddIOp) else "sub"
    ends = (second.low, second.high) if opcode == "add" else (second.high, second.low)
    low = b.combined(opcode, first.low, ends[0], type)
    high = b.combined(opcode, first.high, ends[1], type)
    if _is_hopeless(value, first, second):
        return b.unknown(value, wraps=True)
    joined = _joined(low, high, first, second)
    certain = opcode == "add" and (
        _fills_low_bits(b, op.lhs, second) or _fills_low_bits(b, op.rhs, first)
    )
    found = b.fitted(value, low, high, joined.conditions, joined.wraps, certain)
    if first.span is None or second.span is None:
        return found
    return found._replace(span=first.span + second.span)


def _is_hopeless(value: SSAValue, *operands: Interval) -> bool:
    """Whether nothing is known of one operand, and the other is a number of the run time."""
    limits = type_limits(value.type)
    full = any((i.low, i.high) == limits for i in operands)
    return full and any(isinstance(i.low, Value) or isinstance(i.high, Value) for i in operands)


def _fills_low_bits(b: Bounds, value: SSAValue, other: Interval) -> bool:
    """Whether all elements are multiples of a power of two that is larger than the numbers of the
    other interval, which are not negative: no carry leaves the type."""
    if not isinstance(other.low, int) or not isinstance(other.high, int) or other.low < 0:
        return False
    info = b.c.axis_info(value)
    every = max(info.every(d) for d in range(len(info.constancy)))
    return other.high < min(every, type_limits(value.type)[1] + 1)


@_rule(MulIOp)
def _product(b: Bounds, op: Any, value: SSAValue) -> Interval:
    return _scaled(b, value, b.of(op.lhs), b.of(op.rhs))


@_rule(ShLIOp)
def _shifted_left(b: Bounds, op: Any, value: SSAValue) -> Interval:
    amount = b.of(op.rhs)
    bits = ir.bit_width(ir.element_type(value.type))
    if not isinstance(amount.low, int) or not amount.uniform or not 0 <= amount.low < bits - 1:
        return b.unknown(value, wraps=True)
    factor = 1 << amount.low
    return _scaled(b, value, b.of(op.lhs), _known(factor, factor))


def _scaled(b: Bounds, value: SSAValue, first: Interval, second: Interval) -> Interval:
    if _is_hopeless(value, first, second):
        return b.unknown(value, wraps=True)
    type = _carrier(value.type)
    if _is_natural(second) and not _is_natural(first):
        first, second = second, first
    if _is_natural(first) and _is_natural(second):
        low = b.combined("mul", first.low, second.low, type)
        high = b.combined("mul", first.high, second.high, type)
    else:
        ends = [
            b.combined("mul", x, y, type)
            for x in dict.fromkeys((first.low, first.high))
            for y in dict.fromkeys((second.low, second.high))
        ]
        low = high = ends[0]
        for end in ends[1:]:
            low, high = b.least(low, end, type), b.most(high, end, type)
    joined = _joined(low, high, first, second)
    found = b.fitted(value, low, high, joined.conditions, joined.wraps)
    for one, other in ((first, second), (second, first)):
        if one.span == 0 and other.span == 0:
            return found._replace(span=0)
        if one.span == 0 and isinstance(one.low, int) and other.span is not None:
            return found._replace(span=other.span * abs(one.low))
    return found


def _is_natural(interval: Interval) -> bool:
    return isinstance(interval.low, int) and interval.low >= 0


@_rule(ExtUIOp)
def _zero_extended(b: Bounds, op: Any, value: SSAValue) -> Interval:
    source = op.operands[0]
    bits = ir.bit_width(ir.element_type(source.type))
    if bits == 1:
        return Interval(0, 1)
    found = b.of(source)
    condition = b.not_below(found.low, 0)
    if condition is None:
        return found
    if isinstance(found.low, int):
        return Interval(0, (1 << bits) - 1, (), True)
    return found._replace(conditions=(*found.conditions, condition))


@_rule(TruncIOp, IndexCastOp)
def _cast(b: Bounds, op: Any, value: SSAValue) -> Interval:
    found, (least, largest) = b.of(op.operands[0]), type_limits(value.type)
    before = type_limits(op.operands[0].type)
    if largest >= before[1]:
        return found
    low, high = found.low, found.high
    if isinstance(low, int) and isinstance(high, int) and least <= low and high <= largest:
        return found
    return b.unknown(value, wraps=True)


@_rule(RemSIOp)
def _remainder(b: Bounds, op: Any, value: SSAValue) -> Interval:
    dividend, divisor = b.of(op.lhs), b.of(op.rhs)
    type = _carrier(value.type)
    low, high = b.least(dividend.low, 0, type), b.most(dividend.high, 0, type)
    if isinstance(divisor.low, int) and divisor.uniform and divisor.low:
        most = abs(divisor.low) - 1
        low, high = b.most(low, -most, type), b.least(high, most, type)
    return Interval(low, high, dividend.conditions)


@_rule(DivSIOp, FloorDivSIOp, CeilDivSIOp)
def _quotient(b: Bounds, op: Any, value: SSAValue) -> Interval:
    dividend, divisor = b.of(op.lhs), b.of(op.rhs)
    type = _carrier(value.type)
    if isinstance(divisor.low, int) and divisor.low > 0:
        low, high = b.least(dividend.low, 0, type), b.most(dividend.high, 0, type)
        return Interval(low, high, dividend.conditions)
    most = b.most(dividend.high, b.combined("sub", 0, dividend.low, type), type)
    if isinstance(most, int) and most > type_limits(value.type)[1]:
        return b.unknown(value)
    return Interval(b.combined("sub", 0, most, type), most, dividend.conditions)


@_rule(DivUIOp, RemUIOp, ShRUIOp)
def _unsigned(b: Bounds, op: Any, value: SSAValue) -> Interval:
    found = b.of(op.lhs)
    divisor = b.of(op.rhs)
    known = isinstance(divisor.low, int) and divisor.uniform and divisor.low > 0
    if isinstance(op, RemUIOp) and known and isinstance(divisor.low, int):
        return Interval(0, divisor.low - 1)
    if _is_natural(found):
        return Interval(0, found.high, found.conditions)
    return b.unknown(value)


@_rule(ShRSIOp)
def _shifted_right(b: Bounds, op: Any, value: SSAValue) -> Interval:
    found, type = b.of(op.lhs), _carrier(value.type)
    low, high = b.least(found.low, 0, type), b.most(found.high, 0, type)
    return Interval(low, high, found.conditions)


@_rule(AndIOp)
def _both_bits(b: Bounds, op: Any, value: SSAValue) -> Interval:
    for operand in op.operands:
        found = b.of(operand)
        if _is_natural(found):
            return Interval(0, found.high, found.conditions)
    return b.unknown(value)


@_rule(OrIOp, XOrIOp)
def _bits(b: Bounds, op: Any, value: SSAValue) -> Interval:
    first, second = (b.of(v) for v in op.operands)
    if not (_is_natural(first) and _is_natural(second)):
        return b.unknown(value)
    if not (isinstance(first.high, int) and isinstance(second.high, int)):
        return b.unknown(value)
    bits = max(first.high.bit_length(), second.high.bit_length())
    return Interval(0, (1 << bits) - 1, (*first.conditions, *second.conditions))


@_rule(MinSIOp, MaxSIOp)
def _extreme(b: Bounds, op: Any, value: SSAValue) -> Interval:
    first, second = (b.of(v) for v in op.operands)
    type = _carrier(value.type)
    pick = b.least if isinstance(op, MinSIOp) else b.most
    low, high = pick(first.low, second.low, type), pick(first.high, second.high, type)
    return _joined(low, high, first, second)._replace(wraps=False)
