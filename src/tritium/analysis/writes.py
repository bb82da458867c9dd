"""The pointer arguments of a function that it may write through.

    tt.func @k(%a: !tt.ptr<f32>, %b: !tt.ptr<f32>) { store(%b + i, load(%a + i)) }   ->   {1}

Values derived from an argument are followed forwards through pointer arithmetic, shape ops,
selects, loops and branches. A pointer that a call, assembly or the caller takes counts as written.
"""

from __future__ import annotations

from collections import defaultdict

from xdsl.ir import SSAValue

from tritium.ir import types as ir
from tritium.ops.base import Op
from tritium.ops.effects import Action, opaque
from tritium.ops.ttir import ElementAccess, FuncOp, ReturnOp


def written_arguments(function: FuncOp) -> frozenset[int]:
    """The positions of the pointer arguments that the function may store through."""
    targets, written = _edges(function)
    return frozenset(
        i for i, argument in enumerate(function.body.args)
        if ir.is_pointer(argument.type) and _reaches(argument, targets, written)
    )  # fmt: skip


def _edges(function: FuncOp) -> tuple[dict[SSAValue, list[SSAValue]], set[SSAValue]]:
    """For each value those that may hold something derived from it, and the values that are
    written through or given away."""
    targets: defaultdict[SSAValue, list[SSAValue]] = defaultdict(list)
    written: set[SSAValue] = set()
    for op in function.walk():
        if not isinstance(op, Op):
            continue
        if isinstance(op, ReturnOp):
            written.update(op.operands)
        for effect in op.own_effects():
            if effect.action is Action.WRITE:
                written.update(op.affected(effect))
            elif effect == opaque():  # assembly, say, may do anything with its operands
                written.update(op.operands)
        for source, target in op.forwarded_values():
            targets[source].append(target)
        if not (isinstance(op, ElementAccess) or any(op.control_edges())):
            for operand in op.operands:
                targets[operand] += op.results
    return targets, written


def _reaches(
    pointer: SSAValue, targets: dict[SSAValue, list[SSAValue]], written: set[SSAValue]
) -> bool:
    seen: set[SSAValue] = set()
    pending = [pointer]
    while pending:
        value = pending.pop()
        if value in written:
            return True
        if value not in seen:
            seen.add(value)
            pending += targets.get(value, ())
    return False
