"""Where all threads of a program must meet: between a write to shared memory and another thread's
access to the same bytes.

Bytes stored by threads are made visible to the tensor cores and the bulk copy engine (the "async
proxy") by a fence before such a meeting. Bytes that `cp.async` brings need none in practice:
the reference has none either, and the fence costs a tenth of a matmul's speed.

The state is what was read and written since threads last met. Asynchronous work (`cp.async`, wgmma,
bulk copies) touches memory from its start to the op that waits for it, so that its accesses count
again there. Loops are walked until nothing changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from xdsl.ir import Block

from tritium.backends.nvidia.lower.allocation import Allocation, Range, is_memory

Bytes: TypeAlias = "tuple[int, int]"

_ASYNC_READERS = frozenset({
    "ttng.warp_group_dot", "ttng.async_tma_copy_local_to_global", "ttng.async_tma_reduce",
    "ttng.async_tma_scatter",
})  # fmt: skip
_ASYNC_WRITERS = frozenset({
    "ttg.async_copy_global_to_local", "ttng.async_tma_copy_global_to_local",
    "ttng.async_tma_gather",
})  # fmt: skip
_BULK_LOADS = frozenset({"ttng.async_tma_copy_global_to_local", "ttng.async_tma_gather"})
_BARRIER_WRITERS = frozenset({"ttng.init_barrier", "ttng.inval_barrier"})
_BARRIER_READERS = frozenset({"ttng.barrier_expect", "ttng.wait_barrier", "ttng.arrive_barrier"})


@dataclass
class _State:
    """Accesses since threads last met; `copies` and `products` are asynchronous and in flight;
    `stores` are writes since the last fence."""

    reads: set[Bytes] = field(default_factory=set[Bytes])
    writes: set[Bytes] = field(default_factory=set[Bytes])
    copies: set[Bytes] = field(default_factory=set[Bytes])
    products: set[Bytes] = field(default_factory=set[Bytes])

    stores: set[Bytes] = field(default_factory=set[Bytes])

    def _parts(self) -> tuple[set[Bytes], ...]:
        return self.reads, self.writes, self.copies, self.products, self.stores

    def copy(self) -> _State:
        return _State(*map(set, self._parts()))

    def join(self, other: _State) -> bool:
        """Add another state's accesses; whether there were new ones."""
        before = sum(map(len, self._parts()))
        for mine, theirs in zip(self._parts(), other._parts(), strict=False):
            mine |= theirs
        return before != sum(map(len, self._parts()))

    def meet(self) -> None:
        """All threads have met."""
        self.reads.clear()
        self.writes.clear()


def _overlaps(ranges: set[Bytes], place: Bytes) -> bool:
    return any(a < place[1] and place[0] < b for a, b in ranges)


class Barriers:
    """Finds the ops before which threads must meet: `before`, an ordered set as a dict, whose
    values say whether the tensor cores or the bulk copy engine must see what was written."""

    def __init__(self, allocation: Allocation):
        self.allocation = allocation
        self.before: dict[Any, bool] = {}
        self._proxy = False

    def find(self, blocks: Sequence[Block]) -> dict[Any, bool]:
        """Walk a function."""
        self._proxy = any(
            op.name in _ASYNC_READERS for block in blocks for op in block.walk()
        )
        state, changed = _State(), True
        while changed:
            count = len(self.before)
            for block in blocks:
                self._block(block, state)
            changed = len(blocks) > 1 and len(self.before) != count
        return self.before

    def _block(self, block: Block, state: _State) -> None:
        for op in block.ops:
            self._op(op, state)

    def _op(self, op: Any, state: _State) -> None:
        if op.name in ("scf.for", "scf.while"):
            known = state.copy()
            while True:
                for region in op.regions:
                    self._block(region.block, state)
                if not known.join(state):
                    state.join(known)
                    return
                state.join(known)
        elif op.name == "scf.if":
            ends = [state.copy()]
            for region in op.regions:
                if region.blocks:
                    ends.append(state.copy())
                    self._block(region.block, ends[-1])
            if len(op.regions[-1].blocks):
                ends = ends[1:]
            state.meet()
            for end in ends:
                state.join(end)
        else:
            self._access(op, state)

    def _access(self, op: Any, state: _State) -> None:
        reads, writes = self._reads(op), self._writes(op)
        scratch = self.allocation.places.get(op) if op.name != "ttg.local_alloc" else None
        if scratch is not None:
            writes = [*writes, (scratch.start, scratch.end)]
        unfenced = op.name in _ASYNC_READERS and any(_overlaps(state.stores, r) for r in reads)
        conflict = unfenced or any(_overlaps(state.writes, r) for r in reads) or any(
            _overlaps(state.reads, w) or _overlaps(state.writes, w) for w in writes
        )
        if op in self.before or conflict:
            fence = self._proxy and bool(state.stores)
            self.before[op] = self.before.get(op, False) or fence
            state.stores.clear()
            state.meet()
        if op.name == "gpu.barrier":
            state.meet()
        if scratch is not None:  # the op itself writes, meets, and reads
            state.meet()
            state.reads.add((scratch.start, scratch.end))
        if op.name in _ASYNC_WRITERS:
            state.copies.update(writes)
        elif scratch is None:
            state.writes.update(writes)
            state.stores.update(writes)
        state.reads.update(reads)
        if op.name in _ASYNC_READERS:
            state.products.update(reads)
        elif op.name == "ttg.async_wait":
            state.writes |= state.copies
        elif op.name in ("ttng.warp_group_dot_wait", "ttng.async_tma_store_wait"):
            state.reads |= state.products

    def _place(self, value: Any) -> Bytes:
        place: Range = self.allocation.range_of(value)
        return place.start, place.end

    def _reads(self, op: Any) -> list[Bytes]:
        if op.name == "ttg.local_load":
            return [self._place(op.operands[0])]
        if op.name in _ASYNC_READERS or op.name in _BARRIER_READERS:
            return [self._place(v) for v in op.operands if is_memory(v)]
        if op.name in _BULK_LOADS:
            return [self._place(op.barrier)]
        return []

    def _writes(self, op: Any) -> list[Bytes]:
        if op.name == "ttg.local_alloc":
            return [self._place(op.results[0])] if op.operands else []
        if op.name == "ttg.local_store":
            return [self._place(v) for v in op.operands if is_memory(v)]
        if op.name == "ttg.async_copy_global_to_local":
            return [self._place(v) for v in op.operands if is_memory(v)]
        if op.name in _BULK_LOADS:
            return [self._place(op.result)]
        if op.name in _BARRIER_WRITERS:
            return [self._place(v) for v in op.operands if is_memory(v)]
        return []
