"""Races between the partitions of a program, which run at the same time: two accesses of the same
memory, one of them a write, that no mbarrier orders.

Each partition has a clock: for each partition the last step of it that this one is known to come
after. A partition's step ends when it arrives at a barrier; who waits for the barrier comes after
the steps of those that have arrived, and after the copies that ended the phase.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from tritium.ops.memory import EvaluationError, Place

Clock: TypeAlias = "dict[int, int]"


class Access(NamedTuple):
    """An access of memory. `step`: of its partition."""

    data: np.ndarray
    writes: bool
    partition: int
    step: int
    place: Place

    @property
    def text(self) -> str:
        """The access for messages."""
        kind = "written" if self.writes else "read"
        return f"{kind} {self.place.text}by partition {self.partition}"


def extent(data: np.ndarray) -> tuple[Any, ...]:
    """Key of a piece of memory: its start and how its elements lie."""
    return data.__array_interface__["data"][0], data.shape, data.strides


def join(clock: Clock, other: Clock) -> None:
    """Let a clock come after another."""
    for partition, step in other.items():
        clock[partition] = max(clock.get(partition, 0), step)


@dataclass
class Races:
    """The accesses of partitions, by allocation, and the partitions' clocks. The first is the
    default partition."""

    clocks: list[Clock]
    accesses: dict[Any, dict[Any, Access]] = field(default_factory=dict[Any, dict[Any, Access]])

    @staticmethod
    def among(count: int) -> Races:
        """The state at the start of so many partitions."""
        return Races([{partition: 1} for partition in range(count)])

    def access(
        self, partition: int, memory: Any, data: np.ndarray, writes: bool, place: Place
    ) -> None:
        """Note an access. Raises `EvaluationError` for a race with an earlier one. `memory`: the
        allocation."""
        clock = self.clocks[partition]
        known = self.accesses.setdefault(memory, {})
        new = Access(data, writes, partition, clock[partition], place)
        for other in known.values():
            apart = not (writes or other.writes) or other.partition == partition
            if apart or other.step <= clock.get(other.partition, 0):
                continue
            if np.shares_memory(other.data, data):
                raise EvaluationError(
                    f"a race for {memory.text}: {new.text}, {other.text}; no mbarrier orders them"
                )
        known[partition, writes, extent(data)] = new

    def release(self, partition: int) -> Clock:
        """The clock of a partition that arrives at a barrier, with which a step ends."""
        clock = self.clocks[partition]
        released = dict(clock)
        clock[partition] += 1
        return released

    def acquire(self, partition: int, clock: Clock, copied: Iterable[np.ndarray]) -> None:
        """Let a partition that has waited come after a clock, and after copies into memory."""
        own, targets = self.clocks[partition], {id(data) for data in copied}
        join(own, clock)
        for known in self.accesses.values():
            for access in known.values():
                if access.writes and id(access.data) in targets:
                    join(own, {access.partition: access.step})
