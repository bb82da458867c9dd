"""Fusion of roots into nests: forward over a block, each root joins an earlier nest if it can."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from xdsl.ir import Block, Operation, SSAValue

from tritium.backends.cpu.tiles.alias import in_step
from tritium.backends.cpu.tiles.ir import TileFunction
from tritium.backends.cpu.tiles.summaries import Summaries
from tritium.ops.base import Op
from tritium.ops.effects import Effects
from tritium.ops.fields import i32_attr
from tritium.ops.tile.nests import CopyOp, NestOp, domain_of, tiles_of
from tritium.ops.ttir.reduction import CombiningOp


@dataclass(eq=False)
class _Nest:
    """A nest that roots may join; `start` is when it was opened. `ends`: its copies hand on the
    tiles of the block's terminator. `grew`: a root has joined it later."""

    op: NestOp
    start: int
    domain: tuple[int, ...]
    axis: int | None
    roots: list[Any]
    ends: bool
    grew: bool = False


@dataclass(eq=False)
class _Scope:
    block: Block
    nests: list[_Nest] = field(default_factory=list[_Nest])
    effects: list[tuple[int, Op]] = field(default_factory=list[Any])


class Fusion:
    """The nests of one function, made block by block.

    `times` says when each op was come to, in the order of the program: ops that join earlier nests
    keep their time.
    """

    def __init__(self, function: TileFunction):
        self.function = function
        self.times: dict[Operation, int] = {}
        self.summaries = Summaries(function.buffers, self.times)
        self._clock = 0
        self._scopes: list[_Scope] = []
        self._effects: dict[Operation, Effects] = {}
        self._regular: dict[SSAValue, bool] = {}
        self._behind: dict[Operation, NestOp] = {}
        """The last nest that was put behind each op."""

    def now(self) -> int:
        """The next time."""
        self._clock += 1
        return self._clock

    # The current block

    def enter(self, block: Block) -> None:
        """Go on with the ops of this block."""
        self._scopes.append(_Scope(block))

    def leave(self) -> None:
        """Put the ops that nests need before them, and go back to the block around it."""
        scope = self._scopes.pop()
        moved: set[Operation] = set()
        for nest in sorted((n for n in scope.nests if n.grew), key=lambda n: n.start):
            self._hoist(scope.block, nest, moved)

    def _hoist(self, block: Block, nest: _Nest, moved: set[Operation]) -> None:
        found: list[Any] = []
        stack: list[SSAValue] = [v for root in nest.roots for v in root.operands]
        while stack:
            owner = stack.pop().owner
            if isinstance(owner, Block) or owner.parent is not block or owner in moved:
                continue
            if self.times[owner] > nest.start:
                moved.add(owner)
                found.append(owner)
                stack.extend(owner.operands)
        for op in sorted(found, key=self.times.__getitem__):
            op.detach()
            block.insert_op_before(op, nest.op)

    @property
    def block(self) -> Block:
        """The current block."""
        return self._scopes[-1].block

    def effect(self, op: Op) -> None:
        """Note an op that may read or write memory."""
        if op.memory_effects(self._effects):
            self._scopes[-1].effects.append((self.times[op], op))

    def reads(self, op: Op) -> None:
        """Note an op that reads memory where it stands."""
        self._scopes[-1].effects.append((self.times[op], op))

    def changed_since(self, start: int) -> bool:
        """True if something in this block may have written since a time."""
        return any(start < time and not op.only_reads for time, op in self._scopes[-1].effects)

    def value(self, op: Op) -> None:
        """An op whose results are computed where they are used."""
        self.summaries.add(op)
        if op.loads_elements:
            self.effect(op)
        elif op.memory_effects():
            raise NotImplementedError(f"the CPU backend does not support {op.name} on tiles")

    # Roots

    def root(self, root: Any, before: Operation, ends: bool = False) -> None:
        """Put a root into an earlier nest of the block if possible, else into a new one before an
        op. `ends`: it belongs to the block's terminator."""
        scope = self._scopes[-1]
        summaries = [self.summaries.of(v) for v in tiles_of(root)]
        ready = max([s.ready for s in summaries], default=0)
        loads = frozenset[Any]().union(*(s.loads for s in summaries))
        domain, axis = domain_of(root), _axis_of(root)
        for nest in reversed(scope.nests):
            if nest.start <= ready:
                nest = None
                break
            if self._joins(scope, nest, root, domain, axis, loads, ends):
                break
        else:
            nest = None
        if nest is None:
            scope.nests.append(self._open(root, before, domain, axis, ends))
        else:
            _move(root, nest.op)
            nest.roots.append(root)
            nest.grew = True
            if nest.axis is None and axis is not None:
                nest.axis = axis
                nest.op.properties["axis"] = i32_attr().encode(axis)
        if root.stores_elements:
            scope.effects.append((self.times[root], root))

    def _open(
        self, root: Any, before: Operation, domain: tuple[int, ...], axis: int | None, ends: bool
    ) -> _Nest:
        nest = NestOp.of(domain, axis)
        assert before.parent is not None
        before.parent.insert_op_before(nest, before)
        _move(root, nest)
        return _Nest(nest, self.times.get(root) or self.now(), domain, axis, [root], ends)

    def unfused(self, root: Any, before: Operation) -> None:
        """Put a root in a nest that no other root joins, and whose effects count as its own."""
        self._open(root, before, domain_of(root), _axis_of(root), False)
        self.effect(root)

    def elsewhere(self, copy: CopyOp) -> None:
        """A nest for a copy in the block that defines the value."""
        owner: Any = copy.value.owner
        nest = NestOp.of(domain_of(copy))
        _move(copy, nest)
        owner.parent.insert_op_after(nest, self._behind.get(owner, owner))
        self._behind[owner] = nest

    def _joins(
        self, scope: _Scope, nest: _Nest, root: Any, domain: Sequence[int], axis: int | None,
        loads: frozenset[Any], ends: bool,
    ) -> bool:  # fmt: skip
        if nest.domain != domain:
            return False
        if axis is not None and nest.axis not in (None, axis):
            return False
        # A tile that loops carry is overwritten at the end of the iteration, after all reads of it.
        if ends and not nest.ends:
            return False
        stores = [r for r in nest.roots if r.stores_elements]
        if any(not self._before(load, store) for load in loads for store in stores):
            return False
        is_store = root.stores_elements
        if is_store:
            other = frozenset[Any]().union(
                *(self.summaries.of(v).loads for r in nest.roots for v in tiles_of(r))
            )
            if any(not self._in_step(access, root) for access in (*other, *stores)):
                return False
            loads = loads | other
        for time, op in scope.effects:
            if time <= nest.start or op in nest.roots:
                continue
            if not op.only_reads:
                if is_store or any(self.times[load] > time for load in loads):
                    return False
            elif is_store and op not in loads:
                return False
        return True

    def _before(self, load: Any, store: Any) -> bool:
        """True if a load can share loops with a store that follows it. (In one that it follows,
        it would read what the chunk is about to write.)"""
        return self.times[load] < self.times[store] and self._in_step(load, store)

    def _in_step(self, access: Any, store: Any) -> bool:
        return in_step(access, store, False, self._regular)


def _move(root: Operation, nest: NestOp) -> None:
    if root.parent is not None:
        root.detach()
    nest.body.add_op(root)


def _axis_of(root: Any) -> int | None:
    return root.axis if isinstance(root, CombiningOp) else None
