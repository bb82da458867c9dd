"""Cost of computing the tiles that have no place of their own."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any

from xdsl.ir import Block, Operation, SSAValue

from tritium.ops.base import Movement, Op

_DEPTH = 24
"""The moves between two values that are kept for no other reason."""

NOTHING: frozenset[Any] = frozenset()


@dataclass(frozen=True)
class Summary:
    """Requirements of computing a value: `ready` is the time when all scalars and buffers are
    known, `loads` the loads that it would do, `cost` that of one element. `depth` counts the moves
    (rearrangements, loads) on the longest way to it, from the last value that is `deep`: one that
    is kept because code is emitted by recursion over moves."""

    ready: int
    loads: frozenset[Any]
    cost: int
    depth: int = 0
    deep: bool = False


class Summaries:
    """The summaries of a function's values, added forward over its ops.

    `buffers` are the values that are in memory by now, `times` says when each op is come to.
    """

    def __init__(self, buffers: Container[SSAValue], times: Mapping[Operation, int]):
        self.buffers, self.times = buffers, times
        self._known: dict[SSAValue, Summary] = {}

    def add(self, op: Op) -> None:
        """An op whose results are computed where they are used."""
        loads, ready, total, depth = NOTHING, 0, op.cost, 0
        for operand in op.operands:
            summary = self.of(operand)
            ready = max(ready, summary.ready)
            if summary.loads:
                loads = loads | summary.loads
            total += summary.cost
            depth = max(depth, summary.depth)
        is_load = op.loads_elements
        depth += op.movement is not None or is_load
        views = op.movement is Movement.IN_ORDER
        deep = depth >= _DEPTH and len(op.results) == 1 and not views
        if is_load:
            loads = loads | {op}
        for result in op.results:
            self._known[result] = Summary(
                ready, loads, min(total, 1 << 20), 0 if deep else depth, deep
            )

    def of(self, value: SSAValue) -> Summary:
        """The facts about a value's computation."""
        found = self._known.get(value)
        if found is None or value in self.buffers:
            owner: Any = value.owner
            if isinstance(owner, Block):
                owner = owner.parent_op()
            return Summary(self.times.get(owner, 0), NOTHING, 0)
        return found

    def __getitem__(self, value: SSAValue) -> Summary:
        """The facts about a value that is computed where it is used, whether in memory or not."""
        return self._known[value]
