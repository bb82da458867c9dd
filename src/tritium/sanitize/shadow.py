"""Record of the accesses of a launch's programs: four words for each granule of it and each `Order`
that accesses of the kernel have.

The words are a write, a write by another program, a read, and a read by another program; 0 for
none. A word names the program and the check: `(number + 1) << SITE_BITS | site`, with the epoch of
the program's clock from `EPOCH_SHIFT` on, the access's `Order` from `ORDER_SHIFT` on, and `ATOMIC`
set for atomic accesses. An access takes the place of one that the program knows, unless that is
plain and this one atomic. A plain access also takes the place of another atomic one, which moves to
the second word. Where both words are of others, the access is not noted.

Clocks are those of FastTrack (Flanagan, Freund: "FastTrack: efficient and precise dynamic race
detection", PLDI 2009), in memory of a fixed size. Each program has a row: for each of `lanes` lanes
the latest epoch that it knows of a program of that lane (number modulo `lanes`), then the last
epoch of its own that it has told others of, and whether it has made an access since. Each place of
atomic operations has a slot of `lanes` epochs, which it may share with other places, and a count of
its changes: a release adds to it what the program knows and its own epoch, an acquire adds the slot
to what the program knows. So that a program that waits in a loop does little (on the CPU), its row
also names the slot that knows all that it knows (its number and 1), and the slot that it has
acquired last, with the count at that time.
Lanes, slots and epochs that several share (the last epoch stands for all that come) let a program
know more than it does: a race may go unnoticed for that, but no two accesses that are ordered are
taken for one.

The table that the kernel gets is the binary logarithm of the granule's bytes, the number of
regions, the address of the launch's report (0 on the CPU), the number of regions of write-once
memory; the address of the rows, the lanes less one, the address of the slots, 64 less the binary
logarithm of their number; and for each region its first address, its bytes, and the address of its
words; first the regions of accesses, then those of write-once memory.

Write-once memory has one bit for each byte: whether it has been written since it was allocated. The
bits outlive a launch.
"""

from __future__ import annotations

import math
import mmap
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tritium import knobs
from tritium.ops.ttir.sanitize import Order
from tritium.sanitize.extents import UNKNOWN, Memory, Pooled

ATOMIC = 1 << 62
SITE_BITS = 16
EPOCH_SHIFT, ORDER_SHIFT = 48, 60
LAST_EPOCH = (1 << ORDER_SHIFT - EPOCH_SHIFT) - 1
NUMBER = (1 << EPOCH_SHIFT) - 1
"""The part of a word that names the program and the check."""
WORDS, READS = 4, 2
"""The words of an `Order`, and the first of them that tells of reads."""
REPORT_AT, ONCE_AT, ROWS_AT, LANES_AT, SLOTS_AT, SLOT_SHIFT_AT, HEAD_BYTES = range(16, 65, 8)
REGION_BYTES = 24
OWN_EPOCH, OWN_ACCESS, TOLD_TO, HEARD_FROM, HEARD_CHANGES = range(5)
CHANGES = 0
"""The words of a row, and of a slot, behind those of the lanes."""
OWN_WORDS, SLOT_TAIL = 6, 2
"""The count of words there, an even number."""
LANES, ROW_WORDS, SLOT_WORDS = 256, 1 << 26, 1 << 20
"""The most lanes, and words of rows and of slots, of 4 bytes."""

Zeros = Callable[[tuple[int, ...]], "np.ndarray[Any, np.dtype[np.int64]]"]


