"""Placement of thread barriers: ops before which all threads of a program must synchronize.

A barrier separates a write to shared memory from another thread's access to the same bytes. Bytes
stored by threads are made visible to the tensor cores and the bulk copy engine (the "async proxy")
by a fence before such a barrier. Bytes that `cp.async` brings need none in practice: the reference
has none either, and the fence costs a tenth of a matmul's speed.

The state is what was read and written since the last barrier. Asynchronous accesses touch memory
from their start to the op that waits for them, so that they count again there. The state at a
block's start is the union over its predecessors; loops are walked until nothing changes.

The regions of `ttg.warp_specialize` are walked each by itself: their threads synchronize when the
op begins and ends, and in between through mbarriers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from xdsl.ir import Block, Operation

from tritium.analysis.regions import ops_in
from tritium.analysis.shared_memory import Allocation, allocates_memory
from tritium.ir.graph import ops_of
from tritium.ops.arith import constant_int
from tritium.ops.base import Op
from tritium.ops.effects import SHARED, Action, Effect, Queue, Resource
from tritium.ops.terminators import terminator
from tritium.ops.ttgir.memory import MemDescIndexOp
from tritium.ops.ttgir.types import bytes_of

Bytes: TypeAlias = "tuple[int, int]"

_SYNCHRONIZES = (Action.ARRIVE, Action.WAIT)

_MOST_GROUPS = 8
"""Groups of a queue in flight that are told apart; older ones count as one, of which a wait ends an
unknown part."""


@dataclass
class _Group:
    """The bytes that asynchronous accesses which end together read and write."""

    reads: set[Bytes] = field(default_factory=set[Bytes])
    writes: set[Bytes] = field(default_factory=set[Bytes])

    def join(self, other: _Group) -> None:
        self.reads |= other.reads
        self.writes |= other.writes


@dataclass
class _State:
    """Accesses since the last barrier; `stores` are writes since the last fence; `flying` are the
    groups of asynchronous accesses of each queue that may be in flight, the newest first."""

    reads: set[Bytes] = field(default_factory=set[Bytes])
    writes: set[Bytes] = field(default_factory=set[Bytes])
    stores: set[Bytes] = field(default_factory=set[Bytes])
    flying: dict[Queue, list[_Group]] = field(default_factory=dict[Queue, list[_Group]])

    def copy(self) -> _State:
        new = _State()
        new.join(self)
        return new

    def join(self, other: _State) -> bool:
        """Add another state's accesses; returns whether there were new ones."""
        before = self._size()
        self.reads |= other.reads
        self.writes |= other.writes
        self.stores |= other.stores
        for queue, groups in other.flying.items():
            mine = self.flying.setdefault(queue, [])
            mine += (_Group() for _ in range(len(groups) - len(mine)))
            for group, theirs in zip(mine, groups, strict=False):
                group.join(theirs)
        return before != self._size()

    def _size(self) -> int:
        groups = [group for groups in self.flying.values() for group in groups]
        flying = sum(1 + len(group.reads) + len(group.writes) for group in groups)
        return sum(map(len, (self.reads, self.writes, self.stores))) + flying

    def synchronize(self) -> None:
        """Record that all threads have reached a barrier."""
        self.reads.clear()
        self.writes.clear()

    def start(self, queue: Queue, begins: _Group) -> None:
        """An op begins asynchronous accesses."""
        groups = self.flying.setdefault(queue, [])
        if queue.has_groups and groups:
            groups[0].join(begins)
            return
        groups.insert(0, begins)
        if len(groups) > _MOST_GROUPS:
            oldest = groups.pop()
            groups[-1].join(oldest)

    def wait(self, queue: Queue, left: int) -> None:
        """Record that this thread has waited for all but the newest `left` groups of its
        asynchronous accesses; other threads may not have."""
        groups = self.flying.get(queue, [])
        if queue.has_groups:  # where a group ends is not followed here
            left = 0
        for group in groups[min(left, _MOST_GROUPS - 1):]:
            self.reads |= group.reads
            self.writes |= group.writes
        if not queue.has_groups and left < _MOST_GROUPS:
            del groups[left:]


def _overlaps(ranges: set[Bytes], place: Bytes) -> bool:
    return any(a < place[1] and place[0] < b for a, b in ranges)


