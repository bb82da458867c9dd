"""Check that accesses of a program's shared memory do not meet: one by a partition, or by what a
partition has started, while another is not over and one of the two writes.

before:
    ttng.async_tma_copy_global_to_local %desc[...] %memory, %bar, %pred
    %v = ttg.local_load %memory
after:
    ttg.note_access %memory, %table, %pred by %bar {queue = -2, column = -1, site = 0, ...}
    ttg.note_event ARRIVE, %table, %pred of %bar {bytes = -2048, ...}
    ttng.async_tma_copy_global_to_local %desc[...] %memory, %bar, %pred
    ttg.note_access %memory, %table {queue = -1, column = 0, site = 1, ...}
    %v = ttg.local_load %memory

What is noted is in `sanitize.chip.state`. The order of the threads of one partition is the
compiler's work (`analysis.barriers`), and is not looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from tritium.analysis.memory_aliases import Aliases, memory_aliases
from tritium.ops.arith import AndIOp
from tritium.ops.attributes import NUM_CTAS
from tritium.ops.base import Op
from tritium.ops.effects import BARRIER, SHARED, Action, Effect, Queue
from tritium.ops.ttgir.types import bytes_of
from tritium.ops.ttir.sanitize import ChipAccessOp, ChipEvent, ChipEventOp
from tritium.passes.base import Pass
from tritium.passes.rewriting import Builder
from tritium.sanitize.chip.footprint import common_unit
from tritium.sanitize.chip.state import ACCESSES, Place, State
from tritium.sanitize.kinds import Site
from tritium.sanitize.sites import add_arguments, kernel_of, site_of

BY_PARTITION, BY_BARRIER = -1, -2
MBARRIER_BYTES = 8


class _Access(NamedTuple):
    op: Any
    effect: Effect
    value: SSAValue
    partition: int


@dataclass(frozen=True)
class CheckChipRaces(Pass):
    """Check that accesses of shared memory do not meet.

    Attributes:
        sites: filled with a description of each check.
        sizes: filled with the bytes that are noted of each program; empty where nothing is checked.
        unwatched: filled with the reason why a kernel's shared memory is not watched, if so.
    """

    name: ClassVar[str] = "sanitize-chip-races"
    sites: list[Site] = field(default_factory=list[Site])
    sizes: list[int] = field(default_factory=list[int])
    unwatched: list[str] = field(default_factory=list[str])

    def run(self, module: ModuleOp) -> bool:
        kernel = kernel_of(module)
        aliases = memory_aliases(kernel.regions[0].blocks)
        ops = [op for op in kernel.walk() if isinstance(op, Op)]
        if not any(_touches(op) for op in ops):
            return False
        blocks = module.attributes.get(NUM_CTAS)
        if blocks is not None and blocks.value.data > 1:  # pyright: ignore
            self.unwatched.append("shared memory, of a cluster of thread blocks, is not watched")
            return False
        (table,) = add_arguments(kernel, ("chip",))
        tables = _captured(ops, table)
        checks = _Checks(ops, aliases, tables, self.sites)
        for op in ops:
            checks.insert(op)
        self.sizes.append(checks.state.bytes)
        return True


def _touches(op: Op) -> bool:
    return any(e.resource is SHARED and e.action in ACCESSES for e in op.own_effects())


def _captured(ops: Sequence[Op], table: SSAValue) -> dict[int, dict[Any, SSAValue]]:
    """The table as each partition of each op that has some sees it, by its number. Partitions get
    no registers of their own number: what is noted takes more than they ask for."""
    found: dict[int, dict[Any, SSAValue]] = {}
    for op in ops:
        if op.concurrent:
            op.operands = (*op.operands, table)
            op.properties.pop("requestedRegisters", None)
            for number, region in enumerate(op.regions[1:], 1):
                block = region.block
                found.setdefault(number, {})[op] = block.insert_arg(table.type, len(block.args))
    return {0: {None: table}, **found}


class _Checks:
    """The checks of a kernel. They are inserted op by op."""

    def __init__(
        self, ops: Sequence[Op], aliases: Aliases, tables: Any, sites: list[Site]
    ):  # fmt: skip
        self._aliases, self._tables, self._sites = aliases, tables, sites
        accesses = [a for op in ops for a in self._accesses(op)]
        of_barriers = dict.fromkeys(
            a for op in ops for e in op.own_effects() if e.resource is BARRIER
            for value in op.affected(e) for a in aliases.get(value, ())
        )  # fmt: skip
        self._queues: dict[tuple[int, Queue], int] = {}
        self._readers: dict[tuple[int, Queue | None], int] = {}
        for a in accesses:
            queue = a.effect.queue
            if queue not in (None, Queue.MBARRIER):
                self._queues.setdefault((a.partition, queue), len(self._queues))
            if a.effect.action is Action.READ:
                self._readers.setdefault((a.partition, queue), len(self._readers))
        self._places, rows, barriers = _placed(accesses, aliases, of_barriers)
        partitions = max(len(op.regions) if op.concurrent else 1 for op in ops)
        self.state = State(partitions, len(self._queues), barriers, len(self._places),
                           len(self._readers), rows)  # fmt: skip
        self._of_barriers = of_barriers

    def _accesses(self, op: Op) -> Iterator[_Access]:
        """The accesses of data in shared memory that an op makes, writes first."""
        found = [
            _Access(op, e, value, _partition(op)[0]) for e in op.own_effects()
            if e.resource is SHARED and e.action in ACCESSES
            for value in op.affected(e) if value in self._aliases
        ]  # fmt: skip
        yield from sorted(found, key=lambda a: a.effect.action is Action.READ)

    def insert(self, op: Op) -> None:
        """Insert the checks of an op before and behind it."""
        before, partition = Builder(op), _partition(op)[0]
        behind = None if op.next_op is None else Builder(op.next_op, op.location)  # pyright: ignore
        effects = op.own_effects()
        for e in effects:
            if e.resource is SHARED and e.action is Action.ALLOCATE and behind is not None:
                rows = 0 if op in self._of_barriers else self._places[op].rows
                self._event(behind, op, ChipEvent.PLACE, memory=op.result, count=rows)
        for access in self._accesses(op):
            at = behind if access.value in op.results else before
            if at is not None and not self._of_barrier(access.value):
                self._access(at, access)
        for queue in _begun(effects):
            if (partition, queue) in self._queues:
                self._event(before, op, ChipEvent.START, queue=self._actor(partition, queue),
                            pred=_predicate(op))  # fmt: skip
        for e in effects:
            if op.phase_arrivals is not None and e.resource is BARRIER and op.affected(e):
                (barrier,) = op.affected(e)
                self._event(before, op, ChipEvent.INIT, memory=barrier, count=op.phase_arrivals)
            if e.action is Action.ARRIVE and e.resource is BARRIER:
                self._arrivals(before, op, e)
            if e.action is Action.WAIT and behind is not None:
                self._wait(behind, op, e)
        if not getattr(op, "isAsync", True) and behind is not None:
            for queue in _begun(effects):
                self._wait(behind, op, Effect(Action.WAIT, SHARED, None, queue))
        if op.concurrent and behind is not None:
            others = len(op.regions) - 1
            self._event(before, op, ChipEvent.FORK, count=others)
            self._event(behind, op, ChipEvent.JOIN, count=others)

    def _access(self, at: Builder, access: _Access) -> None:
        op, effect, value, partition = access
        queue, reads = effect.queue, effect.action is Action.READ
        by, barrier = BY_PARTITION, None
        if queue is Queue.MBARRIER:
            (arrival,) = (e for e in op.own_effects() if e.action is Action.ARRIVE)
            by, (barrier,) = BY_BARRIER, op.affected(arrival)
        elif queue is not None:
            by = self._actor(partition, queue)
        at.make(
            ChipAccessOp, value, self._table(op), _predicate(op), barrier, state=self.state,
            places=self._places_of(value), barriers=() if barrier is None else
            self._places_of(barrier), partition=partition, queue=by, site=len(self._sites),
            column=self._readers[partition, queue] if reads else -1,
        )  # fmt: skip
        self._sites.append(site_of(
            op, "races", access=ACCESSES[effect.action], memory="shared", partition=partition,
            later=queue is not None, partitions=self.state.partitions,
        ))  # fmt: skip

    def _arrivals(self, at: Builder, op: Op, effect: Effect) -> None:
        partition, conditions = _partition(op)[0], getattr(op, "barrierPreds", None)
        key = None if effect.queue is None else (partition, effect.queue)
        queue = self._actor(*key) if key in self._queues else -1  # pyright: ignore
        for number, barrier in enumerate(op.affected(effect)):
            pred = _predicate(op)
            if conditions:
                condition = conditions[number]
                pred = condition if pred is None else at.value(AndIOp, pred, condition)
            self._event(at, op, ChipEvent.ARRIVE, memory=barrier, pred=pred, queue=queue,
                        count=int(op.most_arrivals()), bytes=op.expected_bytes())  # fmt: skip

    def _wait(self, at: Builder, op: Op, effect: Effect) -> None:
        partition = _partition(op)[0]
        if effect.resource is BARRIER:
            (barrier,), phase = op.affected(effect), op.phase  # pyright: ignore
            self._event(at, op, ChipEvent.WAIT, memory=barrier, phase=phase, pred=_predicate(op))
        elif (partition, effect.queue) in self._queues:
            assert effect.queue is not None
            self._event(at, op, ChipEvent.WAIT_QUEUE, count=op.left_in_flight,
                        queue=self._actor(partition, effect.queue))  # fmt: skip

    def _event(
        self, at: Builder, op: Op, event: ChipEvent, *, memory: Any = None, pred: Any = None,
        phase: Any = None, **attrs: Any,
    ) -> None:  # fmt: skip
        places = () if memory is None else self._places_of(memory)
        at.make(ChipEventOp, self._table(op), pred, memory, phase, event=event, state=self.state,
                partition=_partition(op)[0], places=places, **attrs)  # fmt: skip

    def _actor(self, partition: int, queue: Queue) -> int:
        return self.state.partitions + self._queues[partition, queue]

    def _table(self, op: Op) -> SSAValue:
        number, owner = _partition(op)
        return self._tables[number][owner]

    def _of_barrier(self, value: SSAValue) -> bool:
        return any(a in self._of_barriers for a in self._aliases[value])

    def _places_of(self, value: SSAValue) -> tuple[int, ...]:
        return tuple(n for a in self._aliases[value] for n in self._places[a])


def _placed(
    accesses: Sequence[_Access], aliases: Aliases, of_barriers: Any
) -> tuple[dict[Any, Place], int, int]:
    """The places of allocations, the number of rows and of barriers. Allocations that a value may
    be one of have the same unit."""
    types: dict[Any, list[Any]] = {a: [] for found in aliases.values() for a in found}
    groups = {a: [a] for a in types}
    for found in aliases.values():
        first, *others = found
        for other in others:
            if groups[first] is not groups[other]:
                groups[first] += groups[other]
                groups.update((a, groups[first]) for a in groups[other])
    for access in accesses:
        for a in aliases[access.value]:
            types[a].append(access.value.type)
    places: dict[Any, Place] = {}
    rows = barriers = 0
    for a in types:
        size = bytes_of(a.results[0].type)
        if a in of_barriers:
            places[a] = Place(len(places), barriers, MBARRIER_BYTES, size // MBARRIER_BYTES)
            barriers += places[a].rows
        else:
            used = [t for b in groups[a] if b not in of_barriers for t in types[b]]
            unit = common_unit(used) if used else size
            places[a] = Place(len(places), rows, unit, -(-size // unit))
            rows += places[a].rows
    return places, rows, barriers


def _partition(op: Any) -> tuple[int, Any]:
    """The number of the partition that runs an op, and the op that has it; (0, None) for the
    default one."""
    while (parent := op.parent_op()) is not None:
        if isinstance(parent, Op) and parent.concurrent:
            number = list(parent.regions).index(op.parent_region())
            return number, parent if number else None
        op = parent
    return 0, None


def _begun(effects: Sequence[Effect]) -> list[Queue]:
    """The queues of which an op begins the next group: at the end of one, or as one of its own."""
    found = [
        e.queue for e in effects if e.queue is not None and e.queue is not Queue.MBARRIER
        and (e.action is Action.OPAQUE if e.queue.has_groups else e.action in ACCESSES)
    ]  # fmt: skip
    return list(dict.fromkeys(found))


def _predicate(op: Any) -> SSAValue | None:
    return op.pred if "pred" in op.operand_names() else None
