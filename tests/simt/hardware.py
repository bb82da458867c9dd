"""A processor that is none: code of `codegen.gpu` for the CPU that the tests run on.

Each thread is one call of the kernel's function. What concerns other threads (barriers, shuffles,
positions) is a call into `machine`, which decides which thread runs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import Any

import llvmlite.binding as llvm

from tritium.codegen.gpu.elementwise import in_float
from tritium.codegen.gpu.emitter import Emitter, bits_of
from tritium.codegen.gpu.hardware import Caching, Hardware, Order, Unsupported
from tritium.codegen.gpu.matmul import fma
from tritium.codegen.llvm.vmath import call
from tritium.codegen.llvm.writer import Function, Value, const
from tritium.codegen.registry import lowers
from tritium.ops import arith, math, ttir
from tritium.ops.ttir import AtomicKind, MemSemantic
from tritium.target import Banks

SIMT = "simt"
NO_FEATURES: frozenset[str] = frozenset()


def guarded(e: Emitter, condition: Value | None, write: Any, otherwise: Sequence[Value]) -> Any:
    """The values that `write` gives where the condition holds, `otherwise` elsewhere."""
    if condition is None:
        return write()
    f, before = e.f, e.f.block
    then, done = f.new_label("then"), f.new_label("done")
    f.branch_if(condition, then, done)
    f.label(then)
    found, end = write(), f.block
    f.branch(done)
    f.label(done)
    return [
        f.phi(v.type, [(v, end), (o, before)]).value for v, o in zip(found, otherwise, strict=True)
    ]


def zero(type: str) -> Value:
    return const(type, 0 if type[0] == "i" else 0.0)


def neighbours(e: Emitter, pointer: Value, element: str, count: int) -> list[Value]:
    return [
        e.f.emit(pointer.type, f"getelementptr {element}, {pointer}, i32 {i}") for i in range(count)
    ]


def write_all(e: Emitter, pointer: Value, parts: Sequence[Value]) -> list[Value]:
    size = max(bits_of(parts[0].type) // 8, 1)
    for place, part in zip(neighbours(e, pointer, parts[0].type, len(parts)), parts, strict=True):
        e.f.store(part, place, size)
    return []


class Grid:
    def thread(self, f: Function) -> Value:
        return f.call("i32", "simt_thread")

    def block_in_cluster(self, e: Emitter) -> Value:
        raise Unsupported("clusters")

    def program_id(self, e: Emitter, axis: int, *, blocks: bool = False) -> Value:
        return e.f.call("i32", "simt_program", e.i32(axis))

    def num_programs(self, e: Emitter, axis: int, *, blocks: bool = False) -> Value:
        return e.f.call("i32", "simt_programs", e.i32(axis))


class Shuffles:
    def xor(self, e: Emitter, word: Value, mask: int) -> Value:
        return self.index(e, word, e.f.op("xor", e.lane, e.i32(mask)))

    def index(self, e: Emitter, word: Value, lane: Value) -> Value:
        return e.f.call("i32", "simt_shuffle", word, lane)


class GlobalMemory:
    def load(
        self, e: Emitter, pointer: Value, element: str, count: int, mask: Value | None,
        others: Sequence[Value] | None, caching: Caching,
    ) -> list[Value]:  # fmt: skip
        size = max(bits_of(element) // 8, 1)

        def read() -> list[Value]:
            return [e.f.load(element, p, size) for p in neighbours(e, pointer, element, count)]

        return guarded(e, mask, read, others or [zero(element)] * count)

    def store(
        self, e: Emitter, pointer: Value, parts: Sequence[Value], condition: Value | None,
        caching: Caching,
    ) -> None:  # fmt: skip
        guarded(e, condition, partial(write_all, e, pointer, parts), [])


class SharedMemory:
    def store(
        self, e: Emitter, pointer: Value, parts: Sequence[Value], condition: Value | None
    ) -> None:
        guarded(e, condition, partial(write_all, e, pointer, parts), [])

    def add(self, e: Emitter, pointer: Value, number: Value, condition: Value) -> None:
        def add() -> list[Value]:
            return [e.f.emit("i32", f"atomicrmw add {pointer}, {number} monotonic")]

        guarded(e, condition, add, [e.i32(0)])

    def load_remote(
        self, e: Emitter, place: Value, block: Value, element: str, count: int
    ) -> list[Value]:
        raise Unsupported("clusters")


class NoMatrixMoves:
    loads = stores = False

    def find_load(self, place: Any, size: int) -> None:
        return None

    find_store = find_load


class AsyncCopies:
    """Copies that are done at once."""

    least_bytes = 4

    def copy(
        self, e: Emitter, to: Value, source: Value, size: int, filled: Value | None, keep: bool,
        condition: Value | None,
    ) -> None:  # fmt: skip
        def copy() -> list[Value]:
            places = neighbours(e, source, "i8", size)

            def read() -> list[Value]:
                return [e.f.load("i8", place, 1) for place in places]

            return write_all(e, to, guarded(e, filled, read, [zero("i8")] * size))

        guarded(e, condition, copy, [])

    def commit(self, e: Emitter) -> None:
        pass

    def wait(self, e: Emitter, pending: int) -> None:
        pass


class Barriers:
    """Barriers of a block; those whose numbers are in `dropped` are left out."""

    def __init__(self, dropped: frozenset[int]):
        self.count, self._dropped = 0, dropped

    def block(self, e: Emitter, proxy: bool) -> None:
        if self.count not in self._dropped:
            e.f.call("void", "simt_barrier")
        self.count += 1

    def cluster(self, e: Emitter) -> None:
        raise Unsupported("clusters")


ORDERS = {
    MemSemantic.RELAXED: "monotonic", MemSemantic.ACQUIRE: "acquire",
    MemSemantic.RELEASE: "release", MemSemantic.ACQUIRE_RELEASE: "acq_rel",
}  # fmt: skip
UPDATES = {
    AtomicKind.AND: "and", AtomicKind.OR: "or", AtomicKind.XOR: "xor", AtomicKind.ADD: "add",
    AtomicKind.FADD: "fadd", AtomicKind.MAX: "max", AtomicKind.MIN: "min",
    AtomicKind.UMAX: "umax", AtomicKind.UMIN: "umin", AtomicKind.XCHG: "xchg",
}  # fmt: skip


class Atomics:
    def width(self, op: Any) -> int:
        return 1

    def update(
        self, e: Emitter, kind: AtomicKind, order: Order, pointer: Value, operand: Value,
        condition: Value | None,
    ) -> Value:  # fmt: skip
        def update() -> list[Value]:
            text = f"atomicrmw {UPDATES[kind]} {pointer}, {operand} {ORDERS[order.semantic]}"
            return [e.f.emit(operand.type, text)]

        return guarded(e, condition, update, [zero(operand.type)])[0]

    def compare_and_swap(
        self, e: Emitter, order: Order, pointer: Value, expected: Value, new: Value,
        condition: Value | None,
    ) -> Value:  # fmt: skip
        word = f"i{bits_of(new.type)}"
        given, wanted = e.as_type(expected, word), e.as_type(new, word)

        def swap() -> list[Value]:
            text = f"cmpxchg {pointer}, {given}, {wanted} acq_rel monotonic"
            pair = e.f.emit(f"{{ {word}, i1 }}", text)
            return [e.as_type(e.f.emit(word, f"extractvalue {pair}, 0"), new.type)]

        return guarded(e, condition, swap, [zero(new.type)])[0]


class Conversions:
    integer_to_bfloat = False

    def fp8(self, e: Emitter, a: Value, source: str, target: str) -> None:
        return None

    def toward_zero(self, e: Emitter, a: Value, type: str, *, signed: bool = True) -> Value:
        raise Unsupported(f"{a.type} rounded toward zero to {type}")


class Host:
    def print(self, e: Emitter, format: str, values: Sequence[Value]) -> None:
        raise Unsupported("printing")

    def fail(self, e: Emitter, message: str, file: str, line: int) -> None:
        raise Unsupported("assertions")


class Simt(Hardware):
    """`lanes` threads a warp. `dropped`: the numbers of barriers to leave out."""

    name = SIMT
    title = "simt"
    kernel_linkage = ""
    function_attributes = "convergent nounwind"
    descriptor_attributes = ""
    reserved_names = re.compile(r"simt_.*|.*\$")

    def __init__(self, machine: Any, lanes: int, dropped: frozenset[int] = frozenset()):
        self.triple, self.data_layout = llvm.get_default_triple(), str(machine.target_data)
        self.lanes, self.banks, self.grid, self.shuffles = lanes, Banks(), Grid(), Shuffles()
        self.memory, self.shared, self.matrices = GlobalMemory(), SharedMemory(), NoMatrixMoves()
        self.async_copies, self.barriers = AsyncCopies(), Barriers(dropped)
        self.atomics, self.conversions, self.host = Atomics(), Conversions(), Host()

    def check_cluster(self, num_ctas: int) -> None:
        assert num_ctas == 1

    def prepare(self, module: Any, options: Any) -> None:
        pass

    def kernel_attributes(self, num_warps: int, num_ctas: int, options: Any) -> str:
        return self.function_attributes


@lowers(SIMT, ttir.DotOp)
def dot(c: Any, op: Any) -> None:
    fma.multiply(c, op)


FUNCTIONS = {
    math.ExpOp: "exp", math.Exp2Op: "exp2", math.LogOp: "log", math.Log2Op: "log2",
    math.SinOp: "sin", math.CosOp: "cos", math.ErfOp: "erf", math.TanhOp: "tanh",
    math.RsqrtOp: "rsqrt",
}  # fmt: skip


@lowers(f"{SIMT}.elementwise", *FUNCTIONS)
def library_function(c: Any, op: Any, *values: Value) -> Value:
    name = FUNCTIONS[type(op)]
    return in_float(c, values, lambda *v: call(c.f, name, *v, features=NO_FEATURES))


@lowers(f"{SIMT}.elementwise", math.SqrtOp)
def square_root(c: Any, op: Any, a: Value) -> Value:
    return in_float(c, (a,), partial(c.f.intrinsic, "sqrt"))


@lowers(f"{SIMT}.elementwise", arith.DivFOp)
def divide(c: Any, op: Any, a: Value, b: Value) -> Value:
    return in_float(c, (a, b), partial(c.f.op, "fdiv"))
