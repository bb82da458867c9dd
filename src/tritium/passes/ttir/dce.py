"""Remove what has no effect and whose results nothing needs, also where it only feeds itself
around a loop.

before:
    %r:2 = scf.for %i = %lo to %hi step %s iter_args(%a = %x, %b = %y) -> (i32, i32) {
      %c = arith.addi %a, %i : i32
      %d = arith.muli %b, %b : i32
      scf.yield %c, %d : i32, i32
    }
    use %r#0
after:
    %r = scf.for %i = %lo to %hi step %s iter_args(%a = %x) -> (i32) {
      %c = arith.addi %a, %i : i32
      scf.yield %c : i32
    }
    use %r
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from tritium.analysis.regions import is_removable
from tritium.ops.base import Op
from tritium.ops.cf import BranchOp, CondBranchOp
from tritium.ops.scf import ForOp, IfOp, WhileOp
from tritium.ops.terminators import is_terminator, terminator
from tritium.ops.ttir.function import FuncOp
from tritium.passes.base import FunctionPass
from tritium.passes.rewriting import erase, rebuild, remove_unreachable


@dataclass(frozen=True)
class DCE(FunctionPass):
    """Remove what has no effect and whose results nothing needs."""

    name: ClassVar[str] = "dce"
    title: ClassVar[str] = "DeadCodeElimination"

    def function(self, function: FuncOp) -> bool:
        unreachable = remove_unreachable(function.regions[0])
        return remove_dead(function) or unreachable


def remove_dead(function: Op) -> bool:
    """Remove the dead ops, carried values and branch results of one function."""
    live = _Liveness(function)
    ops = [op for op in function.walk(region_first=True) if op is not function]
    carriers = [op for op in ops if isinstance(op, (ForOp, IfOp, WhileOp)) and live.has(op)]
    changed = False
    for op in carriers:
        changed |= _strip_yields(op, live)
    ops.reverse()
    for op in ops:
        if not live.has(op) and op.parent is not None:
            erase(op)
            changed = True
    for op in carriers:
        _strip(op, live)
    return changed


class _Liveness:
    """Which ops and values something observable depends on."""

    def __init__(self, function: Op):
        # Ids, because ops and values hash in Python; nothing is dropped before the end.
        self._ops: set[int] = {id(function)}
        self._values: set[int] = set()
        self._pending: list[SSAValue] = []
        for op in function.walk():
            if op is not function and self._is_root(op):
                self._op(op)
        while self._pending:
            self._value(self._pending.pop())

    def __contains__(self, value: SSAValue) -> bool:
        return id(value) in self._values

    def has(self, op: Operation) -> bool:
        """Whether the op is needed."""
        return id(op) in self._ops

    @staticmethod
    def _is_root(op: Operation) -> bool:
        if op.regions and isinstance(op, (ForOp, IfOp, WhileOp)):
            return False  # live through what is in them
        if is_terminator(op):
            parent = op.parent_op()
            return not isinstance(parent, (ForOp, IfOp, WhileOp))
        return not is_removable(op)

    def _op(self, op: Operation) -> None:
        if id(op) in self._ops:
            return
        self._ops.add(id(op))
        if isinstance(op, (ForOp, WhileOp)):
            self._need(op.operands[:3] if isinstance(op, ForOp) else ())
        elif isinstance(op, BranchOp):
            pass  # arguments live as the target's do
        elif isinstance(op, CondBranchOp):
            self._need([op.condition])
        else:
            self._need(op.operands)
        for region in op.regions:
            for block in region.blocks:
                last = block.last_op
                if last is None or not is_terminator(last):
                    continue
                if isinstance(op, WhileOp) and region is op.regions[0]:
                    self._ops.add(id(last))
                    self._need(last.operands[:1])
                elif isinstance(op, (ForOp, IfOp, WhileOp)):
                    self._ops.add(id(last))
                else:
                    self._op(last)
        parent = op.parent_op()
        if parent is not None:
            self._op(parent)

    def _need(self, values: Sequence[SSAValue]) -> None:
        for value in values:
            if id(value) not in self._values:
                self._values.add(id(value))
                self._pending.append(value)

    def _value(self, value: SSAValue) -> None:
        owner = value.owner
        if isinstance(owner, Operation):
            self._op(owner)
            assert isinstance(value.index, int)  # pyright: ignore[reportAttributeAccessIssue]
            self._need(_sources_of_result(owner, value.index))  # pyright: ignore
            return
        assert isinstance(value, BlockArgument)
        parent = owner.parent_op()
        if parent is not None:
            self._op(parent)
            self._need(_sources_of_argument(parent, owner, value.index))


def _sources_of_result(op: Operation, index: int) -> list[SSAValue]:
    """The values from which a result of structured control flow comes."""
    if isinstance(op, ForOp):
        return [op.inits[index], terminator(op.body).operands[index], op.body.args[index + 1]]
    if isinstance(op, IfOp):
        return [terminator(region.block).operands[index] for region in op.regions]
    if isinstance(op, WhileOp):
        return [terminator(op.regions[0].block).operands[index + 1]]
    return []


def _sources_of_argument(op: Operation, block: Block, index: int) -> list[SSAValue]:
    if isinstance(op, ForOp):
        return [] if index == 0 else [op.inits[index - 1], terminator(block).operands[index - 1]]
    if isinstance(op, WhileOp):
        if block.parent is op.regions[0]:
            return [op.inits[index], terminator(op.regions[1].block).operands[index]]
        return [terminator(op.regions[0].block).operands[index + 1]]
    sources: list[SSAValue] = []
    for use in block.uses:
        branch = use.operation
        if isinstance(branch, BranchOp):
            sources.append(branch.values[index])
        elif isinstance(branch, CondBranchOp):
            values = branch.else_values if use.index else branch.then_values
            sources.append(values[index])
    return sources


def _kept(op: ForOp | IfOp | WhileOp, live: _Liveness) -> list[int]:
    """The results that stay."""
    if isinstance(op, ForOp):
        args = op.body.args[1:]
    elif isinstance(op, WhileOp):
        args = op.regions[1].block.args
    else:
        args = op.results
    pairs = enumerate(zip(op.results, args, strict=True))
    return [i for i, (result, arg) in pairs if result in live or arg in live]


def _kept_inits(op: WhileOp, live: _Liveness) -> list[int]:
    return [i for i, a in enumerate(op.regions[0].block.args) if a in live]


def _strip_yields(op: ForOp | IfOp | WhileOp, live: _Liveness) -> bool:
    """Stop passing values that are dead, in the yields and as initial values; whether there were
    any. The arguments and results for them stay until `_strip`, when nothing uses them."""
    kept = _kept(op, live)
    if isinstance(op, WhileOp):
        inits = _kept_inits(op, live)
        condition, after = (terminator(region.block) for region in op.regions)
        if len(kept) == len(op.results) and len(inits) == len(op.operands):
            return False
        condition.operands = [condition.operands[0], *(condition.operands[i + 1] for i in kept)]
        after.operands = [after.operands[i] for i in inits]
        op.operands = [op.operands[i] for i in inits]
        return True
    if len(kept) == len(op.results):
        return False
    for region in op.regions:
        if region.first_block is not None:
            last = terminator(region.block)
            last.operands = [last.operands[i] for i in kept]
    if isinstance(op, ForOp):
        op.operands = [*op.operands[:3], *(op.operands[i + 3] for i in kept)]
    return True


def _strip(op: ForOp | IfOp | WhileOp, live: _Liveness) -> None:
    """Drop the dead arguments and results."""
    kept = _kept(op, live)
    if isinstance(op, WhileOp):
        _keep_args(op.regions[0].block, _kept_inits(op, live))
        _keep_args(op.regions[1].block, kept)
    elif isinstance(op, ForOp):
        _keep_args(op.body, [0, *(i + 1 for i in kept)])
    if len(kept) < len(op.results):
        rebuild(op, list(op.operands), kept)


def _keep_args(block: Block, kept: Sequence[int]) -> None:
    for arg in list(block.args)[::-1]:
        if arg.index not in kept:
            block.erase_arg(arg)
