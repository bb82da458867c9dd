"""CUDA's `vprintf` and `__assertfail`.

A failed assertion prints its message and ends the kernel; the driver reports it with the next call
that waits for the kernel, and the process has lost the device then.
"""

from __future__ import annotations

from collections.abc import Sequence

from tritium.codegen.gpu.emitter import Emitter
from tritium.codegen.llvm.writer import Value, c_string, const


class CudaHost:
    """The functions that the CUDA driver links into every kernel."""

    def print(self, e: Emitter, format: str, values: Sequence[Value]) -> None:
        struct = "{ " + ", ".join(v.type for v in values) + " }"
        lines = e.f.enter(e.entry)
        arguments = e.f.emit("ptr", f"alloca {struct}, align 8")
        e.f.leave(lines)
        for i, value in enumerate(values):
            place = e.f.emit("ptr", f"getelementptr {struct}, {arguments}, i32 0, i32 {i}")
            e.f.store(value, place, 8 if value.type in ("i64", "double") else 4)
        e.f.call("i32", "vprintf", _text(e, format), arguments)

    def fail(self, e: Emitter, message: str, file: str, line: int) -> None:
        texts = _text(e, message), _text(e, file)
        name = _text(e, e.f.name)
        e.f.call("void", "__assertfail", *texts, e.i32(line), name, const("i64", 1))


def _text(e: Emitter, text: str) -> Value:
    """A C string in the module."""
    definition = "internal addrspace(1) constant " + " ".join(c_string(text))
    known = e.f.module.globals
    name = next((n for n, d in known.items() if d == definition), f"text.{len(known)}")
    known[name] = definition
    return e.f.cast("addrspacecast", Value("ptr addrspace(1)", f"@{name}"), "ptr")
