"""Identities of structured control flow, and of branches between blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.ir import Block, Operation, Region, SSAValue

from tritium.analysis.regions import defined_inside
from tritium.ir import types as ir
from tritium.ops.base import Op
from tritium.ops.cf import BranchOp, CondBranchOp
from tritium.ops.scf import ForOp, IfOp, WhileOp
from tritium.ops.terminators import terminator
from tritium.passes.rewriting import Builder, Pattern, Rewriter, move_ops, remove_unreachable


def _inline(
    op: Op, block: Block, arguments: Sequence[SSAValue], rewriter: Rewriter
) -> list[SSAValue]:
    """Move a region's block to before its op; returns what its terminator yields."""
    for arg, value in zip(block.args, arguments, strict=True):
        rewriter.replace_value(arg, value)
    move_ops(block, op)
    return list(terminator(block).operands)


def _selected(
    op: IfOp | CondBranchOp, then: Sequence[SSAValue], other: Sequence[SSAValue]
) -> list[SSAValue]:
    """The values of two branches without ops, by the op's condition."""
    return [
        yes if yes is no else Builder(op).chosen(op.condition, yes, no)
        for yes, no in zip(then, other, strict=True)
    ]


# scf.if


def if_known(op: IfOp, rewriter: Rewriter) -> bool:
    """if true { a } else { b } -> a"""
    number = rewriter.known(op.condition)
    if number is None:
        return False
    block = op.regions[0 if number else 1].first_block
    if block is None:
        return rewriter.erase(op)
    return rewriter.replace(op, *_inline(op, block, (), rewriter))


def if_same(op: IfOp, rewriter: Rewriter) -> bool:
    """Both branches yield the same value -> that value; both only yield -> select"""
    if not op.results:
        return False
    then, other = (region.block for region in op.regions)
    pair = terminator(then).operands, terminator(other).operands
    changed = False
    for result, yes, no in zip(op.results, *pair, strict=True):
        if yes is no and result.first_use is not None:
            changed |= rewriter.replace_value(result, yes)
    empty = then.first_op is then.last_op and other.first_op is other.last_op
    if not empty or changed:
        return changed
    return rewriter.replace(op, *_selected(op, *pair))


def if_empty_else(op: IfOp, rewriter: Rewriter) -> bool:
    """An else branch that does nothing goes."""
    block = op.regions[1].first_block
    if op.results or block is None or block.first_op is not block.last_op:
        return False
    op.regions[1].detach_block(block)
    block.drop_all_references()
    return True


def if_condition_inside(op: IfOp, rewriter: Rewriter) -> bool:
    """The condition is true in the first branch and false in the second."""
    condition, changed = op.condition, False
    for use in tuple(condition.uses):
        user = use.operation
        if user is op:
            continue
        region = _region_of(user, op)
        if region is not None:
            known = rewriter.constant(region is op.regions[0], ir.i1, op)
            changed |= rewriter.set_operand(user, use.index, known)
    return changed


def _region_of(user: Operation, op: Op) -> Region | None:
    """The region of `op` in which `user` is, if any."""
    block = user.parent
    while block is not None and block.parent is not None:
        region = block.parent
        if region.parent is op:
            return region
        block = None if region.parent is None else region.parent.parent
    return None


# Loops


def for_few_iterations(op: ForOp, rewriter: Rewriter) -> bool:
    """A loop that never runs -> its initial values; one that runs once -> its body"""
    iterations = op.trip_count
    if iterations == 0:
        return rewriter.replace(op, *op.inits)
    if iterations != 1:
        return False
    return rewriter.replace(op, *_inline(op, op.body, [op.lower, *op.inits], rewriter))


