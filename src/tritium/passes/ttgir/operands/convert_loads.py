"""Convert what is loaded rather than the operand of a product that is computed from it.

before (the operand has more bytes than what it is computed from):
    scf.for ... {
      %x = tt.load %p : tensor<1x2048xi32, #blocked>
      %y = ... tt.reshape, tt.join, arith... of %x : tensor<128x128xbf16, #blocked1>
      %a = ttg.convert_layout %y : ... -> tensor<128x128xbf16, #dot_op>
      %d = ttng.warp_group_dot %a, %m, %c
    }
after:
      %x = tt.load %p : tensor<1x2048xi32, #blocked>
      %w = ttg.convert_layout %x : ... -> tensor<1x2048xi32, #linear>
      %a = ... tt.reshape, tt.join, arith... of %w : tensor<128x128xbf16, #dot_op>
      %d = ttng.warp_group_dot %a, %m, %c

Loads that are copied ahead to shared memory are read from there in any layout, so that such a
conversion costs nothing: weights of few bits are widened where the tensor cores take them, and are
not stored again. `accelerate-matmul` leaves left operands in registers for which this can be done.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import ClassVar, cast

from xdsl.ir import Block, Operation, SSAValue

from tritium.analysis.regions import is_removable
from tritium.ir import types as ir
from tritium.ir.layouts.encodings import DotOperandEncoding, Encoding, linear
from tritium.ops.base import changes_layout
from tritium.ops.scf import is_counted
from tritium.ops.ttir import ElementAccess
from tritium.ops.ttir.dot import TileProduct
from tritium.ops.ttir.function import FuncOp
from tritium.passes.base import FunctionPass
from tritium.passes.rewriting import insert_after, insert_before, remove_unused
from tritium.passes.ttgir.convert_ttir_to_ttgir import convert
from tritium.passes.ttgir.layout_propagation import (
    first_run,
    is_follower,
    is_source,
    is_tile,
    layouts_before,
    order_of,
    retype,
)

_LEAST_BYTES = 4
"""Neighbours that a thread must have of what is loaded: fewer are not read at once."""

_FEW = 8
"""An operand's bytes over the most of a value that may be computed twice for it."""


@dataclass(frozen=True)
class ConvertLoads(FunctionPass):
    """Convert loads rather than the left operands, in registers, that are computed from them."""

    name: ClassVar[str] = "convert-loads"
    title: ClassVar[str] = "TritonGPUHoistConvertDotOperand"

    def function(self, function: FuncOp) -> bool:
        changed = False
        for op in list(function.walk()):
            if isinstance(op, TileProduct) and is_tile(op.a) and not is_tile(op.b):
                plan = plan_of(op.a, cast("Encoding", ir.encoding_of(op.a.type)), op)
                if plan is not None:
                    op.operands[0] = plan.build(op.a, function)
                    changed = True
        if changed:
            remove_unused(function)
        return changed


@dataclass
class Plan:
    """The values that are computed in other encodings.

    Attributes:
        user: the op that uses the result.
        wanted: the encoding of each value on the way to it.
        leaves: those of them that are converted: loads, and what the loop does not change; others
            are computed.
    """

    user: Operation
    wanted: dict[SSAValue, Encoding] = field(default_factory=dict[SSAValue, Encoding])
    leaves: list[SSAValue] = field(default_factory=list[SSAValue])

    def build(self, value: SSAValue, function: FuncOp) -> SSAValue:
        """The value, computed anew from converted leaves before its user."""
        made: dict[SSAValue, SSAValue] = {}
        for leaf in self.leaves:
            made[leaf] = convert(leaf, self.wanted[leaf], self._after(leaf))
        owners = {wanted.owner for wanted in self.wanted if wanted not in made}
        for op in [op for op in function.walk() if op in owners]:
            self._compute(op, made)
        return made[value]

    def is_alone(self, size: int) -> bool:
        """True if nothing else uses what is computed in the loop, which would be computed twice; of
        an operand of `size` bytes what has few, as factors of its columns, may be."""
        owners = {value.owner for value in self.wanted} | {self.user}
        computed = [
            op for op in owners
            if isinstance(op, Operation) and op.parent is self.user.parent and op is not self.user
            and not is_source(op) and op.results[0] not in self.leaves
            and _bytes(op.results[0]) * _FEW > size
        ]  # fmt: skip
        users = (use.operation for op in computed for use in op.results[0].uses)
        return all(user in owners or changes_layout(user) for user in users)

    def _compute(self, op: Operation, made: dict[SSAValue, SSAValue]) -> None:
        (result,) = op.results
        if changes_layout(op):
            made[result] = made[op.operands[0]]
            return
        clone = cast("Operation", op.clone_without_regions())
        if op.parent is self.user.parent:
            insert_before(self.user, clone)
        else:
            insert_after(op, clone)
        for index, operand in enumerate(clone.operands):
            clone.operands[index] = made.get(operand, operand)
        retype(clone.results[0], self.wanted[result])
        clone.results[0].name_hint = result.name_hint
        made[result] = clone.results[0]

    def _after(self, leaf: SSAValue) -> Operation:
        """The op before which a leaf is converted: in its own block, outside of the loop if it
        is from there."""
        owner = leaf.owner
        place = owner.first_op if isinstance(owner, Block) else owner.next_op
        assert place is not None
        return place


def plan_of(value: SSAValue, encoding: Encoding, user: Operation) -> Plan | None:
    """The way to compute the operand of a product in a loop from converted loads; None where that
    cannot be, or would move more bytes."""
    if not is_counted(user.parent_op()) or not isinstance(encoding, DotOperandEncoding):
        return None
    plan, pending, moved = Plan(user), [(value, encoding)], 0
    while pending:
        current, wanted = pending.pop()
        if current in plan.wanted:
            if plan.wanted[current] != wanted:
                return None
            continue
        plan.wanted[current] = wanted
        owner = current.owner
        before = _before(owner, wanted) if isinstance(owner, Operation) else None
        if before is not None:
            pending += before
            continue
        if owner is user.parent:
            return None  # carried by the loop
        if isinstance(owner, Operation) and owner.parent is user.parent:
            if not _is_read_at_once(owner, wanted):
                return None
            moved += _bytes(current)
        plan.leaves.append(current)
    useful = 0 < moved <= _bytes(value) and value not in plan.leaves
    return plan if useful and plan.is_alone(_bytes(value)) else None


def _before(op: Operation, wanted: Encoding) -> list[tuple[SSAValue, Encoding]] | None:
    """The tiles that an op computes its result from, each with its encoding; None where they are
    none, or the result cannot be computed in the wanted one."""
    if changes_layout(op):
        return [(op.operands[0], wanted)]
    if is_source(op):
        return []
    if not is_follower(op) or len(op.results) != 1 or not is_removable(op):
        return None
    encodings = layouts_before(op, wanted)
    if encodings is None:
        return None
    return [(v, e) for v, e in zip(op.operands, encodings, strict=True) if e is not None]


def _is_read_at_once(op: Operation, wanted: Encoding) -> bool:
    """True for a load of which a thread has neighbours in the wanted encoding, enough to read them
    from shared memory at once."""
    if not isinstance(op, ElementAccess) or not op.is_load or op.isVolatile:
        return False
    kind = op.results[0].type
    shape = ir.shape_of(kind)
    axis = order_of(ir.encoding_of(kind), shape)[0]
    run = 1 << first_run(linear(wanted, shape), axis)
    return run * ir.memory_bytes(kind) >= _LEAST_BYTES


def _bytes(value: SSAValue) -> int:
    return ir.bit_width(value.type) * prod(ir.shape_of(value.type)) // 8
