"""Rules of hints about the order of instructions, and of what single threads and waves do."""

from __future__ import annotations

from tritium.backends.amd.lower.hardware import AMDGPU, wait_for_waves
from tritium.codegen.gpu.context import Context
from tritium.codegen.llvm.writer import const
from tritium.codegen.registry import lowers
from tritium.ops import ttgir


@lowers(AMDGPU.name, ttgir.SchedBarrierOp)
def sched_barrier(c: Context, op: ttgir.SchedBarrierOp) -> None:
    c.f.call("void", "llvm.amdgcn.sched.barrier", c.i32(op.mask))


@lowers(AMDGPU.name, ttgir.SchedGroupBarrierOp)
def sched_group_barrier(c: Context, op: ttgir.SchedGroupBarrierOp) -> None:
    numbers = map(c.i32, (op.mask, op.size, op.groupId))
    c.f.call("void", "llvm.amdgcn.sched.group.barrier", *numbers)


@lowers(AMDGPU.name, ttgir.SetPriorityOp)
def set_priority(c: Context, op: ttgir.SetPriorityOp) -> None:
    c.f.call("void", "llvm.amdgcn.s.setprio", const("i16", op.priority))


@lowers(AMDGPU.name, ttgir.WorkitemIdOp)
def workitem_id(c: Context, op: ttgir.WorkitemIdOp) -> None:
    c.set(op.results[0], [c.thread])


@lowers(AMDGPU.name, ttgir.WaveBarrierOp)
def wave_barrier(c: Context, op: ttgir.WaveBarrierOp) -> None:
    wait_for_waves(c)


@lowers(AMDGPU.name, ttgir.CondBarrierOp)
def cond_barrier(c: Context, op: ttgir.CondBarrierOp) -> None:
    """Emit nothing: all waves stay in phase, as accesses of LDS are kept apart by barriers between
    the same ops of all waves."""
