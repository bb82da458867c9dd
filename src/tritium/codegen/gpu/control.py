"""Blocks and structured control flow: phis for scalars, registers and shared-memory addresses."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress, islice
from typing import Any

from xdsl.ir import Block, SSAValue

from tritium.codegen.gpu.calls import give_back
from tritium.codegen.gpu.context import UNUSED, Context
from tritium.codegen.gpu.elementwise import emit
from tritium.codegen.gpu.emitter import bits_of
from tritium.codegen.gpu.hardware import Unsupported
from tritium.codegen.gpu.recompute import computed_again
from tritium.codegen.gpu.types import GPU, value_type
from tritium.codegen.llvm.branches import Branches, loop_hints
from tritium.codegen.llvm.writer import Value
from tritium.codegen.registry import lowers
from tritium.ir import types as ir
from tritium.ir.graph import ops_of
from tritium.ops import scf
from tritium.ops.base import Op
from tritium.ops.terminators import RegionEnd, is_terminator, terminator

_NARROW = frozenset({"i8", "i16", "half", "bfloat"})


def lower_block(c: Context, block: Block, again: Sequence[Op] | None = None) -> None:
    """Write the ops of a block, without its terminator, by their rules; or some of them `again`."""
    outer = c.f.location
    op: Any
    for op in ops_of(block) if again is None else again:
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


class Carried:
    """The LLVM values that blocks hand on for values of the program, those of the forms that some
    `values` have. `used`: which of their parts; all if None.

    Narrow neighbours in a tile are handed on as words where the processor would give each a
    register of its own.
    """

    def __init__(self, c: Context, values: Sequence[SSAValue], used: Sequence[bool] | None = None):
        parts = [c.flat(value) for value in values]
        self._forms = [c.values[value] for value in values]
        self._used = used or [True] * sum(map(len, parts))
        self._runs = list[tuple[int, str]]()
        left = iter(self._used)
        for of_value in parts:
            here = list(islice(left, len(of_value)))
            self._runs += [_run(c, of_value, here)] * sum(here)

    def of(self, c: Context, values: Sequence[SSAValue]) -> list[Value]:
        """The LLVM values to hand on for these values."""
        every = [part for value in values for part in c.flat(value)]
        parts = list(compress(every, self._used))
        found, place = list[Value](), 0
        while place < len(parts):
            count, _ = self._runs[place]
            group = parts[place : place + count]
            found += c.pack(group, "i32") if count > 1 else group
            place += count
        return found

    def define(self, c: Context, values: Sequence[SSAValue], handed_on: Sequence[Value]) -> None:
        """Define values by what is handed on for them."""
        parts = list[Value]()
        for part in handed_on:
            count, element = self._runs[len(parts)]
            parts += c.unpack([part], element) if count > 1 else [part]
        left = iter(parts)
        spread = [next(left) if used else UNUSED for used in self._used]
        for value, form in zip(values, self._forms, strict=True):
            c.unflat(value, spread, form)


def _run(c: Context, parts: Sequence[Value], used: Sequence[bool]) -> tuple[int, str]:
    """The number of parts of a value that are handed on as a word, and their type."""
    element = parts[0].type if parts else ""
    count = 32 // bits_of(element) if element in _NARROW and c.hardware.carries_words else 1
    return (count if all(used) and len(parts) % count == 0 else 1), element


@lowers(GPU, scf.ForOp)
def for_loop(c: Context, op: scf.ForOp) -> None:
    inits, arguments = list(op.inits), op.body.args[1:]
    lower, upper, step = (c.scalar(v) for v in (op.lower, op.upper, op.step))
    carried = Carried(c, inits, [
        bool(c.demand(argument) >> i & 1) or not isinstance(c.values[init], tuple)
        for argument, init in zip(arguments, inits, strict=True)
        for i in range(len(c.flat(init)))
    ])  # fmt: skip
    with c.f.loop(
        lower, upper, step, carried.of(c, inits), signed=not op.unsignedCmp, wraps=op.may_wrap,
        metadata=loop_hints(c.f.module, op),
    ) as loop:  # fmt: skip
        c.set(op.body.args[0], loop.index)
        carried.define(c, arguments, loop.carried)
        around, c.iteration = c.iteration, loop.index
        lower_block(c, op.body)
        c.iteration = around
        loop.next = carried.of(c, terminator(op.body).operands)
    carried.define(c, op.results, loop.results)
    if c.hardware.computes_again and c.plan is None and _dominates_rest(op):
        c.place_anew(c.hardware.handed_on(c, c.thread))
        block = op.parent
        assert block is not None
        lower_block(c, block, computed_again(op, c.hardware))


def _dominates_rest(op: Op) -> bool:
    """True if all that is written behind an op comes after it in each run of the function: it is in
    the only block of that."""
    region, around = op.parent_region(), op.parent_op()
    alone = region is not None and len(region.blocks) == 1
    return alone and around is not None and "sym_name" in around.properties


@lowers(GPU, scf.IfOp)
def branch(c: Context, op: Any) -> None:
    f = c.f
    then, other, done = f.new_label("then"), f.new_label("else"), f.new_label("endif")
    regions = [r for r in op.regions if r.blocks]
    f.branch_if(c.scalar(op.condition), then, other if len(regions) > 1 else done)
    arrivals: list[tuple[str, list[Value]]] = []
    carried: Carried | None = None
    for label, region in zip((then, other), regions, strict=False):
        f.label(label)
        lower_block(c, region.block)
        yielded = list(region.block.last_op.operands)
        carried = carried or Carried(c, yielded)
        arrivals.append((f.block, carried.of(c, yielded)))
        f.branch(done)
    f.label(done)
    merged = [
        f.phi(values[0].type, [(v, a[0]) for v, a in zip(values, arrivals, strict=False)]).value
        for values in zip(*(a[1] for a in arrivals), strict=False)
    ]
    if carried is not None:
        carried.define(c, op.results, merged)


@lowers(GPU, scf.WhileOp)
def while_loop(c: Context, op: Any) -> None:
    f = c.f
    start, body, done = f.new_label("while"), f.new_label("do"), f.new_label("endwhile")
    before, after = op.regions[0].block, op.regions[1].block
    inits, entry = list(op.operands), f.block
    carried = Carried(c, inits)
    first = carried.of(c, inits)
    f.branch(start)
    f.label(start)
    phis = [f.phi(v.type, [(v, entry)]) for v in first]
    carried.define(c, before.args, [p.value for p in phis])
    lower_block(c, before)
    condition, *passed = before.last_op.operands
    f.branch_if(c.scalar(condition), body, done)
    f.label(body)
    for argument, value in zip(after.args, passed, strict=True):
        c.unflat(argument, c.flat(value), c.values[value])
    lower_block(c, after)
    for phi, value in zip(phis, carried.of(c, after.last_op.operands), strict=True):
        phi.add(value, f.block)
    f.branch(start, loop_hints(f.module, op))
    f.label(done)
    for result, value in zip(op.results, passed, strict=True):
        c.unflat(result, c.flat(value), c.values[value])


def ends_together(c: Context, op: Op) -> bool:
    """True if an op is in the code of a kernel itself whose module accesses the shared memory of a
    cluster's other blocks: these must not end before."""
    function: Any = op.parent_op()
    everything = function.parent_op().walk()
    return c.num_ctas > 1 and function.sym_visibility != "private" and any(
        isinstance(o, Op) and o.reaches_blocks for o in everything
    )  # fmt: skip


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
            if ends_together(c, op):  # the others' accesses to this block's memory must be done
                if c.plan is not None and c.plan.meetings:
                    c.hardware.barriers.cluster(c)
                else:
                    c.synchronize()
            give_back(c, op.operands)
        elif not branches.leave(op):
            raise c.unsupported(op)
