"""The handler of SIGSEGV and SIGBUS, as LLVM IR: it tells which kernel made an access that it may
not make, and leaves the rest to whoever handled the signal before.

`crash` holds its memory and installs it.
"""

from __future__ import annotations

import platform

from tritium.codegen.llvm.writer import Module, Value
from tritium.native.crash import ACTION, REGION, SIGSEGV, STATE, STATE_SYMBOL
from tritium.native.writer import NULL, Code, i32, i64

_PROGRAM_COUNTER = {"x86_64": 168, "aarch64": 440}
"""Offset in `ucontext_t` (Linux) of the address of the instruction that failed."""
_HANDLES_INFO = 4  # SA_SIGINFO
_STDERR = 2


class CrashWriter:
    """Writes `tritium_crash`, which is empty where there are no `reports`."""

    def __init__(self, module: Module, reports: bool):
        self.module, self.reports = module, reports

    def write(self) -> None:
        """Write the handler: void tritium_crash(signal, info, context)."""
        arguments = [("i32", "signal"), ("ptr", "info"), ("ptr", "context")]
        f = Code(self.module, "tritium_crash", arguments, exported=True, cold=True)
        signal, info, context = f.arguments
        if not self.reports:
            f.ret()
            return
        offset = _PROGRAM_COUNTER[platform.machine()]
        self.module.globals[STATE_SYMBOL] = "external global i8"
        state = Value("ptr", f"@{STATE_SYMBOL}")
        first, second = f.at(state, STATE, "segv"), f.at(state, STATE, "bus")
        before = f.select(f.icmp("eq", signal, i32(SIGSEGV)), first, second)
        self._report(f, state, f.get("i64", f.offset(context, offset)), (signal, before))
        handler = f.read(before, ACTION, "handler")
        with f.when(f.icmp("ule", handler, i64(1))):  # the system's default, or none
            f.call("i32", "sigaction", signal, before, NULL)
            f.ret()
        function = f.cast("inttoptr", handler, "ptr")
        detailed = f.op("and", f.read(before, ACTION, "flags"), i32(_HANDLES_INFO))
        with f.when(f.icmp("ne", detailed, i32(0))):
            f.invoke("void", function, signal, info, context)
            f.ret()
        f.invoke("void", function, signal)
        f.ret()

    def _report(
        self, f: Code, state: Value, pc: Value, then: tuple[Value, Value]
    ) -> None:
        """If a kernel was running, say so and let the signal happen again, to others."""
        signal, before = then
        region = f.variable("ptr", f.read(state, STATE, "regions"))
        left = f.variable("i64", f.read(state, STATE, "count"))
        with f.forever() as loop:
            with f.when(f.icmp("sle", f.get("i64", left), i64(0))):
                loop.leave()
            at = f.get("ptr", region)
            f.put(left, f.sub(f.get("i64", left), i64(1)))
            f.put(region, f.offset(at, REGION.size))
            inside = f.icmp("uge", pc, f.read(at, REGION, "start"))
            inside = f.op("and", inside, f.icmp("ult", pc, f.read(at, REGION, "end")))
            with f.when(inside):
                text = f.read(at, REGION, "text")
                f.call("i64", "write", i32(_STDERR), text, f.call("i64", "strlen", text))
                f.call("i32", "sigaction", signal, before, NULL)
                f.ret()
