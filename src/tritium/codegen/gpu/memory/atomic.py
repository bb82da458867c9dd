"""Atomic operations, and meetings of all threads that a program asks for.

A scalar's operation is done by the first thread after all threads have come to it, a tile's by one
of the threads that hold copies of an element. What memory held is handed to the others through
shared memory if it is used.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any, TypeAlias

from tritium.codegen.gpu.collective.gather import offsets, row_major
from tritium.codegen.gpu.context import Context, Tile, layout_of
from tritium.codegen.gpu.emitter import bits_of
from tritium.codegen.gpu.memory.access import (
    distinct_registers,
    load_remote,
    register_groups,
    store_words,
)
from tritium.codegen.gpu.types import GPU, SHARED, value_type
from tritium.codegen.llvm.types import memory_bytes
from tritium.codegen.llvm.writer import Value, const
from tritium.codegen.registry import lowers
from tritium.ir import types as ir
from tritium.ir.layouts.encodings import BLOCK, LANE, WARP
from tritium.ir.layouts.linear import LinearLayout
from tritium.ops import ttir
from tritium.ops.gpu import BarrierOp
from tritium.ops.ttir import AtomicKind, MemScope, MemSemantic
from tritium.passes.ttgir.coalesce import atomic_width

SEMANTIC = {
    MemSemantic.RELAXED: "relaxed", MemSemantic.ACQUIRE: "acquire",
    MemSemantic.RELEASE: "release", MemSemantic.ACQUIRE_RELEASE: "acq_rel",
}  # fmt: skip
SCOPE = {MemScope.GPU: "gpu", MemScope.CTA: "cta", MemScope.SYSTEM: "sys"}
_INSTRUCTION = {
    AtomicKind.AND: ("and", "b"), AtomicKind.OR: ("or", "b"), AtomicKind.XOR: ("xor", "b"),
    AtomicKind.ADD: ("add", "u"), AtomicKind.MAX: ("max", "s"), AtomicKind.MIN: ("min", "s"),
    AtomicKind.UMAX: ("max", "u"), AtomicKind.UMIN: ("min", "u"), AtomicKind.XCHG: ("exch", "b"),
}  # fmt: skip
_FLOAT_SUM = {
    "half": "add.noftz.f16", "bfloat": "add.noftz.bf16", "float": "add.f32", "double": "add.f64",
}  # fmt: skip
_BY_EXCHANGE = {"min.s16": "min", "max.s16": "max", "min.u16": "umin", "max.u16": "umax"}
"""LLVM's names of what the hardware has for 32 and 64 bits only; small floats come as integers."""
CODE = {16: "h", 32: "r", 64: "l"}


def scratch_bytes(op: Any) -> int:
    """Shared memory through which results reach the threads that did not do the operation."""
    if not op.results or op.results[0].first_use is None:
        return 0
    type = op.results[0].type
    if not ir.shape_of(type):
        return 8
    free = layout_of(type).free_variables()
    copies = any(free.get(name, 0) for name in (LANE, WARP, BLOCK))
    return prod(ir.shape_of(type)) * memory_bytes(type) if copies else 0


@lowers(GPU, BarrierOp)
def barrier(c: Context, op: Any) -> None:
    c.synchronize()


@lowers(GPU, ttir.AtomicRMWOp, scratch=scratch_bytes)
def read_modify_write(c: Context, op: Any) -> None:
    held = value_type(op.val.type)
    if op.atomic_rmw_op is AtomicKind.FADD:
        if held not in _FLOAT_SUM:
            raise c.unsupported(op, f"sums of {op.val.type}")
        name = _FLOAT_SUM[held]
    else:
        operation, letter = _INSTRUCTION[op.atomic_rmw_op]
        name = f"{operation}.{letter}{bits_of(held)}"
    values, masks = c.tile(op.val), None if op.mask is None else c.tile(op.mask)
    each(c, op, [values], masks, partial(_instruction, c, op, name), partial(_sum, c, op, name))


@lowers(GPU, ttir.AtomicCASOp, scratch=scratch_bytes)
def compare_and_swap(c: Context, op: Any) -> None:
    name = f"cas.b{bits_of(value_type(op.val.type))}"
    operands = [c.tile(op.cmp), c.tile(op.val)]
    each(c, op, operands, None, partial(_instruction, c, op, name))


