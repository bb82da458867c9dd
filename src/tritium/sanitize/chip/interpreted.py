"""Races of interpreted programs in on-chip memory: an access that comes before the wait for an
asynchronous one. The model of shared memory (`tritium.ops.ttgir.model`) refuses such an access;
here is noted where each asynchronous access began, so that the report names both lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from tritium.ops.effects import Action, Resource
from tritium.ops.memory import Context
from tritium.ops.ttgir.model import Beside, Buffer, state_of
from tritium.sanitize.chip.state import ACCESSES
from tritium.sanitize.kinds import Site

_ON_CHIP = {Resource.SHARED: "shared", Resource.TENSOR: "tensor"}


class Started(NamedTuple):
    """An asynchronous access: the memory, whether it is written, and where the access began."""

    data: np.ndarray
    writes: bool
    site: Site


class Conflict(NamedTuple):
    """An access that came too early: its kind, of which memory, and what it has not waited for."""

    access: str
    memory: str
    other: Started


@dataclass
class Accesses:
    """The asynchronous accesses of one program so far, the last one of each line to each memory."""

    started: dict[tuple[Any, ...], Started] = field(default_factory=dict[Any, Started])

    def note(self, op: Any, values: Sequence[Any], site: Site) -> None:
        """An op that works asynchronously has begun, on these operands."""
        for buffer, action, _ in _accessed(op, values):
            if isinstance(buffer, Beside):  # the op's predicate is false
                continue
            data, writes = buffer.data, action is Action.WRITE
            key = (site["file"], site["line"], writes, data.__array_interface__["data"],
                   data.shape)  # fmt: skip
            self.started.pop(key, None)  # the latest comes last
            self.started[key] = Started(data, writes, site)

    def conflict(self, op: Any, values: Sequence[Any], context: Context) -> Conflict | None:
        """The access in flight because of which the model refuses an op; None for an error of
        another kind."""
        state = state_of(context)
        written = [copy.target for copy in state.in_flight()]
        read = [data for queues in (state.own, *state.others) for data in queues.readers()]
        for buffer, action, memory in _accessed(op, values):
            if isinstance(buffer, Beside) or not buffer.allocation.live:
                continue
            for busy, writes in ((written, True), (read, False)):
                if action is Action.READ and not writes:
                    continue
                overlapping = [data for data in busy if np.shares_memory(data, buffer.data)]
                other = self._latest(overlapping, writes)
                if other is not None:
                    return Conflict(ACCESSES[action], memory, other)
        return None

    def _latest(self, busy: Sequence[np.ndarray], writes: bool) -> Started | None:
        for started in reversed(self.started.values()):
            same = started.writes == writes
            if same and any(np.shares_memory(started.data, data) for data in busy):
                return started
        return None


def works_asynchronously(op: Any) -> bool:
    """True for an op that begins accesses of on-chip memory for which one has to wait."""
    return any(
        effect.queue is not None and effect.action in (Action.READ, Action.WRITE)
        for effect in op.own_effects()
    )


def accesses_chip(op: Any) -> bool:
    """True for an op that accesses on-chip memory."""
    return any(effect.resource in _ON_CHIP for effect in op.own_effects())


def _accessed(op: Any, values: Sequence[Any]) -> list[tuple[Buffer, Action, str]]:
    """The on-chip memory that an op reads, writes or frees through its operands, writes first."""
    operands = dict(zip((f.name for f in op.operand_fields), values, strict=False))
    found: list[tuple[Buffer, Action, str]] = []
    for effect in op.own_effects():
        buffer = operands.get(effect.value or "")
        if effect.action in ACCESSES and effect.resource in _ON_CHIP and isinstance(buffer, Buffer):
            found.append((buffer, effect.action, _ON_CHIP[effect.resource]))
    return sorted(found, key=lambda access: access[1] is Action.READ)
