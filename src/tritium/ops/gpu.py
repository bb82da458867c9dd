"""The one op of the `gpu` dialect that appears in `tt` programs."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from tritium.ir import types as ir
from tritium.ops.base import Op
from tritium.ops.effects import GLOBAL, SHARED, reads, waits, writes
from tritium.ops.fields import enum_attr
from tritium.ops.memory import Context


class BarrierMemory(IntEnum):
    """The memory to which a barrier orders accesses. `LOCAL`: that of the threads of one thread
    block; otherwise all memory, whatever the text asks for."""

    ALL = 1
    LOCAL, GLOBAL_READ, GLOBAL_WRITE, TENSOR_READ, TENSOR_WRITE, NONE = range(2, 8)


class BarrierOp(Op):
    """All threads of a program wait for each other, and see each other's writes. Release 3.9 calls
    it `ttg.barrier` and names the memory that it is about."""

    name = "gpu.barrier"
    effects = (reads(GLOBAL), writes(GLOBAL), waits(SHARED))
    syntax = "[$memory] attrs"
    memory = enum_attr(BarrierMemory, BarrierMemory.ALL)

    @classmethod
    def infer(cls, **attrs: Any) -> tuple[ir.Type, ...]:
        return ()

    def evaluate(self, context: Context) -> None:
        """Nothing: a program is evaluated as one thread."""
