"""Runs a kernel of `Simt`: one thread after the other, a warp up to its next barrier.

A thread stops at a shuffle until all lanes of its warp are there, at a barrier until all warps are.
So a warp reads what later warps write only if a barrier is between: one that is missing shows.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import llvmlite.binding as llvm
import numpy as np

SHARED_BYTES = 1 << 18


@dataclass
class Thread:
    number: int
    wake: threading.Lock = field(default_factory=threading.Lock)
    request: tuple[Any, ...] = ("start",)
    reply: int = 0


class Machine:
    """Threads take turns; `current` is the one that runs."""

    def __init__(self, lanes: int, warps: int, *, last_warp_first: bool = False):
        self.lanes, self.warps, self._reverse = lanes, warps, last_warp_first
        self.current = Thread(0)
        self.program, self.programs = (0, 0, 0), (1, 1, 1)
        self._control = threading.Lock()
        self._control.acquire()
        memory = np.zeros(SHARED_BYTES + 1024, np.uint8)
        self._shared = memory[-memory.ctypes.data % 1024 :][:SHARED_BYTES]
        self._callbacks = [
            self._symbol("simt_thread", lambda: self.current.number, ()),
            self._symbol("simt_program", lambda axis: self.program[axis], (ctypes.c_int32,)),
            self._symbol("simt_programs", lambda axis: self.programs[axis], (ctypes.c_int32,)),
            self._symbol("simt_barrier", lambda: self._stop("barrier"), ()),
            self._symbol(
                "simt_shuffle", lambda word, lane: self._stop("shuffle", word, lane),
                (ctypes.c_int32, ctypes.c_int32),
            ),
        ]  # fmt: skip
        llvm.add_symbol("smem$", self._shared.ctypes.data)

    def _symbol(self, name: str, function: Callable[..., int], types: tuple[Any, ...]) -> Any:
        callback = ctypes.CFUNCTYPE(ctypes.c_int32, *types)(function)
        llvm.add_symbol(name, ctypes.cast(callback, ctypes.c_void_p).value)
        return callback

    def _stop(self, *request: Any) -> int:
        thread = self.current
        thread.request = request
        self._control.release()
        thread.wake.acquire()
        return thread.reply

    def _resume(self, thread: Thread) -> None:
        self.current = thread
        thread.wake.release()
        self._control.acquire()

    def run(self, call: Callable[[], None], grid: Sequence[int]) -> None:
        """Run every program of a grid."""
        self.programs = (*grid, 1, 1)[:3]
        for z in range(self.programs[2]):
            for y in range(self.programs[1]):
                for x in range(self.programs[0]):
                    self.program = x, y, z
                    self._shared.fill(0xC5)
                    self._run_block(call)

    def _run_block(self, call: Callable[[], None]) -> None:
        threads = [Thread(i) for i in range(self.lanes * self.warps)]

        def body(thread: Thread) -> None:
            thread.wake.acquire()
            call()
            thread.request = ("end",)
            self._control.release()

        running = [threading.Thread(target=body, args=(t,)) for t in threads]
        for thread, system in zip(threads, running, strict=True):
            thread.wake.acquire()
            system.start()
        warps = [threads[i : i + self.lanes] for i in range(0, len(threads), self.lanes)]
        order = warps[::-1] if self._reverse else warps
        while any(w[0].request[0] != "end" for w in warps):
            for warp in order:
                self._run_warp(warp)
            assert len({w[0].request[0] for w in warps}) == 1, "warps differ in their barriers"
        for system in running:
            system.join()

    def _run_warp(self, warp: list[Thread]) -> None:
        """Run a warp to its next barrier or its end."""
        while True:
            for thread in warp:
                self._resume(thread)
            kinds = {thread.request[0] for thread in warp}
            assert len(kinds) == 1, f"lanes of a warp are at {kinds}"
            if kinds != {"shuffle"}:
                return
            words = [thread.request[1] for thread in warp]
            for thread in warp:
                thread.reply = words[thread.request[2] % self.lanes]