def _zeros(shape: tuple[int, ...]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Zeros in memory of this process. The words of a large storage, of which kernels touch a small
    part, may be more than the system promises to a process: those are in a file without a name, of
    which the pages that are written take memory. Raises `MemoryError`."""
    try:
        return np.zeros(shape, np.int64)
    except MemoryError:
        size = math.prod(shape) * np.dtype(np.int64).itemsize
    try:
        file = knobs.system().file_without_name("shadow")
        try:
            os.ftruncate(file, size)
            return np.frombuffer(mmap.mmap(file, size), np.int64).reshape(shape)
        finally:
            os.close(file)
    except (OSError, OverflowError, ValueError) as error:
        raise MemoryError(f"races: the notes on the arguments' memory take {size >> 30} GiB, which "
                          f"this system does not give: {error}") from None  # fmt: skip


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
        clocks: whether programs keep clocks.
    """

    def __init__(
        self, memories: Iterable[Memory], granule: int, grid: Sequence[int], report: int = 0,
        zeros: Zeros = _zeros, pooled: Sequence[Pooled] = (), orders: int = 1,
        clocks: bool = False,
    ):  # fmt: skip
        programs = math.prod(grid)
        if programs > NUMBER >> SITE_BITS:
            raise NotImplementedError(f"races: {programs} programs; {NUMBER >> SITE_BITS} at most")
        self._clocks = _clocks(programs, zeros) if clocks else None
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
            self._shift, count, report, len(self._once),
            *(self._clocks.table if self._clocks else (0, 0, 0, 0)),
            *(n for row in rows for n in row),
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
        self, address: int, program: tuple[int, int, int], order: int = 0, atomic: bool = False,
        size: int = 1,
    ) -> Noted | None:  # fmt: skip
        """The access by another program to `size` bytes from this address, the write if there is
        one, that has no order beside one with this `Order`, which is `atomic` or not. Where the
        program has come to know of all since: one of those that may have an order."""
        mine, known = self.number(program), None
        for word in self._words_at(address, size):
            number, theirs = (word & NUMBER) >> SITE_BITS, word >> ORDER_SHIFT & 3
            if not word or number == mine or (atomic and word & ATOMIC):
                continue
            found = Noted(self.program(number), word & (1 << SITE_BITS) - 1)
            ordered = may_be_ordered(theirs, order)
            if self._clocks is not None and ordered:
                known, ordered = known or found, self._clocks.knows(mine, number, epoch_of(word))
            if not ordered:
                return found
        return None if self.is_write_once(address) else known

    def _words_at(self, address: int, size: int) -> list[int]:
        """The words of `size` bytes from an address, writes first."""
        for (begin, end), words in zip(self._regions, self._words, strict=True):
            if begin <= address < end:
                first, last = (n - begin >> self._shift for n in (address, address + size - 1))
                rows = words[first : last + 1].reshape(-1, WORDS)
                return [*rows[:, :READS].reshape(-1).tolist(),
                        *rows[:, READS:].reshape(-1).tolist()]  # fmt: skip
        return []

    def number(self, program: tuple[int, int, int]) -> int:
        """The number of a program in the grid, from 1."""
        nx, ny, _ = self._grid
        return program[0] + nx * (program[1] + ny * program[2]) + 1

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


class _Clocks:
    """The clocks of a launch's programs.

    Args:
        rows: the memory of their rows.
        slots: that of the slots.
        lanes: of both.
    """

    def __init__(self, rows: Any, slots: Any, lanes: int):
        self._rows, self._slots, self._lanes = rows, slots, lanes

    @property
    def table(self) -> tuple[int, int, int, int]:
        """The part of the kernel's table."""
        bits = (self._slots.size * 2 // (self._lanes + SLOT_TAIL)).bit_length() - 1
        return self._rows.ctypes.data, self._lanes - 1, self._slots.ctypes.data, 64 - bits

    def knows(self, program: int, other: int, epoch: int) -> bool:
        """True if a program knows of what another one has done in an epoch."""
        row = self._rows.view(np.int32).reshape(-1, self._lanes + OWN_WORDS)[program - 1]
        return bool(row[(other - 1) % self._lanes] >= epoch)


def _clocks(programs: int, zeros: Zeros) -> _Clocks:
    lanes = 2
    while lanes < min(programs, LANES) and programs * (2 * lanes + OWN_WORDS) <= ROW_WORDS:
        lanes *= 2
    slots = max(2, min(SLOT_WORDS // lanes, 1 << 16))
    rows = zeros((programs * (lanes + OWN_WORDS) // 2,))
    return _Clocks(rows, zeros((slots * (lanes + SLOT_TAIL) // 2,)), lanes)


def epoch_of(word: int) -> int:
    """The epoch of an access."""
    return word >> EPOCH_SHIFT & LAST_EPOCH


def may_be_ordered(one: int, other: int) -> bool:
    """True if of two accesses with these `Order`s one may happen before the other."""
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
