"""Races between what runs a program at the same time, the partitions and the thread blocks of a
cluster: two accesses of the same memory, one of them a write, that no barrier orders.

An actor is a partition in a block. Each has a clock: for each actor the last step of it that this
one is known to come after. An actor's step ends when it arrives at a barrier; who waits for the
barrier comes after the steps of those that have arrived, and after the copies that ended the phase.
Blocks have their own memory, and own barriers: an access is by one block, to the memory of one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from tritium.ops.memory import EvaluationError, Place


class Actor(NamedTuple):
    """A partition in a thread block of the cluster."""

    partition: int
    block: int


Clock: TypeAlias = "dict[Actor, int]"
Route: TypeAlias = "Sequence[tuple[int, int]]"
"""Pairs of blocks: one that acts, and one to whose memory or barrier it does."""


class Access(NamedTuple):
    """An access of the memory of a block. `step`: of its actor; `kind`: "written", say."""

    data: np.ndarray
    writes: bool
    actor: Actor
    block: int
    step: int
    place: Place
    kind: str


def extent(data: np.ndarray) -> tuple[Any, ...]:
    """Key of a piece of memory: its start and how its elements lie."""
    return data.__array_interface__["data"][0], data.shape, data.strides


def join(clock: Clock, other: Clock) -> None:
    """Let a clock come after another."""
    for actor, step in other.items():
        clock[actor] = max(clock.get(actor, 0), step)


@dataclass
class Races:
    """The accesses of actors, by allocation, and the actors' clocks.

    Attributes:
        blocks: of the cluster.
        partitions: those that run now; the first is the default partition.
    """

    blocks: int = 1
    partitions: int = 1
    clocks: dict[Actor, Clock] = field(default_factory=dict[Actor, Clock])
    accesses: dict[Any, dict[Any, Access]] = field(default_factory=dict[Any, dict[Any, Access]])

    def fork(self, partitions: int) -> None:
        """Begin the partitions; what the default one did before is before all that they do."""
        self.partitions = partitions
        for block in range(self.blocks):
            begun = self.release(0, block)
            for partition in range(1, partitions):
                join(self._clock(Actor(partition, block)), begun)

    def end(self) -> None:
        """Record that all partitions but the default one have ended: it comes after them."""
        for block in range(self.blocks):
            for partition in range(1, self.partitions):
                join(self._clock(Actor(0, block)), self.release(partition, block))
        self.partitions = 1

    def own(self) -> Route:
        """Each block does something to its own memory."""
        return [(block, block) for block in range(self.blocks)]

    def access(
        self, partition: int, memory: Any, data: np.ndarray, writes: bool, place: Place,
        route: Route | None = None, kind: str = "",
    ) -> None:  # fmt: skip
        """Note an access. Raises `EvaluationError` for a race with an earlier one.

        Args:
            memory: the allocation.
            route: which block's copies access the memory of which; by default each its own. Who
                waits for them does not come after what the block does in the meantime.
            kind: "written" or "read" by default.
        """
        known, made = self.accesses.setdefault(memory, {}), dict[Any, Access]()
        for source, target in self.own() if route is None else route:
            actor = Actor(partition, source)
            clock = self._clock(actor)
            new = Access(data, writes, actor, target, clock[actor], place,
                         kind or ("written" if writes else "read"))  # fmt: skip
            for other in known.values():
                apart = other.block != target or not (writes or other.writes)
                if apart or other.actor == actor or other.step <= clock.get(other.actor, 0):
                    continue
                if np.shares_memory(other.data, data):
                    among = "mbarrier" if self.blocks == 1 else "barrier of the cluster or mbarrier"
                    raise EvaluationError(
                        f"a race for {memory.text}: {self._text(new)}, {self._text(other)}; no "
                        f"{among} orders them"
                    )
            made[actor, target, writes, extent(data)] = new
        known |= made
        for source in {source for source, _ in route or ()}:
            self.release(partition, source)

    def release(self, partition: int, block: int = 0) -> Clock:
        """The clock of an actor that arrives at a barrier, with which a step ends."""
        clock = self._clock(Actor(partition, block))
        released = dict(clock)
        clock[Actor(partition, block)] += 1
        return released

    def acquire(
        self, partition: int, block: int, clock: Clock, copied: Iterable[np.ndarray],
        shared: int = 0,
    ) -> None:  # fmt: skip
        """Let an actor that has waited come after a clock, and after copies into its memory and
        that of the blocks that share the barrier: whose number differs in the bits `shared`.
        `copied`: what copies have written, and the barriers that they have used."""
        own, targets = self._clock(Actor(partition, block)), {id(data) for data in copied}
        join(own, clock)
        for known in self.accesses.values():
            for access in known.values():
                mine = access.block & ~shared == block
                of_copy = access.writes or access.kind == "used"
                if of_copy and mine and id(access.data) in targets:
                    join(own, {access.actor: access.step})

    def synchronize(self, partition: int) -> None:
        """The blocks of a partition wait for each other."""
        self.leave(partition, self.come(partition))

    def come(self, partition: int) -> Clock:
        """The blocks of a partition arrive at the cluster's barrier, whose clock this is."""
        met: Clock = {}
        for block in range(self.blocks):
            join(met, self.release(partition, block))
        return met

    def leave(self, partition: int, met: Clock) -> None:
        """The blocks of a partition have waited for the cluster's barrier."""
        for block in range(self.blocks):
            join(self._clock(Actor(partition, block)), met)

    def _clock(self, actor: Actor) -> Clock:
        return self.clocks.setdefault(actor, {actor: 1})

    def _text(self, access: Access) -> str:
        """An access for messages."""
        who = [f"partition {access.actor.partition}"] if self.partitions > 1 else []
        who += [f"block {access.actor.block}"] if self.blocks > 1 else []
        there = f" in block {access.block}" if access.block != access.actor.block else ""
        return f"{access.kind} {access.place.text}by {' of '.join(who)}{there}"
