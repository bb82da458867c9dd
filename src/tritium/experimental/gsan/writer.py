"""The allocator of pools as LLVM IR, for a library that torch loads: it calls the CUDA driver's
functions of virtual memory, and keeps a table of the allocations that are live.

No lock: an entry of the table is taken and given back by exchanging its state.
"""

from __future__ import annotations

from tritium.codegen.llvm.writer import Module, Value
from tritium.native.records import Record
from tritium.native.writer import Code, i32, i64

DRIVER = ("cuMemCreate", "cuMemAddressReserve", "cuMemMap", "cuMemSetAccess", "cuMemUnmap",
          "cuMemAddressFree", "cuMemRelease", "cuStreamSynchronize")  # fmt: skip
"""The functions of the driver that are called, by address."""
STATE = Record(
    *((name, "ptr") for name in DRIVER), ("entries", "ptr"), ("capacity", "i64"),
    ("granularity", "i64"), ("devices", "i64"), ("allocations", "i64"),
    ("used", "i64"), ("handles", "i32"),
)  # fmt: skip
"""`devices`: bits of those that may have allocations. `allocations`: how many were made.
`used`: entries from there on have always been free."""
ENTRY = Record(("state", "i64"), ("begin", "i64"), ("size", "i64"), ("handle", "i64"),
               ("number", "i64"), ("device", "i32"), ("write_once", "i32"))  # fmt: skip
FREE, TAKEN, LIVE = range(3)
"""States of an entry; the other fields are those of an allocation where it is live."""
STATE_SYMBOL = "tritium_gsan"
ALLOCATE, ALLOCATE_WRITE_ONCE, RELEASE = (
    f"{STATE_SYMBOL}_{name}" for name in ("allocate", "allocate_write_once", "free")
)
_PINNED, _ON_DEVICE, _READ_WRITE = 1, 1, 3  # of CUmemAllocationProp, CUmemLocation, CUmemAccessDesc
_PROPERTIES = Record(("type", "i32"), ("handles", "i32"), ("where", "i32"), ("device", "i32"),
                     ("win32", "i64"), ("flags", "i64"))  # fmt: skip
_ACCESS = Record(("where", "i32"), ("device", "i32"), ("flags", "i32"))
_MAPPED = 3


def allocator_ir() -> str:
    """The library's text. Exported are `STATE_SYMBOL`, `ALLOCATE`, `ALLOCATE_WRITE_ONCE` and
    `RELEASE`, with the signatures of `torch.cuda.memory.CUDAPluggableAllocator`."""
    module = Module()
    module.globals[STATE_SYMBOL] = f"global [{STATE.size} x i8] zeroinitializer, align 16"
    _Writer(module).write()
    return module.text()