def for_invariant(op: ForOp, rewriter: Rewriter) -> bool:
    """A carried value that each iteration hands on as it is -> the initial value"""
    changed = False
    yielded = terminator(op.body).operands
    carried = zip(op.inits, op.body.args[1:], yielded, op.results, strict=True)
    for init, arg, value, result in list(carried):
        if value is arg or value is init:
            for old in (arg, result):
                if old.first_use is not None:
                    changed |= rewriter.replace_value(old, init)
    return changed


def while_never(op: WhileOp, rewriter: Rewriter) -> bool:
    """while false -> the first region, once"""
    block = op.regions[0].block
    number = rewriter.known(terminator(block).operands[0])
    if number is None or number:
        return False
    return rewriter.replace(op, *_inline(op, block, op.inits, rewriter)[1:])


def while_invariant(op: WhileOp, rewriter: Rewriter) -> bool:
    """A carried value that each iteration hands on as it is -> the initial value"""
    changed = False
    before, after = op.regions[0].block, op.regions[1].block
    passed, yielded = terminator(before).operands[1:], terminator(after).operands
    for init, arg, value in list(zip(op.inits, before.args, yielded, strict=True)):
        same = value is init or (value in after.args and passed[_index(value)] is arg)
        if same and arg.first_use is not None:
            changed |= rewriter.replace_value(arg, init)
    passed = terminator(before).operands[1:]
    for value, arg, result in list(zip(passed, after.args, op.results, strict=True)):
        if not defined_inside(value, op):
            for old in (arg, result):
                if old.first_use is not None:
                    changed |= rewriter.replace_value(old, value)
    return changed


def _index(value: SSAValue) -> int:
    return value.index  # pyright: ignore


# Branches


def branch_known(op: CondBranchOp, rewriter: Rewriter) -> bool:
    """cond_br true, ^a, ^b -> br ^a; cond_br c, ^a(x), ^a(y) -> br ^a(select c, x, y)"""
    number = rewriter.known(op.condition)
    then, other = op.successors
    if number is None and then is not other:
        return False
    if number is None:
        values = _selected(op, op.then_values, op.else_values)
    else:
        values = op.then_values if number else op.else_values
    Builder(op).make(BranchOp, values, successors=[then if number else other])
    return rewriter.erase(op)


def simplify_blocks(region: Region) -> bool:
    """Drop unreachable blocks and arguments that are always the same, merge straight lines."""
    if region.first_block is region.last_block:
        return False
    changed = remove_unreachable(region)
    for block in list(region.blocks):
        if block.parent is region and block is not region.first_block:
            changed |= _same_arguments(block)
            changed |= _merge_with_predecessor(block)
    return changed


def _merge_with_predecessor(block: Block) -> bool:
    uses = list(block.uses)
    branch = uses[0].operation if len(uses) == 1 else None
    if branch is None or len(branch.successors) != 1 or branch.parent in (None, block):
        return False
    before = branch.parent
    assert before is not None and block.parent is not None
    for arg, value in zip(block.args, branch.operands, strict=True):
        arg.replace_all_uses_with(value)
    before.erase_op(branch)
    for op in list(block.ops):
        block.detach_op(op)
        before.add_op(op)
    block.parent.detach_block(block)
    return True


def _same_arguments(block: Block) -> bool:
    """Replace arguments for which all branches pass the same value (they stay, unused)."""
    changed = False
    for arg in block.args:
        passed: set[SSAValue] = set()
        for use in block.uses:
            edges = list(cast(Op, use.operation).control_edges())
            passed.add(edges[use.index].values[arg.index])
        passed.discard(arg)
        if len(passed) == 1 and arg.first_use is not None:
            arg.replace_all_uses_with(passed.pop())
            changed = True
    return changed


def patterns() -> dict[type[Op], list[Pattern]]:
    """The patterns of this module by the class of the op that they look at."""
    return {
        IfOp: [if_known, if_same, if_empty_else, if_condition_inside],
        ForOp: [for_few_iterations, for_invariant],
        WhileOp: [while_never, while_invariant],
        CondBranchOp: [branch_known],
    }
