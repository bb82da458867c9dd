"""The one op of the `gpu` dialect that appears in `tt` programs."""

from __future__ import annotations

from enum import IntFlag
from typing import Any

from tritium.ir import types as ir
from tritium.ops.base import Op
from tritium.ops.effects import GLOBAL, SHARED, reads, waits, writes
from tritium.ops.fields import mask_attr
from tritium.ops.memory import Context


class BarrierMemory(IntFlag):
    """The memory to which a barrier orders accesses. `LOCAL` alone: that of the threads of one
    thread block; otherwise all memory, whatever the text asks for."""

    NONE = 0
    LOCAL = 1
    GLOBAL_READ = 2
    GLOBAL_WRITE = 4
    TENSOR_READ = 8
    TENSOR_WRITE = 16
    ALL = 31


_WORDS = {str(name).lower(): int(kind) for name, kind in BarrierMemory.__members__.items()}


class BarrierOp(Op):
    """All threads of a program wait for each other, and see each other's writes. Release 3.9 calls
    it `ttg.barrier` and names the memory that it is about."""

    name = "gpu.barrier"
    effects = (reads(GLOBAL), writes(GLOBAL), waits(SHARED))
    syntax = "[$memory] attrs"
    memory = mask_attr(_WORDS, BarrierMemory.ALL)

    @classmethod
    def infer(cls, **attrs: Any) -> tuple[ir.Type, ...]:
        return ()

    def evaluate(self, context: Context) -> None:
        """Do nothing: a program is evaluated as one thread."""
