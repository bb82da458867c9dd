"""Copies from global memory to LDS that go on beside the program: through pointers, where buffers
do not reach, and waits.

`s_waitcnt` counts accesses of global memory, in the order in which they began, not groups of
copies: all but the newest n groups are done when no more accesses are under way than n times those
of the smallest group.
"""

from __future__ import annotations

from tritium.backends.amd.lower.buffers import BufferAccess, copies_scope
from tritium.backends.amd.lower.hardware import AMDGPU
from tritium.backends.amd.processor import processor
from tritium.codegen.gpu.context import Context
from tritium.codegen.gpu.memory.async_copy import are_zero
from tritium.codegen.gpu.memory.buffers import lane_groups, lane_places, memory_of
from tritium.codegen.gpu.types import memory_type
from tritium.codegen.llvm.types import memory_bytes
from tritium.codegen.llvm.writer import Value, const
from tritium.codegen.registry import lowers
from tritium.ops import ttgir, ttir

_MOST = 63
_OTHERS = 7 << 4 | 15 << 8
"""Of the instruction's number: not to wait for other counters."""
_COMMIT = ttgir.AsyncCommitGroupOp


@lowers(AMDGPU.name, ttgir.AsyncCopyGlobalToLocalOp)
def copy(c: Context, op: ttgir.AsyncCopyGlobalToLocalOp) -> None:
    """A lane whose mask is false writes zeros itself."""
    pointers, masks = c.tile(op.src), None if op.mask is None else c.tile(op.mask)
    if op.other is not None and not are_zero(c.tile(op.other)):
        raise c.unsupported(op, "filling in other numbers than zero")
    kind = c.memory(op.result).type.element_type
    size, element, name = memory_bytes(kind), memory_type(kind), "llvm.amdgcn.global.load.lds"
    assert isinstance(c.hardware.buffers, BufferAccess)
    c.hardware.buffers.copies = True
    for group, first in lane_places(c, op, op.src.type, op.result):
        count, source = len(group), pointers[group[0]]

        def start(first: Value = first, source: Value = source, count: int = count) -> list[Value]:
            numbers = [c.i32(size * count), c.i32(0), c.i32(0)]
            c.f.module.declare(name, "void", [source.type, first.type, *["i32"] * 3])
            passed = ", ".join(map(str, (source, first, *numbers)))
            c.f.line(f"call void @{name}({passed}), !alias.scope {copies_scope(c)}")
            return []

        mask = None if masks is None else masks[group[0]]
        c.f.choose_all(mask, [], start)
        if mask is not None:
            place = c.f.op("mul", c.lane, c.i32(size * count))
            unset = c.f.op("xor", mask, const("i1", 1))
            zeros = [Value(element, "zeroinitializer")] * count
            c.hardware.shared.store(c, c.byte_offset(first, place), zeros, unset)
    c.set(op.results[0], None)


@lowers(AMDGPU.name, ttgir.AsyncWaitOp)
def wait(c: Context, op: ttgir.AsyncWaitOp) -> None:
    assert isinstance(c.hardware, AMDGPU)
    if not processor(c.hardware.arch).lane_copy_bytes:
        raise c.unsupported(op, "there are no copies to LDS")
    function = op.parent_op()
    while function is not None and not isinstance(function, ttir.FuncOp):
        function = function.parent_op()
    assert function is not None
    least: int | None = None
    for block in {b.parent: None for b in function.walk() if isinstance(b, _COMMIT)}:
        count = 0
        for other in block.ops if block is not None else ():
            if isinstance(other, ttgir.BufferLoadToLocalOp):
                count += len(lane_groups(other.offsets.type, memory_of(other.dest)))
            elif isinstance(other, _COMMIT):
                least, count = count if least is None else min(least, count), 0
    count = min(op.num * (least or 0), _MOST)
    c.f.call("void", "llvm.amdgcn.s.waitcnt", c.i32(count & 15 | count >> 4 << 14 | _OTHERS))
    c.set(op.results[0], None)
