"""Buffer loads and stores: a resource (base, size, format) in scalar registers and an offset a
lane. What is masked off gets an offset beyond the buffer's size, which reads zeros and writes
nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.ir import SSAValue

from tritium.backends.amd.lower.hardware import AMDGPU
from tritium.codegen.gpu.context import Context, layout_of
from tritium.codegen.gpu.emitter import bits_of, word_type
from tritium.codegen.gpu.memory.access import (
    MAX_BYTES,
    distinct_registers,
    from_memory,
    grouped,
    runs,
    to_memory,
)
from tritium.codegen.gpu.types import memory_type
from tritium.codegen.llvm.types import memory_bytes
from tritium.codegen.llvm.writer import Value, const
from tritium.codegen.registry import lowers
from tritium.ir.layouts.encodings import REGISTER
from tritium.ops import ttgir
from tritium.ops.ttir import CacheModifier

RESOURCE = "ptr addrspace(8)"
SIZE = 0x7FFFFFFE
"""Bytes of the buffer; offsets are not negative."""
BEYOND = 0x80000000 - (1 << 32)
_FORMATS = {"gfx9": 0x00020000, "gfx11": 0x31004000, "gfx12": 0x31004000}
"""The last word of a resource: raw bytes of 32 bits, offsets checked against the size."""
_CACHE = {CacheModifier.NONE: 0, CacheModifier.CA: 0, CacheModifier.WB: 0, CacheModifier.CG: 1,
          CacheModifier.CS: 2, CacheModifier.CV: 3, CacheModifier.WT: 3}  # fmt: skip
"""The bits glc and slc of the instruction."""


def _resource(c: Context, pointer: Value) -> Value:
    hardware = c.hardware
    assert isinstance(hardware, AMDGPU)
    words = next(word for prefix, word in _FORMATS.items() if hardware.arch.startswith(prefix))
    name = "llvm.amdgcn.make.buffer.rsrc.p8.p1"
    size, stride = const("i64", SIZE), const("i16", 0)
    return c.f.call(RESOURCE, name, pointer, stride, size, c.i32(words))


def _groups(c: Context, op: Any, type: Any) -> tuple[tuple[int, ...], ...]:
    """The registers that one instruction takes: neighbours, with one mask, that begin at a multiple
    of their number."""
    size, best = memory_bytes(type), list[int]()
    offsets, info = op.offsets, c.axis_info(op.offsets)
    aligned = c.axis_info(op.ptr).divisibility[0]
    for axis, bits in runs(offsets.type, MAX_BYTES // size):
        width = min(1 << len(bits), info.contiguity[axis])
        if op.mask is not None:
            width = min(width, c.axis_info(op.mask).constancy[axis])
        while width > 1 and (info.divisibility[axis] % width or aligned % min(width * size, 4)):
            width //= 2
        if width > 1 << len(best):
            best = bits[: width.bit_length() - 1]
    return grouped(distinct_registers(layout_of(offsets.type)), best)


def _offset(
    c: Context, offsets: Sequence[Value], register: int, size: int, condition: Value | None
) -> Value:
    place = c.f.op("mul", offsets[register], c.i32(size))
    return place if condition is None else c.f.select(condition, place, c.i32(BEYOND))


def _words(element: str, count: int) -> tuple[str, str]:
    """The LLVM type by which elements are moved, and its name in intrinsics."""
    word = word_type(element, count)
    word = "i32" if word == "i64" else word
    n = bits_of(element) * count // bits_of(word)
    return (word, word) if n == 1 else (f"<{n} x {word}>", f"v{n}{word}")


@lowers(AMDGPU.name, ttgir.BufferLoadOp)
def load(c: Context, op: Any) -> None:
    type = op.results[0].type
    element, size, aux = memory_type(type), memory_bytes(type), c.i32(_CACHE[op.cache])
    offsets, masks, others = (_tile(c, v) for v in (op.offsets, op.mask, op.other))
    assert offsets is not None
    resource, found = _resource(c, c.scalar(op.ptr)), dict[int, Value]()
    for group in _groups(c, op, type):
        mask = None if masks is None else masks[group[0]]
        place = _offset(c, offsets, group[0], size, mask)
        kind, name = _words(element, len(group))
        loaded = c.f.call(kind, f"llvm.amdgcn.raw.ptr.buffer.load.{name}", resource, place,
                          c.i32(0), aux)  # fmt: skip
        for register, value in zip(group, _parts(c, loaded, element, len(group)), strict=True):
            held = from_memory(c, value, type)
            if others is not None and mask is not None:
                held = c.f.select(mask, held, others[register])
            found[register] = held
    layout = layout_of(type)
    free = layout.free_variables().get(REGISTER, 0)
    c.set(op.results[0], [found[r & ~free] for r in range(layout.in_size(REGISTER))])


def _tile(c: Context, value: SSAValue | None) -> Sequence[Value] | None:
    return None if value is None else c.tile(value)


def _parts(c: Context, loaded: Value, element: str, count: int) -> list[Value]:
    if count == 1:
        return [c.f.cast("bitcast", loaded, element) if loaded.type != element else loaded]
    vector = c.f.cast("bitcast", loaded, f"<{count} x {element}>")
    return [c.f.extract(vector, lane) for lane in range(count)]


@lowers(AMDGPU.name, ttgir.BufferStoreOp)
def store(c: Context, op: Any) -> None:
    type, values, offsets = op.value.type, c.tile(op.value), c.tile(op.offsets)
    masks, owner = _tile(c, op.mask), c.owner(layout_of(op.offsets.type), of_program=True)
    element, size, aux = memory_type(type), memory_bytes(type), c.i32(_CACHE[op.cache])
    resource = _resource(c, c.scalar(op.ptr))
    for group in _groups(c, op, type):
        condition = owner if masks is None else masks[group[0]]
        if masks is not None and owner is not None:
            condition = c.f.op("and", owner, masks[group[0]])
        kind, name = _words(element, len(group))
        parts = [to_memory(c, values[r]) for r in group]
        word = _joined(c, parts, kind)
        place = _offset(c, offsets, group[0], size, condition)
        c.f.call("void", f"llvm.amdgcn.raw.ptr.buffer.store.{name}", word, resource, place,
                 c.i32(0), aux)  # fmt: skip


def _joined(c: Context, parts: list[Value], kind: str) -> Value:
    if len(parts) == 1:
        return c.as_type(parts[0], kind) if kind[0] != "<" else c.f.cast("bitcast", parts[0], kind)
    vector = Value(f"<{len(parts)} x {parts[0].type}>", "poison")
    for lane, value in enumerate(parts):
        vector = c.f.insert(vector, value, lane)
    return vector if vector.type == kind else c.f.cast("bitcast", vector, kind)
