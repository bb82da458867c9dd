"""`amdg`: barriers in LDS (gfx1250) and between the workgroups of a cluster."""

from __future__ import annotations

from typing import Any

import numpy as np

from tritium.errors import OpError
from tritium.ir import types as ir
from tritium.ops.attributes import NUM_WARPS, THREADS_PER_WARP
from tritium.ops.base import Op
from tritium.ops.effects import GLOBAL, SHARED, arrives, opaque, reads, waits, writes
from tritium.ops.fields import i32_attr, operand, plain_i32_attr
from tritium.ops.memory import Context
from tritium.ops.ttgir.async_copy import AsyncCopyMbarrierArriveOp
from tritium.ops.ttgir.model import Buffer, state_of
from tritium.ops.ttgir.tma import InitBarrierOp, WaitBarrierOp
from tritium.ops.ttgir.types import check_barrier
from tritium.ops.ttgir.warp_specialize import WarpSpecializeOp


def _threads_around(op: Op) -> int:
    """The threads that run an op: those of its partition, or of the module."""
    region, warps = op.parent_region(), 0
    while region is not None and (around := region.parent_op()) is not None:
        if not warps and isinstance(around, WarpSpecializeOp) and region is not around.default:
            warps = around.partitionNumWarps[around.partitions.index(region)]
        numbers: Any = around.attributes
        if THREADS_PER_WARP in numbers:
            warps = warps or numbers[NUM_WARPS].value.data
            return warps * numbers[THREADS_PER_WARP].value.data
        region = around.parent_region()
    raise OpError(f"{op.name}: the module does not say how many threads run it")


class InitLDSBarrierOp(InitBarrierOp):
    """`ttng.init_barrier` of LDS."""

    name = "amdg.init_barrier"


class WaitLDSBarrierOp(WaitBarrierOp):
    """`ttng.wait_barrier` of LDS."""

    name = "amdg.wait_barrier"


class AsyncCopyArriveLDSOp(AsyncCopyMbarrierArriveOp):
    """Each of the `arrivals` threads that run the code (0: the module's or partition's) arrives
    when the copies that it has started are done."""

    name = "amdg.async_copy_mbarrier_arrive"

    def thread_arrivals(self) -> int:
        return self.arrivals or _threads_around(self)


class ArriveThreadsOp(Op):
    """Each of the `threads` threads that run the code (0: the module's or partition's) arrives
    `count` times. The result is the parity of the phase that they arrive in."""

    name = "amdg.arrive_barrier"
    effects = (arrives("alloc"),)
    syntax = "$alloc, $count attrs : type(alloc) -> type(result)"
    alloc = operand()
    count = plain_i32_attr()
    threads = i32_attr(0)

    @classmethod
    def infer(
        cls, alloc: ir.Type, *, count: int, threads: int, result: ir.Type | None = None
    ) -> ir.Type:
        check_barrier(cls.name, alloc)
        if count < 1 or threads < 0:
            raise OpError(
                f"{cls.name}: count is {count}, of {threads} threads; 1 or more is required"
            )
        return ir.i32

    def most_arrivals(self) -> int:
        return self.count * (self.threads or _threads_around(self))

    def evaluate(self, context: Context, alloc: Buffer) -> Any:
        barrier = state_of(context).barrier(alloc)
        return np.int32(barrier.arrive(self.most_arrivals()))


class ClusterArriveOp(Op):
    """The workgroup has come here: the first part of a barrier of all workgroups of a cluster, of
    which `ClusterWaitOp` is the second. Others that have waited see what this one wrote before."""

    name = "amdg.cluster_barrier_arrive"
    effects = (reads(GLOBAL), writes(GLOBAL), arrives(), opaque(SHARED))
    syntax = "attrs"

    @classmethod
    def infer(cls) -> tuple[ir.Type, ...]:
        return ()

    def evaluate(self, context: Context) -> None:
        """The workgroups of a cluster are evaluated as one."""
        state_of(context).blocks_come()


class ClusterWaitOp(Op):
    """Wait until all workgroups of the cluster have come to their `ClusterArriveOp`."""

    name = "amdg.cluster_barrier_wait"
    effects = (reads(GLOBAL), writes(GLOBAL), waits(SHARED))
    syntax = "attrs"

    @classmethod
    def infer(cls) -> tuple[ir.Type, ...]:
        return ()

    def evaluate(self, context: Context) -> None:
        """The workgroups of a cluster are evaluated as one."""
        state_of(context).blocks_leave()
