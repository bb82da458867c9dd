"""Accesses of several processes to memory that they share, compared where the processes meet.

Each process notes what its own launches did (`Notes`), from the shadow of each launch. At a
barrier the processes exchange their notes, and `compare` finds two accesses of one place by two of
them, one of which writes, that nothing since the barrier before could order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import permutations
from typing import Any, NamedTuple

import numpy as np

from tritium.ops.ttir.sanitize import Order
from tritium.sanitize.kinds import Site
from tritium.sanitize.launch import SanitizerError, place_of
from tritium.sanitize.shadow import ATOMIC, SITE_BITS, Launch, may_be_ordered

Words = np.ndarray[Any, np.dtype[np.int64]]
_FIRST_WRITE, _LAST_WRITE, _FIRST_READ, _LAST_READ = range(4)
"""Columns of notes: numbers of accesses, from 1; 0 for none."""
_WRITES, _ALL = (_FIRST_WRITE, _LAST_WRITE), range(4)


class Noted(NamedTuple):
    """An access by a program of a launch.

    Attributes:
        order: what may order it within its launch (`Order`).
        launch: the number of the launch in its process.
    """

    kernel: str
    program: tuple[int, int, int]
    site: Site
    atomic: bool
    order: int
    launch: int


class Runs(NamedTuple):
    """Runs of bytes of one part of the memory that have the same notes.

    Attributes:
        starts: the first byte of each run.
        columns: the notes of each.
    """

    starts: Words
    columns: Words


class Report(NamedTuple):
    """The message of a process to the others at a barrier.

    Attributes:
        runs: of each process's part of the memory.
        accesses: those that the notes name.
        acquired: the first launch that may have learned how far others are.
        released: the last launch that may have told others how far this process is.
    """

    runs: list[Runs]
    accesses: list[Noted]
    acquired: int
    released: int


class Part:
    """One process's part of shared memory, and what this process did there.

    Args:
        begin: its address in this process.
        size: in bytes.
        written: for write-once memory, by byte, whether it has been written.
    """

    def __init__(self, begin: int, size: int, written: np.ndarray[Any, Any] | None = None):
        self.begin, self.size, self.written = begin, size, written
        self.clear()

    def clear(self) -> None:
        """Forget the accesses."""
        self._unit = self.size
        self._columns = np.zeros((1, len(_ALL)), np.int64)

    def note(self, first: int, unit: int, writes: Words, reads: Words) -> None:
        """Add accesses to granules of `unit` bytes from byte `first` on."""
        fine = math.gcd(unit, first, self._unit, self.size)
        self._columns = np.repeat(self._columns, self._unit // fine, axis=0)
        self._unit = fine
        for column, words in ((_FIRST_WRITE, writes), (_FIRST_READ, reads)):
            mine = self._columns[first // fine :, column : column + 2]
            found = np.repeat(words, unit // fine)[: len(mine)]
            mine = mine[: len(found)]
            mine[:, 0] = np.where(mine[:, 0] == 0, found, mine[:, 0])
            mine[:, 1] = np.where(found == 0, mine[:, 1], found)

    def runs(self) -> Runs:
        """The notes, by runs of bytes that have the same."""
        changed = (self._columns[1:] != self._columns[:-1]).any(axis=1)
        starts = np.concatenate([[0], np.flatnonzero(changed) + 1])
        return Runs(starts * self._unit, self._columns[starts])


class Notes:
    """Record of this process's accesses to memory that it shares with others.

    Args:
        parts: the shared memory of each process, by its rank.
    """

    def __init__(self, parts: Sequence[Part]):
        self.parts, self._launches = parts, 0
        self.clear()

    def clear(self) -> None:
        """Forget the accesses: what follows comes after all of them."""
        self._accesses: list[Noted] = []
        self._acquired, self._released = _NEVER, -1
        for part in self.parts:
            part.clear()

    def launched(self, launch: Launch) -> None:
        """A launch is done. Raises `SanitizerError` for a second store to write-once memory."""
        self._launches += 1
        if launch.orders & Order.BEFORE:
            self._acquired = min(self._acquired, self._launches)
        if launch.orders & Order.LATER:
            self._released = self._launches
        for rank, part in enumerate(self.parts):
            if launch.shadow is None:
                continue
            for first, unit, words in launch.shadow.noted(part.begin, part.begin + part.size):
                writes, reads = self._numbered(launch, words)
                _check_write_once(self._accesses, rank, part, first, unit, writes)
                part.note(first, unit, writes, reads)

    def report(self) -> Report:
        """The message to the other processes."""
        runs = [part.runs() for part in self.parts]
        return Report(runs, self._accesses, self._acquired, self._released)

    def _numbered(self, launch: Launch, words: Words) -> list[Words]:
        """The numbers of accesses in place of a shadow's words, for the writes and the reads."""
        found, places = np.unique(words, return_inverse=True)
        numbers = np.zeros(found.shape, np.int64)
        for i, word in enumerate(found.tolist()):
            if word:
                site = launch.sites[word & (1 << SITE_BITS) - 1]
                self._accesses.append(Noted(launch.kernel, launch.program(word), site,
                                            bool(word & ATOMIC), launch.order_of(word),
                                            self._launches))  # fmt: skip
                numbers[i] = len(self._accesses)
        both = numbers[places].reshape(-1, 2)
        return [both[:, 0], both[:, 1]]


