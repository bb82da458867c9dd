"""Code of programs that may wait for another program of their grid: they tell the pool now and then
(`pool.FAULT`), which begins other programs, or ends the launch."""

from __future__ import annotations

from xdsl.ir import Operation

from tritium.backends.cpu.lower.context import Context
from tritium.codegen.llvm.writer import Value, const
from tritium.native.pool import FAULT
from tritium.ops.base import Op
from tritium.ops.effects import Action, observes
from tritium.ops.ttir.atomic import AtomicPollOp

_PATIENCE = 1024
"""Turns of a loop that may wait, after which the pool is told: some 20 to 50 us."""
FIRST_ITERATION = const("i32", 0)


def polls(op: Operation) -> bool:
    """True if an op may wait for another program of the grid: a loop with an atomic or volatile
    access or a call, or an op that polls by itself."""
    if isinstance(op, AtomicPollOp):
        return True
    waits = isinstance(op, Op) and op.is_loop and op.may_wait
    return waits and any(may_observe(inner) for inner in op.walk())


def may_observe(op: Operation) -> bool:
    """True if an op may see or order what other programs do."""
    if not isinstance(op, Op):
        return False
    effects = op.own_effects()
    return observes(effects) or any(effect.action is Action.OPAQUE for effect in effects)


def stall(c: Context, iteration: Value) -> Value:
    """Write what a waiting loop does in each iteration: every `_PATIENCE` iterations tell the pool,
    and leave the program if the launch is over. Returns the number of the next iteration."""
    f, fault = c.f, c.program["fault"]
    following = f.op("add", iteration, const("i32", 1))
    due = f.icmp("eq", f.op("urem", following, const("i32", _PATIENCE)), const("i32", 0))
    told, leave, go_on = f.new_label("stall"), f.new_label("leave"), f.new_label("go_on")
    f.branch_if(due, told, go_on)
    f.label(told)
    function = f.load("ptr", f.offset(fault, FAULT.fields["stall"].offset), 8)
    f.line(f"call void {function.ref}({fault})")
    raised = f.emit("i32", f"load atomic i32, {fault} monotonic, align 4")
    f.branch_if(f.icmp("ne", raised, const("i32", 0)), leave, go_on)
    f.label(leave)
    f.ret()
    f.label(go_on)
    return following
