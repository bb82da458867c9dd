"""Atomic operations of tiles in exclusive launches (`pool_writer`): plain loads and stores, as in
`scope="cta"`, because no other thread runs a program.

The default scope covers the kernels of this process only (PTX ISA, "Scope": "the current
program"); `scope="sys"`, which covers the host and other processes, is always locked.
"""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp

from tritium.backends.cpu.lower.context import Context
from tritium.backends.cpu.tiles.ir import Nest
from tritium.ir import types as ir
from tritium.ops import cf, scf
from tritium.ops.ttir.atomic import AtomicOp, AtomicPollOp, MemScope
from tritium.ops.ttir.extern import ElementwiseInlineAsmOp

_WAITING = (AtomicPollOp, scf.WhileOp, cf.BranchOp, cf.CondBranchOp, ElementwiseInlineAsmOp)
"""Ops with which a program may wait for another one."""


def may_wait(module: ModuleOp) -> bool:
    """Whether it is not certain that a kernel ends without another one."""
    return any(isinstance(op, _WAITING) for op in module.walk())


def has_use(module: ModuleOp) -> bool:
    """Whether an exclusive launch of a kernel is faster, if the kernel waits for no other."""
    return any(_gains(op) for op in module.walk())


def gains(c: Context, nest: Nest) -> bool:
    """Whether a nest is worth a version for exclusive launches."""
    return c.may_be_exclusive and any(_gains(root) for root in nest.roots)


def _gains(op: object) -> bool:
    if not isinstance(op, AtomicOp) or op.scope is not MemScope.GPU:
        return False
    return op.updates and isinstance(op.ptr.type, ir.TensorType)


def private(c: Context, op: AtomicOp) -> bool:
    """Whether only this program takes part, in the code that is being written."""
    return op.scope is MemScope.CTA or (c.exclusive and op.scope is MemScope.GPU)
