"""Memory: of the host, in the arrays that a kernel is given, and LDS, each with checks.

An access outside of the arrays, or of LDS, is an error, and so is one that is not aligned as LLVM
has been told. In LDS, an access of what another wave writes before the next barrier is one, too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np

from tests.amd.execution.types import GLOBAL, LDS, Type, from_bytes, spread, to_bytes


class ExecutionError(RuntimeError):
    """The program does what it must not do on the processor."""


_PAGE, _ADDRESSES = 1 << 16, 1 << 47


class _Everything:
    """All memory of the process; only what `Memory` has checked is accessed."""

    __array_interface__: ClassVar = {
        "data": (_PAGE, False), "shape": (_ADDRESSES,), "typestr": "|u1", "version": 3,
    }  # fmt: skip


_process = np.asarray(_Everything())
_aligned = {
    size: _process.view(f"u{size}") if size > 1 else _process for size in (1, 2, 4, 8)
}


def extent(array: np.ndarray) -> tuple[int, int]:
    """The first and the last address but one of an array's memory, of which it may be a part."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    low, high = np.lib.array_utils.byte_bounds(array)
    return low, high


class Memory:
    """Global memory: ranges of addresses that the kernel may access."""

    def __init__(self, ranges: Iterable[tuple[int, int]]):
        merged = list[list[int]]()
        for low, high in sorted(ranges):
            if merged and low <= merged[-1][1]:
                merged[-1][1] = max(merged[-1][1], high)
            else:
                merged.append([low, high])
        table = np.array(merged or [[0, 0]], np.uint64)
        self._low, self._high = table[:, 0], table[:, 1]

    def check(self, addresses: Any, size: int, align: int) -> None:
        if not len(addresses):
            return
        which = np.searchsorted(self._low, addresses, "right") - 1
        outside = (which < 0) | (addresses + np.uint64(size) > self._high[which])
        if outside.any():
            wrong = int(addresses[outside][0])
            raise ExecutionError(
                f"access of {size} bytes at {wrong:#x}, outside of the kernel's arrays"
            )
        _check_alignment(addresses, align)

    def read(self, addresses: Any, size: int, align: int) -> Any:
        """Bytes, (addresses, size)."""
        self.check(addresses, size, align)
        places = addresses - np.uint64(_PAGE)
        word = next(n for n in (8, 4, 2, 1) if size % n == 0 and align % n == 0)
        steps = np.arange(size // word, dtype=np.uint64)
        found = _aligned[word][(places // np.uint64(word))[:, None] + steps]
        return np.ascontiguousarray(found).view(np.uint8)

    def write(self, addresses: Any, data: Any, align: int) -> None:
        size = data.shape[1]
        self.check(addresses, size, align)
        places = addresses - np.uint64(_PAGE)
        _process[places[:, None] + np.arange(size, dtype=np.uint64)] = data


def _check_alignment(addresses: Any, align: int) -> None:
    wrong = addresses & np.uint64(align - 1)
    if wrong.any():
        address = int(addresses[wrong != 0][0])
        raise ExecutionError(f"access at {address:#x}, which must be a multiple of {align}")


_NOBODY, _ATOMICS, _SEVERAL = -1, -2, -3


class LocalMemory:
    """LDS of a workgroup. It knows which wave has last written and read each byte, and after how
    many barriers."""

    def __init__(self, size: int):
        self.data = np.full(size, 0xC5, np.uint8)
        self._writer, self._reader = (np.full(size, _NOBODY, np.int16) for _ in range(2))
        self._written, self._read = (np.zeros(size, np.int32) for _ in range(2))
        self.barriers = 0

    def _places(self, addresses: Any, size: int, align: int) -> Any:
        outside = addresses + np.uint64(size) > np.uint64(len(self.data))
        if outside.any():
            wrong = int(addresses[outside][0])
            raise ExecutionError(
                f"access of {size} bytes at {wrong} of LDS, which has {len(self.data)}"
            )
        _check_alignment(addresses, align)
        return addresses[:, None].astype(np.int64) + np.arange(size)

    def _race(self, places: Any, wrong: Any, what: str) -> None:
        if wrong.any():
            place = int(places[wrong][0])
            raise ExecutionError(f"race in LDS at {place}: {what}, without a barrier between")

    def read(self, addresses: Any, size: int, align: int, wave: int) -> Any:
        places = self._places(addresses, size, align)
        writer = self._writer[places]
        recent = (self._written[places] == self.barriers) & (writer != _NOBODY)
        self._race(places, recent & (writer != wave), f"wave {wave} reads what another one writes")
        same = (self._read[places] == self.barriers) & (self._reader[places] != _NOBODY)
        others = same & (self._reader[places] != wave)
        self._reader[places] = np.where(others, _SEVERAL, wave)
        self._read[places] = self.barriers
        return self.data[places]

    def write(
        self, addresses: Any, data: Any, align: int, wave: int, *, atomic: bool = False
    ) -> None:
        places = self._places(addresses, data.shape[1], align)
        writer = self._writer[places]
        recent = (self._written[places] == self.barriers) & (writer != _NOBODY)
        foreign = recent & (writer != wave)
        if atomic:
            foreign &= writer != _ATOMICS
        else:  # waves may write the same
            foreign &= self.data[places] != data
        self._race(places, foreign, f"wave {wave} writes what another one writes")
        reader = self._reader[places]
        read = (self._read[places] == self.barriers) & (reader != _NOBODY) & (reader != wave)
        if not atomic:
            self._race(places, read, f"wave {wave} writes what another one reads")
        self.data[places] = data
        self._writer[places] = _ATOMICS if atomic else wave
        self._written[places] = self.barriers

    def read_for_update(self, addresses: Any, size: int, align: int, wave: int) -> Any:
        """The bytes that an atomic update finds; other waves may have updated them."""
        places = self._places(addresses, size, align)
        writer = self._writer[places]
        recent = (self._written[places] == self.barriers) & (writer != _NOBODY)
        self._race(places, recent & (writer != wave) & (writer != _ATOMICS),
                   f"wave {wave} updates what another one writes")  # fmt: skip
        return self.data[places]


def load(wave: Any, type: Type, space: int, addresses: Any, mask: Any, align: int) -> Any:
    """The values at the addresses of the lanes that take part; garbage for the others."""
    active = spread(addresses, wave.lanes)[mask]
    if space == LDS:
        data = wave.group.lds.read(active, type.size, align, wave.number)
    elif space in (0, GLOBAL, 4):
        data = wave.memory.read(active, type.size, align)
    else:
        raise NotImplementedError(f"loads from address space {space}")
    if len(active) == wave.lanes:
        return from_bytes(type, data)
    everything = np.full((wave.lanes, type.size), 0xC5, np.uint8)
    everything[mask] = data
    return from_bytes(type, everything)


def store(
    wave: Any, type: Type, space: int, value: Any, addresses: Any, mask: Any, align: int
) -> None:
    active = spread(addresses, wave.lanes)[mask]
    data = to_bytes(type, spread(value, wave.lanes)[mask])
    if space == LDS:
        wave.group.lds.write(active, data, align, wave.number)
    elif space in (0, GLOBAL):
        wave.memory.write(active, data, align)
    else:
        raise NotImplementedError(f"stores to address space {space}")
