"""Atomic operations on memory that other threads see: of scalars, and of tiles element by element.

A program is one thread's work, so nobody can come between the operations of `scope="cta"`: they
are ordinary loads and stores, as are those of an exclusive launch (`tiles/version.py`). Blocks of
consecutive addresses are `runs`'s.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from tritium.backends.cpu.lower.access import store_buffer, zeros
from tritium.backends.cpu.lower.context import Context
from tritium.backends.cpu.lower.elementwise.arithmetic import in_float
from tritium.backends.cpu.lower.emitter import At, Emitter
from tritium.backends.cpu.lower.types import value_type
from tritium.backends.cpu.lower.values import Uniform
from tritium.codegen.llvm.types import ORDERS, memory_bytes
from tritium.codegen.llvm.writer import BITS_OF, FLOAT_TYPES, Value, const
from tritium.codegen.registry import lowers
from tritium.ops.ttir.atomic import (
    AtomicCASOp,
    AtomicKind,
    AtomicOp,
    AtomicRMWOp,
    AtomicUpdate,
    MemScope,
    MemSemantic,
)

FAILURE = {
    MemSemantic.RELAXED: "monotonic", MemSemantic.ACQUIRE: "acquire",
    MemSemantic.RELEASE: "monotonic", MemSemantic.ACQUIRE_RELEASE: "acquire",
}  # fmt: skip
_OPCODES = {
    AtomicKind.ADD: "add", AtomicKind.AND: "and", AtomicKind.OR: "or", AtomicKind.XOR: "xor",
}  # fmt: skip
_INTRINSICS = {
    AtomicKind.MAX: "smax", AtomicKind.MIN: "smin", AtomicKind.UMAX: "umax",
    AtomicKind.UMIN: "umin",
}  # fmt: skip
_SETTLING = frozenset({*_INTRINSICS, AtomicKind.AND, AtomicKind.OR})
_RELEASING = frozenset({MemSemantic.RELEASE, MemSemantic.ACQUIRE_RELEASE})


def private(c: Context, op: AtomicOp) -> bool:
    """True if only this program takes part, in the code that is being written: in exclusive
    launches, with the default scope, which covers the kernels of this process only (PTX ISA,
    "Scope": "the current program"); `scope="sys"`, which covers the host and other processes, is
    always locked."""
    return op.scope is MemScope.CTA or (c.exclusive and op.scope is MemScope.GPU)


def combined(c: Context, kind: AtomicKind, old: Value, value: Value) -> Value:
    """The new value of memory after the operation; scalars or vectors."""
    if kind is AtomicKind.XCHG:
        return value
    if kind is AtomicKind.FADD:
        return in_float(c, (old, value), partial(c.f.op, "fadd"))
    if kind in _OPCODES:
        return c.f.op(_OPCODES[kind], old, value)
    return c.f.intrinsic(_INTRINSICS[kind], old, value)


def settles(c: Context, op: AtomicUpdate) -> bool:
    """True if elements that would not change are to be looked at only (maxima, mostly): a locked
    instruction takes ten times as long as a load.

    On x86 only: there a fence before the load stands for the barrier that a locked instruction is
    (H. Boehm, Can seqlocks get along with programming language memory models?, HPL-2012-68), while
    on AArch64 another thread's later accesses may pass the write of its own exchange.
    """
    return c.processor.architecture == "x86_64" and op.atomic_rmw_op in _SETTLING


def looks_first(c: Context, op: AtomicUpdate) -> bool:
    """True if elements are to be looked at. Where no locked instruction is saved, that still saves
    the branches of a mask, which is often as good as random."""
    return settles(c, op) and not (private(c, op) and op.mask is None)


def fence(e: Emitter, op: AtomicUpdate) -> None:
    """Emit, before the whole tile, the memory barrier that plain reads of elements lack."""
    if private(e.context, op):
        return
    if op.sem in _RELEASING and e.known("atomic fence") is None:
        e.remember("atomic fence", 0, True)
        e.at_level(0, e.f.line, "fence seq_cst")


def check_supported(c: Context, op: AtomicUpdate) -> None:
    """Raises NotImplementedError."""
    type = value_type(op.val.type)
    if type == "i1":
        raise c.unsupported(op, " on i1")
    if type == "ptr":
        raise c.unsupported(op, " on pointers")
    if op.atomic_rmw_op is AtomicKind.FADD and type not in FLOAT_TYPES:
        raise c.unsupported(op, " on 8-bit floats")


def write_rmw(c: Context, op: AtomicUpdate, pointer: Value, value: Value) -> Value:
    """One element, active; what memory held."""
    f, align = c.f, memory_bytes(op.val.type)
    if private(c, op):
        old = f.load(value.type, pointer, align)
        f.store(combined(c, op.atomic_rmw_op, old, value), pointer, align)
        return old
    if op.atomic_rmw_op is AtomicKind.FADD and value.type in BITS_OF.values():
        return _add_by_exchange(c, op, pointer, value)
    kind = op.atomic_rmw_op.name.lower()
    text = f"atomicrmw {kind} {pointer}, {value} {ORDERS[op.sem]}, align {align}"
    return f.emit(value.type, text)


def _add_by_exchange(c: Context, op: AtomicUpdate, pointer: Value, value: Value) -> Value:
    """Add 16-bit floats, for which no processor has an instruction: compare and exchange, again if
    another thread has written in between."""
    f, type, align = c.f, value.type, memory_bytes(op.val.type)
    first = f.emit(type, f"load atomic {type}, {pointer} monotonic, align {align}")
    again, done, before = f.new_label("again"), f.new_label("added"), f.block
    f.branch(again)
    f.label(again)
    old = f.phi(type, [(first, before)])
    total = combined(c, AtomicKind.FADD, old.value, value)
    pair = f"{{ {type}, i1 }}"
    order = f"{ORDERS[op.sem]} {FAILURE[op.sem]}"
    text = f"cmpxchg {pointer}, {old.value}, {total} {order}, align {align}"
    result = f.emit(pair, text)
    found = f.emit(type, f"extractvalue {pair} {result.ref}, 0")
    stored = f.emit("i1", f"extractvalue {pair} {result.ref}, 1")
    old.add(found, f.block)
    f.branch_if(stored, done, again)
    f.label(done)
    return found


def write_settling(
    c: Context, op: AtomicUpdate, pointer: Value, value: Value, mask: Value | None
) -> Value:
    """Execute an operation that `settles`, behind a `fence`: load, and write only what changes. The
    mask takes no branch, because masks are often as good as random (half of the numbers are
    negative)."""
    f, align, order = c.f, memory_bytes(op.val.type), FAILURE[op.sem]
    place = pointer if mask is None else f.select(mask, pointer, zeros(f))
    found = f.emit(value.type, f"load atomic {value.type}, {place} {order}, align {align}")
    change = f.op("xor", combined(c, op.atomic_rmw_op, found, value), found)
    if mask is not None:  # of two conditions LLVM would make two branches
        change = f.op("and", change, f.cast("sext", mask, change.type))
    changes = f.icmp("ne", change, const(change.type, 0))
    return f.choose(changes, found, partial(write_rmw, c, op, pointer, value), "atomic")


def _write_cas(c: Context, op: AtomicCASOp, pointer: Value, expected: Value, new: Value) -> Value:
    """One element; what memory held. `expected` and `new` are compared and written as integers."""
    f, type, align = c.f, new.type, memory_bytes(op.val.type)
    order = f"{ORDERS[op.sem]} {FAILURE[op.sem]}"
    pair = f"{{ {type}, i1 }}"
    result = f.emit(pair, f"cmpxchg {pointer}, {expected}, {new} {order}, align {align}")
    return f.emit(type, f"extractvalue {pair} {result.ref}, 0")


def _cas(
    c: Context, op: AtomicCASOp, pointer: Value, expected: Value, new: Value, look: bool
) -> Value:
    """Compare and swap. With `look`, a load comes first: one that finds another number is all
    that a swap which fails would have been."""
    f, type, align = c.f, new.type, memory_bytes(op.val.type)
    if type in FLOAT_TYPES:
        bits = f"i{8 * align}"
        expected, new = f.cast("bitcast", expected, bits), f.cast("bitcast", new, bits)
    if private(c, op):
        found = f.load(new.type, pointer, align)
        swap = partial(_write_plain, c, pointer, found, new, align)
        old = f.choose(f.icmp("eq", found, expected), found, swap, "atomic")
    elif look:
        order = FAILURE[op.sem]
        found = f.emit(new.type, f"load atomic {new.type}, {pointer} {order}, align {align}")
        swap = partial(_write_cas, c, op, pointer, expected, new)
        old = f.choose(f.icmp("eq", found, expected), found, swap, "atomic")
    else:
        old = _write_cas(c, op, pointer, expected, new)
    return f.cast("bitcast", old, type) if type in FLOAT_TYPES else old


def _write_plain(c: Context, pointer: Value, old: Value, new: Value, align: int) -> Value:
    c.f.store(new, pointer, align)
    return old


def masked(c: Context, mask: Value | None, type: str, write: Callable[[], Value]) -> Value:
    """`write()` where the mask is true; else zero."""
    if mask is None or mask.ref == "true":
        return write()
    return c.f.choose(mask, const(type, 0), write, "atomic")


@lowers("cpu.scalar", AtomicRMWOp)
def rmw_scalar(c: Context, op: AtomicUpdate, pointer: Value, value: Value, *mask: Value) -> Value:
    check_supported(c, op)
    write = partial(write_rmw, c, op, pointer, value)
    return masked(c, mask[0] if mask else None, value.type, write)


@lowers("cpu.scalar", AtomicCASOp)
def cas_scalar(c: Context, op: AtomicCASOp, pointer: Value, expected: Value, new: Value) -> Value:
    return _cas(c, op, pointer, expected, new, look=False)


def element(e: Emitter, value: Any, at: At) -> Value:
    """One element of a tile, or a scalar."""
    found = e.emit(value, at)
    assert isinstance(found, Uniform)
    return found.value


def element_operands(e: Emitter, op: AtomicUpdate, at: At) -> tuple[Value, Value, Value | None]:
    """Address, value and mask of an element (None: it is active)."""
    pointer, value = element(e, op.ptr, at), element(e, op.val, at)
    mask = None if op.mask is None else element(e, op.mask, at)
    return pointer, value, None if mask is None or mask.ref == "true" else mask


def rmw(e: Emitter, op: AtomicUpdate, at: At) -> None:
    """One element of a tile."""
    c = e.context
    check_supported(c, op)
    pointer, value, mask = element_operands(e, op, at)
    if looks_first(c, op):
        fence(e, op)
        old = write_settling(c, op, pointer, value, mask)
    else:
        old = masked(c, mask, value.type, partial(write_rmw, c, op, pointer, value))
    keep(e, op, at, old)


@lowers("cpu.scalarized", AtomicCASOp)
def cas(e: Emitter, op: AtomicCASOp, at: At) -> None:
    pointer, expected, new = (element(e, v, at) for v in (op.ptr, op.cmp, op.val))
    keep(e, op, at, _cas(e.context, op, pointer, expected, new, look=True))


def keep(e: Emitter, op: AtomicOp, at: At, old: Value) -> None:
    """Write the result for an element, where it has a buffer."""
    buffer = e.context.function.buffers.get(op.result)
    if buffer is not None:
        store_buffer(e, buffer, at, Uniform(old, e.depth))
