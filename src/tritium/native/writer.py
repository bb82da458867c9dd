"""Writing systems code (a thread pool, a launcher) as LLVM IR: variables, branches, loops,
fields of records and atomics, on top of the text writer. Optimized afterwards by LLVM."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager

from tritium.codegen.llvm.writer import Function, Module, Value, const
from tritium.native.records import SIZES, Record


def i64(value: int) -> Value:
    return const("i64", value)


def i32(value: int) -> Value:
    return const("i32", value)


NULL = Value("ptr", "null")


class Forever:
    """Labels to leave or to restart a `Code.forever` loop."""

    def __init__(self, code: Code, again: str, done: str):
        self._code, self.again, self.done = code, again, done

    def leave(self) -> None:
        """Jump behind the loop."""
        self._code.branch(self.done)

    def restart(self) -> None:
        """Jump to the loop's start."""
        self._code.branch(self.again)


class Code(Function):
    """A function written with variables and structured control flow.

    Variables are stack slots, all of them in the entry block, which LLVM turns into registers.
    A branch that ends in `ret`, `leave` or `restart` needs nothing else.

    A `cold` function is left unoptimized: its speed does not matter, and it compiles six times
    faster.
    """

    def __init__(
        self, module: Module, name: str, arguments: Sequence[tuple[str, str]],
        result: str = "void", *, exported: bool = False, cold: bool = False,
    ):  # fmt: skip
        self._open = True
        triples = [(type, arg, "") for type, arg in arguments]
        super().__init__(
            module, name, triples, result, linkage="" if exported else "internal",
            attributes="nounwind optnone noinline" if cold else "nounwind",
        )  # fmt: skip
        self._slots_at = len(self._lines)

    # Blocks: remember whether the current one has ended

    def label(self, name: str) -> None:
        super().label(name)
        self._open = True

    def branch(self, label: str, metadata: str = "") -> None:
        if self._open:
            super().branch(label, metadata)
        self._open = False

    def branch_if(self, condition: Value, then: str, other: str, metadata: str = "") -> None:
        super().branch_if(condition, then, other, metadata)
        self._open = False

    def ret(self, value: Value | None = None) -> None:
        super().ret(value)
        self._open = False

    @contextmanager
    def forever(self) -> Generator[Forever, None, None]:
        """`for (;;) { ... }`; left by `leave`."""
        again, done = self.new_label("again"), self.new_label("done")
        self.branch(again)
        self.label(again)
        yield Forever(self, again, done)
        self.branch(again)
        self.label(done)

    @contextmanager
    def counted(
        self, count: Value, start: Value | None = None
    ) -> Generator[tuple[Value, Forever], None, None]:
        """`for (i64 i = start; i < count; i++) { ... }`: i, and the loop."""
        index = self.variable("i64", start or i64(0))
        with self.forever() as loop:
            i = self.get("i64", index)
            with self.when(self.icmp("sge", i, count)):
                loop.leave()
            self.put(index, self.add(i, i64(1)))
            yield i, loop

    # Variables and memory

    def variable(self, type: str, start: Value | None = None, size: int = 0) -> Value:
        """A stack slot for a value of `type` (or for `size` bytes, aligned to 16)."""
        slot = self._new("ptr")
        what = f"[{size} x i8], align 16" if size else f"{type}, align 8"
        self._lines.insert(self._slots_at, f"  {slot.ref} = alloca {what}")
        if start is not None:
            self.put(slot, start)
        return slot

    def get(self, type: str, pointer: Value) -> Value:
        """Load a `type`."""
        return self.load(type, pointer, SIZES.get(type, 1))

    def put(self, pointer: Value, value: Value) -> None:
        """Store a value."""
        self.store(value, pointer, SIZES.get(value.type, 1))

    def at(self, base: Value, record: Record, name: str) -> Value:
        """The address of a field."""
        return self.offset(base, record.fields[name].offset)

    def read(self, base: Value, record: Record, name: str) -> Value:
        """Load a field."""
        return self.get(record.fields[name].type, self.at(base, record, name))

    def write(self, base: Value, record: Record, name: str, value: Value) -> None:
        """Store a field."""
        assert value.type == record.fields[name].type, (name, value)
        self.put(self.at(base, record, name), value)

    # Atomics

    def atomic_load(self, type: str, pointer: Value, order: str = "acquire") -> Value:
        return self.emit(type, f"load atomic {type}, {pointer} {order}, align {SIZES[type]}")

    def atomic_store(self, pointer: Value, value: Value, order: str = "release") -> None:
        self.line(f"store atomic {value}, {pointer} {order}, align {SIZES[value.type]}")

    def atomic(self, operation: str, pointer: Value, value: Value, order: str) -> Value:
        """`atomicrmw`; returns the value before."""
        return self.emit(value.type, f"atomicrmw {operation} {pointer}, {value} {order}")

    def compare_exchange(self, pointer: Value, expected: Value, new: Value) -> Value:
        """Replace `expected` by `new`; returns whether that was done (i1)."""
        pair = self.emit("", f"cmpxchg {pointer}, {expected}, {new} acq_rel monotonic")
        return self.emit("i1", f"extractvalue {{ {expected.type}, i1 }} {pair.ref}, 1")

    # Calls

    def invoke(self, type: str, pointer: Value, *arguments: Value) -> Value:
        """Call a function by address."""
        text = f"call {type} {pointer.ref}({', '.join(map(str, arguments))})"
        if type == "void":
            self.line(text)
            return Value("void", "")
        return self.emit(type, text)

    def minimum(self, left: Value, right: Value) -> Value:
        """The smaller of two signed integers."""
        return self.select(self.icmp("slt", left, right), left, right)

    def maximum(self, left: Value, right: Value) -> Value:
        """The larger of two signed integers."""
        return self.select(self.icmp("sgt", left, right), left, right)

    def add(self, left: Value, right: Value) -> Value:
        return self.op("add", left, right)

    def sub(self, left: Value, right: Value) -> Value:
        return self.op("sub", left, right)
