"""Remove what has no effect and whose results nothing needs, also where it only feeds itself
around a loop.

before:
    %r:2 = scf.for %i = %lo to %hi step %s iter_args(%a = %x, %b = %y) -> (i32, i32) {
      %c = arith.addi %a, %i : i32
      %d = arith.muli %b, %b : i32
      scf.yield %c, %d : i32, i32
    }
    use %r#0
after:
    %r = scf.for %i = %lo to %hi step %s iter_args(%a = %x) -> (i32) {
      %c = arith.addi %a, %i : i32
      scf.yield %c : i32
    }
    use %r
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.ir import Block, Operation, SSAValue

from tritium.analysis.regions import is_removable, only_computes
from tritium.ops.base import Op
from tritium.ops.terminators import is_terminator
from tritium.ops.ttir.function import FuncOp
from tritium.passes.base import FunctionPass
from tritium.passes.rewriting import erase, rebuild, remove_unreachable


@dataclass(frozen=True)
class DCE(FunctionPass):
    """Remove what has no effect and whose results nothing needs."""

    name: ClassVar[str] = "dce"
    title: ClassVar[str] = "DeadCodeElimination"

    def function(self, function: FuncOp) -> bool:
        unreachable = remove_unreachable(function.regions[0])
        return remove_dead(function) or unreachable


def remove_dead(function: Op, touched: list[Operation] | None = None) -> bool:
    """Remove the dead ops, carried values and branch results of one function.

    `touched`: gets the ops around what goes: those that lose uses, operands, results or ops inside,
    and the users of ops that are built anew.
    """
    ops = [op for op in function.walk(region_first=True) if op is not function]
    live = _Liveness(function, ops)
    stripped = [
        (op, slots, kept)
        for op in ops if id(op) in live.carriers and live.has(op)
        for slots in _slots(op)
        if len(kept := slots.live(live)) < slots.count
    ]  # fmt: skip
    around = [] if touched is None else touched
    for _, slots, kept in stripped:
        for source in slots.sources:
            around += [source, *_owners(source)]
        slots.strip_operands(kept)
    changed = bool(stripped)
    ops.reverse()
    for op in ops:
        if not live.has(op) and op.parent is not None:
            around += _owners(op)
            erase(op)
            changed = True
    for op, slots, kept in stripped:
        around += slots.strip_targets(op, kept)
    return changed


def _owners(op: Operation) -> list[Operation]:
    """The op that an op is in, and those that give its operands."""
    owners = (op.parent, *[value.owner for value in op.operands])
    found = [o.parent_op() if isinstance(o, Block) else o for o in owners if o is not None]
    return [owner for owner in found if owner is not None]


class _Liveness:
    """The ops and values that something observable depends on."""

    def __init__(self, function: Op, ops: Sequence[Operation]):
        # Ids, because ops and values hash in Python; nothing is dropped before the end.
        self._ops: set[int] = {id(function)}
        self._values: set[int] = set()
        self._pending: list[SSAValue] = []
        self.carriers: set[int] = set()
        """Ops that pass values into and out of their regions; they live through what is in them."""
        self._sources: dict[int, list[SSAValue]] = {}
        """For each value, the values that control takes along to it."""
        self._passing: set[int] = set()
        """Ops whose variadic operands live as what they are passed to does."""
        others = [op for op in ops if op.regions or not only_computes(op.__class__)]
        for op in others:
            self._note(op)
        for op in reversed(others):
            if self._is_root(op):
                self._op(op)
        while self._pending:
            self._value(self._pending.pop())

    def __contains__(self, value: SSAValue) -> bool:
        return id(value) in self._values

    def has(self, op: Operation) -> bool:
        """True if the op is needed."""
        return id(op) in self._ops

    def _note(self, op: Operation) -> None:
        if not isinstance(op, Op) or not (op.regions or op.successors):
            return
        for edge in op.control_edges():
            if op.regions:
                self.carriers.add(id(op))
            self._passing.add(id(edge.source))
            for value, target in zip(edge.values, edge.targets, strict=True):
                self._sources.setdefault(id(target), []).append(value)

    def _is_root(self, op: Operation) -> bool:
        if op.regions and id(op) in self.carriers:
            return False
        if is_terminator(op):
            return id(op.parent_op()) not in self.carriers
        return not is_removable(op)

    def _op(self, op: Operation) -> None:
        if id(op) in self._ops:
            return
        self._ops.add(id(op))
        if isinstance(op, Op) and id(op) in self._passing:
            self._need(op.leading_operands)
        else:
            self._need(op.operands)
        for region in op.regions:
            for block in region.blocks:
                last = block.last_op
                if last is not None and is_terminator(last):
                    self._op(last)
        parent = op.parent_op()
        if parent is not None:
            self._op(parent)

    def _need(self, values: Sequence[SSAValue]) -> None:
        for value in values:
            if id(value) not in self._values:
                self._values.add(id(value))
                self._pending.append(value)

    def _value(self, value: SSAValue) -> None:
        owner = value.owner
        op = owner.parent_op() if type(owner) is Block else owner
        if op is not None:
            self._op(op)  # pyright: ignore[reportArgumentType]
        self._need(self._sources.get(id(value), ()))


class _Slots:
    """The operands, arguments and results of control flow between which values are passed on by
    position: the initial and next values of a loop, its arguments and its results, say. Operands
    and arguments are the last ones of their op or block."""

    def __init__(self, count: int):
        self.count = count
        self.sources: list[Operation] = []
        self.targets: list[Sequence[SSAValue]] = []

    def live(self, live: _Liveness) -> list[int]:
        """The positions that something needs."""
        return [i for i in range(self.count) if any(t[i] in live for t in self.targets)]

    def strip_operands(self, kept: Sequence[int]) -> None:
        """Stop passing values at other positions. What receives them stays until `strip_targets`,
        when nothing uses it."""
        for op in self.sources:
            first = len(op.operands) - self.count
            op.operands = [*op.operands[:first], *(op.operands[first + i] for i in kept)]

    def strip_targets(self, op: Operation, kept: Sequence[int]) -> list[Operation]:
        """Drop the arguments and results of `op` at other positions; returns the op that takes its
        place, and the users of that."""
        changed = list[Operation]()
        for values in self.targets:
            changed += [use.operation for v in values for use in v.uses]
            block = values[0].owner
            if not isinstance(block, Block):
                changed.append(rebuild(op, list(op.operands), kept))  # pyright: ignore
                continue
            for arg in [v for i, v in enumerate(values) if i not in kept][::-1]:
                block.erase_arg(arg)  # pyright: ignore[reportArgumentType]
        return changed


def _slots(op: Operation) -> Iterator[_Slots]:
    """The slots of an op with regions."""
    assert isinstance(op, Op)
    found: list[_Slots] = []
    for edge in op.control_edges():
        if not edge.targets:
            continue
        first = edge.targets[0]
        slots = next(
            (s for s in found if edge.source in s.sources or first in [t[0] for t in s.targets]),
            None,
        )
        if slots is None:
            slots = _Slots(len(edge.targets))
            found.append(slots)
        if edge.source not in slots.sources:
            slots.sources.append(edge.source)
        if first not in [t[0] for t in slots.targets]:
            slots.targets.append(tuple(edge.targets))
    yield from found
