"""Ops and their regions: what they take from outside, and whether an op may go or run again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, TypeGuard

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import IsTerminator

from tritium.ir.graph import ops_of
from tritium.ops.base import Op
from tritium.ops.effects import only_read
from tritium.ops.terminators import is_terminator
from tritium.ops.ttir.function import CallOp, FuncOp


def functions(module: ModuleOp) -> Iterator[FuncOp]:
    """The functions that the module defines (those with a body)."""
    for op in module.body.block.ops:
        if isinstance(op, FuncOp) and op.regions[0].blocks:
            yield op


def function_of(op: Operation) -> FuncOp:
    """The function that an op is in, or itself."""
    while not isinstance(op, FuncOp):
        above = op.parent_op()
        assert above is not None, op.name
        op = above
    return op


def is_argument(value: SSAValue) -> bool:
    """True if a value is an argument of a function, or of another of its own blocks."""
    owner = value.owner
    return isinstance(owner, Block) and isinstance(owner.parent_op(), FuncOp)


def calls_in(op: Operation) -> Iterator[CallOp]:
    """The calls in an op and its regions."""
    for inner in op.walk():
        if isinstance(inner, Op) and inner.is_call:
            call: Any = inner
            yield call


def ops_in(blocks: Iterable[Block]) -> Iterator[Operation]:
    """The ops in blocks and in the regions of those."""
    for block in blocks:
        for op in ops_of(block):
            if op.regions:
                yield from op.walk()
            else:
                yield op


def is_removable(op: Operation) -> bool:
    """True if the op may go when nothing uses its results."""
    return may_go(op) and is_repeatable(op)


def ops_around(op: Operation) -> list[Operation]:
    """The ops with regions in those of an op, inner ones before those around them, and itself."""
    found, pending = list[Operation](), [op]
    while pending:  # back to front, those around first
        around = pending.pop()
        found.append(around)
        for region in around.regions:
            for block in region.blocks:
                pending += [inner for inner in ops_of(block) if inner.regions]
    found.reverse()
    return found


@cache
def only_computes(kind: type[Operation]) -> bool:
    """True if no op of a class, without regions, has effects, a symbol or the end of its block to
    itself, whatever its attributes are: most ops, which passes need not ask one by one."""
    if not issubclass(kind, Op) or kind.own_effects is not Op.own_effects:
        return False
    return not (kind.effects or kind.has_trait(IsTerminator) or "sym_name" in kind.attr_fields)


def may_go(op: Operation) -> TypeGuard[Op]:
    """True if the op may go, as far as its kind tells."""
    return isinstance(op, Op) and not is_terminator(op) and "sym_name" not in op.properties


def is_repeatable(op: Op) -> bool:
    """True if the op neither changes anything nor must run exactly as often as it does."""
    return obstacle(op) is None


def obstacle(op: Op) -> Op | None:
    """The op that makes an op unrepeatable: itself or one in its regions; None if there is none."""
    if not only_read(op.own_effects()):
        return op
    if not op.recursive_effects:
        return None
    nested = (inner for region in op.regions for block in region.blocks for inner in block.ops)
    found = (obstacle(inner) for inner in nested if isinstance(inner, Op))
    return next((inner for inner in found if inner is not None), None)


def defined(op: Operation) -> Iterator[SSAValue]:
    """The values that an op and the blocks of its own regions define."""
    yield from op.results
    for region in op.regions:
        for block in region.blocks:
            yield from block.args


def defined_inside(value: SSAValue, op: Operation) -> bool:
    """True if the value is defined by an op or a block in the regions of `op`."""
    owner = value.owner
    block = owner if isinstance(owner, Block) else owner.parent
    while block is not None:
        parent = block.parent_op()
        if parent is op:
            return True
        block = None if parent is None else parent.parent
    return False


def is_loop_invariant(value: SSAValue, op: Operation) -> bool:
    """True if the value, which `op` uses, is the same in all iterations of the innermost loop that
    `op` is in, also where it is computed anew; False outside of loops."""
    loop = op.parent_op()
    while loop is not None and not (isinstance(loop, Op) and loop.is_loop):
        loop = loop.parent_op()
    if loop is None:
        return False
    pending, seen = [value], set[SSAValue]()
    while pending:
        current = pending.pop()
        if current in seen or not defined_inside(current, loop):
            continue
        seen.add(current)
        owner = current.owner
        if not isinstance(owner, Op) or owner.own_effects() or owner.regions:
            return False
        pending += owner.operands
    return True


def is_inside(op: Operation, outer: Operation) -> bool:
    """True if `op` is `outer` or in its regions."""
    while op is not outer:
        parent = op.parent_op()
        if parent is None:
            return False
        op = parent
    return True


def ancestor_in(block: Block, op: Operation) -> Operation | None:
    """The op of a block that is `op` or has it in its regions."""
    at: Operation | None = op
    while at is not None and at.parent is not block:
        at = at.parent_op()
    return at


def outside_values(op: Operation) -> Iterator[SSAValue]:
    """The operands of `op` and of the ops in its regions that are defined outside of it."""
    if not op.regions:
        yield from op.operands
        return
    for nested in op.walk():
        for value in nested.operands:
            if nested is op or not defined_inside(value, op):
                yield value