_NEVER = 1 << 62


def _check_write_once(
    accesses: Sequence[Noted], rank: int, part: Part, first: int, unit: int, writes: Words
) -> None:
    """Note stores to write-once memory. Raises `SanitizerError` for a second one."""
    if part.written is None or not writes.any():
        return
    numbers = np.repeat(writes, unit)[: part.size - first]
    written = part.written[first : first + len(numbers)]
    twice = np.flatnonzero(written & (numbers != 0))
    if twice.size:
        access = accesses[int(numbers[twice[0]]) - 1]
        raise _error("second store to write-once memory", access, None, None,
                     _place(rank, first + int(twice[0]), part.size))  # fmt: skip
    written |= numbers != 0


def compare(
    reports: Sequence[Report], parts: Sequence[tuple[int, np.ndarray[Any, Any] | None]]
) -> SanitizerError | None:
    """The error of two processes' accesses that nothing orders, or of a misuse of write-once
    memory. None where there is none.

    Args:
        reports: of each process.
        parts: of each process's part of the memory, the bytes; and, where it is write-once, which
            bytes were written, to which those of the reports are added.
    """
    for rank, (size, written) in enumerate(parts):
        runs = [report.runs[rank] for report in reports]
        starts = np.unique(np.concatenate([run.starts for run in runs]))
        columns = np.stack([
            run.columns[np.searchsorted(run.starts, starts, "right") - 1] for run in runs
        ], axis=1)  # fmt: skip
        kinds, first = np.unique(columns.reshape(len(starts), -1), axis=0, return_index=True)
        for i in np.argsort(first).tolist():
            place = _place(rank, int(starts[first[i]]), size)
            found = _race(reports, kinds[i].reshape(-1, len(_ALL)), place)
            if found is not None:
                return found
        if written is not None:
            found = _misused(reports, rank, starts, columns, written)
            if found is not None:
                return found
    return None


def _race(reports: Sequence[Report], columns: Words, place: str) -> SanitizerError | None:
    for one, other in permutations(range(len(reports)), 2):
        for write in {int(columns[one, c]) for c in _WRITES} - {0}:
            for number in {int(columns[other, c]) for c in _ALL} - {0}:
                a, b = reports[one].accesses[write - 1], reports[other].accesses[number - 1]
                if a.atomic and b.atomic:
                    continue
                if may_be_ordered(_order(a, reports[one]), _order(b, reports[other])):
                    continue
                beside = "without order beside", b, other
                return _error(f"race: {a.site['access']}", a, one, beside, place)
    return None


def _order(access: Noted, report: Report) -> int:
    """The `Order` of an access, with the launches of its process before and after it."""
    before = Order.BEFORE if report.acquired < access.launch else 0
    return access.order | before | (Order.LATER if report.released > access.launch else 0)


def _misused(
    reports: Sequence[Report], rank: int, starts: Words, columns: Words,
    written: np.ndarray[Any, Any],
) -> SanitizerError | None:  # fmt: skip
    """The error of stores by two processes, whatever orders them, or of a load of what nobody has
    written. Notes what is written."""
    ends = [*starts[1:].tolist(), len(written)]
    for start, end, rows in zip(starts.tolist(), ends, columns.tolist(), strict=True):
        place = _place(rank, start, len(written))
        writers, readers = (_named_in(reports, rows, c) for c in (_FIRST_WRITE, _FIRST_READ))
        for access, r in writers:
            if access.atomic:
                return _error("atomic access in write-once memory", access, r, None, place)
        if len(writers) > 1:
            beside = "beside", *writers[0]
            return _error("second store to write-once memory", *writers[1], beside, place)
        if writers:
            written[start:end] = True
        elif readers and not written[start:end].all():
            title = "load of write-once memory that was not written before"
            return _error(title, *readers[0], None, place)
    return None


def _named_in(
    reports: Sequence[Report], rows: Sequence[Sequence[int]], column: int
) -> list[tuple[Noted, int]]:
    """The accesses that a column of all processes' notes names, with the ranks."""
    both = enumerate(zip(reports, rows, strict=True))
    return [(report.accesses[row[column] - 1], r) for r, (report, row) in both if row[column]]


def _place(rank: int, byte: int, size: int) -> str:
    return f"    byte {byte} of rank {rank}'s symmetric memory, which has {size} bytes"


def _error(
    title: str, access: Noted, rank: int | None, other: tuple[str, Noted, int] | None, place: str
) -> SanitizerError:
    lines = [f"{title} in {_named(access, rank)}", *_source(access)]
    if other is not None:
        how, beside, whose = other
        lines.append(f"  {how} the {beside.site['access']} in {_named(beside, whose)}")
        lines += _source(beside)
    site = access.site["file"], access.site["line"]
    return SanitizerError("\n".join([*lines, place]), "races", site, access.program)


def _named(access: Noted, rank: int | None) -> str:
    whose = "" if rank is None else f" of rank {rank}"
    return f"kernel '{access.kernel}'{whose}, program {access.program}, at {place_of(access.site)}"


def _source(access: Noted) -> list[str]:
    return [f"    {access.site['source']}"] if access.site["source"] else []