class _Writer:
    def __init__(self, module: Module):
        self.module, self.state = module, Value("ptr", f"@{STATE_SYMBOL}")

    def write(self) -> None:
        self._undo()
        self._allocate()
        for name, once in ((ALLOCATE, 0), (ALLOCATE_WRITE_ONCE, 1)):
            arguments = [("i64", "size"), ("i32", "device"), ("ptr", "stream")]
            f = self._function(name, arguments, "ptr", exported=True)
            size, device, _ = f.arguments
            place = f.call("i64", f"{STATE_SYMBOL}_new", size, device, i32(once))
            f.ret(f.cast("inttoptr", place, "ptr"))
        self._free()

    def _function(
        self, name: str, arguments: list[tuple[str, str]], result: str = "void",
        exported: bool = False,
    ) -> Code:  # fmt: skip
        return Code(self.module, name, arguments, result, exported=exported, cold=True)

    def _driver(self, f: Code, name: str, *arguments: Value) -> Value:
        return f.invoke("i32", f.read(self.state, STATE, name), *arguments)

    def _say(self, f: Code, text: str, number: Value) -> None:
        """Write a line to stderr, with a number in it."""
        data = f"tritium.experimental.gsan: {text}\n".encode() + b"\0"
        body = "".join(f"\\{byte:02X}" for byte in data)
        format = self.module.constant(f"[{len(data)} x i8]", f'c"{body}"', align=1)
        self.module.declare("dprintf", "i32", ["i32", "ptr", "..."])
        f.emit("i32", f"call i32 (i32, ptr, ...) @dprintf(i32 2, {format}, {number})")

    def _undo(self) -> None:
        """void undo(entry, i64 steps): take back the first steps of an allocation: its memory, the
        addresses, the mapping. The entry is free then."""
        f = self._function(f"{STATE_SYMBOL}_undo", [("ptr", "place"), ("i64", "steps")])
        entry, steps = f.arguments
        begin, size, handle = (f.read(entry, ENTRY, name) for name in ("begin", "size", "handle"))
        calls = (("cuMemUnmap", (begin, size)), ("cuMemAddressFree", (begin, size)),
                 ("cuMemRelease", (handle,)))  # fmt: skip
        for least, (name, arguments) in zip((_MAPPED, 2, 1), calls, strict=True):
            with f.when(f.icmp("sge", steps, i64(least))):
                status = self._driver(f, name, *arguments)
                with f.when(f.icmp("ne", status, i32(0))):
                    self._say(f, f"{name} failed: CUresult %d", status)
        f.atomic_store(f.at(entry, ENTRY, "state"), i64(FREE))
        f.ret()

    def _allocate(self) -> None:
        """i64 new(i64 size, i32 device, i32 write_once): the address; 0 where there is none."""
        arguments = [("i64", "size"), ("i32", "device"), ("i32", "write_once")]
        f = self._function(f"{STATE_SYMBOL}_new", arguments, "i64")
        asked, device, once = f.arguments
        allowed = f.op("lshr", f.read(self.state, STATE, "devices"), f.cast("zext", device, "i64"))
        known = f.op("and", f.icmp("ult", device, i32(64)), f.cast("trunc", allowed, "i1"))
        with f.when(f.op("xor", known, Value("i1", "true"))):
            self._say(f, "device %d is not in device_ranks of configure", device)
            f.ret(i64(0))
        unit = f.read(self.state, STATE, "granularity")
        count = f.op("udiv", f.sub(f.add(f.maximum(asked, i64(1)), unit), i64(1)), unit)
        size, entry = f.op("mul", count, unit), self._take(f)
        f.write(entry, ENTRY, "size", size)
        f.write(entry, ENTRY, "device", device)
        f.write(entry, ENTRY, "write_once", once)
        begin, handle = f.at(entry, ENTRY, "begin"), f.at(entry, ENTRY, "handle")

        def step(number: int, name: str, *arguments: Value) -> None:
            status = self._driver(f, name, *arguments)
            with f.when(f.icmp("ne", status, i32(0))):
                self._say(f, f"{name} failed: CUresult %d", status)
                f.call("void", f"{STATE_SYMBOL}_undo", entry, i64(number))
                f.ret(i64(0))

        step(0, "cuMemCreate", handle, size, self._properties(f, device), i64(0))
        step(1, "cuMemAddressReserve", begin, size, i64(0), i64(0), i64(0))
        place = f.get("i64", begin)
        step(2, "cuMemMap", place, size, i64(0), f.get("i64", handle), i64(0))
        step(_MAPPED, "cuMemSetAccess", place, size, self._access(f, device), i64(1))
        number = f.atomic("add", f.at(self.state, STATE, "allocations"), i64(1), "monotonic")
        f.write(entry, ENTRY, "number", number)
        f.atomic_store(f.at(entry, ENTRY, "state"), i64(LIVE))
        f.ret(place)

    def _take(self, f: Code) -> Value:
        """A free entry; the function returns 0 where there is none."""
        found = f.variable("ptr", Value("ptr", "null"))
        with f.counted(f.read(self.state, STATE, "capacity")) as (i, loop):
            entry = self._entry(f, i)
            with f.when(f.compare_exchange(f.at(entry, ENTRY, "state"), i64(FREE), i64(TAKEN))):
                f.atomic("max", f.at(self.state, STATE, "used"), f.add(i, i64(1)), "monotonic")
                f.put(found, entry)
                loop.leave()
        with f.when(f.icmp("eq", f.get("ptr", found), Value("ptr", "null"))):
            self._say(f, "more than %ld allocations", f.read(self.state, STATE, "capacity"))
            f.ret(i64(0))
        return f.get("ptr", found)

    def _entry(self, f: Code, number: Value) -> Value:
        entries = f.read(self.state, STATE, "entries")
        return f.gep("i8", entries, f.op("mul", number, i64(ENTRY.size)))

    def _properties(self, f: Code, device: Value) -> Value:
        made = f.variable("", size=_PROPERTIES.size)
        handles = f.read(self.state, STATE, "handles")
        for name, value in (("type", i32(_PINNED)), ("handles", handles), ("device", device),
                            ("where", i32(_ON_DEVICE)), ("win32", i64(0)), ("flags", i64(0))):
            f.write(made, _PROPERTIES, name, value)
        return made

    def _access(self, f: Code, device: Value) -> Value:
        made = f.variable("", size=_ACCESS.size)
        f.write(made, _ACCESS, "where", i32(_ON_DEVICE))
        f.write(made, _ACCESS, "device", device)
        f.write(made, _ACCESS, "flags", i32(_READ_WRITE))
        return made

    def _free(self) -> None:
        """void free(pointer, i64 size, i32 device, stream). Work of the stream may still use the
        memory, and unmapping does not wait for it."""
        arguments = [("ptr", "pointer"), ("i64", "size"), ("i32", "device"), ("ptr", "stream")]
        f = self._function(RELEASE, arguments, exported=True)
        pointer, _, _, stream = f.arguments
        place = f.cast("ptrtoint", pointer, "i64")
        with f.when(f.icmp("eq", place, i64(0))):
            f.ret()
        with f.counted(f.read(self.state, STATE, "used")) as (i, _):
            entry = self._entry(f, i)
            at = f.at(entry, ENTRY, "state")
            live = f.icmp("eq", f.atomic_load("i64", at), i64(LIVE))
            same = f.icmp("eq", f.read(entry, ENTRY, "begin"), place)
            with (
                f.when(f.op("and", live, same)),
                f.when(f.compare_exchange(at, i64(LIVE), i64(TAKEN))),
            ):
                self._driver(f, "cuStreamSynchronize", stream)
                f.call("void", f"{STATE_SYMBOL}_undo", entry, i64(_MAPPED))
                f.ret()
        self._say(f, "free of %#lx, which is no allocation", place)
        f.ret()
