"""Atomic operations of tiles in launches that are alone (`pool_writer`): as in `scope="cta"`,
nobody can come between.

What other kernels of this process do is all that the default scope is about (PTX ISA, "Scope":
"the current program"); `scope="sys"`, which the host and other processes see, is always locked.
"""

from __future__ import annotations

from tritium.backends.cpu.lower.context import Context
from tritium.backends.cpu.tiles.ir import Nest
from tritium.backends.cpu.tiles.program import TileProgram
from tritium.ir import types as ir
from tritium.ops import cf, scf
from tritium.ops.ttir.atomic import AtomicCASOp, AtomicOp, AtomicPollOp, AtomicRMWOp, MemScope
from tritium.ops.ttir.extern import ElementwiseInlineAsmOp

_WAITING = (AtomicPollOp, scf.WhileOp, cf.BranchOp, cf.CondBranchOp, ElementwiseInlineAsmOp)
"""Ops with which a program may wait for another one."""


def may_wait(program: TileProgram) -> bool:
    """Whether it is not certain that a kernel ends without another one."""
    return any(isinstance(op, _WAITING) for op in program.module.walk())


def has_use(program: TileProgram) -> bool:
    """Whether a kernel that waits for none gains by being alone."""
    return any(_gains(op) for op in program.module.walk())


def gains(c: Context, nest: Nest) -> bool:
    """Whether a nest is worth a version for launches that are alone."""
    return c.may_be_alone and any(_gains(root.op) for root in nest.roots)


def _gains(op: object) -> bool:
    if not isinstance(op, (AtomicRMWOp, AtomicCASOp)) or op.scope is not MemScope.GPU:
        return False
    return isinstance(op.val.type, ir.TensorType)


def private(c: Context, op: AtomicOp) -> bool:
    """Whether only this program takes part, in the code that is being written."""
    return op.scope is MemScope.CTA or (c.alone and op.scope is MemScope.GPU)
