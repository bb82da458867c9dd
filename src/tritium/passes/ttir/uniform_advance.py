"""Carry how far a tile has advanced instead of the tile.

before:
    scf.for %i = %lo to %hi step %s iter_args(%p = %start) -> (tensor<64x!tt.ptr<f32>>) : i32 {
      use %p
      %d = tt.splat %step : i32 -> tensor<64xi32>
      %q = tt.addptr %p, %d
      scf.yield %q
    }
after:
    %wide = arith.extsi %step : i32 to i64
    scf.for %i = %lo to %hi step %s iter_args(%o = %zero) -> (i64) : i32 {
      %t = tt.splat %o : i64 -> tensor<64xi64>
      %p = tt.addptr %start, %t
      use %p
      %n = arith.addi %o, %wide : i64
      scf.yield %n
    }

For tiles of pointers or integers that grow by the same, invariant amount in all elements. Targets
on which a tile of pointers is memory and not registers want this: addresses stay index arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Region, SSAValue

from tritium.analysis.loops import counted_loops
from tritium.analysis.regions import defined_inside
from tritium.ir import types as ir
from tritium.ops.arith import AddIOp, ExtSIOp, constant_value
from tritium.ops.base import Op
from tritium.ops.scf import ForOp, YieldOp
from tritium.ops.terminators import terminator
from tritium.ops.ttir.memory import AddPtrOp
from tritium.ops.ttir.shape import SplatOp, splat_source
from tritium.passes.base import Pass
from tritium.passes.rewriting import Builder, erase, insert_before, move_ops


@dataclass(frozen=True)
class UniformAdvance(Pass):
    """Carry how far a tile has advanced instead of the tile."""

    name: ClassVar[str] = "uniform-advance"

    def run(self, module: ModuleOp) -> bool:
        changed = False
        for loop in counted_loops(module):
            changed |= _rewrite(loop)
        return changed


def _rewrite(loop: ForOp) -> bool:
    """Rewrite one loop; returns whether anything was there to rewrite."""
    body, end = loop.body, terminator(loop.body)
    steps = [
        _step(loop, argument, following)
        for argument, following in zip(body.args[1:], end.operands, strict=False)
    ]
    if not any(step is not None for step in steps):
        return False
    before = Builder(loop)
    inits: list[SSAValue] = list(loop.inits)
    amounts: list[SSAValue | None] = [None] * len(steps)
    for number, step in enumerate(steps):
        if step is not None:
            pointers = ir.is_pointer(inits[number].type)
            amounts[number] = amount = _amount(loop, step, pointers)
            inits[number] = before.constant(0, amount)
    block = Block(arg_types=[body.args[0].type, *(v.type for v in inits)])
    block.add_op(following := YieldOp.build([], location=end.location))
    start = Builder(following, loop.location)
    for number, (old, new) in enumerate(zip(body.args, block.args, strict=False)):
        new.name_hint = old.name_hint
        moved = number and amounts[number - 1] is not None
        old.replace_all_uses_with(_moved(start, loop.inits[number - 1], new) if moved else new)
    move_ops(body, following)
    values: list[SSAValue] = list(end.operands)
    for number, amount in enumerate(amounts):
        if amount is not None:
            values[number] = start.value(AddIOp, block.args[number + 1], amount)
    following.operands = values
    new_loop = before.make(
        ForOp, loop.lower, loop.upper, loop.step, inits, regions=[Region(block)],
        unsignedCmp=loop.unsignedCmp, attributes=dict(loop.attributes),
    )  # fmt: skip
    for number, (old, result) in enumerate(zip(loop.results, new_loop.results, strict=False)):
        result.name_hint = old.name_hint
        if amounts[number] is None:
            old.replace_all_uses_with(result)
        elif old.uses:
            old.replace_all_uses_with(_moved(before, loop.inits[number], result))
    erase(loop)
    return True


def _step(loop: ForOp, argument: SSAValue, following: SSAValue) -> SSAValue | None:
    """The tile that is added to a carried tile in every iteration, if the same amount always."""
    if not isinstance(argument.type, ir.TensorType):
        return None
    op: Any = following.owner
    if not isinstance(op, Op) or op.weights != (1, 1) or op.parent is not loop.body:
        return None
    first, second = op.operands
    if op.commutative and second is argument:
        first, second = second, first
    if first is not argument:
        return None
    scalar = splat_source(second)
    if scalar is not None:
        return second if _invariant(scalar, loop) else None
    constant = constant_value(second)
    if constant is not None and (constant == constant.flat[0]).all():
        return second
    return None


def _invariant(value: SSAValue, loop: ForOp) -> bool:
    """True if a scalar is the same in every iteration: arithmetic on values from outside."""
    stack, seen = [value], set[SSAValue]()
    while stack:
        value = stack.pop()
        if value in seen or not defined_inside(value, loop):
            continue
        seen.add(value)
        op: Any = value.owner
        if isinstance(op, Block) or op.parent is not loop.body or op.regions:
            return False
        if not (op.is_pure and op.is_speculatable):
            return False
        stack.extend(op.operands)
    return True


def _hoist(value: SSAValue, loop: ForOp) -> None:
    """Move the arithmetic of an invariant scalar to before the loop."""
    needed, stack = set[Any](), [value]
    while stack:
        value = stack.pop()
        if value.owner not in needed and defined_inside(value, loop):
            op: Any = value.owner
            needed.add(op)
            stack.extend(op.operands)
    for op in [op for op in loop.body.ops if op in needed]:
        op.detach()
        insert_before(loop, op)


def _amount(loop: ForOp, step: SSAValue, pointers: bool) -> SSAValue:
    """The number that a uniform tile repeats, before the loop; i64 for an offset of pointers."""
    source: Any = step.owner
    before, number = Builder(loop, source.location), splat_source(step)
    if number is not None:
        _hoist(number, loop)
    else:
        value = constant_value(step)
        assert value is not None
        number = before.constant(value.flat[0], ir.element_type(step.type))
    if pointers and number.type != ir.i64:
        number = before.value(ExtSIOp, number, result=ir.i64)
    return number


def _moved(at: Builder, start: SSAValue, amount: SSAValue) -> SSAValue:
    """The tile `start` with a scalar added to every element."""
    splat = at.value(SplatOp, amount, result=ir.with_element(start.type, amount.type))
    return at.value(AddPtrOp if ir.is_pointer(start.type) else AddIOp, start, splat)
