"""Products with priority over other instructions of the waves of a SIMD."""

from __future__ import annotations

from typing import Any

from tritium.backends.amd.lower.matmul import MatrixProducts
from tritium.backends.amd.matrix import MatrixCores
from tritium.codegen.gpu.context import Context
from tritium.codegen.llvm.writer import const

_PINGPONG_WARPS = 8
"""Two waves of a workgroup on each SIMD: while one multiplies, the other moves operands."""


class ScheduledProducts(MatrixProducts):
    """Priority for products: with `pingpong`, those in loops of eight waves have priority, and LLVM
    moves nothing into them or out of them."""

    def __init__(self, unit: MatrixCores, *, pingpong: bool):
        super().__init__(unit)
        self._pingpong = pingpong

    def multiply(self, c: Context, op: Any) -> None:
        in_loop = op.parent_op().is_loop
        if not (self._pingpong and in_loop and c.num_warps == _PINGPONG_WARPS):
            super().multiply(c, op)
            return
        order, priority = "llvm.amdgcn.sched.barrier", "llvm.amdgcn.s.setprio"
        c.f.call("void", order, c.i32(0))
        c.f.call("void", priority, const("i16", 1))
        super().multiply(c, op)
        c.f.call("void", priority, const("i16", 0))
        c.f.call("void", order, c.i32(0))
