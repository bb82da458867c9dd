"""The handler of SIGSEGV and SIGBUS, as LLVM IR: it tells which kernel made an access that it may
not make, and leaves the rest to whoever handled the signal before.

A handler that was installed later (`faulthandler.enable()` after the first launch) has the signal
first, and then raises it again for this one: the failing instruction's address is in the frame that
the system has made for that handler, further up the stack.

`crash` holds its memory and installs it.
"""

from __future__ import annotations

import platform

from tritium.codegen.llvm.writer import Module, Value, const
from tritium.native.crash import ACTION, REGION, SIGSEGV, STATE, STATE_SYMBOL
from tritium.native.records import Record
from tritium.native.writer import NULL, Code, i32, i64

_PROGRAM_COUNTER = {"x86_64": 168, "aarch64": 440}
"""Offset in `ucontext_t` (Linux) of the address of the instruction that failed."""
_HANDLES_INFO = 4  # SA_SIGINFO
_CODE = 8
"""Offset in `siginfo_t` of the number that is positive for a fault, and not for a signal sent."""
_STDERR = 2
_PAGE, _PAGES = 4096, 16
"""The part of the stack that is searched: room for the frames of a handler."""

SPAN = Record(("start", "ptr"), ("size", "i64"))
"""`struct iovec` of C."""


class CrashWriter:
    """Writes `tritium_crash`, which is empty where there are no `reports`."""

    def __init__(self, module: Module, reports: bool):
        self.module, self.reports = module, reports
        self.state = Value("ptr", f"@{STATE_SYMBOL}")

    def write(self) -> None:
        """Write the handler: void tritium_crash(signal, info, context)."""
        if self.reports:
            self.module.globals[STATE_SYMBOL] = "external global i8"
            self._tell()
            self._search()
        arguments = [("i32", "signal"), ("ptr", "info"), ("ptr", "context")]
        f = Code(self.module, "tritium_crash", arguments, exported=True, cold=True)
        if self.reports:
            self._handle(f)
        f.ret()

    def _handle(self, f: Code) -> None:
        signal, info, context = f.arguments
        first, second = f.at(self.state, STATE, "segv"), f.at(self.state, STATE, "bus")
        before = f.select(f.icmp("eq", signal, i32(SIGSEGV)), first, second)
        sent = f.icmp("sle", f.get("i32", f.offset(info, _CODE)), i32(0))
        with f.when(sent):
            f.call("void", "search", context)
        with f.when(f.op("xor", sent, const("i1", 1))):
            pc = f.get("i64", f.offset(context, _PROGRAM_COUNTER[platform.machine()]))
            with f.when(f.call("i1", "tell", pc)):  # let it happen again, to others
                f.call("i32", "sigaction", signal, before, NULL)
                f.ret()
        handler = f.read(before, ACTION, "handler")
        with f.when(f.icmp("ule", handler, i64(1))):  # the system's default, or none
            f.call("i32", "sigaction", signal, before, NULL)
            with f.when(sent):  # a fault happens again by itself
                f.call("i32", "raise", signal)
            f.ret()
        function = f.cast("inttoptr", handler, "ptr")
        detailed = f.op("and", f.read(before, ACTION, "flags"), i32(_HANDLES_INFO))
        with f.when(f.icmp("ne", detailed, i32(0))):
            f.invoke("void", function, signal, info, context)
            f.ret()
        f.invoke("void", function, signal)

    def _tell(self) -> None:
        """i1 tell(pc): whether a kernel's code is at an address; say so, once."""
        f = Code(self.module, "tell", [("i64", "pc")], "i1", cold=True)
        (pc,) = f.arguments
        region = f.variable("ptr", f.read(self.state, STATE, "regions"))
        with f.counted(f.read(self.state, STATE, "count")):
            at = f.get("ptr", region)
            f.put(region, f.offset(at, REGION.size))
            inside = f.icmp("uge", pc, f.read(at, REGION, "start"))
            inside = f.op("and", inside, f.icmp("ult", pc, f.read(at, REGION, "end")))
            with f.when(inside):
                told = f.at(self.state, STATE, "told")
                with f.when(f.compare_exchange(told, i32(0), i32(1))):
                    text = f.read(at, REGION, "text")
                    f.call("i64", "write", i32(_STDERR), text, f.call("i64", "strlen", text))
                f.ret(const("i1", 1))
        f.ret(const("i1", 0))

    def _search(self) -> None:
        """search(context): `tell` of a kernel whose address is on the stack above `context`. The
        system copies the stack, page by page: it ends without a fault where the stack ends."""
        f = Code(self.module, "search", [("ptr", "context")], cold=True)
        at = f.variable("i64", f.cast("ptrtoint", f.arguments[0], "i64"))
        words = f.variable("", size=_PAGE)
        here, there = (f.variable("", size=SPAN.size) for _ in range(2))
        with f.counted(i64(_PAGES)):
            start = f.get("i64", at)
            size = f.sub(i64(_PAGE), f.op("and", start, i64(_PAGE - 1)))
            f.write(here, SPAN, "start", words)
            f.write(there, SPAN, "start", f.cast("inttoptr", start, "ptr"))
            for span in (here, there):
                f.write(span, SPAN, "size", size)
            process = f.call("i32", "getpid")
            spans = (here, i64(1), there, i64(1), i64(0))
            copied = f.call("i64", "process_vm_readv", process, *spans)
            with f.when(f.icmp("slt", copied, size)):
                f.ret()
            with f.counted(f.op("lshr", size, i64(3))) as (word, _):
                address = f.get("i64", f.gep("i64", words, word))
                with f.when(f.call("i1", "tell", address)):
                    f.ret()
            f.put(at, f.add(start, size))
        f.ret()
