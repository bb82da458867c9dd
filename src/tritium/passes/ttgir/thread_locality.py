"""Reduce across threads once after a loop, rather than in each iteration.

before (a thread has 4 elements of a row, 32 threads have the row):
    %acc = scf.for ... iter_args(%a = %init) -> (tensor<32xf32, #slice>) {
      %s = "tt.reduce"(%x) <{axis = 1}> ({addf}) : (tensor<32x128xf32, #blocked>) -> ...
      %b = arith.addf %a, %s
      scf.yield %b
    }
after:
    %sums = scf.for ... iter_args(%a = %minus_zero) -> (tensor<32x32xf32, #slice1>) {
      %y = tt.reshape %x : tensor<32x128xf32, #blocked> -> tensor<32x32x4xf32, #linear>
      %s = "tt.reduce"(%y) <{axis = 2}> ({addf}) : ... -> tensor<32x32xf32, #slice1>
      %b = arith.addf %a, %s
      scf.yield %b
    }
    %s = "tt.reduce"(%sums) <{axis = 1}> ({addf}) : ... -> tensor<32xf32, #slice>
    %acc = arith.addf %init, %s

for reductions and accumulators that are combined by the same op, where it has a neutral number.
The reshape moves nothing between threads, and the carried tile has an element where the carried row
had one in each of several threads. Sums of floats are added in another order.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from tritium.analysis.loops import counted_loops
from tritium.ir import types as ir
from tritium.ir.layouts.encodings import REGISTER, linear
from tritium.ir.layouts.moves import reshaped
from tritium.ops.base import changes_layout
from tritium.ops.elementwise import BinaryOp
from tritium.ops.scf import ForOp
from tritium.ops.terminators import terminator
from tritium.ops.ttgir import ConvertLayoutOp
from tritium.ops.ttir.reduction import CombiningOp, combining_op, is_reduction
from tritium.ops.ttir.shape import ReshapeOp
from tritium.passes.base import Pass
from tritium.passes.rewriting import Builder, erase


@dataclass(frozen=True)
class ThreadLocality(Pass):
    """Reduce across threads once after a loop, rather than in each iteration."""

    name: ClassVar[str] = "thread-locality"
    title: ClassVar[str] = "TritonGPUOptimizeThreadLocality"

    def run(self, module: ModuleOp) -> bool:
        changed = False
        for loop in counted_loops(module):
            for index in range(len(loop.inits)):
                found = _reduction_of(loop, index)
                if found is not None and not all(local for _, local in axis_runs(found[0])):
                    _move_out(loop, index, *found)
                    changed = True
        return changed


def _reduction_of(loop: ForOp, index: int) -> tuple[CombiningOp, BinaryOp] | None:
    """The reduction that the carried value of this number accumulates, and nothing else uses, and
    the op that combines the two."""
    end, argument = terminator(loop.body), loop.body.args[index + 1]
    combine = _unconverted(end.operands[index], end)
    if not isinstance(combine, BinaryOp) or combine.parent is not loop.body:
        return None
    operands = [_unconverted(v, combine) for v in combine.operands]
    reduce = next((op for op in operands if is_reduction(op)), None)
    if argument not in operands or reduce is None or len(reduce.results) != 1:
        return None
    blocks = reduce.regions[0].blocks
    same = len(blocks) == 1 and combining_op(blocks[0]) is type(combine)
    neutral = type(combine).identity_of(ir.element_type(argument.type))
    fits = same and neutral is not None and reduce.parent is loop.body
    return (reduce, combine) if fits else None


def _unconverted(value: SSAValue, user: Operation) -> Operation | Block | BlockArgument | None:
    """The op (or argument of the loop) that a value is of, before changes of layout, if only
    `user` uses it."""
    while [use.operation for use in value.uses] == [user]:
        if not changes_layout(value.owner):
            return value if isinstance(value, BlockArgument) else value.owner
        value, user = value.owner.operands[0], value.owner
    return None


def axis_runs(reduce: CombiningOp) -> list[tuple[int, bool]]:
    """The reduced axis as axes of its own, the slowest first: (size, whether each thread has all
    its elements)."""
    kind = reduce.inputs[0].type
    shape = ir.shape_of(kind)
    layout = linear(ir.encoding_of(kind), shape)
    shared = {
        bit for name in layout.in_names if name != REGISTER for base in layout.bases(name)
        for bit in range(64) if base[reduce.axis] >> bit & 1
    }  # fmt: skip
    alone: set[int] = {base[reduce.axis] for base in layout.bases(REGISTER)}
    bits = range(int(shape[reduce.axis]).bit_length() - 1)  # pyright: ignore
    local = [bit not in shared and 1 << bit in alone for bit in reversed(bits)]
    return [(1 << len(list(run)), is_local) for is_local, run in groupby(local)]


def _move_out(loop: ForOp, index: int, reduce: CombiningOp, combine: BinaryOp) -> None:
    axis, runs = reduce.axis, axis_runs(reduce)
    tile: SSAValue = reduce.inputs[0]
    shape, element = ir.shape_of(tile.type), ir.element_type(tile.type)
    at = Builder(reduce)
    if len(runs) > 1:
        parts = (*shape[:axis], *(size for size, _ in runs), *shape[axis + 1 :])
        kind = ir.tensor_of(parts, element, reshaped(ir.encoding_of(tile.type), shape, parts))
        tile = at.value(ReshapeOp, tile, result=kind)
    for number in reversed([n for n, (_, is_local) in enumerate(runs) if is_local]):
        tile = _reduced(at, tile, axis + number, reduce)
    argument, end = loop.body.args[index + 1], terminator(loop.body)
    old, result, initial = argument.type, loop.results[index], loop.inits[index]
    users = list(result.uses)
    old_ops, pending = list[Operation](), [end.operands[index]]
    while pending:
        op = pending.pop().owner
        if isinstance(op, Operation):
            old_ops.append(op)
            pending += () if op is reduce else op.operands
    number = combine.identity_of(element)
    loop.operands[3 + index] = Builder(loop, combine.location).constant(number, tile)
    for value in (argument, result):
        value._type = tile.type  # pyright: ignore
    end.operands[index] = Builder(combine).value(type(combine), argument, tile)
    for op in old_ops:
        erase(op)
    at, total = Builder(loop.next_op, reduce.location), result  # pyright: ignore
    for _ in range(sum(not is_local for _, is_local in runs)):
        total = _reduced(at, total, axis, reduce)
    if total.type != old:
        total = at.value(ConvertLayoutOp, total, result=old)
    total = at.value(type(combine), initial, total)
    total.name_hint = result.name_hint
    for use in users:
        use.operation.operands[use.index] = total


def _reduced(at: Builder, tile: SSAValue, axis: int, reduce: CombiningOp) -> SSAValue:
    return at.value(type(reduce), [tile], axis=axis, regions=[reduce.regions[0].clone()])
