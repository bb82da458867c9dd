"""Basic blocks of a function: their labels, phis for their scalar arguments, branches; hints about
loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.ir import Block, Operation, SSAValue

from tritium.codegen.llvm.writer import Function, Module, Phi, Value
from tritium.ops.attributes import DISABLE_LICM
from tritium.ops.cf import BranchOp, CondBranchOp


def loop_hints(module: Module, loop: Operation) -> str:
    """The metadata of the hints to LLVM that a loop has."""
    disabled = DISABLE_LICM in loop.attributes
    return module.loop_metadata("llvm.licm.disable") if disabled else ""


class Branches:
    """The blocks of a function. `scalars` gives the LLVM values of the scalars among ttir values
    (arguments that are tiles are in memory)."""

    def __init__(
        self,
        f: Function,
        blocks: Sequence[Block],
        scalars: Callable[[Sequence[SSAValue]], list[Value]],
    ):
        self.f, self.scalars = f, scalars
        self.labels = {block: f.new_label("block") for block in blocks[1:]}
        self._phis: dict[Block, list[Phi]] = {}
        self._early: dict[Block, list[tuple[list[Value], str]]] = {}

    def start(self, block: Block, types: Sequence[str]) -> list[Value]:
        """Begin a block; returns its scalar arguments, of these LLVM types."""
        self.f.label(self.labels[block])
        phis = self._phis[block] = [self.f.phi(type) for type in types]
        for values, label in self._early.get(block, []):
            _add(phis, values, label)
        return [phi.value for phi in phis]

    def leave(self, op: Any) -> bool:
        """Write a terminator; False if it is no branch."""
        if isinstance(op, BranchOp):
            self.f.branch(self._arrive(op.successors[0], op.values))
        elif isinstance(op, CondBranchOp):
            then, other = op.successors
            first = self._arrive(then, op.then_values)
            condition = self.scalars([op.condition])[0]
            if then is other:  # a phi has one value for each block that leads to it
                edge = self.f.new_label("edge")
                self.f.branch_if(condition, first, edge)
                self.f.label(edge)
                self.f.branch(self._arrive(other, op.else_values))
            else:
                self.f.branch_if(condition, first, self._arrive(other, op.else_values))
        return isinstance(op, (BranchOp, CondBranchOp))

    def _arrive(self, block: Block, values: Sequence[SSAValue]) -> str:
        scalars, label = self.scalars(values), self.f.block
        if block in self._phis:
            _add(self._phis[block], scalars, label)
        else:
            self._early.setdefault(block, []).append((scalars, label))
        return self.labels[block]


def _add(phis: Sequence[Phi], values: Sequence[Value], label: str) -> None:
    for phi, value in zip(phis, values, strict=True):
        phi.add(value, label)
