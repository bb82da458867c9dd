"""Record of the accesses of a launch's programs: four words for each granule of it and each `Order`
that accesses of the kernel have.

The words are the first write, the first write by another program, the first read, and the first
read by another program; 0 for none. Of accesses of one `Order` these tell of any other access
whether another program's is in the way; what has an order beside it is in other words. A word names
the program and the check: `(number + 1) << 16 | site`, with `ATOMIC` set for atomic accesses, and
the access's `Order` from `ORDER_SHIFT` on. A plain access takes the place of an atomic one, which
moves to the second word if it is another program's. The table that the kernel gets is the binary
logarithm of the granule's bytes, the number of regions, the address of the launch's report (0 on
the CPU), the number of regions of write-once memory, and for each region its first address, its
bytes, and the address of its words; first the regions of accesses, then those of write-once memory.

Write-once memory has one bit for each byte: whether it has been written since it was allocated. The
bits outlive a launch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from tritium.ops.ttir.sanitize import Order
from tritium.sanitize.extents import UNKNOWN, Memory, Pooled

ATOMIC = 1 << 62
SITE_BITS = 16
ORDER_SHIFT = 60
NUMBER = (1 << ORDER_SHIFT) - 1
"""The part of a word that names the program and the check."""
WORDS, READS = 4, 2
"""The words of an `Order`, and the first of them that tells of reads."""
REPORT_AT, ONCE_AT, HEAD_BYTES, REGION_BYTES = 16, 24, 32, 24

Zeros = Callable[[tuple[int, ...]], "np.ndarray[Any, np.dtype[np.int64]]"]
_zeros: Zeros = partial(np.zeros, dtype=np.int64)


_written: dict[int, np.ndarray[Any, np.dtype[np.int64]]] = {}
"""The bits of write-once memory, by the number of the allocation."""


def forget_allocations(live: Iterable[int] = ()) -> None:
    """Drop the bits of write-once memory, but for the allocations of these numbers."""
    for number in _written.keys() - {*live}:
        del _written[number]


def written_bytes(number: int, size: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Marks of the bytes that have been written of an allocation of write-once memory."""
    bits = _written.get(number)
    if bits is None:
        return np.zeros(size, bool)
    return np.unpackbits(bits.view(np.uint8), bitorder="little")[:size].astype(bool)


class Noted(NamedTuple):
    """An access of another program."""

    program: tuple[int, int, int]
    site: int


