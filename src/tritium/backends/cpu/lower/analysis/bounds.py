"""Bounds of the integers in a tile, and under which conditions its arithmetic does not wrap around.

`Bounds(...).of(value)` is the interval that the elements lie in (`ir/intervals.py`). Its ends are
Python integers where they are known when compiling, else scalars computed at the current position,
in a type wide enough not to overflow (i64 for up to 32 bits, else i128). A sum, difference, product
or shift that may leave its type gives a condition (i1).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from xdsl.ir import Block, BlockArgument, SSAValue

from tritium.analysis.intervals import Intervals, has_interval, is_number, unordered
from tritium.backends.cpu.dot.operand import static
from tritium.backends.cpu.lower.context import Context
from tritium.backends.cpu.tiles.index_arithmetic import is_inside
from tritium.codegen.llvm.writer import Value, const
from tritium.ir import types as ir
from tritium.ir.intervals import Interval, type_limits
from tritium.ops.arith import constant_value
from tritium.ops.arith.integer import addend
from tritium.ops.tile.nests import is_tile

End = int | Value

_MOST_CONDITIONS = 24
"""More are not worth testing: LLVM takes seconds for a hundred of them."""


def _carrier(type: ir.Type) -> str:
    return "i64" if ir.bit_width(ir.element_type(type)) <= 32 else "i128"


class Bounds(Intervals):
    """Intervals of values, emitted at the current position when first asked for. Those of results
    come from the ops' own `interval`, whose `Algebra` this is.

    With `loop` (an `scf.for`) and `iterations` (i64), those of all iterations of the loop.
    """

    def __init__(self, context: Context, loop: Any = None, iterations: Value | None = None):
        super().__init__()
        self.c, self.f, self.loop, self.iterations = context, context.f, loop, iterations

    def from_op(self, value: SSAValue) -> bool:
        # Each nest asks anew, which would go through all that was computed before it.
        return (
            is_number(value) and has_interval(value) and value not in self.c.buffers
            and constant_value(value) is None and (is_tile(value) or self._varies(value))
        )  # fmt: skip

    def _varies(self, value: SSAValue) -> bool:
        """True if the loop whose iterations are all meant computes a value."""
        return self.loop is not None and is_inside(self.loop, value)

    def of_source(self, value: SSAValue) -> Interval:
        type, owner = value.type, cast("Any", value.owner)
        if not is_number(value):
            return unordered(value)
        if constant_value(value) is not None:
            return owner.interval(self, ())
        if not is_tile(value) and not self._varies(value):
            scalar = self.c.scalars.get(value)
            if scalar is None or scalar.type == "i1":
                return self.unknown(type)
            end = self._widened(scalar, _carrier(type))
            return Interval(end, end, span=0)
        if isinstance(value, BlockArgument):
            return self._argument(value, value.block)
        return self.unknown(type)

    def _argument(self, value: SSAValue, block: Block) -> Interval:
        """A scalar that a loop carries, or its counter."""
        type: Any = value.type
        if self.loop is None or block is not self.loop.body or self.iterations is None:
            return self.unknown(type)
        if is_tile(value):
            return self.unknown(type)
        number: int = value.index  # pyright: ignore
        if number == 0:
            start, by = self.loop.lower, self.loop.step
        else:
            start, following = self.loop.inits[number - 1], block.last_op.operands[number - 1]  # pyright: ignore
            if following is value:
                return self.of(start)
            by = addend(following.owner, value)
            if by is None or is_inside(self.loop, by):
                return self.unknown(value.type)
        return self._progress(value, self.of(start), self.of(by))

    def _progress(self, value: SSAValue, start: Interval, by: Interval) -> Interval:
        """`start + by * iteration` for all iterations."""
        assert self.iterations is not None
        iterations = self._widened(self.iterations, "i128")
        last = self.most(self.combined("sub", iterations, 1, ir.i64), 0, ir.i64)
        span = self.combined("mul", by.low, last, ir.i64)
        low = self.combined("add", start.low, self.least(span, 0, ir.i64), ir.i64)
        high = self.combined("add", start.high, self.most(span, 0, ir.i64), ir.i64)
        return self.fitted(value.type, low, high, (*start.conditions, *by.conditions), start.wraps)

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

    def combined(self, opcode: str, left: End, right: End, type: ir.Type) -> End:
        if isinstance(left, int) and isinstance(right, int):
            return {"add": left + right, "sub": left - right, "mul": left * right}[opcode]
        if right == 0 and opcode != "mul":
            return left
        if left == 0 and opcode == "add":
            return right
        if opcode == "mul" and 1 in (left, right):
            return right if left == 1 else left
        carrier = _carrier(type)
        return self.f.op(opcode, self._end(left, carrier), self._end(right, carrier))

    def _pick(
        self, name: str, pick: Callable[[int, int], int], a: End, b: End, type: ir.Type
    ) -> Any:
        if isinstance(a, int) and isinstance(b, int):
            return pick(a, b)
        if a == b:
            return a
        carrier = _carrier(type)
        return self.f.intrinsic(name, self._end(a, carrier), self._end(b, carrier))

    def least(self, a: End, b: End, type: ir.Type) -> Any:
        return self._pick("smin", min, a, b, type)

    def most(self, a: End, b: End, type: ir.Type) -> Any:
        return self._pick("smax", max, a, b, type)

    def multiple(self, value: SSAValue) -> int:
        info = self.c.axis_info(value)
        return max(info.every(d) for d in range(len(info.constancy)))

    def narrow(self, value: SSAValue, found: Interval) -> Interval:
        """The interval of a tile with the condition that differences of elements fit its type."""
        largest = type_limits(value.type)[1]
        if found.wraps or (found.span is not None and found.span <= largest):
            return found
        # Wide enough where the other conditions hold.
        span = self.combined("sub", found.high, found.low, value.type)
        if isinstance(span, int):
            return found if span <= largest else found._replace(wraps=True)
        condition = self.f.icmp("sle", span, const(_carrier(value.type), largest))
        return found._replace(conditions=(*found.conditions, condition))

    def not_below(self, end: End, limit: int) -> Value | None:
        if isinstance(end, int):
            return None if end >= limit else const("i1", False)
        return self.f.icmp("sge", end, const(end.type, limit))

    def fitted(
        self, type: ir.Type, low: End, high: End, conditions: tuple[Value, ...], wraps: bool,
        certain: bool = False,
    ) -> Interval:  # fmt: skip
        least, largest = type_limits(type)
        if not certain and any(
            isinstance(end, int) and not least <= end <= largest for end in (low, high)
        ):
            return self.unknown(type, wraps=True)
        added: list[Value] = []
        if not certain and isinstance(low, Value):
            added.append(self.f.icmp("sge", low, const(low.type, least)))
        if not certain and isinstance(high, Value):
            added.append(self.f.icmp("sle", high, const(high.type, largest)))
        if len(conditions) + len(added) > _MOST_CONDITIONS:
            return self.unknown(type, wraps=True)
        carrier = _carrier(type)
        low, high = (e if isinstance(e, int) else self._end(e, carrier) for e in (low, high))
        return Interval(low, high, tuple(dict.fromkeys((*conditions, *added))), wraps)
