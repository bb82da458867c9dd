"""Allocation of shared memory: byte ranges for allocations and for the scratch of ops.

An allocation lives from its op to the last op that uses it or an alias of it (a use in a loop that
does not contain the allocation lasts to the loop's end). What lives at the same time gets different
ranges. The regions of `ttg.warp_specialize` run at the same time; what the op needs itself lives as
long as they do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.ir import Block, Operation, SSAValue

from tritium.analysis.memory_aliases import Aliases, memory_aliases
from tritium.ir.layouts.encodings import SharedEncoding
from tritium.ops.base import Op
from tritium.ops.effects import SHARED, Action, Queue
from tritium.ops.ttgir.tensormap import TensormapCreateOp
from tritium.ops.ttgir.types import bytes_of

SMALL = 1024
"""Scratch of at most so many bytes is not shared: two reductions in a loop then need no barrier
between them."""
ALL_SMALL = 32 * 1024
"""Of all scratch that is not shared; a sort has many changes of layout."""
ALIGNMENT = 1024  # of tiles that the tensor cores read
BULK_ALIGNMENT = 128  # of what the bulk copy engine copies
SCRATCH_ALIGNMENT = 16


@dataclass(frozen=True)
class Range:
    """Bytes `start` to `end` of shared memory, and the positions of the ops between which they
    are in use."""

    start: int
    end: int
    first: int
    last: int


@dataclass(frozen=True)
class Allocation:
    """Ranges by op (an allocation, or an op with scratch), the allocations of each value, and the
    size of all in bytes."""

    places: dict[Any, Range]
    aliases: Aliases
    size: int

    def ranges_of(self, value: SSAValue) -> list[Range]:
        """The bytes that a piece of shared memory may be part of."""
        return [self.places[op] for op in self.aliases[value]]


Partition = tuple[Op, int]
"""An op, and the number of a region of it."""


@dataclass(frozen=True)
class _Wanted:
    op: Any
    size: int
    alignment: int
    first: int
    last: int
    partition: Partition | None

    def lives_with(self, other: _Wanted) -> bool:
        """Whether the two are in use at the same time."""
        mine, theirs = self.partition, other.partition
        if mine is not None and theirs is not None and mine[0] is theirs[0] and mine != theirs:
            return True
        return other.first <= self.last and self.first <= other.last


def _alignment(type: Any) -> int:
    """The alignment of an allocation in bytes; the smallest allocations are mbarriers."""
    size, encoding = bytes_of(type), type.encoding
    least = encoding.base_alignment if isinstance(encoding, SharedEncoding) else 16
    return max(least, ALIGNMENT if size >= ALIGNMENT else BULK_ALIGNMENT if size >= 16 else 16)


def allocates_memory(op: Operation) -> bool:
    """Whether the op's result is new shared memory."""
    return isinstance(op, Op) and any(
        e.action is Action.ALLOCATE and e.resource is SHARED for e in op.effects
    )


def allocate(
    blocks: Sequence[Block], scratch_bytes: Callable[[Any], int], *, apart: bool = True
) -> Allocation:
    """Choose the ranges of a function's shared memory, the largest first, first fit.

    Args:
        scratch_bytes: the bytes that an op needs for itself; a backend's lowering rules say.
        apart: whether small scratch has memory of its own (`SMALL`).
    """
    liveness = _Liveness(blocks)
    places: dict[Any, Range] = {}
    wanted = _wanted(liveness, scratch_bytes, ALL_SMALL if apart else 0)
    placed: list[_Wanted] = []
    for want in sorted(wanted, key=lambda w: (-w.size, w.first)):
        busy = sorted(
            (places[p.op].start, places[p.op].end) for p in placed if want.lives_with(p)
        )
        placed.append(want)
        start = 0
        for begin, end in busy:
            if start + want.size <= begin:
                break
            start = max(start, -(-end // want.alignment) * want.alignment)
        places[want.op] = Range(start, start + want.size, want.first, want.last)
    size = max((p.end for p in places.values()), default=0)
    return Allocation(places, liveness.aliases, size)


def _wanted(
    liveness: _Liveness, scratch_bytes: Callable[[Any], int], left: int
) -> list[_Wanted]:
    """`left`: bytes for scratch that is not shared."""
    wanted: list[_Wanted] = []
    end = len(liveness.position)
    for op, first in liveness.position.items():
        partition = liveness.partition.get(op)
        if allocates_memory(op):
            last, type = max(first, liveness.last.get(op, first)), op.results[0].type
            wanted.append(_Wanted(op, bytes_of(type), _alignment(type), first, last, partition))
        elif (size := scratch_bytes(op)) > 0:
            copied = _bulk_copied(op)
            own = size <= min(SMALL, left) and not copied
            left -= size if own else 0
            alignment = BULK_ALIGNMENT if copied else SCRATCH_ALIGNMENT
            last = _last_position(liveness.position, op)
            life = (0, end) if own else (first, last)
            wanted.append(_Wanted(op, size, alignment, *life, partition))
    return wanted


def _bulk_copied(op: Operation) -> bool:
    """Whether the op's scratch, a tensor map, is copied to global memory as a whole."""
    return isinstance(op, TensormapCreateOp)


class _Liveness:
    """Positions of the ops of a function, and the last use of each allocation."""

    def __init__(self, blocks: Sequence[Block]) -> None:
        self.aliases = memory_aliases(blocks)
        self.position: dict[Any, int] = {}
        self.last: dict[Any, int] = {}
        self.partition: dict[Any, Partition] = {}
        self._loops: list[Operation] = []
        self._depth: dict[Any, int] = {}
        self._uses: list[tuple[Any, Operation, list[Operation]]] = []
        for block in blocks:
            self._block(block)
        cyclic = _has_backward_edge(blocks)
        for allocation, op, loops in self._uses:
            outside = loops[self._depth[allocation] :]
            last = _last_position(self.position, outside[0]) if outside else self.position[op]
            if cyclic or _read_until_the_end(op):
                last = len(self.position)
            self.last[allocation] = max(self.last.get(allocation, 0), last)

    def _block(self, block: Block) -> None:
        for op in block.ops:
            self.position[op] = len(self.position)
            if allocates_memory(op):
                self._depth[op] = len(self._loops)
            for value in op.operands:
                for allocation in self.aliases.get(value, ()):
                    self._uses.append((allocation, op, list(self._loops)))
            if op.regions:
                self._loops.append(op)
                for number, region in enumerate(op.regions):
                    start = len(self.position)
                    for inner in region.blocks:
                        self._block(inner)
                    if isinstance(op, Op) and op.concurrent:
                        inside = list(self.position)[start:]
                        self.partition.update(dict.fromkeys(inside, (op, number)))
                self._loops.pop()


def _read_until_the_end(op: Operation) -> bool:
    """Whether a bulk copy reads the memory after the op: the wait names no memory."""
    return isinstance(op, Op) and any(e.queue is Queue.BULK_STORE and e.is_read for e in op.effects)


def _has_backward_edge(blocks: Sequence[Block]) -> bool:
    """Whether a block may run after one that stands behind it."""
    index = {block: i for i, block in enumerate(blocks)}
    return any(
        index[successor] <= index[block]
        for block in blocks if block.last_op is not None for successor in block.last_op.successors
    )  # fmt: skip


def _last_position(position: dict[Any, int], op: Operation) -> int:
    return max(position[inner] for inner in _nested(op))


def _nested(op: Operation) -> Iterator[Operation]:
    yield op
    for region in op.regions:
        for block in region.blocks:
            yield from block.walk()
