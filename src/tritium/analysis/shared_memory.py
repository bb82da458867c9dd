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

from tritium.analysis.lifetimes import Lifetimes, Piece, Span, place
from tritium.analysis.memory_aliases import Aliases, memory_aliases
from tritium.ir.graph import ops_of
from tritium.ir.layouts.encodings import SharedEncoding
from tritium.ops.base import Op
from tritium.ops.effects import SHARED, Action
from tritium.ops.ttgir.tensormap import TensormapCreateOp
from tritium.ops.ttgir.types import bytes_of

SMALL = 1024
"""Scratch of at most this many bytes is not shared: two reductions in a loop then need no barrier
between them."""
ALL_SMALL = 32 * 1024
"""The most bytes of all scratch that is not shared; a sort has many changes of layout."""
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
        found = [(self.places[op], _parts(op)) for op in self.aliases[value]]
        return [Range(place.start + part, place.end + part, place.first, place.last)
                for place, parts in found for part in parts]  # fmt: skip


Partition = tuple[Op, int]
"""An op, and the number of a region of it."""


def _alignment(type: Any) -> int:
    """The alignment of an allocation in bytes; the smallest allocations are mbarriers."""
    size, encoding = bytes_of(type), type.encoding
    least = encoding.base_alignment if isinstance(encoding, SharedEncoding) else 16
    return max(least, ALIGNMENT if size >= ALIGNMENT else BULK_ALIGNMENT if size >= 16 else 16)


def _parts(op: Operation) -> tuple[int, ...]:
    """The starts of the parts of an allocation."""
    encoding: Any = op.results[0].type.encoding  # pyright: ignore
    return encoding.parts if isinstance(encoding, SharedEncoding) else (0,)


def allocates_memory(op: Operation) -> bool:
    """True if the op's result is new shared memory."""
    if not isinstance(op, Op) or not op.effects:
        return False
    return any(e.action is Action.ALLOCATE and e.resource is SHARED for e in op.effects)


def allocate(
    blocks: Sequence[Block], scratch_bytes: Callable[[Any], int], *, apart: bool = True
) -> Allocation:
    """Choose the ranges of a function's shared memory, the largest first, first fit.

    Args:
        scratch_bytes: the bytes that an op needs for itself; a backend's lowering rules say.
        apart: whether small scratch has memory of its own (`SMALL`).
    """
    liveness = _Liveness(blocks)
    pieces = _pieces(liveness, scratch_bytes, ALL_SMALL if apart else 0)
    partition = liveness.partition

    def live_together(one: Piece[Any], other: Piece[Any]) -> bool:
        mine, theirs = partition.get(one.key), partition.get(other.key)
        if mine is not None and theirs is not None and mine[0] is theirs[0] and mine != theirs:
            return True
        return one.span.overlaps(other.span)

    starts = place(sorted(pieces, key=lambda p: (-p.size, p.span.first)), live_together)
    places = {p.key: Range(starts[p.key], starts[p.key] + p.size, *p.span) for p in pieces}
    size = max((starts[p.key] + p.extent for p in pieces), default=0)
    return Allocation(places, liveness.aliases, size)


def _pieces(
    liveness: _Liveness, scratch_bytes: Callable[[Any], int], left: int
) -> list[Piece[Any]]:
    """The allocations of a function and the scratch of its ops, in the order of the ops.

    `left`: the bytes that are left for scratch with memory of its own.
    """
    pieces: list[Piece[Any]] = []
    end = len(liveness.position)
    for op, first in liveness.position.items():
        if allocates_memory(op):
            type, span = op.results[0].type, liveness.spans[op]
            pieces.append(Piece(op, bytes_of(type), _alignment(type), span, _parts(op)))
        elif (size := scratch_bytes(op)) > 0:
            copied = _bulk_copied(op)
            own = size <= min(SMALL, left) and not copied
            left -= size if own else 0
            alignment = BULK_ALIGNMENT if copied else SCRATCH_ALIGNMENT
            span = Span(0, end) if own else Span(first, _last_position(liveness.position, op))
            pieces.append(Piece(op, size, alignment, span))
    return pieces


def _bulk_copied(op: Operation) -> bool:
    """True if the op's scratch, a tensor map, is copied to global memory as a whole."""
    return isinstance(op, TensormapCreateOp)


class _Liveness(Lifetimes[Any]):
    """Positions of the ops of a function, and the spans of its allocations."""

    def __init__(self, blocks: Sequence[Block]) -> None:
        super().__init__()
        self.aliases = memory_aliases(blocks)
        self.position: dict[Any, int] = {}
        self.partition: dict[Any, Partition] = {}
        self._cyclic = _has_backward_edge(blocks)
        self._lasting: set[Any] = set()
        for block in blocks:
            self._block(block)
        for block in blocks if self._cyclic else ():
            self._carry(block, 0)
        for allocation in self._lasting:
            self.spans[allocation] = Span(self.spans[allocation].first, len(self.position))

    def _block(self, block: Block) -> None:
        for op in ops_of(block):
            self.clock = self.position[op] = len(self.position)
            if allocates_memory(op):
                self.touch(op)
            lasting = self._cyclic or _read_until_the_end(op)
            for value in op.operands:
                for allocation in self.aliases.get(value, ()):
                    self.touch(allocation)
                    if lasting:
                        self._lasting.add(allocation)
            if op.regions:
                start = self.clock
                with self.loop():  # or a choice, after which nothing reads
                    self._regions(op)
                for region in op.regions:
                    for inner in region.blocks:
                        self._carry(inner, start)

    def _carry(self, block: Block, start: int) -> None:
        """Keep the memory of a block's arguments from the start of its loop on: an iteration may
        have been handed memory that the one before allocated."""
        for argument in block.args:
            for allocation in self.aliases.get(argument, ()):
                first, last = self.spans[allocation]
                self.spans[allocation] = Span(min(first, start), max(last, self.clock))

    def _regions(self, op: Operation) -> None:
        for number, region in enumerate(op.regions):
            start = len(self.position)
            for inner in region.blocks:
                self._block(inner)
            if isinstance(op, Op) and op.concurrent:
                inside = list(self.position)[start:]
                self.partition.update(dict.fromkeys(inside, (op, number)))


def _read_until_the_end(op: Operation) -> bool:
    """True if a copy reads the memory after the op: the wait names no memory."""
    if not isinstance(op, Op) or not op.effects:
        return False
    return any(
        e.is_read and e.resource is SHARED and e.queue is not None and e.queue.reads_for_long
        for e in op.effects
    )


def _has_backward_edge(blocks: Sequence[Block]) -> bool:
    """True if a block may run after one that stands behind it."""
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
