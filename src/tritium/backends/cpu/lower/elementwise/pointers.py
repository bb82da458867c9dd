"""Pointer arithmetic, element by element."""

from __future__ import annotations

from tritium.backends.cpu.lower.context import Context
from tritium.codegen.llvm.writer import Value, lanes, scalar, vector
from tritium.codegen.registry import lowers
from tritium.ops.base import Op
from tritium.ops.ttir.memory import AddPtrOp


@lowers("cpu", AddPtrOp)
def addptr(c: Context, op: Op, pointer: Value, offset: Value) -> Value:
    """Offsets are signed numbers of elements."""
    size = c.pointee_bytes(op.results[0].type)
    if scalar(offset.type) != "i64":
        offset = c.f.cast("sext", offset, vector("i64", lanes(offset.type)))
    return c.f.gep({1: "i8", 2: "i16", 4: "i32", 8: "i64"}[size], pointer, offset, flags="")
