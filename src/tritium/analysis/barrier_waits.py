"""Waits for phases of mbarriers that never end.

    init(b, count=2); arrive(b, count=1); wait(b, phase=0)      one of two arrivals
    init(b, count=1); arrive(b); wait(b, 0); wait(b, 1)         the second phase has none

Where no arrival is in a loop, the most arrivals at a barrier, and so the most phases that end, are
known. The waits of one block, in order, need a number of ended phases: a wait for parity p passes
while that number is not p (mod 2). A wait for parity 1 of a new barrier passes at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import inf
from typing import Any, NamedTuple

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from tritium.analysis.memory_aliases import memory_aliases
from tritium.ops.arith import constant_int
from tritium.ops.base import Op
from tritium.ops.effects import BARRIER, Action


class EndlessWait(NamedTuple):
    """A wait, and why it never ends."""

    op: Op
    why: str


class _Barrier:
    """Facts about the barriers of one allocation: their initialization and arrivals."""

    def __init__(self, allocation: Any):
        self.single = allocation.results[0].type.get_shape()[0] == 1
        self.arrivals: float = 0
        self.arrived = False
        self.inits: list[Op] = []

    @property
    def count(self) -> int | None:
        """The arrivals that a phase takes; None where they are not known."""
        if not self.single or len(self.inits) != 1 or _is_repeated(self.inits[0]):
            return None
        return self.inits[0].phase_arrivals

    @property
    def phases(self) -> float:
        """The most phases that end."""
        if not self.arrived:
            return 0
        return inf if self.count is None else self.arrivals // self.count


def endless_wait(kernel: Any) -> EndlessWait | None:
    """The first wait of a kernel, if any, that is seen to never end."""
    waits = [op for op in kernel.walk() if _waited(op) is not None]
    if not waits:
        return None
    aliases = memory_aliases(kernel.regions[0].blocks)
    barriers = _barriers(kernel, aliases)
    ended: dict[Any, int] = {}
    block = None
    for op in waits:
        if op.parent is not block:  # its first run may be when no phase has ended
            block, ended = op.parent, dict[Any, int]()
        value = _waited(op)
        assert value is not None
        found = list(aliases.get(value, ()))
        if not found or not all(allocation in barriers for allocation in found):
            continue
        phase = constant_int(op.phase)
        if phase is None or len(found) > 1:
            if phase != 1 and not any(barriers[a].arrived for a in found):
                return EndlessWait(op, "nothing arrives at this barrier")
            continue
        if op.pred is not None and constant_int(op.pred) in (None, 0):
            continue
        barrier = barriers[found[0]]
        needed = ended.get(found[0], 0)
        needed += needed % 2 == phase & 1
        if needed > barrier.phases:
            return EndlessWait(op, _reason(barrier, needed))
        ended[found[0]] = needed
    return None


def _waited(op: Operation) -> SSAValue | None:
    """The barrier that an op waits for."""
    effects = op.effects if isinstance(op, Op) else ()
    found = (e for e in effects if e.action is Action.WAIT and e.resource is BARRIER)
    return next((v for e in found for v in op.affected(e)), None)  # pyright: ignore


def _barriers(kernel: Any, aliases: Mapping[SSAValue, Any]) -> dict[Any, _Barrier]:
    found: dict[Any, _Barrier] = {}

    def of(value: SSAValue) -> Iterator[_Barrier]:
        for allocation in aliases.get(value, ()):
            yield found.setdefault(allocation, _Barrier(allocation))

    for op in kernel.walk():
        if not isinstance(op, Op):
            continue
        most = inf if _is_repeated(op) else op.most_arrivals()
        for effect in op.own_effects():
            places = op.affected(effect) if effect.action is Action.ARRIVE else ()
            for barrier in (b for value in places for b in of(value)):
                barrier.arrivals += most
                barrier.arrived = True
        if op.phase_arrivals is not None:
            made = (v for e in op.own_effects() if e.resource is BARRIER for v in op.affected(e))
            for barrier in (b for value in made for b in of(value)):
                barrier.inits.append(op)
        elif op.is_call:  # which may arrive
            for barrier in (b for value in op.operands for b in of(value)):
                barrier.arrivals, barrier.arrived = inf, True
    return found


def _is_repeated(op: Operation) -> bool:
    """True if an op may run more than once, as far as is known."""
    parent = op.parent_op()
    while parent is not None:
        once = "sym_name" in parent.properties or (isinstance(parent, Op) and parent.concurrent)
        blocks = max(len(region.blocks) for region in parent.regions)
        if not (once or isinstance(parent, ModuleOp)) or blocks > 1:
            return True
        parent = parent.parent_op()
    return False


def _reason(barrier: _Barrier, needed: int) -> str:
    if not barrier.arrived:
        return "nothing arrives at this barrier"
    arrivals, count = int(barrier.arrivals), barrier.count
    return (
        f"at least {needed} phase{'s' * (needed > 1)} of this barrier would have to end; a phase "
        f"takes {count} arrival{'s' * (count != 1)}, and there {'is' if arrivals == 1 else 'are'} "
        f"{arrivals} in all"
    )
