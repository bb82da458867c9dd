"""Reports of kernels that access memory which they may not: the kernel's name, and what to do.

A handler of SIGSEGV and SIGBUS looks up the failing instruction's address among those of the loaded
kernels. So launches cost nothing. Afterwards the handler that was there before gets the signal
(Python's `faulthandler`, or the system's default, which ends the process by the signal). One that
is installed later has the signal first; the kernel is named when it passes the signal on, as
`faulthandler` does. Systems other than Linux have no reports (`System.crash_reports`).
"""

from __future__ import annotations

import ctypes
import mmap
import threading
import weakref
from typing import Any

from tritium import knobs
from tritium.native.records import Record, allocate

SIGSEGV, SIGBUS = 11, 7
STATE_SYMBOL = "tritium_crash_state"

ACTION = Record(
    ("handler", "i64"), ("mask", "bytes 128"), ("flags", "i32"), ("restorer", "i64"),
)  # fmt: skip
"""`struct sigaction` of Linux's C libraries."""

REGION = Record(("start", "i64"), ("end", "i64"), ("text", "ptr"))
"""A kernel in memory and what to say of it."""

STATE = Record(
    ("regions", "ptr"), ("count", "i64"), ("told", "i32"), ("", "align 8"),
    ("segv", f"bytes {ACTION.size}"), ("", "align 8"), ("bus", f"bytes {ACTION.size}"),
)  # fmt: skip
"""The known `REGION`s, whether one was named, and the actions that the handler replaced."""

_MOST = 1 << 16
"""Kernels that are watched at the same time."""
_DETAILED, _OTHER_STACK = 4, 0x08000000  # SA_SIGINFO, SA_ONSTACK


class Reporter:
    """The kernels that are watched. `state` is the address of the handler's `STATE`."""

    def __init__(self) -> None:
        self.state, self._memory = allocate(STATE.size, 64)
        self._lock = threading.Lock()
        self._free: list[int] = []
        self._installed = False

    def watch(self, image: Any, name: str, handler: int) -> None:
        """Report faults in the code of `image`, as long as it lives.

        Args:
            image: the loaded object code; its `region` says where it is.
            name: the kernel.
            handler: the address of `tritium_crash`.
        """
        wanted = knobs.runtime.crash_reports and knobs.system().crash_reports
        if image.region is None or not wanted:
            return
        text = (
            f"tritium: kernel '{name}' accessed memory that is not its own (an index or a mask is "
            "wrong, or an array too small).\ntritium: run it with TRITON_INTERPRET=1 to see the "
            "line and the address.\n"
        ).encode()
        buffer = ctypes.create_string_buffer(text)
        start, size = image.region
        with self._lock:
            if not self._installed:
                self._install(handler)
            at = self._free.pop() if self._free else self._another()
            if at is None:
                return
            REGION.write(at, text=ctypes.addressof(buffer), end=start + size, start=start)
        weakref.finalize(image, self._forget, at, buffer).atexit = False

    def _forget(self, at: int, buffer: object) -> None:
        REGION.write(at, start=0, end=0)
        self._free.append(at)

    def _another(self) -> int | None:
        """The address of a record that was never used; None where there are too many kernels."""
        used: int = STATE.read(self.state, "count")
        if used == _MOST:
            return None
        STATE.write(self.state, count=used + 1)
        return STATE.read(self.state, "regions") + REGION.size * used

    def _install(self, handler: int) -> None:
        self._installed = True
        table = mmap.mmap(-1, REGION.size * _MOST)  # pages are made when they are written
        self._table = ctypes.c_char.from_buffer(table)
        STATE.write(self.state, regions=ctypes.addressof(self._table))
        action, _memory = allocate(ACTION.size)
        ACTION.write(action, handler=handler, flags=_DETAILED | _OTHER_STACK)
        libc = ctypes.CDLL(None)
        for signal, name in ((SIGSEGV, "segv"), (SIGBUS, "bus")):
            before = self.state + STATE.fields[name].offset
            libc.sigaction(signal, ctypes.c_void_p(action), ctypes.c_void_p(before))


reporter = Reporter()
