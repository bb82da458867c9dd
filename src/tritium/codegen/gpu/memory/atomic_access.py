"""Atomic loads and stores, and polls: loops that load until memory holds what is expected.

One thread accesses an element; the others that hold copies of it get the result through shared
memory, so that all see the same. Threads synchronize behind an access that acquires and before one
that releases: the order holds for all that the program reads and writes.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from tritium.codegen.gpu.context import Context
from tritium.codegen.gpu.hardware import Order
from tritium.codegen.gpu.memory.atomic import each, scratch_bytes
from tritium.codegen.gpu.types import GPU, value_type
from tritium.codegen.llvm.writer import Value, const
from tritium.codegen.registry import lowers
from tritium.ir import types as ir
from tritium.ops import ttir
from tritium.ops.ttir import MemSemantic


@lowers(GPU, ttir.AtomicLoadOp, scratch=scratch_bytes)
def load(c: Context, op: Any) -> None:
    type, order = value_type(op.results[0].type), Order(op.sem, op.scope)
    masks = None if op.mask is None else c.tile(op.mask)

    def one(pointer: Value, values: list[Value], condition: Value | None) -> Value:
        return c.hardware.atomics.load(c, order, type, pointer, condition)

    each(c, op, [], masks, one)
    _acquired(c, op)


def _acquired(c: Context, op: Any) -> None:
    """Other threads of the program read only now what the op has made visible. (Those of one block
    have synchronized already where they were given the result.)"""
    synchronized = op in c.offsets and c.num_ctas == 1
    if op.sem is MemSemantic.ACQUIRE and not synchronized:
        c.synchronize()


@lowers(GPU, ttir.AtomicStoreOp)
def store(c: Context, op: Any) -> None:
    if op.sem is MemSemantic.RELEASE and ir.shape_of(op.ptr.type):
        c.synchronize()  # what all threads have written is what is released
    masks = None if op.mask is None else c.tile(op.mask)
    order = Order(op.sem, op.scope)

    def one(pointer: Value, values: list[Value], condition: Value | None) -> Value:
        return c.hardware.atomics.store(c, order, pointer, values[0], condition)

    each(c, op, [c.tile(op.val)], masks, one)


def _poll(
    c: Context, op: Any, limit: tuple[Value, Value] | None, pointer: Value, values: list[Value],
    condition: Value | None,
) -> Value:  # fmt: skip
    """True if one element was seen to be as expected; `limit` is a start and the time from it."""
    f, before = c.f, c.f.block
    look, wait, done = f.new_label("look"), f.new_label("wait"), f.new_label("seen")
    if condition is None:
        f.branch(look)
    else:
        f.branch_if(condition, look, done)
    f.label(look)
    expected = values[0]
    found = c.hardware.atomics.load(c, Order(op.sem, op.scope), expected.type, pointer, None)
    equal = f.icmp("eq", found, expected)
    f.branch_if(equal, done, wait)
    f.label(wait)
    ends = [(equal, look)]
    if limit is None:
        f.branch(look)
    else:
        start, time = limit
        late = f.icmp("uge", f.op("sub", c.hardware.atomics.nanoseconds(c), start), time)
        f.branch_if(late, done, look)
        ends.append((const("i1", 0), wait))
    f.label(done)
    if condition is not None:
        ends.append((const("i1", 0), before))
    return f.phi("i1", ends).value


@lowers(GPU, ttir.AtomicPollOp, scratch=scratch_bytes)
def poll(c: Context, op: Any) -> None:
    limit = None
    if op.timeout is not None:
        limit = c.hardware.atomics.nanoseconds(c), c.tile(op.timeout)[0]
    each(c, op, [c.tile(op.expected)], None, partial(_poll, c, op, limit))
    _acquired(c, op)
