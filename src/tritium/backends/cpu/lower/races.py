"""Notes of what programs do to memory, for the sanitizer (`tritium.sanitize.shadow`)."""

from __future__ import annotations

from typing import Any

from tritium.backends.cpu.lower.atomics.operations import element
from tritium.backends.cpu.lower.context import Context
from tritium.backends.cpu.lower.debug import leave_unless
from tritium.backends.cpu.lower.emitter import At, Emitter
from tritium.codegen.llvm.races import end_epoch, i64, note, note_order
from tritium.codegen.llvm.writer import Value
from tritium.codegen.registry import lowers
from tritium.ops.ttir.sanitize import RaceCheckOp, RaceOrderOp
from tritium.sanitize.launch import PREFIX


@lowers("cpu.scalarized", RaceCheckOp)
def check_element(e: Emitter, op: Any, at: At) -> None:
    check_scalar(e.context, op, element(e, op.address, at), element(e, op.shadow, at))


@lowers("cpu.scalar", RaceCheckOp)
def check_scalar(c: Context, op: Any, address: Value, shadow: Value) -> tuple[()]:
    f = c.f
    with f.when(f.icmp("ne", address, i64(0)), "check", "unchecked"):
        fine = note(f, op, shadow, address, _number(c))
        leave_unless(c, fine, f"{PREFIX}{op.site}", address)
    return ()


@lowers("cpu.scalarized", RaceOrderOp)
def order_element(e: Emitter, op: Any, at: At) -> None:
    order_scalar(e.context, op, element(e, op.address, at), element(e, op.shadow, at))


@lowers("cpu.scalar", RaceOrderOp)
def order_scalar(c: Context, op: Any, address: Value, shadow: Value) -> tuple[()]:
    f, number = c.f, _number(c)
    with f.when(f.icmp("ne", address, i64(0)), "order", "ordered"):
        note_order(f, op, shadow, address, number, alone=True)
        if not op.acquires:
            end_epoch(f, shadow, number)
    return ()


def _number(c: Context) -> Value:
    """The number of the program in the grid, from 1."""
    f = c.f
    x, y, z, nx, ny = (f.cast("zext", c.program[n], "i64") for n in ("x", "y", "z", "nx", "ny"))
    plane = f.op("add", y, f.op("mul", ny, z))
    return f.op("add", f.op("add", x, f.op("mul", nx, plane)), i64(1))
