"""Buffer instructions: a resource (base, size, format) in scalar registers and an offset a lane."""

from __future__ import annotations

from collections.abc import Sequence

from tritium.backends.amd.processor import processor
from tritium.codegen.gpu.emitter import Emitter, bits_of, word_type
from tritium.codegen.gpu.hardware import Caching, Order
from tritium.codegen.gpu.memory.llvm_atomics import UPDATES
from tritium.codegen.llvm.writer import Value, const
from tritium.ops.ttir import AtomicKind, CacheModifier, EvictionPolicy, MemScope

_RESOURCE = "ptr addrspace(8)"
_FORMATS = {"gfx9": 0x00020000, "gfx11": 0x31004000, "gfx12": 0x31004000}
"""The last word of a resource: raw bytes of 32 bits, offsets checked against the size."""
_STREAMING = {"gfx12": 1}
_UNCACHED = {"gfx12": 3 | 3 << 3, "gfx11": 1 | 4, "gfx90a": 1, "gfx9": 1 | 16}
"""The cache policy of instructions: not temporal (slc, nt), and visible to the whole system (glc,
dlc; sc0, sc1; scope)."""

_UPDATES = {
    **UPDATES, AtomicKind.MAX: "smax", AtomicKind.MIN: "smin", AtomicKind.XCHG: "swap",
}  # fmt: skip


class BufferAccess:
    """Buffer instructions of a processor. `copies`: whether there was a copy to LDS."""

    def __init__(self, arch: str):
        self.atomics = processor(arch).buffer_atomics
        self._format = _by_prefix(_FORMATS, arch, 0)
        streaming, uncached = _by_prefix(_STREAMING, arch, 2), _by_prefix(_UNCACHED, arch, 0)
        self._policies = {CacheModifier.CG: streaming, CacheModifier.CS: streaming,
                          CacheModifier.CV: uncached, CacheModifier.WT: uncached}  # fmt: skip
        self._streaming, self.copies = streaming, False

    def resource(self, e: Emitter, start: Value, size: int) -> Value:
        name = "llvm.amdgcn.make.buffer.rsrc.p8.p1"
        stride, length = const("i16", 0), const("i64", size)
        return e.f.call(_RESOURCE, name, start, stride, length, e.i32(self._format))

    def _policy(self, e: Emitter, caching: Caching) -> Value:
        first = caching.eviction is EvictionPolicy.EVICT_FIRST
        return e.i32(self._policies.get(caching.modifier, self._streaming if first else 0))

    def load(
        self, e: Emitter, resource: Value, offset: Value, element: str, count: int, caching: Caching
    ) -> list[Value]:
        kind, name = _words(element, count)
        loaded = e.f.call(kind, f"llvm.amdgcn.raw.ptr.buffer.load.{name}", resource, offset,
                          e.i32(0), self._policy(e, caching))  # fmt: skip
        if count == 1:
            return [e.as_type(loaded, element)]
        vector = e.f.cast("bitcast", loaded, f"<{count} x {element}>")
        return [e.f.extract(vector, lane) for lane in range(count)]

    def store(
        self, e: Emitter, resource: Value, offset: Value, parts: Sequence[Value], caching: Caching
    ) -> None:
        kind, name = _words(parts[0].type, len(parts))
        value = e.as_type(e.vector(parts), kind)
        e.f.call("void", f"llvm.amdgcn.raw.ptr.buffer.store.{name}", value, resource, offset,
                 e.i32(0), self._policy(e, caching))  # fmt: skip

    def copy(
        self, e: Emitter, resource: Value, offset: Value, to: Value, size: int, caching: Caching
    ) -> None:
        name = "llvm.amdgcn.raw.ptr.buffer.load.lds"
        numbers = [e.i32(size), offset, e.i32(0), e.i32(0), self._policy(e, caching)]
        scope = f", !alias.scope {copies_scope(e)}"
        e.f.call("void", name, resource, to, *numbers, suffix=scope)
        self.copies = True

    def update(
        self, e: Emitter, kind: AtomicKind, resource: Value, offset: Value, operand: Value
    ) -> Value:
        adds = kind is AtomicKind.FADD
        number = f"{'f' if adds else 'i'}{bits_of(operand.type)}"
        value = operand if adds else e.as_type(operand, number)
        return self._atomic(e, f"{_UPDATES[kind]}.{number}", resource, offset, operand.type, value)

    def compare_and_swap(
        self, e: Emitter, resource: Value, offset: Value, expected: Value, new: Value
    ) -> Value:
        number = f"i{bits_of(new.type)}"
        values = [e.as_type(v, number) for v in (new, expected)]
        return self._atomic(e, f"cmpswap.{number}", resource, offset, new.type, *values)

    @staticmethod
    def _atomic(
        e: Emitter, name: str, resource: Value, offset: Value, type: str, *values: Value
    ) -> Value:
        place = resource, offset, e.i32(0), e.i32(0)
        name = f"llvm.amdgcn.raw.ptr.buffer.atomic.{name}"
        return e.as_type(e.f.call(values[0].type, name, *values, *place), type)

    def fence(self, e: Emitter, order: Order, *, release: bool) -> None:
        scope = "workgroup" if order.scope is MemScope.CTA else "agent"
        e.f.line(f'fence syncscope("{scope}") {"release" if release else "acquire"}')


def copies_scope(e: Emitter) -> str:
    """The alias scope of copies to LDS. LLVM lets loads wait for all copies under way but for those
    that they are said not to alias: those that the program has not waited for."""
    domain = e.f.module.add_metadata('!{!"tritium.amd"}')
    scope = e.f.module.add_metadata(f'!{{!"tritium.copies", {domain}}}')
    return e.f.module.add_metadata(f"!{{{scope}}}")


def _by_prefix(table: dict[str, int], arch: str, default: int) -> int:
    return next((number for prefix, number in table.items() if arch.startswith(prefix)), default)


def _words(element: str, count: int) -> tuple[str, str]:
    """The LLVM type by which elements are moved, and its name in intrinsics."""
    word = word_type(element, count)
    word = "i32" if word == "i64" else word
    n = bits_of(element) * count // bits_of(word)
    return (word, word) if n == 1 else (f"<{n} x {word}>", f"v{n}{word}")
