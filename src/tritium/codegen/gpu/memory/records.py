"""Messages of a kernel to the host: records in a buffer on the device that the launch reads
(`tritium.system.record_format`).

    used: i64, the bytes of all records, also of those that there was no room for
    record: i64, one more than the number of its format; 8 bytes for each value

A record that does not fit is left out. A failed assertion is a record, after which the wave ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tritium.codegen.gpu.emitter import Emitter
from tritium.codegen.gpu.hardware import Grid
from tritium.codegen.llvm.writer import Value, const
from tritium.system.record_format import CAPACITY, HEAD_BYTES, SYMBOL, Format

_POINTER = "ptr addrspace(1)"
_DEFINITION = f"protected addrspace(1) externally_initialized global {_POINTER} null, align 8"


class Records:
    """The records of one compilation; `formats`: what they are printed by; `end`: the intrinsic
    that ends a wave."""

    def __init__(self, end: str) -> None:
        self.formats: list[Format] = []
        self._end = end

    def print(self, e: Emitter, format: str, values: Sequence[Value]) -> None:
        self._write(e, Format(format, False), values)

    def fail(self, e: Any, message: str, file: str, line: int) -> None:
        grid: Grid = e.hardware.grid
        place = [grid.program_id(e, axis) for axis in range(3)]
        thread = grid.thread(e.f, e.num_warps << e.lane_bits)
        text = f"{file}:{line}: {e.f.name}: Assertion `{message}` failed.".replace("%", "%%")
        where = "pid (%u, %u, %u) thread %u: "
        self._write(e, Format(where + text + "\n", True), [*place, thread])
        e.f.call("void", self._end)

    def _write(self, e: Emitter, format: Format, values: Sequence[Value]) -> None:
        if format not in self.formats:
            self.formats.append(format)
        f, number = e.f, const("i64", self.formats.index(format) + 1)
        f.module.globals[SYMBOL] = _DEFINITION
        size = 8 * (1 + len(values))
        buffer = f.load(_POINTER, Value(_POINTER, f"@{SYMBOL}"), 8)
        with f.when(f.icmp("ne", buffer, Value(_POINTER, "null")), "record", "recorded"):
            room = const("i64", CAPACITY - HEAD_BYTES - size)
            order = 'syncscope("agent") monotonic, align 8'
            place = f.emit("i64", f"atomicrmw add {buffer}, {const('i64', size)} {order}")
            with f.when(f.icmp("ule", place, room), "room", "full"):
                for i, value in enumerate([number, *values]):
                    wide = f.cast("zext", value, "i64") if value.type == "i32" else value
                    at = f.op("add", place, const("i64", HEAD_BYTES + 8 * i))
                    f.store(wide, f.emit(_POINTER, f"getelementptr i8, {buffer}, {at}"), 8)
