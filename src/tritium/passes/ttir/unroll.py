"""Repeat the body of loops, as `tt.loop_unroll_factor` asks.

before:
    scf.for %i = %lo to %hi step %s : i32 {
      body(%i)
    } {tt.loop_unroll_factor = 2 : i32}
after:
    %middle = ... the end of the last full pair of iterations
    scf.for %i = %lo to %middle step (%s * 2) : i32 {
      body(%i)
      body(%i + %s)
    }
    scf.for %i = %middle to %hi step %s : i32 {
      body(%i)
    } {tt.num_stages = 1 : i32}

With `unroll{factor=4}`, innermost loops that do not ask are unrolled by four. A loop that is known
to run no more often than the factor is replaced by copies of its body; the second loop is left
out where the number of iterations is known to be a multiple.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i32
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from tritium.analysis.loops import constant_int, trip_count
from tritium.ops.arith.compare import CmpIOp, CmpIPredicate, SelectOp
from tritium.ops.arith.constant import ConstantOp
from tritium.ops.arith.integer import AddIOp, DivUIOp, MulIOp, RemUIOp, SubIOp
from tritium.ops.attributes import NUM_STAGES, UNROLL_FACTOR
from tritium.ops.base import Op
from tritium.ops.scf import ForOp, YieldOp
from tritium.passes.base import Pass
from tritium.passes.rewriting import copy_op


@dataclass(frozen=True)
class Unroll(Pass):
    """Repeat the body of loops, as `tt.loop_unroll_factor` (or the option `factor`) asks."""

    name: ClassVar[str] = "unroll"
    title: ClassVar[str] = "TritonLoopUnroll"
    factor: int = 1

    def run(self, module: ModuleOp) -> bool:
        changed = False
        for op in list(module.walk(region_first=True)):
            if isinstance(op, ForOp):
                factor = self._factor_of(op)
                if factor > 1:
                    unroll(op, factor)
                    changed = True
        return changed

    def _factor_of(self, loop: ForOp) -> int:
        asked: Any = loop.attributes.pop(UNROLL_FACTOR, None)
        if asked is not None:
            return asked.value.data
        inner = any(isinstance(op, Op) and op.is_loop for op in loop.body.walk())
        return 1 if inner else self.factor


def unroll(loop: ForOp, factor: int) -> None:
    """Unroll one loop by `factor` (at least 2)."""
    iterations = trip_count(loop)
    writer = _Writer(loop)
    if iterations is not None and iterations <= factor:
        counters = [writer.after(loop.lower, k) for k in range(iterations)]
        values = writer.copies(counters, list(loop.inits))
        _replace(loop, values)
        return
    rest = None if iterations is None else iterations % factor
    middle = loop.upper if rest == 0 else writer.middle(factor)
    main = writer.main_loop(middle, factor)
    if rest == 0:
        _replace(loop, list(main.results))
        return
    loop.operands = [middle, *loop.operands[1:3], *main.results]
    loop.attributes[NUM_STAGES] = IntegerAttr(1, i32)


def _replace(loop: ForOp, values: list[SSAValue]) -> None:
    for result, value in zip(loop.results, values, strict=True):
        result.replace_all_uses_with(value)
    assert loop.parent is not None
    loop.parent.erase_op(loop)


class _Writer:
    """Writes ops before a loop (or, for `block`, to the end of a block)."""

    def __init__(self, loop: ForOp):
        self.loop = loop
        self.block: Block | None = None

    def add(self, op: Operation) -> Operation:
        if self.block is not None:
            self.block.add_op(op)
        else:
            assert self.loop.parent is not None
            self.loop.parent.insert_op_before(op, self.loop)
        return op

    def emit(self, cls: type[Op], *operands: SSAValue, **attrs: Any) -> SSAValue:
        return self.add(cls.build(*operands, location=self.loop.location, **attrs)).results[0]

    def constant(self, value: int) -> SSAValue:
        return self.add(ConstantOp.of(value, self.loop.step.type, self.loop.location)).results[0]

    def times(self, value: SSAValue, count: int) -> SSAValue:
        known = constant_int(value)
        if known is not None:
            return self.constant(known * count)
        return self.emit(MulIOp, value, self.constant(count))

    def after(self, value: SSAValue, iterations: int) -> SSAValue:
        """The loop's counter so many iterations later."""
        if iterations == 0:
            return value
        return self.emit(AddIOp, value, self.times(self.loop.step, iterations))

    def middle(self, factor: int) -> SSAValue:
        """lower + step * (the number of whole steps, rounded down to a multiple of factor).

        The distance is taken as unsigned, so that it cannot overflow."""
        loop = self.loop
        predicate = CmpIPredicate.UGT if loop.unsignedCmp else CmpIPredicate.SGT
        any_turn = self.emit(CmpIOp, loop.upper, loop.lower, predicate=predicate)
        distance = self.emit(SubIOp, loop.upper, loop.lower)
        distance = self.emit(SelectOp, any_turn, distance, self.constant(0))
        steps = self.emit(DivUIOp, distance, loop.step)
        over = self.emit(RemUIOp, steps, self.constant(factor))
        whole = self.emit(SubIOp, steps, over)
        return self.emit(AddIOp, loop.lower, self.emit(MulIOp, whole, loop.step))

    def main_loop(self, middle: SSAValue, factor: int) -> ForOp:
        loop = self.loop
        step = self.times(loop.step, factor)
        offsets = [self.times(loop.step, k) for k in range(1, factor)]
        types: list[Attribute] = [arg.type for arg in loop.body.args]
        body = Block(arg_types=types)
        for old, new in zip(loop.body.args, body.args, strict=True):
            new.name_hint, new.location = old.name_hint, old.location
        counter = body.args[0]
        self.block = body
        counters = [counter, *(self.emit(AddIOp, counter, offset) for offset in offsets)]
        values = self.copies(counters, list(body.args[1:]))
        last = loop.body.last_op
        assert last is not None
        body.add_op(YieldOp.build(values, location=last.location))
        self.block = None
        main = ForOp.build(
            loop.lower, middle, step, list(loop.inits), regions=[Region(body)],
            location=loop.location, attributes=dict(loop.attributes),
        )  # fmt: skip
        main.properties.update(loop.properties)
        self.add(main)
        for old, new in zip(loop.results, main.results, strict=True):
            new.name_hint = old.name_hint
        return main

    def copies(self, counters: list[SSAValue], carried: list[SSAValue]) -> list[SSAValue]:
        """One copy of the loop's body for each counter; returns the values carried on."""
        body = self.loop.body
        last = body.last_op
        assert last is not None
        for counter in counters:
            arguments = [counter, *carried]
            values: dict[SSAValue, SSAValue] = dict(zip(body.args, arguments, strict=True))
            for op in body.ops:
                if op is not last:
                    self.add(copy_op(op, values))
            carried = [values.get(v, v) for v in last.operands]
        return carried
