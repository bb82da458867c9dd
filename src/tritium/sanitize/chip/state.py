"""Notes about the shared memory of a compiled program, and how they lie in memory.

Actors are what accesses come from: the partitions of the program, the queues of asynchronous
accesses of each, and the mbarriers, for what copies bring whose bytes these count. An actor's
accesses are numbered by steps: those of a partition by its arrivals, of a queue by its groups, of a
barrier by its phases. A clock says for each actor up to which step its accesses are over. There is
one for what each partition knows, one for what the arrivals of a barrier's phase tell, and one for
what those of ended phases have told, which who waits for the barrier learns.

A row belongs to a part of an allocation (`unit` bytes) that accesses only touch as a whole. It has
a word for the last write and one for each reader's last read: `step << 32 | actor << 16 | site`; 0
for none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from tritium.ops.effects import Action

ACCESSES = {Action.READ: "load", Action.WRITE: "store", Action.FREE: "release"}
"""The words for accesses of on-chip memory."""
Zeros = Callable[[tuple[int, ...]], Any]
_zeros: Zeros = partial(np.zeros, dtype=np.int64)
HEAD_BYTES = 16
"""The table begins with the address of the launch's report, and the bytes of each program's part.
The parts follow, by the program's number."""
SITE_BITS = ACTOR_BITS = 16
STEP_SHIFT = SITE_BITS + ACTOR_BITS
CLOCKS_AT = 8
"""The offset of the clocks in a part; it begins with the word of its lock."""
BARRIER_BYTES = 16
PHASE, PENDING, COUNT, EXPECTED = 0, 4, 8, 12
"""Offsets in what is noted of a barrier: phases that have ended, arrivals that this one lacks,
those that each takes, bytes that this one lacks."""


class State(NamedTuple):
    """The numbers of partitions, of queues, of barriers, of allocations, of readers, and of
    rows."""

    partitions: int
    queues: int
    barriers: int
    places: int
    readers: int
    rows: int

    @property
    def actors(self) -> int:
        return self.partitions + self.queues + self.barriers

    def clock(self, number: int) -> int:
        """The offset of a clock: of partitions, then two of each barrier."""
        return CLOCKS_AT + 4 * self.actors * number

    @property
    def counters(self) -> int:
        """The offset of the queues' groups."""
        return self.clock(self.partitions + 2 * self.barriers)

    @property
    def barriers_at(self) -> int:
        return self.counters + 4 * self.queues

    @property
    def places_at(self) -> int:
        """The offset of the addresses of allocations."""
        return -(-(self.barriers_at + BARRIER_BYTES * self.barriers) // 8) * 8

    @property
    def rows_at(self) -> int:
        return self.places_at + 8 * self.places

    @property
    def row_bytes(self) -> int:
        return 8 * (1 + self.readers)

    @property
    def bytes(self) -> int:
        """The bytes of a program's part."""
        return self.rows_at + self.row_bytes * self.rows


class Place(NamedTuple):
    """An allocation: its number, its first row (or barrier), the bytes of each, and how many it
    has."""

    number: int
    first: int
    unit: int
    rows: int


def places_of(numbers: Sequence[int]) -> list[Place]:
    """The places that an attribute of an op lists."""
    return [Place(*numbers[i : i + 4]) for i in range(0, len(numbers), 4)]


def table_of(
    size: int, grid: Sequence[int], report: int,
    zeros: Zeros = _zeros,
) -> Any:  # fmt: skip
    """The table of a launch whose programs have parts of `size` bytes."""
    programs = int(np.prod([1, *grid], dtype=np.int64))
    table = zeros((HEAD_BYTES + size * programs >> 3,))
    table[:2] = report, size
    return table
