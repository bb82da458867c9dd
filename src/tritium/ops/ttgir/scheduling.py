"""`rocdl`: AMD's programs on the order of instructions, and on single threads and waves."""

from __future__ import annotations

from typing import Any

import numpy as np

from tritium.errors import OpError
from tritium.ir import types as ir
from tritium.ops.base import Op
from tritium.ops.effects import opaque
from tritium.ops.elementwise import check_condition
from tritium.ops.fields import mask_attr, operand, plain_i32_attr
from tritium.ops.memory import Context

MOST_PRIORITY = 3
_KINDS = (
    "non_mem_non_sideeffect", "valu", "salu", "mfma_wmma", "all_vmem", "vmem_read", "vmem_write",
    "all_ds", "ds_read", "ds_write", "transcendental", "ldsdma",
)  # fmt: skip
INSTRUCTIONS = {"none": 0} | {kind: 1 << bit for bit, kind in enumerate(_KINDS)}
"""LLVM's kinds of instructions."""
INSTRUCTIONS["all"] = sum(INSTRUCTIONS.values())


class SchedBarrierOp(Op):
    """LLVM moves no instruction across this but those of the kinds in `mask`."""

    name = "rocdl.sched.barrier"
    effects = (opaque(),)
    syntax = "$mask attrs"
    mask = mask_attr(INSTRUCTIONS, 0)

    @classmethod
    def infer(cls, **attrs: Any) -> None:
        pass

    def evaluate(self, context: Context) -> None:
        """Do nothing: ops are evaluated in order."""


class SchedGroupBarrierOp(Op):
    """LLVM places `size` instructions of the kinds in `mask` here, in the order of such groups with
    the same `groupId`."""

    name = "rocdl.sched.group.barrier"
    effects = (opaque(),)
    syntax = "$mask, $size, $groupId attrs"
    mask = mask_attr(INSTRUCTIONS)
    size = plain_i32_attr()
    groupId = plain_i32_attr()

    @classmethod
    def infer(cls, *, mask: int, size: int, groupId: int) -> None:
        if size < 0 or groupId < 0:
            raise OpError(f"{cls.name}: size {size}, groupId {groupId}; 0 or more is required")

    def evaluate(self, context: Context) -> None:
        """Do nothing: ops are evaluated in order."""


class SetPriorityOp(Op):
    """The instructions of the warp are issued with this priority from here on."""

    name = "rocdl.s.setprio"
    effects = (opaque(),)
    syntax = "$priority attrs"
    priority = plain_i32_attr()

    @classmethod
    def infer(cls, *, priority: int) -> None:
        if not 0 <= priority <= MOST_PRIORITY:
            raise OpError(f"{cls.name}: priority is {priority}; 0 to {MOST_PRIORITY} are allowed")

    def evaluate(self, context: Context) -> None:
        """Do nothing: a program is evaluated as one thread."""


class WorkitemIdOp(Op):
    """The number of the thread in its program, 0 where a program is evaluated as one thread."""

    name = "rocdl.workitem.id.x"
    syntax = "attrs : type(result)"

    @classmethod
    def infer(cls, *, result: ir.Type | None = None) -> ir.Type:
        return ir.i32

    def evaluate(self, context: Context) -> Any:
        return np.int32(0)


class WaveBarrierOp(Op):
    """The warp waits until all others are at a barrier. Unlike `gpu.barrier` it orders no accesses
    to memory."""

    name = "rocdl.s.barrier"
    effects = (opaque(),)
    syntax = "attrs"

    @classmethod
    def infer(cls) -> None:
        pass

    def evaluate(self, context: Context) -> None:
        """Do nothing: a program is evaluated as one thread."""


class CondBarrierOp(Op):
    """The warps where `pred` is true may fall one barrier behind the others, until those come to
    such an op: while one half of the warps loads, the other half multiplies."""

    name = "amdg.cond_barrier"
    effects = (opaque(),)
    syntax = "$pred attrs"
    pred = operand()

    @classmethod
    def infer(cls, pred: ir.Type) -> None:
        check_condition(cls.name, pred)

    def evaluate(self, context: Context, pred: Any) -> None:
        """Do nothing: a program is evaluated as one thread."""
