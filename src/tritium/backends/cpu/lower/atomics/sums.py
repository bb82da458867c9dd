"""Sums by address, before they are added to memory: what goes to one address is added once.

For atomic additions of a long tile whose old values nobody wants. If many of its first addresses
are the same (histograms, gradients of embeddings, sums by group), each sum is kept in a slot of a
small table that its address picks; a slot that another address needs is emptied into memory. An
addition to a slot takes a third of the time of a locked instruction, and a tenth of one on an
address that other threads add to as well. Where addresses differ, every element goes to memory
itself: finding out that there is nothing to add up would cost more than it saves.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tritium.backends.cpu.lower.access import inlined
from tritium.backends.cpu.lower.atomics.operations import (
    combined,
    element_operands,
    private,
    rmw,
    write_rmw,
)
from tritium.backends.cpu.lower.atomics.runs import rmw_chunk, scalarized_shape
from tritium.backends.cpu.lower.context import EXCLUSIVE, Context, either
from tritium.backends.cpu.lower.emitter import At, Emitter
from tritium.backends.cpu.lower.types import value_type
from tritium.backends.cpu.lower.values import ZERO, Index, Kind
from tritium.backends.cpu.tiles.ir import Nest, Shape
from tritium.codegen.llvm.types import memory_bytes
from tritium.codegen.llvm.writer import FLOAT_TYPES, Value, const, vector
from tritium.codegen.registry import lowers
from tritium.ops.ttir.atomic import AtomicKind, AtomicRMWOp, AtomicUpdate

_SLOTS = 256
_LOOKED_AT, _REPEATED = 128, 20
"""The number of elements that are looked at, and of those that must go to an address that one
before went to."""
_LEAST = 1024
"""Elements of a row, from which on looking costs little."""
_SUMMED = (AtomicKind.ADD, AtomicKind.FADD, AtomicKind.XOR)


def lower_scalarized(c: Context, nest: Nest, run: Callable[[Shape], None]) -> None:
    """Write a nest that goes element by element; `run` writes its loops, in a shape."""

    def exclusive() -> None:
        c.exclusive = True
        run(scalarized_shape(c, nest))
        c.exclusive = False

    if "exclusive" in nest.versions:
        shared = partial(_shared, c, nest, run)
        either(c, (), c.program[EXCLUSIVE], exclusive, shared, ("exclusive", "shared"))
    else:
        _shared(c, nest, run)


def _shared(c: Context, nest: Nest, run: Callable[[Shape], None]) -> None:
    """Code for any launch."""
    shape = scalarized_shape(c, nest)
    root = next((r for r in nest.roots if _is_summed(c, r)), None)
    if root is None or shape.width > 1 or nest.domain[-1] < _LEAST:
        run(shape)
        return
    f = c.f
    few, many, done = f.new_label("few"), f.new_label("many"), f.new_label("added")
    with c.temporary() as allocate:
        table = allocate(2 * 8 * _SLOTS)
        _clear(c, table)
        found = _repetitions(c, root, nest, table)
        f.branch_if(f.icmp("uge", found, const("i64", _REPEATED)), few, many)
        f.label(few)
        _clear(c, table)
        c.external[id(root)] = table
        run(shape)
        del c.external[id(root)]
        _empty(c, root, table)
        f.branch(done)
        f.label(many)
        run(shape)
        f.branch(done)
        f.label(done)


def _is_summed(c: Context, op: object) -> bool:
    if not isinstance(op, AtomicUpdate) or op.atomic_rmw_op not in _SUMMED:
        return False
    known = value_type(op.val.type) in (*FLOAT_TYPES, "i16", "i32", "i64")
    return known and not private(c, op) and not any(c.function.held(op))


def _clear(c: Context, table: Value) -> None:
    """Leave all slots without an address."""
    for offset in range(0, 8 * _SLOTS, 64):
        c.f.store(const(vector("i64", 8), 0), c.f.offset(table, offset), 64)


def _slot(c: Context, op: AtomicUpdate, pointer: Value, table: Value) -> tuple[Value, ...]:
    """An address as a number, where its slot's address is, and that slot's sum."""
    f = c.f
    address = f.cast("ptrtoint", pointer, "i64")
    place = f.op("lshr", address, const("i64", memory_bytes(op.val.type).bit_length() - 1))
    slot = f.op("and", place, const("i64", _SLOTS - 1))
    return address, f.gep("i64", table, slot), f.gep("i64", f.offset(table, 8 * _SLOTS), slot)


def _repetitions(c: Context, op: AtomicUpdate, nest: Nest, table: Value) -> Value:
    """The number of the first elements that go to an address that one before went to."""
    f, e = c.f, Emitter(c, 1, inlined(nest))
    e.push()
    with e.loop(_LOOKED_AT, 1, [const("i64", 0)]) as loop:
        at = (*(ZERO for _ in nest.domain[1:]), Index(Kind.SCALAR, loop.index, 0, e.depth))
        address, key_at, _ = _slot(c, op, element_operands(e, op, at)[0], table)
        same = f.icmp("eq", f.load("i64", key_at, 8), address)
        f.store(address, key_at, 8)
        loop.next = [f.op("add", loop.carried[0], f.cast("zext", same, "i64"))]
    e.pop()
    return loop.results[0]


@lowers("cpu.scalarized", AtomicRMWOp)
def rmw_scalarized(e: Emitter, op: AtomicUpdate, at: At) -> None:
    table = e.context.external.get(id(op))
    if table is not None:
        _sum_element(e, op, table, at)
    elif e.width == 1:
        rmw(e, op, at)
    else:
        rmw_chunk(e, op, at)


def _sum_element(e: Emitter, op: AtomicUpdate, table: Value, at: At) -> None:
    pointer, value, mask = element_operands(e, op, at)
    if mask is None:
        _sum(e.context, op, table, pointer, value)
        return
    with e.f.when(mask, "active"):
        _sum(e.context, op, table, pointer, value)


def _sum(c: Context, op: AtomicUpdate, table: Value, pointer: Value, value: Value) -> None:
    f = c.f
    same, other, taken, free, done = map(f.new_label, ("same", "other", "taken", "free", "summed"))
    address, key_at, sum_at = _slot(c, op, pointer, table)
    key = f.load("i64", key_at, 8)
    f.branch_if(f.icmp("eq", key, address), same, other)
    f.label(same)
    f.store(combined(c, op.atomic_rmw_op, f.load(value.type, sum_at, 8), value), sum_at, 8)
    f.branch(done)
    f.label(other)
    f.branch_if(f.icmp("eq", key, const("i64", 0)), free, taken)
    f.label(taken)
    write_rmw(c, op, f.cast("inttoptr", key, "ptr"), f.load(value.type, sum_at, 8))
    f.branch(free)
    f.label(free)
    f.store(address, key_at, 8)
    f.store(value, sum_at, 8)
    f.branch(done)
    f.label(done)


def _empty(c: Context, op: AtomicUpdate, table: Value) -> None:
    """Add all sums to memory."""
    f, type = c.f, value_type(op.val.type)
    first, last, step = (const("i64", n) for n in (0, _SLOTS, 1))
    with f.loop(first, last, step, at_least_once=True) as loop:
        key = f.load("i64", f.gep("i64", table, loop.index), 8)
        with f.when(f.icmp("ne", key, const("i64", 0)), "held", "free"):
            total = f.load(type, f.gep("i64", f.offset(table, 8 * _SLOTS), loop.index), 8)
            write_rmw(c, op, f.cast("inttoptr", key, "ptr"), total)
