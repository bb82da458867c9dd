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

from tritium.ir import types as ir
from tritium.ops.arith import AddIOp, ConstantOp, ExtSIOp, constant_value
from tritium.ops.base import Op
from tritium.ops.scf import ForOp, YieldOp
from tritium.ops.ttir.memory import AddPtrOp
from tritium.ops.ttir.shape import SplatOp
from tritium.passes.base import Pass


@dataclass(frozen=True)
class UniformAdvance(Pass):
    """Carry how far a tile has advanced instead of the tile."""

    name: ClassVar[str] = "uniform-advance"
    title: ClassVar[str] = "UniformAdvance"

    def run(self, module: ModuleOp) -> bool:
        changed = False
        for op in list(module.walk(region_first=True)):
            if isinstance(op, ForOp):
                changed |= _rewrite(op)
        return changed


def _rewrite(loop: ForOp) -> bool:
    """Rewrite one loop; returns whether anything was there to rewrite."""
    body = loop.body
    terminator: Any = body.last_op
    steps = [
        _step(loop, argument, following)
        for argument, following in zip(body.args[1:], terminator.operands, strict=False)
    ]
    if not any(step is not None for step in steps):
        return False
    before = _Inserter(loop)
    inits: list[SSAValue] = list(loop.inits)
    amounts: list[SSAValue | None] = [None] * len(steps)
    for number, step in enumerate(steps):
        if step is not None:
            pointers = ir.is_pointer(inits[number].type)
            amounts[number] = amount = before.scalar(step, pointers)
            inits[number] = before.add(ConstantOp.of(0, amount.type, loop.location)).result
    block = Block(arg_types=[body.args[0].type, *(v.type for v in inits)])
    start = _Appender(block)
    for number, (old, new) in enumerate(zip(body.args, block.args, strict=False)):
        new.name_hint = old.name_hint
        if number and amounts[number - 1] is not None:
            replacement = start.moved(loop.inits[number - 1], new, loop)
            old.replace_all_uses_with(replacement)
        else:
            old.replace_all_uses_with(new)
    for op in list(body.ops):
        op.detach()
        block.add_op(op)
    values: list[SSAValue] = list(terminator.operands)
    terminator.detach()
    for number, amount in enumerate(amounts):
        if amount is not None:
            grown = AddIOp.build(block.args[number + 1], amount, location=loop.location)
            block.add_op(grown)
            values[number] = grown.result
    block.add_op(YieldOp.build(values, location=terminator.location))
    terminator.erase()
    _replace(loop, ForOp.build(
        loop.lower, loop.upper, loop.step, inits, regions=[Region(block)],
        unsignedCmp=loop.unsignedCmp, attributes=dict(loop.attributes), location=loop.location,
    ), amounts)  # fmt: skip
    return True


def _replace(loop: ForOp, new: ForOp, amounts: list[Any]) -> None:
    """Put the new loop in the old one's place."""
    parent = loop.parent
    assert parent is not None
    parent.insert_op_before(new, loop)
    after = _Inserter(loop)
    for number, (old, result) in enumerate(zip(loop.results, new.results, strict=False)):
        result.name_hint = old.name_hint
        if amounts[number] is None:
            old.replace_all_uses_with(result)
        elif old.uses:
            old.replace_all_uses_with(after.moved(loop.inits[number], result, loop))
    parent.erase_op(loop)


def _step(loop: ForOp, argument: SSAValue, following: SSAValue) -> SSAValue | None:
    """The tile that is added to a carried tile in every iteration, if the same amount always."""
    if not isinstance(argument.type, ir.TensorType):
        return None
    op: Any = following.owner
    if not isinstance(op, (AddPtrOp, AddIOp)) or op.parent is not loop.body:
        return None
    first, second = op.operands
    if isinstance(op, AddIOp) and second is argument:
        first, second = second, first
    if first is not argument:
        return None
    source: Any = second.owner
    if isinstance(source, SplatOp):
        return second if _invariant(source.src, loop) else None
    constant = constant_value(second)
    if constant is not None and (constant == constant.flat[0]).all():
        return second
    return None


def _invariant(value: SSAValue, loop: ForOp) -> bool:
    """Whether a scalar is the same in every iteration: arithmetic on values from outside."""
    stack, seen = [value], set[SSAValue]()
    while stack:
        value = stack.pop()
        if value in seen or _outside(value, loop):
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
    parent, needed, stack = loop.parent, set[Any](), [value]
    assert parent is not None
    while stack:
        value = stack.pop()
        if value.owner not in needed and not _outside(value, loop):
            op: Any = value.owner
            needed.add(op)
            stack.extend(op.operands)
    for op in [op for op in loop.body.ops if op in needed]:
        op.detach()
        parent.insert_op_before(op, loop)


def _outside(value: SSAValue, loop: ForOp) -> bool:
    """Whether a value is defined outside of the loop."""
    owner: Any = value.owner
    while owner is not None:
        if owner is loop:
            return False
        owner = owner.parent_op()
    return True


class _Inserter:
    """Adds ops before another."""

    def __init__(self, place: Op):
        self.place = place

    def add(self, op: Any) -> Any:
        parent = self.place.parent
        assert parent is not None
        parent.insert_op_before(op, self.place)
        return op

    def scalar(self, step: SSAValue, pointers: bool) -> SSAValue:
        """The number that a uniform tile repeats; i64 if it is an offset of pointers."""
        source: Any = step.owner
        location = source.location
        if isinstance(source, SplatOp):
            number = source.src
            assert isinstance(self.place, ForOp)
            _hoist(number, self.place)
        else:
            element = ir.element_type(step.type)
            value = constant_value(step)
            assert value is not None
            number = self.add(ConstantOp.of(value.flat[0], element, location)).result
        if pointers and number.type != ir.i64:
            number = self.add(ExtSIOp.build(number, result=ir.i64, location=location)).result
        return number

    def moved(self, start: SSAValue, amount: SSAValue, loop: ForOp) -> SSAValue:
        """The tile `start` with a scalar added to every element."""
        type = ir.with_element(start.type, amount.type)
        splat = self.add(SplatOp.build(amount, result=type, location=loop.location))
        if ir.is_pointer(start.type):
            result = AddPtrOp.build(start, splat.result, location=loop.location)
        else:
            result = AddIOp.build(start, splat.result, location=loop.location)
        return self.add(result).result


class _Appender(_Inserter):
    """Adds ops at the end of a block."""

    def __init__(self, block: Block):
        self.block = block

    def add(self, op: Any) -> Any:
        self.block.add_op(op)
        return op
