"""The part of a native launch's end that GPUs have in common: the current stream, memory beside the
arguments, errors. What differs between kernels is in a record, `EndWriter.state`."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

from tritium.codegen.llvm.writer import Module, Value, const
from tritium.launch.ends import Link, Slot
from tritium.launch.packing import rank_of
from tritium.native.pyobjects import api_addresses
from tritium.native.pyobjects_writer import call_object, is_null
from tritium.native.records import Record
from tritium.native.writer import NULL, Code, i32, i64

API = (
    "PyEval_RestoreThread", "PyEval_SaveThread", "PyLong_AsVoidPtr", "PyLong_FromLong",
    "PyLong_FromVoidPtr",
    "PyObject_CallFunctionObjArgs", "PyObject_IsTrue", "PyErr_Clear", "PyErr_Occurred", "Py_DecRef",
)  # fmt: skip
YES, NO = const("i1", 1), const("i1", 0)
CHECKED = (("wait", "ptr"), ("report", "ptr"), ("found", "ptr"), ("running", "i64"))
"""Fields of a kernel with checks. `wait`: the driver's function that waits for a stream, null for a
kernel without checks; `report`: the record that the kernel writes where a check fails, whose first
four bytes are not 0 then; `found`: a Python function that raises for it; `running`: 1 while a
launch has the report."""


class EndWriter(ABC):
    """Writes the end of a launch. Its `state` has these fields among others. `stream`: a Python
    function from `device` to the current stream, or null for the default stream; `failed`: one that
    raises for a status; `allocate`: null, or one from the number of programs and the stream to the
    scratch memory that the kernel needs, an int that is its address: the kernel's last parameter,
    behind `parameter_count` others. Where kernels may have checks, there are those of `CHECKED`
    as well."""

    state: ClassVar[Record]
    symbol: ClassVar[str]
    """The function's name in LLVM IR."""

    def __init__(self, module: Module):
        self.module = module

    @abstractmethod
    def write(self) -> None:
        """Write the function `symbol`."""

    @classmethod
    def ir(cls) -> str:
        """The LLVM IR of the end."""
        module = Module()
        cls(module).write()
        return module.text()

    def write_failure(self) -> None:
        """i1 fail(state, status): raise for a status of the driver; false."""
        f = Code(self.module, "fail", [("ptr", "state"), ("i32", "status")], "i1", cold=True)
        state, status = f.arguments
        number = f.call("ptr", "PyLong_FromLong", f.cast("sext", status, "i64"))
        with f.when(is_null(f, number)):
            f.ret(NO)
        answer = call_object(f, f.read(state, self.state, "failed"), number)
        f.call("void", "Py_DecRef", number)
        with f.when(f.icmp("ne", answer, NULL)):
            f.call("void", "Py_DecRef", answer)
        f.ret(NO)

    @staticmethod
    def room(f: Code, count: Value) -> Value:
        """Room for the addresses of `count` parameters, and of scratch memory."""
        return f.emit("ptr", f"alloca ptr, {f.add(count, i64(1))}, align 16")

    def stream(self, f: Code, state: Value) -> Value:
        """The stream that the launch goes to."""
        stream, function = f.variable("ptr", NULL), f.read(state, self.state, "stream")
        with f.when(f.icmp("ne", function, NULL)):
            answer = call_object(f, function, f.read(state, self.state, "device"))
            with f.when(is_null(f, answer)):
                f.ret(NO)
            handle = f.call("ptr", "PyLong_AsVoidPtr", answer)
            f.call("void", "Py_DecRef", answer)
            # Null is the default stream, or an exception.
            with f.when(is_null(f, handle)), f.when(
                f.icmp("ne", f.call("ptr", "PyErr_Occurred"), NULL)
            ):
                f.ret(NO)
            f.put(stream, handle)
        return f.get("ptr", stream)

    def scratch(
        self, f: Code, state: Value, total: Value, stream: Value, parameters: Value
    ) -> Value:
        """Ask for scratch memory and pass it on; where what keeps it alive is (null for none)."""
        memory, address = f.variable("ptr", NULL), f.variable("ptr", NULL)
        allocate = f.read(state, self.state, "allocate")
        with f.when(f.icmp("ne", allocate, NULL)):
            arguments = [
                f.call("ptr", "PyLong_FromLong", total),
                f.call("ptr", "PyLong_FromVoidPtr", stream),
            ]
            answer = f.variable("ptr", NULL)
            missing = f.op("or", is_null(f, arguments[0]), is_null(f, arguments[1]))
            with f.when(f.icmp("eq", missing, NO)):
                f.put(answer, call_object(f, allocate, *arguments))
            for argument in arguments:
                with f.when(f.icmp("ne", argument, NULL)):
                    f.call("void", "Py_DecRef", argument)
            found = f.get("ptr", answer)
            with f.when(is_null(f, found)):
                f.ret(NO)
            f.put(memory, found)
            f.put(address, f.call("ptr", "PyLong_AsVoidPtr", found))
            count = f.read(state, self.state, "parameter_count")
            f.put(f.gep("ptr", parameters, count), address)
        return memory

    def take_report(self, f: Code, state: Value, stream: Value) -> Value:
        """Wait until no other thread's launch has the report of the kernel's checks; the function
        that waits for its stream."""
        wait = f.read(state, self.state, "wait")
        with f.when(f.icmp("ne", wait, NULL)):
            with f.forever() as loop:
                with f.when(f.icmp("eq", f.read(state, self.state, "running"), i64(0))):
                    loop.leave()
                self.waiting(f, wait, stream)  # lets the other thread have Python's lock
            f.write(state, self.state, "running", i64(1))
        return wait

    def read_report(
        self, f: Code, state: Value, stream: Value, result: Value, wait: Value
    ) -> None:
        """Wait for the kernel, if it has checks and was launched; return false where one failed.

        Args:
            result: where the driver's status is; gets that of the wait.
            wait: from `take_report`.
        """
        with f.when(f.icmp("ne", wait, NULL)):
            with f.when(f.icmp("eq", f.get("i32", result), i32(0))):
                f.put(result, self.waiting(f, wait, stream))
            raised = f.get("i32", f.read(state, self.state, "report"))
            answer = f.variable("ptr", NULL)
            with f.when(f.icmp("ne", raised, i32(0))):
                f.put(answer, call_object(f, f.read(state, self.state, "found")))
            f.write(state, self.state, "running", i64(0))
            with f.when(f.icmp("ne", raised, i32(0))):
                f.ret(NO)

    @staticmethod
    def waiting(f: Code, function: Value, *arguments: Value) -> Value:
        """Call a function of the driver that may wait, maybe for host functions that are Python's,
        without Python's lock; the status."""
        thread = f.call("ptr", "PyEval_SaveThread")
        status = f.invoke("i32", function, *arguments)
        f.call("void", "PyEval_RestoreThread", thread)
        return status

    @staticmethod
    def finish(f: Code, state: Value, memory: Value, status: Value) -> None:
        """Let go of scratch memory, and return whether the launch has succeeded."""
        held = f.get("ptr", memory)
        with f.when(f.icmp("ne", held, NULL)):
            f.call("void", "Py_DecRef", held)
        with f.when(f.icmp("ne", status, i32(0))):
            f.ret(f.call("i1", "fail", state, status))
        f.ret(YES)