Access: TypeAlias = "Callable[[Value, list[Value], Value | None], Value]"
"""Writes what is done to one element: (address, operands, condition) -> what it gives."""


def each(
    c: Context, op: Any, operands: list[Tile], masks: Tile | None, access: Access,
    several: Callable[[Value, list[Value], Value | None], list[Value]] | None = None,
) -> None:  # fmt: skip
    """`access` for each element, by one thread, or once for a scalar; results for all threads.

    `several`: writes what is done to neighbours of which `atomic_width` allows more than one.
    """
    type, pointers = op.ptr.type, c.tile(op.ptr)
    if not ir.shape_of(type):
        c.synchronize()
        first = c.first
        condition = first if masks is None else c.f.op("and", first, masks[0])
        old = access(pointers[0], [o[0] for o in operands], condition)
        if op.results:
            c.set(op.results[0], _share(c, op, op.results[0].type, old, first))
        return
    layout = layout_of(type)
    owner = c.owner(layout, of_program=True)
    results: dict[int, Value] = {}
    for group in _groups(c, op):
        first = group[0]
        condition = None if masks is None else masks[first]
        if owner is not None:
            condition = owner if condition is None else c.f.op("and", owner, condition)
        if len(group) == 1 or several is None:
            results[first] = access(pointers[first], [o[first] for o in operands], condition)
        else:
            old = several(pointers[first], [operands[0][r] for r in group], condition)
            results.update(zip(group, old, strict=True))
    if not op.results:
        return
    if op in c.offsets:
        results = _spread(c, op, layout, results, owner)
    free = layout.free_variables().get("register", 0)
    c.set(op.results[0], [results[r & ~free] for r in range(layout.in_size("register"))])


def _groups(c: Context, op: Any) -> list[tuple[int, ...]]:
    """The registers of an op's tile that one instruction does together."""
    width = atomic_width(op, c.hardware.arch)
    if width == 1:
        return [(r,) for r in distinct_registers(layout_of(op.ptr.type))]
    groups = register_groups(c.axis_info, op.ptr, op.mask)
    return [g[i : i + width] for g in groups for i in range(0, len(g), width)]


def _spread(
    c: Context, op: Any, layout: LinearLayout, results: dict[int, Value], owner: Value | None
) -> dict[int, Value]:
    """The results of the threads that did the operation, in all that hold copies."""
    type = op.results[0].type
    shape, base = ir.shape_of(type), c.shared(c.offsets[op])
    word = f"i{max(8, bits_of(value_type(type)))}"
    places = c.positions(offsets(layout, row_major(shape), prod(shape)), list(results))
    pointers = [c.f.emit(SHARED, f"getelementptr {word}, {base}, {place}") for place in places]
    for pointer, value in zip(pointers, results.values(), strict=True):
        store_words(c, c.address(pointer), [_held(c, value, word)], owner, "st.shared", "r")
    copies = layout.free_variables().get(BLOCK, 0)
    if copies:
        c.synchronize()
        block = c.f.op("and", c.block, c.i32(~copies))
        read = [load_remote(c, c.in_block(c.address(p), block), word, 1)[0] for p in pointers]
        c.synchronize()
    else:
        c.barrier()
        read = [c.f.load(word, pointer, memory_bytes(type)) for pointer in pointers]
    return {
        register: _again(c, bits, value.type)
        for (register, value), bits in zip(results.items(), read, strict=True)
    }


def _held(c: Context, value: Value, word: str) -> Value:
    """A result as it is in shared memory."""
    return c.f.cast("zext", value, word) if value.type == "i1" else c.as_type(value, word)


def _again(c: Context, word: Value, type: str) -> Value:
    """A result that was in shared memory."""
    return c.f.cast("trunc", word, type) if type == "i1" else c.as_type(word, type)