class Barriers:
    """Finds the ops before which threads must synchronize: `before`, an ordered set as a dict,
    whose values say whether the async proxy must see what was written."""

    def __init__(self, allocation: Allocation):
        self.allocation = allocation
        self.before: dict[Any, bool] = {}
        self._proxy = self._partitioned = False

    def find(self, blocks: Sequence[Block]) -> dict[Any, bool]:
        """Walk a function."""
        ops = [op for op in ops_in(blocks) if isinstance(op, Op)]
        self._proxy = any(
            e.queue is not None and e.queue.reads_by_async_proxy for op in ops for e in op.effects
        )
        self._partitioned = any(op.concurrent for op in ops)
        starts = {block: _State() for block in blocks}
        changed = True
        while changed:
            count, changed = len(self.before), False
            for block in blocks:
                state = starts[block].copy()
                self._block(block, state)
                last = block.last_op
                for successor in last.successors if last is not None else ():
                    changed |= starts[successor].join(state)
            changed |= len(blocks) > 1 and len(self.before) != count
        return self.before

    def _block(self, block: Block, state: _State) -> None:
        for op in ops_of(block):
            assert isinstance(op, Op)
            if op.is_loop:
                self._loop(op, state)
            elif op.concurrent:
                self._partitions(op, state)
            elif op.controls:
                self._branch(op, state)
            else:
                self._access(op, state)

    def _loop(self, op: Operation, state: _State) -> None:
        known = state.copy()
        while True:
            for region in op.regions:
                self._block(region.block, state)
            grown = known.join(state)
            state.join(known)
            if not grown:
                return

    def _branch(self, op: Op, state: _State) -> None:
        ends = [state.copy() for region in op.regions if region.blocks]
        for region, end in zip(op.regions, ends, strict=False):
            self._block(region.block, end)
        if len(ends) == len(op.regions):
            state.synchronize()
        for end in ends:
            state.join(end)

    def _partitions(self, op: Op, state: _State) -> None:
        self._access(op, state)
        self._fence(op, state)
        state.synchronize()
        for region in op.regions[1:]:
            own = _State()
            self._block(region.block, own)
            self._fence(terminator(region.block), own)
        self._block(op.regions[0].block, state)
        state.synchronize()

    def _fence(self, op: Any, state: _State) -> None:
        """Before an op with which threads synchronize anyhow, those that have stored bytes make
        them visible to the async proxy: other threads will have it read them."""
        if self._proxy and state.stores:
            self.before[op] = True
            state.stores.clear()

    def _access(self, op: Op, state: _State) -> None:
        place = None if allocates_memory(op) else self.allocation.places.get(op)
        scratch = None if place is None else (place.start, place.end)
        effects = op.own_effects()
        reads = [(e, r) for e in effects if _reads_bytes(e) for r in self._ranges(op, e)]
        writes = [(e, r) for e in effects if e.action is Action.WRITE for r in self._ranges(op, e)]
        tells = any(e.action is Action.ARRIVE and e.resource is SHARED for e in effects)
        told = tells and bool(state.reads or state.writes)
        if op in self.before or told or self._conflicts(state, reads, writes, scratch):
            fence = self._proxy and bool(state.stores)
            self.before[op] = self.before.get(op, False) or fence
            state.stores.clear()
            state.synchronize()
        if scratch is not None:  # the op itself writes, synchronizes, and reads
            state.synchronize()
            state.reads.add(scratch)
        begun: dict[Queue, _Group] = {}
        for effect, written in writes:
            if effect.queue is None:
                state.writes.add(written)
                state.stores.add(written)
            else:
                begun.setdefault(effect.queue, _Group()).writes.add(written)
        for effect, read in reads:
            state.reads.add(read)
            if effect.queue is not None:
                begun.setdefault(effect.queue, _Group()).reads.add(read)
        for queue, group in begun.items():
            state.start(queue, group)
        if op.publishes_stores:
            state.stores.clear()
        for effect in effects:
            if effect.action is not Action.WAIT or effect.resource is Resource.HOST:
                continue  # a program that stops at a failed check waits for no thread
            if effect.queue is None:
                state.synchronize()
            elif effect.queue.per_thread:
                state.wait(effect.queue, op.left_in_flight)

    def _conflicts(
        self, state: _State, reads: list[tuple[Effect, Bytes]],
        writes: list[tuple[Effect, Bytes]], scratch: Bytes | None,
    ) -> bool:  # fmt: skip
        written = [r for _, r in writes] + ([] if scratch is None else [scratch])
        unfenced = any(
            e.queue is not None and e.queue.reads_by_async_proxy and _overlaps(state.stores, r)
            for e, r in reads
        )
        return (
            unfenced
            or any(_overlaps(state.writes, r) for _, r in reads)
            or any(_overlaps(state.reads, w) or _overlaps(state.writes, w) for w in written)
        )

    def _ranges(self, op: Op, effect: Effect) -> Iterator[Bytes]:
        """The shared memory that the effect touches."""
        apart = self._partitioned or any(e.resource is Resource.BARRIER for e in op.effects)
        for value in op.affected(effect):
            slot = self._slot(value) if apart else None
            if slot is not None:
                yield slot
            elif value in self.allocation.aliases:
                yield from ((r.start, r.end) for r in self.allocation.ranges_of(value))

    def _slot(self, value: Any) -> Bytes | None:
        """The bytes of one of several buffers, where its number is known: threads do not
        synchronize between the initializations of mbarriers, which one thread makes. Kernels with
        partitions have many; in others, tiles in several buffers are not told apart."""
        owner = value.owner
        if not isinstance(owner, MemDescIndexOp) or not allocates_memory(owner.src.owner):
            return None
        index = constant_int(owner.index)
        if index is None or len(self.allocation.ranges_of(value)) > 1:
            return None
        start = self.allocation.places[owner.src.owner].start + index * bytes_of(value.type)
        return start, start + bytes_of(value.type)


def _reads_bytes(effect: Effect) -> bool:
    """True if the effect reads bytes of shared memory; an mbarrier's own state counts."""
    synchronizes = effect.resource is Resource.BARRIER and effect.action in _SYNCHRONIZES
    return effect.action is Action.READ or synchronizes
