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
from xdsl.ir import Attribute, Block, Region, SSAValue

from tritium.analysis.loops import counted_loops
from tritium.ops.arith import constant_int
from tritium.ops.arith.compare import CmpIOp, CmpIPredicate
from tritium.ops.arith.integer import AddIOp, DivUIOp, MulIOp, RemUIOp, SubIOp
from tritium.ops.attributes import NUM_STAGES, UNROLL_FACTOR
from tritium.ops.base import Op
from tritium.ops.scf import ForOp, YieldOp
from tritium.ops.terminators import terminator
from tritium.passes.base import Pass
from tritium.passes.rewriting import Builder, erase


@dataclass(frozen=True)
class Unroll(Pass):
    """Repeat the body of loops, as `tt.loop_unroll_factor` (or the option `factor`) asks."""

    name: ClassVar[str] = "unroll"
    title: ClassVar[str] = "TritonLoopUnroll"
    factor: int = 1

    def run(self, module: ModuleOp) -> bool:
        changed = False
        for loop in counted_loops(module):
            factor = self._factor_of(loop)
            if factor > 1:
                unroll(loop, factor)
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
    iterations = loop.trip_count
    at = Builder(loop)
    if iterations is not None and iterations <= factor:
        counters = [_after(at, loop, loop.lower, k) for k in range(iterations)]
        values = _copies(at, loop, counters, list(loop.inits))
        _replace(loop, values)
        return
    rest = None if iterations is None else iterations % factor
    middle = loop.upper if rest == 0 else _middle(at, loop, factor)
    main = _main_loop(at, loop, middle, factor)
    if rest == 0:
        _replace(loop, list(main.results))
        return
    loop.operands = [middle, *loop.operands[1:3], *main.results]
    loop.attributes[NUM_STAGES] = IntegerAttr(1, i32)


def _replace(loop: ForOp, values: list[SSAValue]) -> None:
    for result, value in zip(loop.results, values, strict=True):
        result.replace_all_uses_with(value)
    erase(loop)


def _times(at: Builder, value: SSAValue, count: int) -> SSAValue:
    known = constant_int(value)
    if known is not None:
        return at.constant(known * count, value)
    return at.value(MulIOp, value, at.constant(count, value))


def _after(at: Builder, loop: ForOp, value: SSAValue, iterations: int) -> SSAValue:
    """The loop's counter after `iterations` more iterations."""
    if iterations == 0:
        return value
    return at.value(AddIOp, value, _times(at, loop.step, iterations))


def _middle(at: Builder, loop: ForOp, factor: int) -> SSAValue:
    """lower + step * (the number of whole steps, rounded down to a multiple of factor).

    The distance is taken as unsigned, so that it cannot overflow."""
    predicate = CmpIPredicate.UGT if loop.unsignedCmp else CmpIPredicate.SGT
    runs = at.value(CmpIOp, loop.upper, loop.lower, predicate=predicate)
    distance = at.value(SubIOp, loop.upper, loop.lower)
    distance = at.chosen(runs, distance, at.constant(0, loop.step))
    steps = at.value(DivUIOp, distance, loop.step)
    over = at.value(RemUIOp, steps, at.constant(factor, loop.step))
    whole = at.value(SubIOp, steps, over)
    return at.value(AddIOp, loop.lower, at.value(MulIOp, whole, loop.step))


def _main_loop(at: Builder, loop: ForOp, middle: SSAValue, factor: int) -> ForOp:
    step = _times(at, loop.step, factor)
    offsets = [_times(at, loop.step, k) for k in range(1, factor)]
    types: list[Attribute] = [arg.type for arg in loop.body.args]
    body = Block(arg_types=types)
    for old, new in zip(loop.body.args, body.args, strict=True):
        new.name_hint, new.location = old.name_hint, old.location
    counter, end = body.args[0], YieldOp.build([], location=terminator(loop.body).location)
    body.add_op(end)
    inside = Builder(end, loop.location)
    counters = [counter, *(inside.value(AddIOp, counter, offset) for offset in offsets)]
    end.operands = _copies(inside, loop, counters, list(body.args[1:]))
    main = at.make(
        ForOp, loop.lower, middle, step, list(loop.inits), regions=[Region(body)],
        attributes=dict(loop.attributes),
    )  # fmt: skip
    main.properties.update(loop.properties)
    for old, new in zip(loop.results, main.results, strict=True):
        new.name_hint = old.name_hint
    return main


def _copies(
    at: Builder, loop: ForOp, counters: list[SSAValue], carried: list[SSAValue]
) -> list[SSAValue]:
    """One copy of the loop's body for each counter; returns the values carried on."""
    last = terminator(loop.body)
    for counter in counters:
        arguments = [counter, *carried]
        values: dict[SSAValue, SSAValue] = dict(zip(loop.body.args, arguments, strict=True))
        for op in loop.body.ops:
            if op is not last:
                at.copy(op, values)
        carried = [values.get(v, v) for v in last.operands]
    return carried