def _instruction(
    c: Context, op: Any, name: str, pointer: Value, operands: list[Value], condition: Value | None
) -> Value:
    """The previous value in memory; zero where the condition does not hold. (LLVM's own
    instructions drop the memory semantics on this target.)"""
    type = operands[0].type
    bits = bits_of(type)
    if type == "bfloat" and name.startswith("add") and c.hardware.arch < 90:
        return _exchanged(c, op, "fadd", pointer, operands[0], condition)
    if bits == 16 and name in _BY_EXCHANGE:
        return _exchanged(c, op, _BY_EXCHANGE[name], pointer, operands[0], condition)
    if bits not in CODE or (bits == 16 and not name.startswith(("add.noftz", "cas"))):
        raise c.unsupported(op, f"{name.partition('.')[0]} of {bits} bits")
    word, code = f"i{bits}", CODE[bits]
    arguments = [pointer, *(c.as_type(v, word) for v in operands)]
    constraints = [f"={code}", "l", *[code] * len(operands)]
    listed = ", ".join(f"${i + 2}" for i in range(len(operands)))
    text = (
        f"atom.{SEMANTIC[op.sem]}.{SCOPE[op.scope]}.global.{name} $0, [ $1 ], {listed};"
    )
    if condition is not None:
        text = f"@${len(arguments) + 1} {text}"
        arguments += [condition, const(word, 0)]
        constraints += ["b", "0"]
    old = c.asm(word, text, ",".join([*constraints, "~{memory}"]), *arguments)
    return c.as_type(old, type)


def _sum(
    c: Context, op: Any, name: str, pointer: Value, values: list[Value], condition: Value | None
) -> list[Value]:
    """What memory held of neighbours that one instruction adds to, each by itself."""
    type = values[0].type
    words = c.pack(values, "i32")
    n = len(words)
    pair = "x2" if bits_of(type) == 16 else ""
    operation, _, kind = name.rpartition(".")
    vector = f".v{n}" if n > 1 else ""

    def listed(start: int) -> str:
        names = ", ".join(f"${i}" for i in range(start, start + n))
        return f"{{ {names} }}" if n > 1 else names

    text = (
        f"atom.{SEMANTIC[op.sem]}.{SCOPE[op.scope]}.global.{operation}{vector}.{kind}{pair} "
        f"{listed(0)}, [ ${n} ], {listed(n + 1)};"
    )
    arguments = [pointer, *words]
    constraints = [*["=r"] * n, "l", *["r"] * n]
    if condition is not None:
        text = f"@${2 * n + 1} {text}"
        arguments += [condition, *[const("i32", 0)] * n]
        constraints += ["b", *map(str, range(n))]
    struct = "i32" if n == 1 else "{ " + ", ".join(["i32"] * n) + " }"
    old = c.asm(struct, text, ",".join([*constraints, "~{memory}"]), *arguments)
    return c.unpack(c.members(old, ["i32"] * n), type)


def _exchanged(
    c: Context, op: Any, operation: str, pointer: Value, value: Value, condition: Value | None
) -> Value:
    """An atomic without a hardware instruction: by a loop of compare-exchanges, which LLVM
    writes."""
    f, before, type = c.f, c.f.block, value.type
    then, done = f.new_label("exchange"), f.new_label("exchanged")
    if condition is None:
        condition = const("i1", 1)
    f.branch_if(condition, then, done)
    f.label(then)
    scope = {"gpu": 'syncscope("device") ', "cta": 'syncscope("block") '}.get(SCOPE[op.scope], "")
    order = {"relaxed": "monotonic"}.get(SEMANTIC[op.sem], SEMANTIC[op.sem])
    old = f.emit(type, f"atomicrmw {operation} {pointer}, {value} {scope}{order}")
    end = f.block
    f.branch(done)
    f.label(done)
    return f.phi(type, [(old, end), (const(type, 0 if type[0] == "i" else 0.0), before)]).value


def _share(c: Context, op: Any, type: Any, value: Value, first: Value) -> Value:
    """The first thread's value, in all threads."""
    if op not in c.offsets:
        return value
    place = c.shared(c.offsets[op])
    bits = f"i{max(8, bits_of(value.type))}"
    f, then, done = c.f, c.f.new_label("share"), c.f.new_label("shared")
    f.branch_if(first, then, done)
    f.label(then)
    f.store(_held(c, value, bits), place, memory_bytes(type))
    f.branch(done)
    f.label(done)
    c.synchronize()
    if c.num_ctas == 1:
        return _again(c, f.load(bits, place, memory_bytes(type)), value.type)
    read = load_remote(c, c.in_block(c.address(place), c.i32(0)), bits, 1)[0]
    c.synchronize()
    return _again(c, read, value.type)
