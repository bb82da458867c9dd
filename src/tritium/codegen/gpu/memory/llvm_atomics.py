"""Atomic accesses by LLVM's own instructions, for targets on which these keep their semantics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from tritium.codegen.gpu.emitter import Emitter, bits_of
from tritium.codegen.gpu.hardware import Order
from tritium.codegen.llvm.types import ORDERS
from tritium.codegen.llvm.writer import Value
from tritium.ops.ttir import AtomicKind, MemScope, MemSemantic

UPDATES = {
    AtomicKind.AND: "and", AtomicKind.OR: "or", AtomicKind.XOR: "xor", AtomicKind.ADD: "add",
    AtomicKind.FADD: "fadd", AtomicKind.MAX: "max", AtomicKind.MIN: "min",
    AtomicKind.UMAX: "umax", AtomicKind.UMIN: "umin", AtomicKind.XCHG: "xchg",
}  # fmt: skip
"""The operations of `atomicrmw`."""


class LLVMAtomics:
    """`atomicrmw`, `cmpxchg`, and atomic loads and stores. `SCOPES`: LLVM's names of scopes other
    than the whole system."""

    SCOPES: ClassVar[Mapping[MemScope, str]] = {}

    def width(self, op: Any) -> int:
        return 1

    def begin(self, e: Emitter) -> None:
        """Write what goes before each access."""

    def sum_metadata(self, e: Emitter) -> str:
        """The metadata of additions of floats."""
        return ""

    def nanoseconds(self, e: Emitter) -> Value:
        return e.f.call("i64", "llvm.readcyclecounter")

    def _order(self, order: Order) -> str:
        scope = self.SCOPES.get(order.scope)
        return (f'syncscope("{scope}") ' if scope else "") + ORDERS[order.semantic]

    def update(
        self, e: Emitter, kind: AtomicKind, order: Order, pointer: Value, operand: Value,
        condition: Value | None,
    ) -> Value:  # fmt: skip
        metadata = self.sum_metadata(e) if kind is AtomicKind.FADD else ""

        def update() -> list[Value]:
            self.begin(e)
            text = f"atomicrmw {UPDATES[kind]} {pointer}, {operand} {self._order(order)}{metadata}"
            return [e.f.emit(operand.type, text)]

        return e.f.choose_all(condition, [zero(operand.type)], update)[0]

    def add_several(
        self, e: Emitter, order: Order, pointer: Value, values: Sequence[Value],
        condition: Value | None,
    ) -> list[Value]:  # fmt: skip
        pair = e.vector(values)

        def add() -> list[Value]:
            self.begin(e)
            text = f"atomicrmw fadd {pointer}, {pair} {self._order(order)}{self.sum_metadata(e)}"
            return [e.f.emit(pair.type, text)]

        former = e.f.choose_all(condition, [zero(pair.type)], add)[0]
        return [e.f.extract(former, lane) for lane in range(len(values))]

    def compare_and_swap(
        self, e: Emitter, order: Order, pointer: Value, expected: Value, new: Value,
        condition: Value | None,
    ) -> Value:  # fmt: skip
        word, failed = f"i{bits_of(new.type)}", ORDERS[MemSemantic.RELAXED]
        if order.semantic in (MemSemantic.ACQUIRE, MemSemantic.ACQUIRE_RELEASE):
            failed = ORDERS[MemSemantic.ACQUIRE]
        given, wanted = e.as_type(expected, word), e.as_type(new, word)

        def swap() -> list[Value]:
            self.begin(e)
            text = f"cmpxchg {pointer}, {given}, {wanted} {self._order(order)} {failed}"
            pair = e.f.emit(f"{{ {word}, i1 }}", text)
            return [e.as_type(e.f.emit(word, f"extractvalue {pair}, 0"), new.type)]

        return e.f.choose_all(condition, [zero(new.type)], swap)[0]

    def load(
        self, e: Emitter, order: Order, type: str, pointer: Value, condition: Value | None
    ) -> Value:
        size = bits_of(type) // 8

        def read() -> list[Value]:
            self.begin(e)
            word = f"i{8 * size}"
            text = f"load atomic {word}, {pointer} {self._order(order)}, align {size}"
            return [e.as_type(e.f.emit(word, text), type)]

        return e.f.choose_all(condition, [zero(type)], read)[0]

    def store(
        self, e: Emitter, order: Order, pointer: Value, value: Value, condition: Value | None
    ) -> Value:
        size = bits_of(value.type) // 8
        with e.f.where(condition):
            word = e.as_type(value, f"i{8 * size}")
            e.f.line(f"store atomic {word}, {pointer} {self._order(order)}, align {size}")
        return Value("void", "")


def zero(type: str) -> Value:
    """The value of an LLVM type whose bits are all zero."""
    return Value(type, "zeroinitializer")
