"""Atomic accesses to global memory by inline PTX."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tritium.backends.nvidia.lower.memory import braced
from tritium.backends.nvidia.processor import processor
from tritium.codegen.gpu.emitter import Emitter, bits_of
from tritium.codegen.gpu.hardware import Order, Unsupported
from tritium.codegen.gpu.types import SHARED
from tritium.codegen.llvm.writer import Value, const
from tritium.ops.ttir import AtomicKind, MemScope, MemSemantic
from tritium.passes.ttgir.coalesce import atomic_width

_SEMANTIC = {
    MemSemantic.RELAXED: "relaxed", MemSemantic.ACQUIRE: "acquire",
    MemSemantic.RELEASE: "release", MemSemantic.ACQUIRE_RELEASE: "acq_rel",
}  # fmt: skip
_SCOPE = {MemScope.GPU: "gpu", MemScope.CTA: "cta", MemScope.SYSTEM: "sys"}
_INSTRUCTION = {
    AtomicKind.AND: ("and", "b"), AtomicKind.OR: ("or", "b"), AtomicKind.XOR: ("xor", "b"),
    AtomicKind.ADD: ("add", "u"), AtomicKind.MAX: ("max", "s"), AtomicKind.MIN: ("min", "s"),
    AtomicKind.UMAX: ("max", "u"), AtomicKind.UMIN: ("min", "u"), AtomicKind.XCHG: ("exch", "b"),
}  # fmt: skip
_FLOAT_SUM = {
    "half": "add.noftz.f16", "bfloat": "add.noftz.bf16", "float": "add.f32", "double": "add.f64",
}  # fmt: skip
_BY_EXCHANGE = {"min.s16": "min", "max.s16": "max", "min.u16": "umin", "max.u16": "umax",
                "exch.b16": "xchg"}  # fmt: skip
"""LLVM's names of what the hardware has for 32 and 64 bits only; small floats come as integers."""
_CODE = {16: "h", 32: "r", 64: "l"}


def _suffix(order: Order) -> str:
    return f"{_SEMANTIC[order.semantic]}.{_SCOPE[order.scope]}"


def _prefix(space: str, order: Order, swap: bool = False) -> str:
    """The start of an `atom`, its qualifiers in the order in which Triton writes them: programs
    and tests search for that text, and ptxas takes any order."""
    semantic, scope = _SEMANTIC[order.semantic], _SCOPE[order.scope]
    qualifiers = (semantic, scope) if swap else (scope, semantic)
    return ".".join(filter(None, ("atom", space, *qualifiers)))