class Shadow:
    """The shadow of a launch's memory.

    Args:
        memories: those of the arguments; they may overlap.
        granule: the bytes that are noted together, a power of two.
        grid: the launch's.
        report: the address of its report.
        zeros: makes arrays of int64 in memory that the device and the host see.
        pooled: allocations of pools, which are watched, too.
        orders: how many different `Order`s accesses have.
    """

    def __init__(
        self, memories: Iterable[Memory], granule: int, grid: Sequence[int], report: int = 0,
        zeros: Zeros = _zeros, pooled: Sequence[Pooled] = (), orders: int = 1,
    ):  # fmt: skip
        self._shift, self._grid = granule.bit_length() - 1, grid
        known = [m for m in memories if m is not UNKNOWN and m.end > m.begin]
        self._regions = _merged([*((m.begin, m.end) for m in known),
                                 *((p.begin, p.end) for p in pooled)])  # fmt: skip
        self._once = [p for p in pooled if p.write_once]
        forget_allocations(p.number for p in self._once)
        for p in self._once:
            if p.number not in _written:
                _written[p.number] = zeros(((p.end - p.begin >> 6) + 2,))
        self._bits = [_written[p.number] for p in self._once]
        # An access may begin inside, and end behind.
        sizes = [(end - begin >> self._shift) + 8 for begin, end in self._regions]
        self._words = [zeros((size, WORDS * orders)) for size in sizes]
        rows = [
            (begin, end - begin, words.ctypes.data)
            for (begin, end), words in zip(self._regions, self._words, strict=True)
        ]
        count = len(rows)
        rows += [
            (p.begin, p.end - p.begin, bits.ctypes.data)
            for p, bits in zip(self._once, self._bits, strict=True)
        ]
        flat: list[int] = [
            self._shift, count, report, len(self._once), *(n for row in rows for n in row)
        ]  # fmt: skip
        self._table = zeros((len(flat),))
        self._table[:] = flat

    @property
    def address(self) -> int:
        """The address of the table."""
        return self._table.ctypes.data

    def is_write_once(self, address: int) -> bool:
        """True if an address is in write-once memory."""
        return any(p.begin <= address < p.end for p in self._once)

    def other(
        self, address: int, program: tuple[int, int, int], order: int = 0, atomic: bool = False
    ) -> Noted | None:
        """The access by another program to this address, the write if there is one, that has no
        order beside one with this `Order`, which is `atomic` or not."""
        nx, ny, _ = self._grid
        mine = program[0] + nx * (program[1] + ny * program[2]) + 1
        for (begin, end), words in zip(self._regions, self._words, strict=True):
            if begin <= address < end:
                row = words[address - begin >> self._shift].reshape(-1, WORDS)
                for word in [*row[:, :READS].reshape(-1), *row[:, READS:].reshape(-1)]:
                    found = int(word)
                    number, theirs = (found & NUMBER) >> SITE_BITS, found >> ORDER_SHIFT & 3
                    if not found or number == mine or (atomic and found & ATOMIC):
                        continue
                    if not may_be_ordered(theirs, order):
                        return Noted(self.program(number), found & (1 << SITE_BITS) - 1)
        return None

    def program(self, number: int) -> tuple[int, int, int]:
        """The program of a number."""
        rest, x = divmod(number - 1, self._grid[0])
        return x, rest % self._grid[1], rest // self._grid[1]

    def noted(
        self, begin: int, end: int
    ) -> Iterator[tuple[int, int, np.ndarray[Any, np.dtype[np.int64]]]]:
        """The notes between two addresses: how far behind the first of them they begin, the bytes
        of a granule, and the words of a write and a read."""
        unit = 1 << self._shift
        for (low, high), words in zip(self._regions, self._words, strict=True):
            if low < end and high > begin:
                first, last = max(begin - low, 0) // unit, -(-(min(high, end) - low) // unit)
                apart = words[first:last].reshape(last - first, -1, WORDS)[:, :, [0, READS]]
                found = apart[:, 0]
                for other in range(1, apart.shape[1]):
                    found = np.where(found == 0, apart[:, other], found)
                yield max(low + first * unit - begin, 0), unit, found


def may_be_ordered(one: int, other: int) -> bool:
    """Whether of two accesses with these `Order`s one may happen before the other."""
    return bool(one & Order.LATER and other & Order.BEFORE) or bool(
        other & Order.LATER and one & Order.BEFORE
    )


@dataclass(frozen=True)
class Launch:
    """A launch whose programs made no race among themselves.

    Attributes:
        sites: the checks, as words number them.
        shadow: None where it notes nothing.
        orders: by what its programs may order themselves beside other launches (`Order`).
        order_of: what may order the access of a word.
    """

    kernel: str
    sites: Sequence[Any]
    shadow: Shadow | None
    orders: int
    order_of: Callable[[int], int] = lambda word: word >> ORDER_SHIFT & 3

    def program(self, word: int) -> tuple[int, int, int]:
        """The program that a word names."""
        assert self.shadow is not None, "words are a shadow's"
        return self.shadow.program((word & NUMBER) >> SITE_BITS)


watchers: list[Callable[[Launch], None]] = []
"""Functions that hear of each launch that is done (`experimental.gsan.notes`)."""


def _merged(extents: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Regions that do not overlap."""
    found: list[tuple[int, int]] = []
    for begin, end in sorted(extents):
        if found and begin < found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((begin, end))
    return found
