"""Writing systems code (a thread pool, a launcher) as LLVM IR: variables, branches, loops,
records in memory and atomics, on top of the text writer. Optimized afterwards by LLVM."""

from __future__ import annotations

import ctypes
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tritium.lowering.llvm import Function, Module, Value, const

_CTYPES: dict[str, Any] = {
    "i8": ctypes.c_int8, "i16": ctypes.c_int16, "i32": ctypes.c_int32, "i64": ctypes.c_int64,
    "ptr": ctypes.c_uint64, "double": ctypes.c_double,
}  # fmt: skip
_SIZES = {"i8": 1, "i16": 2, "i32": 4, "i64": 8, "ptr": 8, "double": 8}


@dataclass(frozen=True)
class Field:
    """One field of a `Record`: its LLVM type and where it is, in bytes."""

    type: str
    offset: int


class Record:
    """The layout of a struct that native code and Python share.

    Fields are (name, type) pairs; the type may also be `align N` (start the next field at a
    multiple of N bytes) or `bytes N` (an opaque field). Python reads and writes by address.
    """

    def __init__(self, *fields: tuple[str, str], align: int = 8):
        self.fields: dict[str, Field] = {}
        at = 0
        for name, type in fields:
            word, _, number = type.partition(" ")
            if word == "align":
                at = -(-at // int(number)) * int(number)
                continue
            size = int(number) if word == "bytes" else _SIZES[type]
            unit = 8 if word == "bytes" else size
            at = -(-at // unit) * unit
            self.fields[name] = Field("i8" if word == "bytes" else type, at)
            at += size
        self.size = -(-at // align) * align

    def read(self, address: int, name: str) -> Any:
        """A field of the record at `address`."""
        field = self.fields[name]
        return _CTYPES[field.type].from_address(address + field.offset).value

    def write(self, address: int, **values: float) -> None:
        """Set fields of the record at `address`."""
        for name, value in values.items():
            field = self.fields[name]
            _CTYPES[field.type].from_address(address + field.offset).value = value


def allocate(size: int, align: int = 128) -> tuple[int, Any]:
    """Zeroed memory: its address, aligned, and the object that owns it."""
    owner = ctypes.create_string_buffer(size + align)
    return -(-ctypes.addressof(owner) // align) * align, owner


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
    def when(self, condition: Value) -> Generator[None, None, None]:
        """`if (condition) { ... }`"""
        then, after = self.new_label("then"), self.new_label("after")
        self.branch_if(condition, then, after)
        self.label(then)
        yield
        self.branch(after)
        self.label(after)

    @contextmanager
    def forever(self) -> Generator[Forever, None, None]:
        """`for (;;) { ... }`; left by `leave`."""
        again, done = self.new_label("again"), self.new_label("done")
        self.branch(again)
        self.label(again)
        yield Forever(self, again, done)
        self.branch(again)
        self.label(done)

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
        return self.load(type, pointer, _SIZES.get(type, 1))

    def put(self, pointer: Value, value: Value) -> None:
        """Store a value."""
        self.store(value, pointer, _SIZES.get(value.type, 1))

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
        return self.emit(type, f"load atomic {type}, {pointer} {order}, align {_SIZES[type]}")

    def atomic_store(self, pointer: Value, value: Value, order: str = "release") -> None:
        self.line(f"store atomic {value}, {pointer} {order}, align {_SIZES[value.type]}")

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