class PtxAtomics:
    """`atom`, `ld` and `st` with semantics and a scope. (LLVM's own instructions drop the memory
    semantics on this target.)"""

    def __init__(self, arch: int):
        self._arch = arch

    def width(self, op: Any) -> int:
        return atomic_width(op, processor(self._arch))

    def update(
        self, e: Emitter, kind: AtomicKind, order: Order, pointer: Value, operand: Value,
        condition: Value | None,
    ) -> Value:  # fmt: skip
        type = operand.type
        if kind is AtomicKind.FADD:
            if type not in _FLOAT_SUM:
                raise Unsupported(f"sums of {type}")
            name = _FLOAT_SUM[type]
        else:
            operation, letter = _INSTRUCTION[kind]
            name = f"{operation}.{letter}{bits_of(type)}"
        if type == "bfloat" and kind is AtomicKind.FADD and self._arch < 90:
            return _exchanged(e, order, "fadd", pointer, operand, condition)
        if name in _BY_EXCHANGE:
            return _exchanged(e, order, _BY_EXCHANGE[name], pointer, operand, condition)
        return _atom(e, order, name, pointer, [operand], condition)

    def add_several(
        self, e: Emitter, order: Order, pointer: Value, values: Sequence[Value],
        condition: Value | None,
    ) -> list[Value]:  # fmt: skip
        type, words = values[0].type, e.pack(values, "i32")
        n = len(words)
        pair = "x2" if bits_of(type) == 16 else ""
        operation, _, kind = _FLOAT_SUM[type].rpartition(".")
        vector = f".v{n}" if n > 1 else ""
        former, added = (braced([f"${i}" for i in range(start, start + n)]) for start in (0, n + 1))
        text = (
            f"{_prefix('global', order)}.{operation}{vector}.{kind}{pair} "
            f"{former}, [ ${n} ], {added};"
        )
        arguments, constraints = [pointer, *words], [*["=r"] * n, "l", *["r"] * n]
        if condition is not None:
            text = f"@${2 * n + 1} {text}"
            arguments += [condition, *[const("i32", 0)] * n]
            constraints += ["b", *map(str, range(n))]
        struct = "i32" if n == 1 else "{ " + ", ".join(["i32"] * n) + " }"
        old = e.asm(struct, text, ",".join([*constraints, "~{memory}"]), *arguments)
        return e.unpack(e.members(old, ["i32"] * n), type)

    def compare_and_swap(
        self, e: Emitter, order: Order, pointer: Value, expected: Value, new: Value,
        condition: Value | None,
    ) -> Value:  # fmt: skip
        name = f"cas.b{bits_of(new.type)}"
        return _atom(e, order, name, pointer, [expected, new], condition)

    def load(
        self, e: Emitter, order: Order, type: str, pointer: Value, condition: Value | None
    ) -> Value:
        bits = bits_of(type)
        word, code = _word(bits)
        text = f"ld.{_suffix(order)}.global.b{bits} $0, [ $1 ];"
        constraints, arguments = [f"={code}", "l"], [pointer]
        if condition is not None:
            text = f"@$2 {text}"
            arguments += [condition, const(word, 0)]
            constraints += ["b", "0"]
        found = e.asm(word, text, ",".join([*constraints, "~{memory}"]), *arguments)
        if word != f"i{bits}":
            found = e.f.cast("trunc", found, f"i{bits}")
        return e.as_type(found, type)

    def store(
        self, e: Emitter, order: Order, pointer: Value, value: Value, condition: Value | None
    ) -> Value:
        bits = bits_of(value.type)
        word, code = _word(bits)
        value = e.as_type(value, f"i{bits}")
        if value.type != word:
            value = e.f.cast("zext", value, word)
        text = f"st.{_suffix(order)}.global.b{bits} [ $0 ], $1;"
        constraints, arguments = ["l", code], [pointer, value]
        if condition is not None:
            text = f"@$2 {text}"
            arguments.append(condition)
            constraints.append("b")
        return e.asm("void", text, ",".join([*constraints, "~{memory}"]), *arguments)

    def nanoseconds(self, e: Emitter) -> Value:
        return e.asm("i64", "mov.u64 $0, %globaltimer;", "=l,~{memory}")


def _word(bits: int) -> tuple[str, str]:
    """The register that holds an element, and its constraint."""
    held = max(bits, 16)
    if held not in _CODE:
        raise Unsupported(f"elements of {bits} bits")
    return f"i{held}", _CODE[held]


def _atom(
    e: Emitter, order: Order, name: str, pointer: Value, operands: list[Value],
    condition: Value | None,
) -> Value:  # fmt: skip
    """The previous value in memory; zero where the condition does not hold."""
    type = operands[0].type
    bits = bits_of(type)
    if bits not in _CODE or (bits == 16 and not name.startswith(("add.noftz", "cas"))):
        raise Unsupported(f"{name.partition('.')[0]} of {bits} bits")
    word, code = f"i{bits}", _CODE[bits]
    shared = pointer.type == SHARED
    arguments = [e.address(pointer) if shared else pointer]
    arguments += [e.as_type(v, word) for v in operands]
    constraints = [f"={code}", "r" if shared else "l", *[code] * len(operands)]
    listed = ", ".join(f"${i + 2}" for i in range(len(operands)))
    space = {SHARED: "shared", "ptr": ""}.get(pointer.type, "global")
    start = _prefix(space, order, swap=name.startswith("cas"))
    text = f"{start}.{name} $0, [ $1 ], {listed};"
    if condition is not None:
        text = f"@${len(arguments) + 1} {text}"
        arguments += [condition, const(word, 0)]
        constraints += ["b", "0"]
    old = e.asm(word, text, ",".join([*constraints, "~{memory}"]), *arguments)
    return e.as_type(old, type)


def _exchanged(
    e: Emitter, order: Order, operation: str, pointer: Value, value: Value, condition: Value | None
) -> Value:
    """An operation that the hardware has no instruction for, by LLVM's loop that compares and
    exchanges."""
    type = value.type
    scope = {MemScope.GPU: 'syncscope("device") ', MemScope.CTA: 'syncscope("block") '}
    name = _SEMANTIC[order.semantic].replace("relaxed", "monotonic")
    text = f"atomicrmw {operation} {pointer}, {value} {scope.get(order.scope, '')}{name}"
    always, zero = const("i1", 1), const(type, 0 if type[0] == "i" else 0.0)
    return e.f.choose(condition or always, zero, lambda: e.f.emit(type, text), "exchange")
