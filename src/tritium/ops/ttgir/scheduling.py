"""`rocdl`: hints of AMD's programs about the order of instructions."""

from __future__ import annotations

from typing import Any

from tritium.errors import OpError
from tritium.ops.base import Op
from tritium.ops.effects import opaque
from tritium.ops.fields import i32_attr
from tritium.ops.memory import Context

MOST_PRIORITY = 3


class SchedBarrierOp(Op):
    """LLVM moves no instruction across this."""

    name = "rocdl.sched.barrier"
    effects = (opaque(),)
    syntax = "'none' attrs"

    @classmethod
    def infer(cls, **attrs: Any) -> None:
        pass

    def evaluate(self, context: Context) -> None:
        """Nothing: ops are evaluated in order."""


class SetPriorityOp(Op):
    """The instructions of the warp are issued with this priority from here on."""

    name = "rocdl.s.setprio"
    effects = (opaque(),)
    syntax = "attrs"
    priority = i32_attr(0)

    @classmethod
    def infer(cls, *, priority: int) -> None:
        if not 0 <= priority <= MOST_PRIORITY:
            raise OpError(f"{cls.name}: priority is {priority}; 0 to {MOST_PRIORITY} are allowed")

    def evaluate(self, context: Context) -> None:
        """Nothing: a program is evaluated as one thread."""
