"""The surroundings of evaluated ops: memory that pointers name, services of the evaluator."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from xdsl.ir import Region

from tritium.errors import TritonError

T = TypeVar("T")


class EvaluationError(TritonError):
    """The program did something that has no meaning (a wild address, a failed assertion)."""


class Memory:
    """The process's own memory, addressed by uint64.

    With `ranges` (pairs of first address and size in bytes) any access outside them raises
    `EvaluationError`; without, a wild address crashes the process as native code would.
    """

    def __init__(self, ranges: Sequence[tuple[int, int]] | None = None):
        self.ranges = None if ranges is None else sorted(ranges)

    def load(self, addresses: np.ndarray, dtype: np.dtype, mask: np.ndarray | None) -> np.ndarray:
        """The elements at `addresses`; zero where the mask is false."""
        addresses = np.asarray(addresses, dtype=np.uint64)
        out = np.zeros(addresses.shape, dtype=dtype)
        where = self._active(addresses, mask)
        active = addresses[where]
        if active.size:
            view, index = self._window(active, dtype)
            out[where] = view[index[:, None] + np.arange(dtype.itemsize)].view(dtype).reshape(-1)
        return out

    def store(self, addresses: np.ndarray, value: np.ndarray, mask: np.ndarray | None) -> None:
        """Store element by element, later elements winning over earlier ones."""
        addresses = np.asarray(addresses, dtype=np.uint64)
        value = np.ascontiguousarray(np.broadcast_to(value, addresses.shape))
        where = self._active(addresses, mask)
        active = addresses[where]
        if active.size:
            size = value.dtype.itemsize
            view, index = self._window(active, value.dtype)
            data = np.ascontiguousarray(value[where]).reshape(-1, 1).view(np.uint8)
            view[index[:, None] + np.arange(size)] = data.reshape(-1, size)

    def update(
        self,
        addresses: np.ndarray,
        dtype: np.dtype,
        mask: np.ndarray | None,
        change: Callable[[np.ndarray, np.ndarray], np.ndarray],
    ) -> np.ndarray:
        """Replace elements one after the other, in row-major order, and return what each found.

        `change(old, where)` gives the new values for the flat positions `where`, which have
        different addresses. Zero where the mask is false.
        """
        addresses = np.asarray(addresses, dtype=np.uint64)
        active = np.flatnonzero(self._active(addresses, mask))
        flat, found = addresses.reshape(-1), np.zeros(addresses.size, dtype)
        # Positions that share an address take turns; the n-th of each go together.
        _, first, counts = np.unique(flat[active], return_inverse=True, return_counts=True)
        order = np.argsort(first, kind="stable")
        starts = np.cumsum(counts) - counts
        turn = np.empty(len(active), np.int64)
        turn[order] = np.arange(len(active)) - starts[first[order]]
        for n in range(int(counts.max(initial=0))):
            where = active[turn == n]
            found[where] = self.load(flat[where], dtype, None)
            self.store(flat[where], change(found[where], where), None)
        return found.reshape(addresses.shape)

    @staticmethod
    def _active(addresses: np.ndarray, mask: np.ndarray | None) -> Any:
        if mask is None:
            return np.ones(addresses.shape, dtype=bool)
        return np.broadcast_to(mask, addresses.shape)

    def _window(self, active: np.ndarray, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
        """A byte array over the span of the addresses, and their offsets in it. Only the bytes
        that are indexed are touched, so the span may cross unmapped pages."""
        if self.ranges is not None:
            self._check(active, dtype.itemsize)
        low = int(active.min())
        span = int(active.max()) - low + dtype.itemsize
        if low == 0 or span > sys.maxsize:
            raise EvaluationError(f"access to invalid address {low:#x}")
        buffer = (ctypes.c_uint8 * span).from_address(low)
        view: Any = np.frombuffer(buffer, np.uint8)  # pyright: ignore
        return view, (active - np.uint64(low)).astype(np.int64)  # pyright: ignore[reportUnknownVariableType]

    def _check(self, active: np.ndarray, size: int) -> None:
        assert self.ranges is not None
        inside = np.zeros(active.shape, dtype=bool)
        for start, length in self.ranges:
            inside |= (active >= start) & (active + np.uint64(size) <= start + length)
        if not inside.all():
            wild = int(active[~inside][0])
            raise EvaluationError(f"access to address {wild:#x}, which belongs to no argument")


PAUSE = 20e-6
"""Seconds between two looks of an op that waits."""


class Place(NamedTuple):
    """A line of a program; of no file where it is not known."""

    file: str = ""
    line: int = 0
    source: str = ""

    @property
    def text(self) -> str:
        """The place for messages, with a space behind it."""
        return f"at {self.file}:{self.line} " if self.file else ""


class Context(Protocol):
    """The services that `Op.evaluate` may use."""

    memory: Memory
    program_id: tuple[int, int, int]
    num_programs: tuple[int, int, int]

    def run_region(self, region: Region, *arguments: Any) -> tuple[Any, ...]:
        """Run a single-block region; returns the operands of its terminator."""
        ...

    def run_elementwise(self, region: Region, *arguments: Any) -> tuple[Any, ...]:
        """Run a region of scalars for every element of some arrays of one shape; returns arrays."""
        ...

    def call(self, symbol: str, *arguments: Any) -> tuple[Any, ...]:
        """Call a function of the module."""
        ...

    def print(self, text: str) -> None:
        """Output of `tt.print`."""
        ...

    def record(self, starts: bool, label: str) -> None:
        """The profiler's note that a scope begins or ends."""
        ...

    def place(self) -> Place:
        """The line of the program whose op is evaluated."""
        ...

    @property
    def checks_fences(self) -> bool:
        """True if the program itself has the fences between the writes of threads and the reads of
        copy engines and tensor cores; else they come later."""
        ...

    @property
    def num_ctas(self) -> int:
        """The thread blocks of a cluster, which run a program; 1 where they are evaluated as
        one."""
        ...

    def pause(self) -> None:
        """Let other programs run: the op waits for one of them."""
        ...

    def external(self, symbol: str) -> Callable[..., Any]:
        """The function of an external library, on arrays, that no op's module defines."""
        ...

    def state(self, kind: type[T]) -> T:
        """The state that the ops of a dialect share during a program: an instance of
        `kind`, made (without arguments) at its first use."""
        ...
