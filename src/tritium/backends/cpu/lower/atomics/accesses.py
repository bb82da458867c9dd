"""Atomic loads and stores, and polls: loops that load until memory holds what is expected."""

from __future__ import annotations

from functools import partial

from tritium.backends.cpu.lower.atomics.operations import element, keep, masked, private
from tritium.backends.cpu.lower.atomics.polling import FIRST_ITERATION, stall
from tritium.backends.cpu.lower.context import Context
from tritium.backends.cpu.lower.emitter import At, Emitter
from tritium.backends.cpu.lower.types import value_type
from tritium.codegen.llvm.types import ORDERS, memory_bytes
from tritium.codegen.llvm.writer import FLOAT_TYPES, Value
from tritium.codegen.registry import lowers
from tritium.native.threads import clock_of
from tritium.native.writer import Code
from tritium.ops.ttir.atomic import AtomicLoadOp, AtomicOp, AtomicPollOp, AtomicStoreOp

_CLOCK = "tritium.nanoseconds"


def _order(c: Context, op: AtomicOp) -> str:
    return "" if private(c, op) else f" {ORDERS[op.sem]}"


def _load(c: Context, op: AtomicOp, type: str, pointer: Value) -> Value:
    order = _order(c, op)
    kind = "load atomic" if order else "load"
    return c.f.emit(type, f"{kind} {type}, {pointer}{order}, align {int(type[1:]) // 8}")


def _store(c: Context, op: AtomicStoreOp, pointer: Value, value: Value) -> Value:
    order = _order(c, op)
    kind = "store atomic" if order else "store"
    c.f.line(f"{kind} {value}, {pointer}{order}, align {memory_bytes(op.val.type)}")
    return value


def _loaded(c: Context, op: AtomicLoadOp, pointer: Value, mask: Value | None) -> Value:
    """One element; zero where the mask is false. Floats are loaded as integers: not all hosts have
    registers for the small ones."""
    type = value_type(op.results[0].type)
    held = f"i{8 * memory_bytes(op.results[0].type)}" if type in FLOAT_TYPES else type
    found = masked(c, mask, held, partial(_load, c, op, held, pointer))
    return found if held == type else c.f.cast("bitcast", found, type)


def _stored(
    c: Context, op: AtomicStoreOp, pointer: Value, value: Value, mask: Value | None
) -> None:
    if value.type in FLOAT_TYPES:
        value = c.f.cast("bitcast", value, f"i{8 * memory_bytes(op.val.type)}")
    masked(c, mask, value.type, partial(_store, c, op, pointer, value))


@lowers("cpu.scalar", AtomicLoadOp)
def load_scalar(c: Context, op: AtomicLoadOp, pointer: Value, *mask: Value) -> Value:
    return _loaded(c, op, pointer, mask[0] if mask else None)


@lowers("cpu.scalar", AtomicStoreOp)
def store_scalar(
    c: Context, op: AtomicStoreOp, pointer: Value, value: Value, *mask: Value
) -> tuple[()]:
    _stored(c, op, pointer, value, mask[0] if mask else None)
    return ()


@lowers("cpu.scalar", AtomicPollOp)
def poll_scalar(
    c: Context, op: AtomicPollOp, pointer: Value, expected: Value, *timeout: Value
) -> Value:
    limit = (now(c), timeout[0]) if timeout else None
    return _poll(c, op, pointer, expected, limit)


def _mask(e: Emitter, op: AtomicLoadOp | AtomicStoreOp, at: At) -> Value | None:
    return None if op.mask is None else element(e, op.mask, at)


@lowers("cpu.scalarized", AtomicLoadOp)
def load_element(e: Emitter, op: AtomicLoadOp, at: At) -> None:
    pointer = element(e, op.ptr, at)
    keep(e, op, at, _loaded(e.context, op, pointer, _mask(e, op, at)))


@lowers("cpu.scalarized", AtomicStoreOp)
def store_element(e: Emitter, op: AtomicStoreOp, at: At) -> None:
    pointer, value = element(e, op.ptr, at), element(e, op.val, at)
    _stored(e.context, op, pointer, value, _mask(e, op, at))


@lowers("cpu.scalarized", AtomicPollOp)
def poll_element(e: Emitter, op: AtomicPollOp, at: At) -> None:
    c, limit = e.context, None
    if op.timeout is not None:
        start = e.once(("poll", op), 0, now, c)
        limit = start, element(e, op.timeout, ())
    pointer, expected = element(e, op.ptr, at), element(e, op.expected, at)
    keep(e, op, at, _poll(c, op, pointer, expected, limit))


def _poll(
    c: Context, op: AtomicPollOp, pointer: Value, expected: Value,
    limit: tuple[Value, Value] | None,
) -> Value:  # fmt: skip
    """True if the element was seen to be as expected; `limit` is a start and the time from it."""
    f = c.f
    look, wait, done = f.new_label("look"), f.new_label("wait"), f.new_label("seen")
    before = f.block
    f.branch(look)
    f.label(look)
    iteration = f.phi("i32", [(FIRST_ITERATION, before)])
    found = f.emit(
        expected.type,
        f"load atomic volatile {expected.type}, {pointer} {ORDERS[op.sem]}, "
        f"align {memory_bytes(op.expected.type)}",
    )
    equal = f.icmp("eq", found, expected)
    f.branch_if(equal, done, wait)
    f.label(wait)
    if "sse2" in c.features:
        f.call("void", "llvm.x86.sse2.pause")
    iteration.add(stall(c, iteration.value), f.block)
    if limit is None:
        f.branch(look)
    else:
        start, time = limit
        f.branch_if(f.icmp("uge", f.op("sub", now(c), start), time), done, look)
    f.label(done)
    return equal


def now(c: Context) -> Value:
    """The time in nanoseconds, from a function that the module gets for it."""
    module = c.f.module
    if all(f.name != _CLOCK for f in module.functions):
        f = Code(module, _CLOCK, [], "i64")
        f.ret(clock_of(c.processor.triple, module).nanoseconds(f))
    return c.f.call("i64", _CLOCK)
