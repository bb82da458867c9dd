"""Ops on scalars only: program ids, memory."""

from __future__ import annotations

from typing import Any

from tritium.backends.cpu.lower.access import from_memory, to_memory
from tritium.backends.cpu.lower.context import Context, as_tuple, class_of
from tritium.backends.cpu.lower.types import memory_type, value_type
from tritium.backends.cpu.lower.values import Uniform
from tritium.codegen.llvm.types import memory_bytes
from tritium.codegen.llvm.writer import Value, const
from tritium.codegen.registry import lowers, rules
from tritium.ops import ub
from tritium.ops.gpu import BarrierOp
from tritium.ops.llvm import AssumeOp
from tritium.ops.ttir.memory import LoadOp, StoreOp
from tritium.ops.ttir.program import GetNumProgramsOp, GetProgramIdOp


def scalar_op(c: Context, op: Any) -> None:
    """Write an op on scalars: one of its own, or an elementwise one."""
    values = [c.scalars[v] for v in op.operands]
    own = rules("cpu.scalar").get(class_of(op))
    rule = own or rules("cpu").get(class_of(op))
    if rule is None:
        raise c.unsupported(op)
    results = rule(c, op, *values)
    if op.results:
        c.scalars.update(zip(op.results, as_tuple(results), strict=True))


@lowers("cpu.scalar", ub.PoisonOp)
def poison(c: Context, op: Any) -> Value:
    return const(value_type(op.results[0].type), 0)


@lowers("cpu.tile", ub.PoisonOp)
def poison_tile(e: Any, op: Any, number: int, at: Any) -> Uniform:
    return Uniform(const(value_type(op.results[0].type), 0), 0)


@lowers("cpu.scalar", GetProgramIdOp)
def program_id(c: Context, op: GetProgramIdOp) -> Value:
    return c.program["xyz"[op.axis]]


@lowers("cpu.scalar", GetNumProgramsOp)
def num_programs(c: Context, op: GetNumProgramsOp) -> Value:
    return c.program["n" + "xyz"[op.axis]]


@lowers("cpu.scalar", LoadOp)
def load(c: Context, op: LoadOp, pointer: Value, *rest: Value) -> Value:
    f, type = c.f, op.results[0].type
    held, align = memory_type(type), memory_bytes(type)
    note = "volatile " if op.isVolatile else ""
    if not rest:
        return from_memory(f, f.emit(held, f"load {note}{held}, {pointer}, align {align}"), type)
    mask = rest[0]
    zeros = f.module.constant("[512 x i8]", "zeroinitializer", prefix="zeros")
    address = f.select(mask, pointer, zeros)
    value = from_memory(f, f.emit(held, f"load {note}{held}, {address}, align {align}"), type)
    return f.select(mask, value, rest[1]) if len(rest) > 1 else value


@lowers("cpu.scalar", StoreOp)
def store(c: Context, op: StoreOp, pointer: Value, value: Value, *rest: Value) -> tuple[()]:
    f, type = c.f, op.value.type
    if not rest:
        f.store(to_memory(f, value, type), pointer, memory_bytes(type))
        return ()
    with f.when(rest[0], "store", "stored"):
        f.store(to_memory(f, value, type), pointer, memory_bytes(type))
    return ()


@lowers("cpu.scalar", AssumeOp, BarrierOp)
def nothing(c: Context, op: Any, *values: Value) -> tuple[()]:
    """A program is one thread: no barrier is needed; assumptions are used by the analyses."""
    return ()
