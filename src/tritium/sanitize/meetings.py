"""Races between programs that run one after the other, as the interpreter runs them: accesses
noted by NumPy, and what programs do to order themselves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tritium.ops.ttir.sanitize import Access, Order
from tritium.sanitize.kinds import Site
from tritium.sanitize.shadow import (
    ATOMIC,
    EPOCH_SHIFT,
    LAST_EPOCH,
    NUMBER,
    ORDER_SHIFT,
    READS,
    SITE_BITS,
    WORDS,
    Shadow,
    epoch_of,
)

Known = Mapping[int, int]
"""The last epoch that is known of each program, by its number."""


@dataclass
class Progress:
    """A program, and what it knows of others.

    Attributes:
        number: from 1.
        acquired: whether it has acquired anything.
        told: the last epoch that it has told others of.
        busy: whether it has made an access since.
        known: what it knows. Never changed, but replaced, as the places of atomic operations share
            it.
    """

    number: int
    acquired: bool = False
    told: int = 0
    busy: bool = True
    known: Known = field(default_factory=dict[int, int])

    def epoch(self, *, releases: bool) -> int:
        """The epoch of a new access, which itself may tell others of it."""
        if releases:
            return min(self.told + self.busy, LAST_EPOCH)
        self.busy = True
        return min(self.told + 1, LAST_EPOCH)

    def knows(self, words: Any) -> Any:
        """True where the program knows of the access that a word names."""
        numbers: Any = (words & NUMBER) >> SITE_BITS
        if not self.known:
            return numbers == self.number
        epochs = words >> EPOCH_SHIFT & LAST_EPOCH
        found, places = np.unique(numbers, return_inverse=True)
        latest: Any = np.array([self.known.get(n, 0) for n in found.tolist()], np.int64)
        return (latest[places].reshape(numbers.shape) >= epochs) | (numbers == self.number)


@dataclass(frozen=True)
class Noting:
    """An access that is noted.

    Attributes:
        site: the number of its check.
        acquired: whether the program has acquired anything before.
        releases: whether the access itself tells others of it.
    """

    kind: Access
    size: int
    site: int
    acquired: bool = False
    releases: bool = False


class NotingShadow(Shadow):
    """A shadow in which accesses are noted by NumPy: those of programs that have acquired anything
    apart from others."""

    def note(
        self, access: Noting, program: Progress,
        addresses: np.ndarray[Any, np.dtype[np.uint64]],
    ) -> dict[int, int]:  # fmt: skip
        """Note an access of a program as compiled kernels do (`codegen.llvm.races`). Returns the
        words of accesses by other programs that this one does not know, of which one of the two
        writes, each with an address."""
        size = access.size
        while size < 1 << self._shift:  # smaller than all before
            self._words = [np.repeat(words, 2, axis=0) for words in self._words]
            self._shift -= 1
        epoch, met = program.epoch(releases=access.releases), dict[int, int]()
        me = epoch << EPOCH_SHIFT | program.number << SITE_BITS | access.site
        for (begin, end), words in zip(self._regions, self._words, strict=True):
            inside = addresses[(addresses >= np.uint64(begin)) & (addresses < np.uint64(end))]
            offsets = (inside - np.uint64(begin)).astype(np.int64)
            first, last = offsets >> self._shift, offsets + size - 1 >> self._shift
            for step in range(int((last - first).max(initial=-1)) + 1):
                rows = np.minimum(first + step, last)
                for others in _note(words, rows, me, access, program):
                    found, places = np.unique(others, return_index=True)
                    for word, place in zip(found.tolist(), places.tolist(), strict=True):
                        if word:
                            met.setdefault(word & NUMBER, int(inside[place]))
        return met

    def misused(
        self, kind: Access, size: int, addresses: np.ndarray[Any, np.dtype[np.uint64]]
    ) -> int | None:
        """Note accesses of write-once memory. Returns the address of one that may not be made:
        bytes are written before they are read, and once, and atomic operations do both."""
        for p, words in zip(self._once, self._bits, strict=True):
            inside = addresses[(addresses >= np.uint64(p.begin)) & (addresses < np.uint64(p.end))]
            if not inside.size:
                continue
            if not kind.is_plain:
                return int(inside[0])
            offsets = (inside - np.uint64(p.begin)).astype(np.int64)[:, None] + np.arange(size)
            written = np.unpackbits(words.view(np.uint8), bitorder="little")
            uses = np.bincount(offsets.reshape(-1), minlength=written.size)
            wrong = written[offsets] == (0 if kind is Access.READ else 1)
            if kind is Access.WRITE:
                wrong |= uses[offsets] > 1
                written[offsets] = 1
                words[:] = np.packbits(written, bitorder="little").view(np.int64)
            if wrong.any():
                return int(inside[wrong.any(axis=1)][0])
        return None


def _note(words: Any, rows: Any, me: int, access: Noting, program: Progress) -> list[Any]:
    """Note an access of some granules. Returns words of other programs that are in the way, 0
    where none is."""
    kind, own = access.kind, WORDS if access.acquired else 0
    column = own + (0 if kind.writes else READS)
    mine = me | (ATOMIC if kind.is_atomic else 0)

    def free(old: Any, new: Any) -> Any:
        """True where a word may take the place of another one."""
        atomic, plain = old & ATOMIC != 0, new & ATOMIC == 0
        return (old == 0) | (atomic & plain) | (program.knows(old) & (atomic | plain))

    first, second = words[rows, column], words[rows, column + 1]
    done = free(first, mine)
    moved = done & (first & ATOMIC != 0) & (not kind.is_atomic) & ~program.knows(first)
    late = ~done & ((first ^ me) >> SITE_BITS & (1 << ORDER_SHIFT - SITE_BITS) - 1 != 0)
    behind = np.where(moved, first, mine)
    words[rows, column] = np.where(done, mine, first)
    words[rows, column + 1] = np.where((moved | late) & free(second, behind), behind, second)
    found: list[Any] = []
    for column in range(words.shape[1]):
        if column % WORDS < READS or kind.writes:
            old = words[rows, column]
            other = (old != 0) & ~program.knows(old)
            if kind.is_atomic:
                other &= old & ATOMIC == 0
            found.append(np.where(other, old, 0))
    return found


@dataclass(frozen=True)
class Meeting:
    """Two accesses of one place by two programs, of which one writes.

    Attributes:
        sites: the numbers of the checks, of the later access first.
        programs: the numbers of the programs, from 1.
        address: the place.
    """

    sites: tuple[int, int]
    programs: tuple[int, int]
    address: int


class Ordering:
    """The order that programs of a launch make for themselves; the first two accesses without."""

    def __init__(self) -> None:
        self._programs: dict[int, Progress] = {}
        self._places: dict[int, Known] = {}
        """The epochs that releases have told, by the place, two bytes, of an atomic operation."""
        self._meeting: Meeting | None = None
        self.volatile: Site | None = None

    def of(self, program: int) -> Progress:
        """The progress of a program."""
        return self._programs.setdefault(program, Progress(program))

    def release(self, program: Progress, places: Iterable[int]) -> None:
        """A program tells others at these places how far it is."""
        program.told, program.busy = program.epoch(releases=True), False
        mine, joined = {**program.known, program.number: program.told}, dict[int, Known]()
        for place in places:
            old = self._places.get(place, _NOTHING)
            if id(old) not in joined:
                joined[id(old)] = _later(old, mine)
            self._places[place] = joined[id(old)]

    def told(self, places: Iterable[int]) -> list[Known]:
        """The epochs that releases have told at these places so far."""
        found = {id(known): known for p in places if (known := self._places.get(p))}
        return list(found.values())

    def met(self, meeting: Meeting) -> None:
        """Two programs have met."""
        self._meeting = self._meeting or meeting

    def order(self, word: int, site: Site) -> Order:
        """The `Order` of the access that a word names, which has this site."""
        told = self._programs[(word & NUMBER) >> SITE_BITS].told
        before = Order.BEFORE if site["before"] else Order(0)
        return before | (Order.LATER if told >= epoch_of(word) else Order(0))

    @property
    def all(self) -> Order:
        """The `Order` that some program has made for itself."""
        if self.volatile is not None:
            return Order.BEFORE | Order.LATER
        programs = self._programs.values()
        before = Order.BEFORE if any(p.acquired for p in programs) else Order(0)
        return before | (Order.LATER if any(p.told for p in programs) else Order(0))

    @property
    def race(self) -> Meeting | None:
        """The first two accesses without order; None where any store may order programs."""
        return None if self.volatile is not None else self._meeting

    @property
    def unreported(self) -> bool:
        """True if programs have met where any store may order them."""
        return self.volatile is not None and self._meeting is not None


_NOTHING: Known = {}


def _later(one: Known, other: Known) -> Known:
    """The union of what either knows."""
    if all(other.get(number, 0) >= epoch for number, epoch in one.items()):
        return other
    return {n: max(one.get(n, 0), other.get(n, 0)) for n in {*one, *other}}


def acquire(program: Progress, told: Iterable[Known]) -> None:
    """A program learns what others have told it."""
    program.acquired = True
    for known in told:
        program.known = _later(program.known, known)


def places_of(addresses: np.ndarray[Any, np.dtype[np.uint64]], size: int) -> list[int]:
    """The places, of two bytes, of atomic operations of `size` bytes."""
    starts = np.unique(addresses >> np.uint64(1)).tolist()
    return sorted({start + step for start in starts for step in range(max(1, size // 2))})
