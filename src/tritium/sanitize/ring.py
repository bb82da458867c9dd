"""Memory for the profiler's records inside kernels: a launch of an instrumented kernel takes that
of `current`."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, NamedTuple

import numpy as np

RECORD = np.dtype([
    ("time", "<i8"), ("thread", "<i8"), ("what", "<i4"), ("x", "<i4"), ("y", "<i4"), ("z", "<i4"),
])  # fmt: skip
"""`what` is twice the number of a scope, and 1 more where it begins. `thread` tells apart what runs
at the same time: threads of the CPU, programs on GPUs. `x`, `y`, `z` are the program's place in the
grid. Times in nanoseconds, of a clock of the device."""

PARAMETERS = ("profiler.records", "profiler.mask")
"""The names of what an instrumented kernel takes beside its arguments."""

HEAD_BYTES = 64
"""The offset of the ring of records. The first 8 bytes are the number of records written."""


class Buffer:
    """A ring of records.

    Args:
        size: of records; a power of two.
        allocate: gives memory of a number of bytes, as an array.

    Attributes:
        labels: the names of the scopes of the kernel that was launched, by number; the first is the
            kernel's.
    """

    def __init__(self, size: int, allocate: Callable[[int], Any]):
        self.mask = size - 1
        self.labels: list[str] = []
        self._memory = allocate(HEAD_BYTES + size * RECORD.itemsize + 64)
        self._start = -self._memory.ctypes.data % 64

    @property
    def address(self) -> int:
        """The address of the first byte."""
        return self._memory.ctypes.data + self._start

    def records(self) -> tuple[Any, int]:
        """The records that are kept, in order, and how many were overwritten."""
        memory = self._memory[self._start :]
        written, size = int(memory[:8].view(np.int64)[0]), self.mask + 1
        ring: Any = memory[HEAD_BYTES : HEAD_BYTES + size * RECORD.itemsize].view(RECORD)
        if written <= size:
            return ring[:written].copy(), 0
        first = written & self.mask
        return np.concatenate([ring[first:], ring[:first]]), written - size

    def clear(self) -> None:
        """Forget all records."""
        self._memory[self._start : self._start + 8] = 0
        self.labels = []


current: ContextVar[Buffer | None] = ContextVar("current", default=None)
"""The buffer in which launches of this thread record."""

def arguments(labels: list[str]) -> list[Any]:
    """The values of `PARAMETERS` for a launch of a kernel with these scopes. Raises `RuntimeError`
    where no session of the profiler is active."""
    buffer = current.get()
    if buffer is None:
        raise RuntimeError(
            f"kernel '{labels[0]}' records its scopes (instrumentation_mode='default'), but no "
            "session of the profiler with backend='instrumentation' is active"
        )
    buffer.labels = labels
    return [buffer.address, buffer.mask]


class Note(NamedTuple):
    """The beginning or the end of a scope in the interpreter."""

    starts: bool
    label: str
    kernel: str
    program: tuple[int, int, int]


listeners: list[Callable[[Note], None]] = []
"""Called with each note."""
