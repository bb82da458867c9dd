"""Atomic loads and stores, and polls: loops that load until memory holds what is expected.

One thread accesses an element; the others that hold copies of it get the result through shared
memory, so that all see the same. Threads meet behind an access that acquires and before one that
releases: the order holds for all that the program reads and writes.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from tritium.codegen.gpu.context import Context
from tritium.codegen.gpu.emitter import bits_of
from tritium.codegen.gpu.memory.atomic import CODE, SCOPE, SEMANTIC, each, scratch_bytes
from tritium.codegen.gpu.types import GPU, value_type
from tritium.codegen.llvm.writer import Value, const
from tritium.codegen.registry import lowers
from tritium.ir import types as ir
from tritium.ops import ttir
from tritium.ops.ttir import MemSemantic


def _word(c: Context, op: Any, bits: int) -> tuple[str, str]:
    """The register that holds an element, and its constraint."""
    held = max(bits, 16)
    if held not in CODE:
        raise c.unsupported(op, f"elements of {bits} bits")
    return f"i{held}", CODE[held]


def _narrowed(c: Context, word: Value, type: str) -> Value:
    bits = f"i{bits_of(type)}"
    if bits != word.type:
        word = c.f.cast("trunc", word, bits)
    return c.as_type(word, type)


def _load(
    c: Context, op: Any, type: str, pointer: Value, values: list[Value], condition: Value | None
) -> Value:
    """One element; zero where the condition does not hold."""
    bits = bits_of(type)
    word, code = _word(c, op, bits)
    text = f"ld.{SEMANTIC[op.sem]}.{SCOPE[op.scope]}.global.b{bits} $0, [ $1 ];"
    constraints, arguments = [f"={code}", "l"], [pointer]
    if condition is not None:
        text = f"@$2 {text}"
        arguments += [condition, const(word, 0)]
        constraints += ["b", "0"]
    found = c.asm(word, text, ",".join([*constraints, "~{memory}"]), *arguments)
    return _narrowed(c, found, type)


@lowers(GPU, ttir.AtomicLoadOp, scratch=scratch_bytes)
def load(c: Context, op: Any) -> None:
    type = value_type(op.results[0].type)
    masks = None if op.mask is None else c.tile(op.mask)
    each(c, op, [], masks, partial(_load, c, op, type))
    _acquired(c, op)


def _acquired(c: Context, op: Any) -> None:
    """Other threads of the program read only now what the op has made visible. (Those of one block
    have met already where they were given the result.)"""
    met = op in c.offsets and c.num_ctas == 1
    if op.sem is MemSemantic.ACQUIRE and not met:
        c.synchronize()


def _store(
    c: Context, op: Any, pointer: Value, values: list[Value], condition: Value | None
) -> Value:
    bits = bits_of(values[0].type)
    word, code = _word(c, op, bits)
    value = c.as_type(values[0], f"i{bits}")
    if value.type != word:
        value = c.f.cast("zext", value, word)
    text = f"st.{SEMANTIC[op.sem]}.{SCOPE[op.scope]}.global.b{bits} [ $0 ], $1;"
    constraints, arguments = ["l", code], [pointer, value]
    if condition is not None:
        text = f"@$2 {text}"
        arguments.append(condition)
        constraints.append("b")
    return c.asm("void", text, ",".join([*constraints, "~{memory}"]), *arguments)


@lowers(GPU, ttir.AtomicStoreOp)
def store(c: Context, op: Any) -> None:
    if op.sem is MemSemantic.RELEASE and ir.shape_of(op.ptr.type):
        c.synchronize()  # what all threads have written is what is released
    masks = None if op.mask is None else c.tile(op.mask)
    each(c, op, [c.tile(op.val)], masks, partial(_store, c, op))


def _poll(
    c: Context, op: Any, limit: tuple[Value, Value] | None, pointer: Value, values: list[Value],
    condition: Value | None,
) -> Value:  # fmt: skip
    """Whether one element was seen to be as expected; `limit` is a start and the time from it."""
    f, before = c.f, c.f.block
    look, wait, done = f.new_label("look"), f.new_label("wait"), f.new_label("seen")
    if condition is None:
        f.branch(look)
    else:
        f.branch_if(condition, look, done)
    f.label(look)
    expected = values[0]
    equal = f.icmp("eq", _load(c, op, expected.type, pointer, [], None), expected)
    f.branch_if(equal, done, wait)
    f.label(wait)
    ends = [(equal, look)]
    if limit is None:
        f.branch(look)
    else:
        start, time = limit
        late = f.icmp("uge", f.op("sub", _now(c), start), time)
        f.branch_if(late, done, look)
        ends.append((const("i1", 0), wait))
    f.label(done)
    if condition is not None:
        ends.append((const("i1", 0), before))
    return f.phi("i1", ends).value


def _now(c: Context) -> Value:
    return c.asm("i64", "mov.u64 $0, %globaltimer;", "=l,~{memory}")


@lowers(GPU, ttir.AtomicPollOp, scratch=scratch_bytes)
def poll(c: Context, op: Any) -> None:
    limit = None if op.timeout is None else (_now(c), c.tile(op.timeout)[0])
    each(c, op, [c.tile(op.expected)], None, partial(_poll, c, op, limit))
    _acquired(c, op)
