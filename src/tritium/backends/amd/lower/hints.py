"""Rules of hints about the order of instructions, and of what single threads and waves do."""

from __future__ import annotations

from tritium.backends.amd.lower.hardware import AMDGPU, wait_for_waves
from tritium.codegen.gpu.context import Context
from tritium.codegen.llvm.writer import const
from tritium.codegen.registry import lowers
from tritium.ops import ttgir
from tritium.ops.base import Op

_INTRINSICS: dict[type[Op], tuple[str, str, tuple[str, ...]]] = {
    ttgir.SchedBarrierOp: ("sched.barrier", "i32", ("mask",)),
    ttgir.SchedGroupBarrierOp: ("sched.group.barrier", "i32", ("mask", "size", "groupId")),
    ttgir.SetPriorityOp: ("s.setprio", "i16", ("priority",)),
}
"""LLVM's names of ops that are one instruction, and the type and the fields of its numbers."""


@lowers(AMDGPU.name, *_INTRINSICS)
def one_instruction(c: Context, op: Op) -> None:
    name, kind, fields = _INTRINSICS[type(op)]
    numbers = [const(kind, getattr(op, field)) for field in fields]
    c.f.call("void", f"llvm.amdgcn.{name}", *numbers)


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
