"""Blocks and structured control flow: phis for scalars, registers and shared-memory addresses."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from typing import Any

from xdsl.ir import Block, SSAValue

from tritium.codegen.gpu.calls import give_back
from tritium.codegen.gpu.context import UNUSED, Context, Lowered
from tritium.codegen.gpu.elementwise import emit
from tritium.codegen.gpu.hardware import Unsupported
from tritium.codegen.gpu.recompute import computed_again
from tritium.codegen.gpu.types import GPU, value_type
from tritium.codegen.llvm.branches import Branches, loop_hints
from tritium.codegen.llvm.writer import Value
from tritium.codegen.registry import lowers
from tritium.ir import types as ir
from tritium.ops import scf
from tritium.ops.base import Op
from tritium.ops.terminators import RegionEnd, is_terminator, terminator


def lower_block(c: Context, block: Block, again: Sequence[Op] | None = None) -> None:
    """Write the ops of a block, without its terminator, by their rules; or some of them `again`."""
    outer = c.f.location
    op: Any
    for op in block.ops if again is None else again:
        if op is block.last_op and is_terminator(op):
            break
        c.f.location = c.line_of(op)
        if op in c.barriers:
            c.barrier(c.barriers[op], isinstance(op, Op) and op.synchronizes)
        # Here, not in a function of its own: each is a level of Python's stack for nested branches.
        rule = c.hardware.rules.get(op.__class__)
        try:
            if rule is not None:
                rule(c, op)
            elif not emit(c, op):
                raise Unsupported
        except Unsupported as error:
            raise c.unsupported(op, str(error)) from None
    c.f.location = outer


def inline(c: Context, block: Block, arguments: Sequence[Value]) -> list[Value]:
    """Write a block of scalars (a reduction's, say) for these arguments; what it returns."""
    for argument, value in zip(block.args, arguments, strict=True):
        c.set(argument, value)
    lower_block(c, block)
    return [c.scalar(v) for v in terminator(block).operands]


def _flat(c: Context, values: Sequence[SSAValue]) -> list[Value]:
    return [part for value in values for part in c.flat(value)]


def _forms(c: Context, values: Sequence[SSAValue]) -> list[Lowered]:
    return [c.values[v] for v in values]


def _define(
    c: Context, values: Sequence[SSAValue], parts: list[Value], forms: Sequence[Lowered]
) -> None:
    parts = list(parts)
    for value, form in zip(values, forms, strict=True):
        c.unflat(value, parts, form)


@lowers(GPU, scf.ForOp)
def for_loop(c: Context, op: scf.ForOp) -> None:
    inits, carried = list(op.inits), op.body.args[1:]
    forms = _forms(c, inits)
    lower, upper, step = (c.scalar(v) for v in (op.lower, op.upper, op.step))
    used = [
        bool(c.demand(argument) >> i & 1) or not isinstance(form, tuple)
        for argument, form, init in zip(carried, forms, inits, strict=True)
        for i in range(len(c.flat(init)))
    ]
    first = list(compress(_flat(c, inits), used))
    with c.f.loop(
        lower, upper, step, first, signed=not op.unsignedCmp, wraps=op.may_wrap,
        metadata=loop_hints(c.f.module, op),
    ) as loop:  # fmt: skip
        c.set(op.body.args[0], loop.index)
        _define(c, carried, _spread(loop.carried, used), forms)
        lower_block(c, op.body)
        loop.next = list(compress(_flat(c, terminator(op.body).operands), used))
    _define(c, op.results, _spread(loop.results, used), forms)
    if c.hardware.handed_on and c.plan is None and _dominates_rest(op):
        # LLVM, which would merge what is computed from the same number, does not see that it is.
        c.place_anew(c.asm("i32", "", c.hardware.handed_on, c.thread, effects=False))
        block = op.parent
        assert block is not None
        lower_block(c, block, computed_again(op, c.hardware))


def _dominates_rest(op: Op) -> bool:
    """All that is written behind an op comes after it in each run of the function: it is in
    the only block of that."""
    region, around = op.parent_region(), op.parent_op()
    alone = region is not None and len(region.blocks) == 1
    return alone and around is not None and "sym_name" in around.properties


def _spread(parts: Sequence[Value], used: Sequence[bool]) -> list[Value]:
    """The inverse of `compress`."""
    left = iter(parts)
    return [next(left) if u else UNUSED for u in used]


@lowers(GPU, scf.IfOp)
def branch(c: Context, op: Any) -> None:
    f = c.f
    then, other, done = f.new_label("then"), f.new_label("else"), f.new_label("endif")
    regions = [r for r in op.regions if r.blocks]
    f.branch_if(c.scalar(op.condition), then, other if len(regions) > 1 else done)
    arrivals: list[tuple[str, list[Value]]] = []
    forms: list[Lowered] = []
    for label, region in zip((then, other), regions, strict=False):
        f.label(label)
        lower_block(c, region.block)
        yielded = list(region.block.last_op.operands)
        arrivals.append((f.block, _flat(c, yielded)))
        forms = _forms(c, yielded)
        f.branch(done)
    f.label(done)
    merged = [
        f.phi(values[0].type, [(v, a[0]) for v, a in zip(values, arrivals, strict=False)]).value
        for values in zip(*(a[1] for a in arrivals), strict=False)
    ]
    _define(c, op.results, merged, forms)


@lowers(GPU, scf.WhileOp)
def while_loop(c: Context, op: Any) -> None:
    f = c.f
    start, body, done = f.new_label("while"), f.new_label("do"), f.new_label("endwhile")
    before, after = op.regions[0].block, op.regions[1].block
    inits = list(op.operands)
    forms, entry = _forms(c, inits), f.block
    first = _flat(c, inits)
    f.branch(start)
    f.label(start)
    phis = [f.phi(v.type, [(v, entry)]) for v in first]
    _define(c, before.args, [p.value for p in phis], forms)
    lower_block(c, before)
    condition, *passed = before.last_op.operands
    f.branch_if(c.scalar(condition), body, done)
    f.label(body)
    _define(c, after.args, _flat(c, passed), _forms(c, passed))
    lower_block(c, after)
    for phi, value in zip(phis, _flat(c, after.last_op.operands), strict=True):
        phi.add(value, f.block)
    f.branch(start, loop_hints(f.module, op))
    f.label(done)
    _define(c, op.results, _flat(c, passed), _forms(c, passed))


def reaches_blocks(op: Op) -> bool:
    """Whether the op ends a kernel whose module accesses other blocks' shared memory."""
    function: Any = op.parent_op()
    everything = function.parent_op().walk()
    return function.sym_visibility != "private" and any(
        isinstance(o, Op) and o.reaches_blocks for o in everything
    )


def lower_function(c: Context, blocks: Sequence[Block]) -> None:
    """Write all blocks of a function, whose arguments are defined."""
    branches = Branches(c.f, blocks, lambda values: [c.scalar(v) for v in values])
    for number, block in enumerate(blocks):
        if number:
            if any(isinstance(a.type, ir.TensorType) for a in block.args):
                raise NotImplementedError("GPUs take no tiles as arguments of basic blocks")
            values = branches.start(block, [value_type(a.type) for a in block.args])
            for argument, value in zip(block.args, values, strict=True):
                c.set(argument, value)
        lower_block(c, block)
        op: Any = block.last_op
        if isinstance(op, RegionEnd):
            c.at_return()
            if c.num_ctas > 1 and reaches_blocks(op):
                c.synchronize()  # the others' accesses to this block's memory must be done
            give_back(c, op.operands)
        elif not branches.leave(op):
            raise c.unsupported(op)
