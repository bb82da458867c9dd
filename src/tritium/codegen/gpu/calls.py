"""Calls of functions that were not inlined: tiles are passed and returned register by register.

Where the program's share of global scratch memory is comes last.

A function's shared memory follows that of all its callers, so that a call needs no stack: the call
graph has no cycles. Threads synchronize before a call, because the one before may still read the
memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.ir import SSAValue

from tritium.codegen.gpu.context import Context, register_count
from tritium.codegen.gpu.types import GPU, value_type
from tritium.codegen.llvm.writer import Value
from tritium.codegen.registry import lowers
from tritium.ir import types as ir
from tritium.ops import ttir


def value_types(type: Any) -> list[str]:
    """The LLVM types by which a value is passed. Raises `NotImplementedError`."""
    count = register_count(type) if ir.shape_of(type) else 1
    return [value_type(type)] * count


def result_type(types: Sequence[Any]) -> str:
    """The LLVM return type of a function with results of these types."""
    parts = [part for type in types for part in value_types(type)]
    if not parts:
        return "void"
    return parts[0] if len(parts) == 1 else "{ " + ", ".join(parts) + " }"


def define(c: Context, values: Sequence[SSAValue], parts: Sequence[Value]) -> None:
    """Define values by the parts that they were passed as."""
    left = list(parts)
    for value in values:
        count = len(value_types(value.type))
        c.set(value, left[:count])
        left = left[count:]


@lowers(GPU, ttir.CallOp)
def call(c: Context, op: Any) -> None:
    arguments = [part for value in op.arguments for part in c.flat(value)]
    if c.share is not None:
        arguments.append(c.share[0])
    types = [part for value in op.results for part in value_types(value.type)]
    if op.callee in c.sharing:
        c.barrier()
    kind = result_type([v.type for v in op.results])
    name = c.hardware.symbol(op.callee)
    text = f"call {kind} @{name}({', '.join(map(str, arguments))}) {c.convergent}"
    if kind == "void":
        c.f.line(text)
    else:
        define(c, op.results, c.members(c.f.emit(kind, text), types))


def give_back(c: Context, values: Sequence[SSAValue]) -> None:
    """Return values from a function."""
    parts = [part for value in values for part in c.flat(value)]
    if len(parts) < 2:
        c.f.ret(parts[0] if parts else None)
        return
    kind = "{ " + ", ".join(p.type for p in parts) + " }"
    struct = Value(kind, "poison")
    for i, part in enumerate(parts):
        struct = c.f.emit(kind, f"insertvalue {struct}, {part}, {i}")
    c.f.ret(struct)
