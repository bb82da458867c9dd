"""Rules of hints about the order of instructions."""

from __future__ import annotations

from tritium.backends.amd.lower.hardware import AMDGPU
from tritium.backends.amd.lower.scheduling import set_priority, stay_in_order
from tritium.codegen.gpu.context import Context
from tritium.codegen.registry import lowers
from tritium.ops import ttgir


@lowers(AMDGPU.name, ttgir.SchedBarrierOp)
def sched_barrier(c: Context, op: ttgir.SchedBarrierOp) -> None:
    stay_in_order(c)


@lowers(AMDGPU.name, ttgir.SetPriorityOp)
def priority(c: Context, op: ttgir.SetPriorityOp) -> None:
    set_priority(c, op.priority)
