"""Atomic operations, element by element, on memory that other threads see."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tritium.backends.cpu.lower.access import store_buffer
from tritium.backends.cpu.lower.context import Context
from tritium.backends.cpu.lower.emitter import At, Emitter
from tritium.backends.cpu.lower.types import memory_bytes
from tritium.backends.cpu.lower.values import Uniform
from tritium.backends.cpu.tiles.ir import Root
from tritium.lowering.llvm import FLOAT_TYPES, Value, const
from tritium.lowering.registry import lowers
from tritium.ops.ttir.atomic import AtomicCASOp, AtomicKind, AtomicRMWOp, MemSemantic

_ORDER = {
    MemSemantic.RELAXED: "monotonic", MemSemantic.ACQUIRE: "acquire",
    MemSemantic.RELEASE: "release", MemSemantic.ACQUIRE_RELEASE: "acq_rel",
}  # fmt: skip
_FAILURE = {
    MemSemantic.RELAXED: "monotonic", MemSemantic.ACQUIRE: "acquire",
    MemSemantic.RELEASE: "monotonic", MemSemantic.ACQUIRE_RELEASE: "acquire",
}  # fmt: skip


def _write_rmw(c: Context, op: AtomicRMWOp, pointer: Value, value: Value) -> Value:
    kind = op.atomic_rmw_op.name.lower()
    align = memory_bytes(op.val.type)
    if value.type == "i1":
        raise c.unsupported(op, " on i1")
    if value.type == "ptr":
        raise c.unsupported(op, " on pointers")
    if op.atomic_rmw_op is AtomicKind.FADD and value.type not in FLOAT_TYPES:
        raise c.unsupported(op, " on 8-bit floats")
    text = f"atomicrmw {kind} {pointer}, {value} {_ORDER[op.sem]}, align {align}"
    return c.f.emit(value.type, text)


def _write_cas(c: Context, op: AtomicCASOp, pointer: Value, expected: Value, new: Value) -> Value:
    f, type = c.f, new.type
    align = memory_bytes(op.val.type)
    if type in FLOAT_TYPES:
        bits = f"i{8 * align}"
        expected, new = f.cast("bitcast", expected, bits), f.cast("bitcast", new, bits)
    order = f"{_ORDER[op.sem]} {_FAILURE[op.sem]}"
    pair = f"{{ {new.type}, i1 }}"
    result = f.emit(pair, f"cmpxchg {pointer}, {expected}, {new} {order}, align {align}")
    old = f.emit(new.type, f"extractvalue {pair} {result.ref}, 0")
    return f.cast("bitcast", old, type) if type in FLOAT_TYPES else old


def _masked(c: Context, mask: Value | None, type: str, write: Callable[[], Value]) -> Value:
    """`write()` where the mask is true; else zero."""
    if mask is None or mask.ref == "true":
        return write()
    f = c.f
    before, then, done = f.block, f.new_label("atomic"), f.new_label("done")
    f.branch_if(mask, then, done)
    f.label(then)
    old = write()
    last = f.block
    f.branch(done)
    f.label(done)
    return f.phi(type, [(old, last), (const(type, 0), before)]).value


@lowers("cpu.scalar", AtomicRMWOp)
def rmw_scalar(c: Context, op: AtomicRMWOp, pointer: Value, value: Value, *mask: Value) -> Value:
    return _masked(
        c, mask[0] if mask else None, value.type, lambda: _write_rmw(c, op, pointer, value)
    )


@lowers("cpu.scalar", AtomicCASOp)
def cas_scalar(c: Context, op: AtomicCASOp, pointer: Value, expected: Value, new: Value) -> Value:
    return _write_cas(c, op, pointer, expected, new)


def _element(e: Emitter, value: Any, at: At) -> Value:
    found = e.emit(value, at)
    assert isinstance(found, Uniform)
    return found.value


@lowers("cpu.each", AtomicRMWOp)
def rmw(e: Emitter, op: AtomicRMWOp, root: Root, at: At) -> None:
    pointer, value = _element(e, op.ptr, at), _element(e, op.val, at)
    mask = None if op.mask is None else _element(e, op.mask, at)
    c = e.context
    old = _masked(c, mask, value.type, lambda: _write_rmw(c, op, pointer, value))
    _keep(e, root, at, old)


@lowers("cpu.each", AtomicCASOp)
def cas(e: Emitter, op: AtomicCASOp, root: Root, at: At) -> None:
    pointer, expected, new = (_element(e, v, at) for v in (op.ptr, op.cmp, op.val))
    _keep(e, root, at, _write_cas(e.context, op, pointer, expected, new))


def _keep(e: Emitter, root: Root, at: At, old: Value) -> None:
    buffer = root.buffers[0] if root.buffers else None
    if buffer is not None:
        store_buffer(e, buffer, at, Uniform(old, e.depth))
