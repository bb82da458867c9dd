"""Blocks and control flow: steps in order, structured loops and branches with phis for scalars."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from xdsl.ir import Block, SSAValue

from tritium.backends.cpu.lower.atomics.polling import FIRST_ITERATION, polls, stall
from tritium.backends.cpu.lower.context import Context, class_of
from tritium.backends.cpu.lower.debug import check
from tritium.backends.cpu.lower.dot import lower_dot, lower_dot_loop
from tritium.backends.cpu.lower.nests.loops import copy_to, lower_nest
from tritium.backends.cpu.lower.scalars import scalar_op
from tritium.backends.cpu.lower.types import value_type
from tritium.backends.cpu.tiles.ir import is_inlined
from tritium.codegen.llvm.branches import Branches, loop_hints
from tritium.codegen.llvm.writer import Value, const
from tritium.codegen.registry import rules
from tritium.ir import types as ir
from tritium.ops.arith import constant_int
from tritium.ops.scf import ForOp, IfOp, WhileOp
from tritium.ops.terminators import RegionEnd
from tritium.ops.tile import BUFFERS, BufferOp, NestOp
from tritium.ops.ttir.dot import MatrixProduct


def lower_function(c: Context) -> None:
    """Write the body of a function (its arguments are in `c.scalars`)."""
    blocks = list(c.function.op.regions[0].blocks)
    branches = Branches(c.f, blocks, partial(_read, c))
    for number, block in enumerate(blocks):
        if number:
            arguments = _scalars(block.args)
            values = branches.start(block, [value_type(a.type) for a in arguments])
            c.scalars.update(zip(arguments, values, strict=True))
            _fill(c, block.args)
        lower_steps(c, block)
        op: Any = block.last_op
        if isinstance(op, RegionEnd):
            _return(c, op.operands)
        elif not branches.leave(op):
            raise c.unsupported(op)


def lower_steps(c: Context, block: Block) -> None:
    """Write the ops of a block, without its terminator."""
    *ops, _ = block.ops
    for op in ops:
        with c.lines(op):
            rule = _RULES.get(class_of(op))
            if rule is not None:
                rule(c, op)
            elif BUFFERS in op.attributes:
                _whole_tile(c, op)
            elif not is_inlined(op):
                scalar_op(c, op)


def _whole_tile(c: Context, op: Any) -> None:
    if isinstance(op, MatrixProduct):
        lower_dot(c, op, copy_to)
        c.fill(op.result)
        return
    rule = rules("cpu.whole_tile").get(class_of(op))
    if rule is None:
        raise c.unsupported(op)
    rule(c, op)


def _scalars(values: Sequence[SSAValue]) -> list[SSAValue]:
    return [v for v in values if not isinstance(v.type, ir.TensorType)]


def _read(c: Context, values: Sequence[SSAValue]) -> list[Value]:
    return [c.scalars[v] for v in _scalars(values)]


def _check_step(c: Context, op: ForOp) -> None:
    """Report a step that is not positive, if it is known only when the program runs."""
    if constant_int(op.step) is not None:
        return
    by = c.scalars[op.step]
    positive = c.f.icmp("ne" if op.unsignedCmp else "sgt", by, const(by.type, 0))
    message = "the step of this loop is not positive, as one not known at compile time must be"
    check(c, op, positive, message)


def _loop(c: Context, op: ForOp) -> None:
    _check_step(c, op)
    if lower_dot_loop(c, op, partial(_for, c, op)):
        _fill(c, op.results)
    else:
        _for(c, op)


def _for(c: Context, op: ForOp) -> None:
    f = c.f
    lower, upper, by = (c.scalars[v] for v in (op.lower, op.upper, op.step))
    carried = _read(c, op.inits)
    _fill(c, op.body.args)
    with f.loop(
        lower, upper, by, carried, signed=not op.unsignedCmp, wraps=op.may_wrap,
        metadata=loop_hints(f.module, op),
    ) as loop:  # fmt: skip
        c.scalars[op.body.args[0]] = loop.index
        c.scalars.update(zip(_scalars(op.body.args[1:]), loop.carried, strict=True))
        lower_steps(c, op.body)
        loop.next = _read(c, _passed(op.body))
    c.scalars.update(zip(_scalars(op.results), loop.results, strict=True))
    _fill(c, op.results)


def _fill(c: Context, values: Sequence[SSAValue]) -> None:
    for value in values:
        c.fill(value)


def _passed(block: Block) -> Sequence[SSAValue]:
    """Operands that a block's terminator passes on."""
    assert block.last_op is not None
    return block.last_op.operands


def _if(c: Context, op: IfOp) -> None:
    f = c.f
    bodies = [region.block for region in op.regions if region.blocks]
    then, other, done = f.new_label("then"), f.new_label("else"), f.new_label("endif")
    condition = c.scalars[op.condition]
    f.branch_if(condition, then, done if len(bodies) == 1 else other)
    arrivals: list[tuple[str, list[Value]]] = []
    for label, body in zip((then, other), bodies, strict=False):
        f.label(label)
        lower_steps(c, body)
        values = _read(c, _passed(body))
        arrivals.append((f.block, values))
        f.branch(done)
    f.label(done)
    results = _scalars(op.results)
    for number, result in enumerate(results):
        incoming = [(values[number], label) for label, values in arrivals]
        c.scalars[result] = f.phi(incoming[0][0].type, incoming).value
    _fill(c, op.results)


def _while(c: Context, op: WhileOp) -> None:
    f = c.f
    head, body = (region.block for region in op.regions)
    before, after, done = f.new_label("while"), f.new_label("do"), f.new_label("endwhile")
    inits = _read(c, op.operands)
    entry = f.block
    _fill(c, head.args)
    _fill(c, body.args)
    f.branch(before)
    f.label(before)
    phis = [f.phi(v.type, [(v, entry)]) for v in inits]
    iterations = f.phi("i32", [(FIRST_ITERATION, entry)]) if polls(op) else None
    c.scalars.update(zip(_scalars(head.args), [p.value for p in phis], strict=True))
    lower_steps(c, head)
    condition: Any = head.last_op
    passed = _read(c, condition.values)
    f.branch_if(c.scalars[condition.condition], after, done)
    f.label(after)
    iteration = None if iterations is None else stall(c, iterations.value)
    c.scalars.update(zip(_scalars(body.args), passed, strict=True))
    lower_steps(c, body)
    for phi, value in zip(phis, _scalars(_passed(body)), strict=True):
        phi.add(c.scalars[value], f.block)
    if iterations is not None and iteration is not None:
        iterations.add(iteration, f.block)
    f.branch(before, loop_hints(f.module, op))
    f.label(done)
    c.scalars.update(zip(_scalars(op.results), passed, strict=True))
    _fill(c, op.results)


def _return(c: Context, values: Sequence[SSAValue]) -> None:
    """Scalars go out by pointers that the caller passed; tiles are in its buffers already."""
    for number, value in enumerate(values):
        if not isinstance(value.type, ir.TensorType):
            c.f.store(c.scalars[value], c.program[f"result{number}"], 1)
    c.f.ret()


_RULES: Mapping[type[Any], Callable[[Context, Any], None]] = {
    BufferOp: lambda c, op: None, NestOp: lower_nest, ForOp: _loop, IfOp: _if, WhileOp: _while,
}  # fmt: skip
