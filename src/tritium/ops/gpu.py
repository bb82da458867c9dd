"""The one op of the `gpu` dialect that appears in `tt` programs."""

from __future__ import annotations

from typing import Any

from tritium.ir import types as ir
from tritium.ops.base import Op
from tritium.ops.effects import GLOBAL, SHARED, reads, waits, writes
from tritium.ops.evaluation import Context


class BarrierOp(Op):
    """All threads of a program wait for each other, and see each other's writes."""

    name = "gpu.barrier"
    effects = (reads(GLOBAL), writes(GLOBAL), waits(SHARED))
    syntax = "attrs"

    @classmethod
    def infer(cls, **attrs: Any) -> tuple[ir.Type, ...]:
        return ()

    def evaluate(self, context: Context) -> None:
        """Nothing: a program is evaluated as one thread."""


OPS: tuple[type[Op], ...] = (BarrierOp,)
ATTRIBUTES = ()
