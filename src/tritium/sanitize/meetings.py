"""Races between programs that run one after the other, as the interpreter runs them: accesses
noted by NumPy, and what programs do to order themselves."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tritium.ops.ttir.sanitize import Access, Order
from tritium.sanitize.shadow import (
    ATOMIC,
    NUMBER,
    READS,
    SITE_BITS,
    WORDS,
    Shadow,
    may_be_ordered,
)
from tritium.sanitize.sites import Site


@dataclass(frozen=True)
class Noting:
    """An access that is noted.

    Attributes:
        site: the number of its check.
        acquired: whether the program has acquired anything before.
        releases: how many the program had made.
        epochs: the same of each check, by its number; None before the first release.
    """

    kind: Access
    size: int
    site: int
    acquired: bool = False
    releases: int = 0
    epochs: np.ndarray[Any, np.dtype[np.int64]] | None = None


class NotingShadow(Shadow):
    """A shadow in which accesses are noted by NumPy: those of programs that have acquired anything
    apart from others. A program's later access takes the place of one before a release, which may
    have told of the earlier one alone."""

    def note(
        self, access: Noting, program: tuple[int, int, int],
        addresses: np.ndarray[Any, np.dtype[np.uint64]],
    ) -> dict[int, int]:  # fmt: skip
        """Note an access of a program as compiled kernels do (`codegen.llvm.races`). Returns the
        words of accesses by other programs of which one of the two writes, each with an address."""
        size = access.size
        while size < 1 << self._shift:  # smaller than all before
            self._words = [np.repeat(words, 2, axis=0) for words in self._words]
            self._shift -= 1
        me, met = self.number(program) << SITE_BITS | access.site, dict[int, int]()
        for (begin, end), words in zip(self._regions, self._words, strict=True):
            inside = addresses[(addresses >= np.uint64(begin)) & (addresses < np.uint64(end))]
            offsets = (inside - np.uint64(begin)).astype(np.int64)
            first, last = offsets >> self._shift, offsets + size - 1 >> self._shift
            for step in range(int((last - first).max(initial=-1)) + 1):
                rows = np.minimum(first + step, last)
                for others in _note(words, rows, me, access):
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

    def number(self, program: tuple[int, int, int]) -> int:
        """The number of a program in the grid, from 1."""
        nx, ny, _ = self._grid
        return program[0] + nx * (program[1] + ny * program[2]) + 1


def _note(words: Any, rows: Any, me: int, access: Noting) -> list[Any]:
    """Note an access of some granules. Returns words of other programs that are in the way, 0
    where none is."""
    kind, own = access.kind, WORDS if access.acquired else 0

    def foreign(old: Any) -> Any:
        return (old != 0) & (((old ^ me) & NUMBER) >> SITE_BITS != 0)

    def replaced(old: Any, word: int) -> Any:
        """True where a word takes the place of the program's own, or of an atomic one."""
        found = old == 0
        if not word & ATOMIC:
            found |= old & ATOMIC != 0
        if access.epochs is not None:
            older = access.epochs[old & (1 << SITE_BITS) - 1] < access.releases
            found |= older & ((old & ATOMIC != 0) | (word & ATOMIC == 0))
        return found & ((old == 0) | ~foreign(old))

    def claim(column: int, word: int) -> None:
        first, second = words[rows, own + column], words[rows, own + column + 1]
        moved = (word & ATOMIC == 0) & (first & ATOMIC != 0) & foreign(first)
        words[rows, own + column] = np.where(replaced(first, word) | moved, word, first)
        over = replaced(second, word) | ((second & ATOMIC != 0) & (word & ATOMIC == 0) & ~moved)
        behind = np.where(moved, first, word)
        words[rows, own + column + 1] = np.where(foreign(first) & over, behind, second)

    atomic, writes = kind.is_atomic, kind.writes
    claim(0 if writes else READS, me | (ATOMIC if atomic else 0))
    found: list[Any] = []
    for column in range(words.shape[1]):
        if column % WORDS < READS or writes:
            old = words[rows, column]
            other = foreign(old)
            if atomic:
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


@dataclass
class Progress:
    """The operations that a program has made by which programs order themselves."""

    acquired: bool = False
    releases: int = 0


class Ordering:
    """The meetings of a launch's programs, and what these do to order themselves.

    A site of an access tells how many releases its program had made (`epoch`), and whether it had
    acquired anything (`before`).
    """

    def __init__(self) -> None:
        self._programs: defaultdict[int, Progress] = defaultdict(Progress)
        self._meetings: dict[tuple[Any, ...], Meeting] = {}
        self.acquire: Site | None = None
        self.volatile = False

    def of(self, program: int) -> Progress:
        """The progress of a program."""
        return self._programs[program]

    def met(self, meeting: Meeting) -> None:
        """Two programs have met."""
        if len(self._meetings) < _MEETINGS:
            self._meetings.setdefault((meeting.sites, meeting.programs), meeting)

    def order(self, site: Site, program: int) -> Order:
        """The `Order` of an access of a program."""
        later = self._programs[program].releases > site["epoch"]
        before = Order.BEFORE if site["before"] else Order(0)
        return before | (Order.LATER if later else Order(0))

    @property
    def all(self) -> Order:
        """The `Order` that some program has made for itself."""
        if self.volatile:
            return Order.BEFORE | Order.LATER
        programs = self._programs.values()
        before = Order.BEFORE if any(p.acquired for p in programs) else Order(0)
        return before | (Order.LATER if any(p.releases for p in programs) else Order(0))

    def race(self, sites: Sequence[Site]) -> tuple[Meeting | None, bool]:
        """The first meeting that has no order; and whether there is one that may have one."""
        ordered = False
        for meeting in self._meetings.values():
            orders_of = [
                self.order(sites[site], n)
                for site, n in zip(meeting.sites, meeting.programs, strict=True)
            ]
            if self.volatile or may_be_ordered(*orders_of):
                ordered = True
            else:
                return meeting, ordered
        return None, ordered


_MEETINGS = 1 << 14
"""The most that are kept."""
