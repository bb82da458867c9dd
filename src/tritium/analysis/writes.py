"""Which pointer arguments of a function may be written through.

    tt.func @k(%a: !tt.ptr<f32>, %b: !tt.ptr<f32>) { store(%b + i, load(%a + i)) }   ->   {1}

Values derived from an argument are followed forwards through pointer arithmetic, shape ops,
selects, loops and branches. A pointer that a call or an integer conversion takes counts as written.
"""

from __future__ import annotations

from xdsl.ir import BlockArgument, Operation, SSAValue

from tritium.ir import types as ir
from tritium.ops.base import Op
from tritium.ops.cf import BranchOp, CondBranchOp
from tritium.ops.effects import Action
from tritium.ops.scf import ConditionOp, ForOp, IfOp, WhileOp, YieldOp
from tritium.ops.ttir import FuncOp, LoadOp, ReturnOp

_OPAQUE = (ReturnOp,)


def written_arguments(function: FuncOp) -> frozenset[int]:
    """The positions of the pointer arguments that the function may store through."""
    return frozenset(
        i for i, argument in enumerate(function.body.args)
        if ir.is_pointer(argument.type) and _is_written(argument)
    )  # fmt: skip


def _is_written(pointer: SSAValue) -> bool:
    seen: set[SSAValue] = set()
    pending = [pointer]
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        for use in value.uses:
            op = use.operation
            if isinstance(op, _OPAQUE) or _writes_through(op, use.index):
                return True
            pending += _derived(op, use.index)
    return False


def _writes_through(op: Operation, index: int) -> bool:
    if not isinstance(op, Op) or isinstance(op, (ForOp, IfOp, WhileOp)):
        return False
    value = op.operands[index]
    return any(
        value in op.affected(effect)
        for effect in op.memory_effects() if effect.action is Action.WRITE
    )  # fmt: skip


def _derived(op: Operation, index: int) -> list[SSAValue]:
    """The values that may hold (something derived from) operand `index` of `op`."""
    if isinstance(op, LoadOp):
        return []
    if isinstance(op, ForOp):
        carried = index - 3
        return [op.body.args[carried + 1], op.results[carried]] if carried >= 0 else []
    if isinstance(op, WhileOp):
        return [op.regions[0].block.args[index]]
    if isinstance(op, (YieldOp, ConditionOp)):
        return _passed_on(op, index)
    if isinstance(op, BranchOp):
        return [op.successors[0].args[index]]
    if isinstance(op, CondBranchOp):
        return [a for block in op.successors for a in block.args]
    return list(op.results)


def _passed_on(op: Operation, index: int) -> list[SSAValue]:
    parent = op.parent_op()
    assert parent is not None
    if isinstance(parent, IfOp):
        return [parent.results[index]]
    if isinstance(parent, ForOp):
        return [parent.body.args[index + 1], parent.results[index]]
    if isinstance(parent, WhileOp) and isinstance(op, ConditionOp):
        return [] if index == 0 else [parent.results[index - 1], _after(parent)[index - 1]]
    if isinstance(parent, WhileOp):
        return [parent.regions[0].block.args[index]]
    return list(parent.results)


def _after(loop: WhileOp) -> tuple[BlockArgument, ...]:
    return tuple(loop.regions[1].block.args)