class Calls(NamedTuple):
    """Functions that all launch ends call: the driver's that launches, by address, and Python's.
    `stream`: from `device` to the current stream, None for the default stream; `allocate`: scratch
    memory for a number of programs on a stream, and its address."""

    launch: int
    stream: Callable[[int], int] | None
    device: int
    failed: Callable[[int], None]
    allocate: Callable[[int, int], tuple[Any, int]]

    def fields(self, metadata: Any) -> tuple[dict[str, int], tuple[Any, ...]]:
        """The values of a kernel's state for these functions and for its own sizes, and what must
        live as long as the state."""
        device, scratch = int(self.device), None
        if metadata.global_scratch_size:
            scratch = holder(self.allocate)
        values = {
            "launch": self.launch, "failed": id(self.failed), "device": id(device),
            "stream": 0 if self.stream is None else id(self.stream),
            "allocate": 0 if scratch is None else id(scratch),
            "threads": metadata.warp_size * metadata.num_warps, "shared": metadata.shared,
        }  # fmt: skip
        return values, (self, device, scratch)


def stream_function(torch: Any) -> tuple[Callable[[int], int] | None, int]:
    """A function from a device's number to the stream that torch has made current, and the number
    of the current device; without torch None, which stands for the default stream."""
    if torch is None:
        return None, 0
    return torch._C._cuda_getCurrentRawStream, torch.cuda.current_device()


def slot_of(kind: str, device: int) -> Slot | None:
    """The slot of a pointer or a number of a type; None for other types. `device`: DLPack's number
    of those whose memory the kernel accesses."""
    if kind.startswith("*") or kind[0] in "iu" or kind in ("fp32", "fp64"):
        return Slot(kind, device=device, finite=True)
    return None


def descriptor_slots(kind: str, device: int) -> list[Slot]:
    """The slots of a descriptor's tensor, shape and strides."""
    element, rank = kind.removeprefix("tensordesc<").partition("[")[0], rank_of(kind)
    return [Slot(f"*{element}", device=device), *[Slot("i32")] * rank, *[Slot("i64")] * rank]


@functools.cache
def address_of_end(writer: type[EndWriter], link: Link) -> int:
    """The address of a kind of end, in memory."""
    return link(writer.ir, [writer.symbol], api_addresses(API))[writer.symbol]


class _Held(int):
    """The address of memory that lives as long as this."""

    memory: Any


def holder(allocate: Callable[[int, int], tuple[Any, int]]) -> Callable[[int, int], int]:
    """The same function with one result, an address that keeps the memory alive."""

    def held(programs: int, stream: int) -> int:
        memory, address = allocate(programs, stream)
        answer = _Held(address)
        answer.memory = memory
        return answer

    return held
