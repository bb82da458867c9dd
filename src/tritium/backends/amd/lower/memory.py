"""Global memory, LDS and atomics of AMD GPUs, by LLVM's own instructions."""

from __future__ import annotations

from typing import Any, ClassVar

from tritium.backends.amd.lower.buffers import BufferAccess, copies_scope
from tritium.codegen.gpu.emitter import Emitter
from tritium.codegen.gpu.hardware import AsyncCopies, Caching
from tritium.codegen.gpu.memory.llvm_accesses import LLVMGlobalMemory, LLVMSharedMemory
from tritium.codegen.gpu.memory.llvm_atomics import LLVMAtomics
from tritium.codegen.llvm.writer import Value, const
from tritium.ops.ttir import CacheModifier, EvictionPolicy, MemScope
from tritium.passes.ttgir.coalesce import atomic_width
from tritium.target import Processor

_STREAMING = (CacheModifier.CG, CacheModifier.CS)
_UNCACHED = (CacheModifier.CV, CacheModifier.WT)
_NANOSECONDS_PER_TICK = 10


class GlobalAccess(LLVMGlobalMemory):
    """`.cg` and `.cs` are not temporal, `.cv` and `.wt` go past the caches."""

    def flags(self, e: Emitter, caching: Caching) -> tuple[str, str]:
        volatile = caching.volatile or caching.modifier in _UNCACHED
        streams = caching.modifier in _STREAMING or caching.eviction is EvictionPolicy.EVICT_FIRST
        metadata = f", !nontemporal {e.f.module.add_metadata('!{i32 1}')}" if streams else ""
        return "volatile " if volatile else "", metadata


class LocalMemory(LLVMSharedMemory):
    """LDS, to which `buffers` may copy."""

    scope = 'syncscope("workgroup") '

    def __init__(self, buffers: BufferAccess):
        self._buffers = buffers

    def read_metadata(self, e: Emitter) -> str:
        return f", !noalias {copies_scope(e)}" if self._buffers.copies else ""


class AsyncToLDS(AsyncCopies):
    """Copies of gfx1250 to places of each lane, of 4 to 16 bytes, and from them, of `stored_bytes`;
    `ASYNCcnt` counts instructions, not groups (see `copies`)."""

    stored_bytes: ClassVar = (1, 4, 8, 16)
    least_bytes, fills = 4, False

    def copy(
        self, e: Emitter, to: Value, source: Value, size: int, filled: Value | None, keep: bool,
        condition: Value | None,
    ) -> None:  # fmt: skip
        with e.f.where(condition):
            name = f"llvm.amdgcn.global.load.async.to.lds.b{8 * size}"
            e.f.call("void", name, source, to, e.i32(0), e.i32(0))

    def store(
        self, e: Emitter, to: Value, source: Value, size: int, condition: Value | None
    ) -> None:
        name = f"llvm.amdgcn.global.store.async.from.lds.b{8 * size}"
        with e.f.where(condition):
            e.f.call("void", name, to, source, e.i32(0), e.i32(0))

    def wait(self, e: Emitter, pending: int) -> None:
        """Wait until at most `pending` copies are under way."""
        e.f.call("void", "llvm.amdgcn.s.wait.asynccnt", const("i16", pending))


class GlobalAtomics(LLVMAtomics):
    """LLVM's instructions, with scopes. Memory is assumed to be on the device itself, where
    additions of floats are instructions."""

    SCOPES: ClassVar = {MemScope.GPU: "agent", MemScope.CTA: "workgroup"}

    def __init__(self, processor: Processor):
        self._processor = processor

    def width(self, op: Any) -> int:
        return atomic_width(op, self._processor)

    def sum_metadata(self, e: Emitter) -> str:
        empty = e.f.module.add_metadata("!{}")
        names = ("no.fine.grained.memory", "no.remote.memory", "ignore.denormal.mode")
        return "".join(f", !amdgpu.{name} {empty}" for name in names)

    def nanoseconds(self, e: Emitter) -> Value:
        ticks = e.f.call("i64", "llvm.readsteadycounter")
        return e.f.op("mul", ticks, const("i64", _NANOSECONDS_PER_TICK))
