"""Barriers in LDS, at which threads and copies arrive, and those of clusters (gfx1250).

One in LDS is 64 bits: from bit 0 on one less than the arrivals that the phase still lacks, from
bit 29 on the number of the phase, of which the last bit is its parity, from bit 32 on one less than
the arrivals of a phase.
"""

from __future__ import annotations

from typing import Any

from tritium.backends.amd.lower.hardware import AMDGPU, WorkgroupBarriers
from tritium.backends.amd.processor import processor
from tritium.codegen.gpu.context import Context
from tritium.codegen.llvm.writer import Value, const
from tritium.codegen.registry import lowers
from tritium.ops import ttgir
from tritium.ops.base import Op

_PHASE = 29
_MOST_ARRIVALS = 1 << _PHASE
_WORKGROUP = 'syncscope("workgroup")'


def _barrier(c: Context, op: Op, value: Any) -> Value:
    """The place of a barrier. Raises `NotImplementedError` for processors that have none."""
    assert isinstance(c.hardware, AMDGPU)
    if not processor(c.hardware.arch).barriers:
        raise c.unsupported(op)
    return c.memory(value).address


def _parity(c: Context, state: Value) -> Value:
    """The parity of the phase in the lower word of a barrier."""
    return c.f.op("and", c.f.op("lshr", state, c.i32(_PHASE)), c.i32(1))


@lowers(AMDGPU.name, ttgir.InitBarrierOp, ttgir.InitLDSBarrierOp)
def init(c: Context, op: ttgir.InitBarrierOp) -> None:
    place = _barrier(c, op, op.alloc)
    if op.count > _MOST_ARRIVALS:
        raise c.unsupported(op, f"{op.count} arrivals; {_MOST_ARRIVALS} are the most")
    left = op.count - 1
    with c.f.when(c.f.icmp("eq", c.thread, c.i32(0)), "init", "initialized"):
        c.f.store(const("i64", left | left << 32), place, 8)


@lowers(AMDGPU.name, ttgir.InvalBarrierOp)
def invalidate(c: Context, op: ttgir.InvalBarrierOp) -> None:
    """Do nothing: any word is a barrier."""
    _barrier(c, op, op.alloc)


@lowers(AMDGPU.name, ttgir.ArriveThreadsOp)
def arrive(c: Context, op: ttgir.ArriveThreadsOp) -> None:
    place = _barrier(c, op, op.alloc)
    c.f.line(f"fence {_WORKGROUP} release")
    name = "llvm.amdgcn.ds.atomic.barrier.arrive.rtn.b64"
    before = c.f.call("i64", name, place, const("i64", op.count))
    c.set(op.results[0], _parity(c, c.f.cast("trunc", before, "i32")))


@lowers(AMDGPU.name, ttgir.AsyncCopyMbarrierArriveOp, ttgir.AsyncCopyArriveLDSOp)
def arrive_after_copies(c: Context, op: ttgir.AsyncCopyMbarrierArriveOp) -> None:
    """Each thread arrives when the copies that it started are done."""
    place = _barrier(c, op, op.barrier)
    if not op.thread_arrivals():
        raise c.unsupported(op, "without an arrival of each thread")
    c.f.call("void", "llvm.amdgcn.ds.atomic.async.barrier.arrive.b64", place)


@lowers(AMDGPU.name, ttgir.WaitBarrierOp, ttgir.WaitLDSBarrierOp)
def wait(c: Context, op: ttgir.WaitBarrierOp) -> None:
    f, place, parity = c.f, _barrier(c, op, op.alloc), c.scalar(op.phase)
    again, sleep, ended = (f.new_label(hint) for hint in ("wait", "sleep", "ended"))
    if op.pred is None:
        f.branch(again)
    else:
        f.branch_if(c.scalar(op.pred), again, ended)
    f.label(again)
    state = f.emit("i32", f"load atomic i32, {place} {_WORKGROUP} monotonic, align 8")
    f.branch_if(f.icmp("ne", _parity(c, state), parity), ended, sleep)
    f.label(sleep)
    f.call("void", "llvm.amdgcn.s.sleep", c.i32(1))
    f.branch(again)
    f.label(ended)
    f.line(f"fence {_WORKGROUP} acquire")


def _barriers(c: Context, op: Op) -> WorkgroupBarriers:
    if c.num_ctas == 1:
        raise c.unsupported(op, "of a program of one workgroup")
    assert isinstance(c.hardware.barriers, WorkgroupBarriers)
    return c.hardware.barriers


@lowers(AMDGPU.name, ttgir.ClusterArriveOp)
def arrive_in_cluster(c: Context, op: ttgir.ClusterArriveOp) -> None:
    _barriers(c, op).arrive_in_cluster(c)


@lowers(AMDGPU.name, ttgir.ClusterWaitOp)
def wait_for_cluster(c: Context, op: ttgir.ClusterWaitOp) -> None:
    _barriers(c, op).wait_for_cluster(c)
