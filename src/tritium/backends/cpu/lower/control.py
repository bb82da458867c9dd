"""Blocks and control flow: steps in order, structured loops and branches with phis for scalars."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from xdsl.ir import SSAValue

from tritium.analysis.loops import constant_int, may_wrap
from tritium.backends.cpu.lower.atomics.polling import FIRST_ITERATION, polls, stall
from tritium.backends.cpu.lower.context import Context
from tritium.backends.cpu.lower.debug import check
from tritium.backends.cpu.lower.dot import lower_dot, lower_dot_loop
from tritium.backends.cpu.lower.nests.loops import copy_to, lower_nest
from tritium.backends.cpu.lower.scalars import scalar_op
from tritium.backends.cpu.lower.types import value_type
from tritium.backends.cpu.tiles.ir import Body, Dot, For, If, Nest, Scalar, Step, While, WholeTile
from tritium.codegen.llvm.branches import Branches, loop_hints
from tritium.codegen.llvm.writer import Value, const
from tritium.codegen.registry import rules
from tritium.ir import types as ir
from tritium.ops.ttir.function import ReturnOp


def lower_function(c: Context) -> None:
    """Write the body of a function (its arguments are in `c.scalars`)."""
    blocks = c.function.blocks
    branches = Branches(c.f, [body.block for body in blocks], partial(_read, c))
    for number, body in enumerate(blocks):
        if number:
            arguments = _scalars(body.block.args)
            values = branches.start(body.block, [value_type(a.type) for a in arguments])
            c.scalars.update(zip(arguments, values, strict=True))
            _fill(c, body.block.args)
        lower_steps(c, body)
        op: Any = body.terminator
        if isinstance(op, ReturnOp):
            _return(c, op.operands)
        elif not branches.leave(op):
            raise c.unsupported(op)


def lower_steps(c: Context, body: Body) -> None:
    """Write the steps of a block, without its terminator."""
    for step in body.steps:
        _step(c, step)


def _step(c: Context, step: Step) -> None:
    if isinstance(step, Scalar):
        scalar_op(c, step.op)
    elif isinstance(step, Nest):
        lower_nest(c, step)
    elif isinstance(step, Dot):
        lower_dot(c, step, copy_to)
        c.fill(step.op.results[0])
    elif isinstance(step, For):
        _check_step(c, step)
        if lower_dot_loop(c, step, partial(_for, c, step)):
            _fill(c, step.op.results)
        else:
            _for(c, step)
    elif isinstance(step, If):
        _if(c, step)
    elif isinstance(step, While):
        _while(c, step)
    else:
        assert isinstance(step, WholeTile)
        rule = rules("cpu.whole_tile").get(type(step.op))
        if rule is None:
            raise c.unsupported(step.op)
        rule(c, step)


def _scalars(values: Sequence[SSAValue]) -> list[SSAValue]:
    return [v for v in values if not isinstance(v.type, ir.TensorType)]


def _read(c: Context, values: Sequence[SSAValue]) -> list[Value]:
    return [c.scalars[v] for v in _scalars(values)]


def _check_step(c: Context, step: For) -> None:
    """Report a step that is not positive, if it is known only when the program runs."""
    op: Any = step.op
    if constant_int(op.step) is not None:
        return
    by = c.scalars[op.step]
    positive = c.f.icmp("ne" if op.unsignedCmp else "sgt", by, const(by.type, 0))
    message = "the step of this loop is not positive, as one not known at compile time must be"
    check(c, op, positive, message)


def _for(c: Context, step: For) -> None:
    op: Any = step.op
    f = c.f
    lower, upper, by = (c.scalars[v] for v in (op.lower, op.upper, op.step))
    carried = _read(c, op.inits)
    _fill(c, op.body.args)
    with f.loop(
        lower, upper, by, carried, signed=not op.unsignedCmp, wraps=may_wrap(op),
        metadata=loop_hints(f.module, op),
    ) as loop:  # fmt: skip
        c.scalars[op.body.args[0]] = loop.index
        c.scalars.update(zip(_scalars(op.body.args[1:]), loop.carried, strict=True))
        lower_steps(c, step.body)
        loop.next = _read(c, step.body.terminator.operands)
    c.scalars.update(zip(_scalars(op.results), loop.results, strict=True))
    _fill(c, op.results)


def _fill(c: Context, values: Sequence[SSAValue]) -> None:
    for value in values:
        c.fill(value)


def _if(c: Context, step: If) -> None:
    f = c.f
    then, other, done = f.new_label("then"), f.new_label("else"), f.new_label("endif")
    condition = c.scalars[step.op.operands[0]]
    f.branch_if(condition, then, done if step.otherwise is None else other)
    arrivals: list[tuple[str, list[Value]]] = []
    bodies = [(then, step.then)] + ([] if step.otherwise is None else [(other, step.otherwise)])
    for label, body in bodies:
        f.label(label)
        lower_steps(c, body)
        values = _read(c, body.terminator.operands)
        arrivals.append((f.block, values))
        f.branch(done)
    f.label(done)
    results = _scalars(step.op.results)
    for number, result in enumerate(results):
        incoming = [(values[number], label) for label, values in arrivals]
        c.scalars[result] = f.phi(incoming[0][0].type, incoming).value
    _fill(c, step.op.results)


def _while(c: Context, step: While) -> None:
    f = c.f
    op: Any = step.op
    before, after, done = f.new_label("while"), f.new_label("do"), f.new_label("endwhile")
    inits = _read(c, op.operands)
    entry = f.block
    _fill(c, step.before.block.args)
    _fill(c, step.after.block.args)
    f.branch(before)
    f.label(before)
    phis = [f.phi(v.type, [(v, entry)]) for v in inits]
    iterations = f.phi("i32", [(FIRST_ITERATION, entry)]) if polls(op) else None
    c.scalars.update(zip(_scalars(step.before.block.args), [p.value for p in phis], strict=True))
    lower_steps(c, step.before)
    condition: Any = step.before.terminator
    passed = _read(c, condition.values)
    f.branch_if(c.scalars[condition.condition], after, done)
    f.label(after)
    iteration = None if iterations is None else stall(c, iterations.value)
    c.scalars.update(zip(_scalars(step.after.block.args), passed, strict=True))
    lower_steps(c, step.after)
    for phi, value in zip(phis, _scalars(step.after.terminator.operands), strict=True):
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
