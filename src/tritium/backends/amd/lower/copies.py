"""Copies from global memory to LDS that go on beside the program: through pointers, where buffers
do not reach, and waits.

`s_waitcnt` counts accesses of global memory, in the order in which they began, not groups of
copies: all but the newest n groups are done when no more accesses are under way than n times those
of the smallest group.
"""

from __future__ import annotations

from xdsl.ir import Operation

from tritium.analysis.regions import function_of
from tritium.backends.amd.lower.buffers import BufferAccess, copies_scope
from tritium.backends.amd.lower.hardware import AMDGPU
from tritium.backends.amd.lower.memory import AsyncToLDS
from tritium.backends.amd.processor import processor
from tritium.codegen.gpu.context import Context, layout_of
from tritium.codegen.gpu.memory.async_copy import async_copy, copy_groups
from tritium.codegen.gpu.memory.buffers import copy as buffer_copy
from tritium.codegen.gpu.memory.buffers import copy_by_warps, lane_groups, memory_of
from tritium.codegen.llvm.types import memory_bytes
from tritium.codegen.llvm.writer import Value
from tritium.codegen.registry import lowers
from tritium.ir import types as ir
from tritium.ir.layouts.encodings import WARP
from tritium.ops import ttgir
from tritium.ops.base import Op

_MOST = 63
_OTHERS = 7 << 4 | 15 << 8
"""The bits of the instruction's number that say not to wait for other counters."""
_COMMIT = ttgir.AsyncCommitGroupOp


@lowers(AMDGPU.name, ttgir.AsyncCopyGlobalToLocalOp)
def copy(c: Context, op: ttgir.AsyncCopyGlobalToLocalOp) -> None:
    """Copies of each lane, or of whole warps."""
    if isinstance(c.hardware.async_copies, AsyncToLDS):
        async_copy(c, op)
        return
    check_sizes(c, op, op.src.type, c.memory(op.result).type)
    assert isinstance(c.hardware.buffers, BufferAccess)
    c.hardware.buffers.copies = True

    def start(source: Value, first: Value, size: int) -> None:
        numbers, scope = [c.i32(size), c.i32(0), c.i32(0)], f", !alias.scope {copies_scope(c)}"
        c.f.call("void", "llvm.amdgcn.global.load.lds", source, first, *numbers, suffix=scope)

    copy_by_warps(c, op, start)


def check_sizes(c: Context, op: Op, tile: ir.Type, memory: ttgir.MemDescType) -> None:
    """Raise `NotImplementedError` for copies of other sizes than the processor's lanes make."""
    assert isinstance(c.hardware, AMDGPU)
    size = memory_bytes(memory.element_type) * len(lane_groups(tile, memory)[0])
    sizes = processor(c.hardware.arch).lane_copy_bytes
    if size not in sizes:
        allowed = " or ".join(map(str, sizes)) or "none"
        raise c.unsupported(
            op, f"copies of {size} bytes a lane; of {c.hardware.arch} they are {allowed}"
        )


@lowers(AMDGPU.name, ttgir.BufferLoadToLocalOp)
def copy_from_buffer(c: Context, op: ttgir.BufferLoadToLocalOp) -> None:
    """Asynchronous copies, as on other processors, in the sizes that AMD's lanes make."""
    if not isinstance(c.hardware.async_copies, AsyncToLDS):
        check_sizes(c, op, op.offsets.type, memory_of(op.dest))
    buffer_copy(c, op)


@lowers(AMDGPU.name, ttgir.AsyncWaitOp)
def wait(c: Context, op: ttgir.AsyncWaitOp) -> None:
    assert isinstance(c.hardware, AMDGPU)
    copies = c.hardware.async_copies
    if not processor(c.hardware.arch).lane_copy_bytes and not isinstance(copies, AsyncToLDS):
        raise c.unsupported(op, "there are no copies to LDS")
    least: int | None = None
    for block in {b.parent: None for b in function_of(op).walk() if isinstance(b, _COMMIT)}:
        count = 0
        for other in block.ops if block is not None else ():
            if isinstance(other, _COMMIT):
                least, count = count if least is None else min(least, count), 0
            else:
                count += _instructions(c, other)
    count = min(op.num * (least or 0), _MOST)
    if isinstance(copies, AsyncToLDS):
        copies.wait(c, count)
    else:
        code = count & 15 | count >> 4 << 14 | _OTHERS
        c.f.call("void", "llvm.amdgcn.s.waitcnt", c.i32(code))
    c.set(op.results[0], None)


def _instructions(c: Context, op: Operation) -> int:
    """The copies that an op starts in each wave at least: none where lanes are masked, as waves
    jump over what none of their lanes does."""
    if isinstance(op, ttgir.BufferLoadToLocalOp):
        return len(lane_groups(op.offsets.type, memory_of(op.dest)))
    if not isinstance(c.hardware.async_copies, AsyncToLDS):
        return 0
    if not isinstance(op, ttgir.ElementCopy) or op.mask is not None:
        return 0
    if layout_of(op.pointers.type).free_variables().get(WARP):
        return 0
    return len(copy_groups(c.axis_info, c.address_info, op))
