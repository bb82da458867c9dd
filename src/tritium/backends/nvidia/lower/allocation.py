"""Where things are in shared memory: allocations and the scratch of ops, in bytes, by liveness.

An allocation lives from its op to its `ttg.local_dealloc`, or else to the last op that uses it or a
view of it (a use in a loop that does not contain the allocation lasts to the loop's end). What
lives at the same time gets different places.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from xdsl.ir import Block, Operation, SSAValue

from tritium.backends.nvidia.lower.shared import buffer_bytes
from tritium.ir.layouts.encodings import NVMMASharedEncoding

VIEWS = frozenset({
    "ttg.memdesc_index", "ttg.memdesc_trans", "ttg.memdesc_subslice", "ttg.memdesc_reinterpret",
    "ttg.memdesc_reshape", "ttng.warp_group_dot_wait",
})  # fmt: skip
_UNTIL_THE_END = frozenset({
    "ttng.async_tma_copy_local_to_global", "ttng.async_tma_reduce", "ttng.async_tma_scatter",
})  # fmt: skip
SMALL = 1024
"""Scratch of at most so many bytes is not shared: two reductions in a loop then need no barrier
between them."""
ALL_SMALL = 32 * 1024
"""Of all scratch that is not shared; a sort has many changes of layout."""
ALIGNMENT = 1024  # of tiles that the tensor cores read
BULK_ALIGNMENT = 128  # of what the bulk copy engine copies


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
    """`places` by op, `of` by value that is (a view of) an allocation; `size` in bytes."""

    places: dict[Any, Range]
    of: dict[SSAValue, Any]
    size: int

    def range_of(self, value: SSAValue) -> Range:
        """The bytes that a piece of shared memory is part of."""
        return self.places[self.of[value]]


def _alignment(type: Any) -> int:
    """Of an allocation; the smallest ones are mbarriers, the scratch of ops is aligned to 16. What
    the hardware swizzles starts where the pattern does, after eight rows: it looks at addresses."""
    size, least = buffer_bytes(type), 16
    if isinstance(type.encoding, NVMMASharedEncoding):
        least = 8 * type.encoding.get("swizzlingByteWidth")
    return max(least, ALIGNMENT if size >= ALIGNMENT else BULK_ALIGNMENT if size >= 16 else 16)


def is_memory(value: SSAValue) -> bool:
    """Whether a value is a piece of shared memory."""
    return getattr(value.type, "name", "") == "ttg.memdesc"


def allocate(blocks: list[Block], scratch: Callable[[Any], int]) -> Allocation:
    """Choose places. `scratch`: how many bytes an op needs for itself."""
    finder = _Liveness()
    finder.blocks(blocks)
    wanted: list[tuple[Any, int, int, int, int]] = []
    end, left = len(finder.position), ALL_SMALL
    for op, first in finder.position.items():
        if op.name == "ttg.local_alloc":
            last = max(first, finder.last.get(op, first))
            type = op.results[0].type
            size = buffer_bytes(type)
            wanted.append((op, size, _alignment(type), first, last))
        elif (size := scratch(op)) > 0:
            map = op.name == "ttng.tensormap_create"
            small = size <= min(SMALL, left) and not map
            left -= size if small else 0
            alignment = BULK_ALIGNMENT if map else 16
            wanted.append((op, size, alignment, 0 if small else first, end if small else first))
    places: dict[Any, Range] = {}
    for op, size, alignment, first, last in sorted(wanted, key=lambda w: (-w[1], w[3])):
        busy = sorted(
            (p.start, p.end) for p in places.values() if p.first <= last and first <= p.last
        )
        start = 0
        for begin, end in busy:
            if start + size <= begin:
                break
            start = max(start, -(-end // alignment) * alignment)
        places[op] = Range(start, start + size, first, last)
    return Allocation(places, finder.of, max((p.end for p in places.values()), default=0))


class _Liveness:
    """Numbers the ops, follows views, and finds the last use of each allocation."""

    def __init__(self) -> None:
        self.position: dict[Any, int] = {}
        self.of: dict[SSAValue, Any] = {}
        self.last: dict[Any, int] = {}
        self._loops: list[Operation] = []
        self._uses: list[tuple[Any, Operation, list[Operation]]] = []
        self._depth: dict[Any, int] = {}

    def blocks(self, blocks: list[Block]) -> None:
        """Walk a function."""
        for block in blocks:
            self._block(block)
        end = len(self.position)
        for allocation, op, loops in self._uses:
            outside = loops[self._depth[allocation] :]
            last = self._end_of(outside[0]) if outside else self.position[op]
            if op.name in _UNTIL_THE_END:
                last = end
            self.last[allocation] = max(self.last.get(allocation, 0), last)

    def _end_of(self, loop: Operation) -> int:
        return max(self.position[op] for op in _nested(loop))

    def _block(self, block: Block) -> None:
        for op in block.ops:
            self.position[op] = len(self.position)
            self._follow(op)
            if op.regions:
                self._loops.append(op)
                for region in op.regions:
                    for inner in region.blocks:
                        self._block(inner)
                self._loops.pop()
                self._results(op)

    def _follow(self, op: Any) -> None:
        if op.name == "ttg.local_alloc":
            self.of[op.results[0]] = op
            self._depth[op] = len(self._loops)
        memories = [v for v in op.operands if v in self.of]
        for value in memories:
            self._uses.append((self.of[value], op, list(self._loops)))
        if op.name in VIEWS:
            for operand, result in zip(op.operands, op.results, strict=False):
                if is_memory(result):
                    self.of[result] = self.of[operand]
        if op.name == "scf.for":
            for init, argument in zip(op.inits, op.body.args[1:], strict=False):
                if init in self.of:
                    self.of[argument] = self.of[init]

    def _results(self, op: Any) -> None:
        """Results of loops and branches: what their first region ends with."""
        last: Any = op.regions[0].blocks[0].last_op if op.regions[0].blocks else None
        if last is None or last.name != "scf.yield":
            return
        for value, result in zip(last.operands, op.results, strict=False):
            if value in self.of:
                self.of[result] = self.of[value]


def _nested(op: Operation) -> Iterator[Operation]:
    yield op
    for region in op.regions:
        for block in region.blocks:
            for inner in block.ops:
                yield from _nested(inner)
