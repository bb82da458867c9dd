"""Which roots share loops: forward over a block, each root joins an earlier nest if it can."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from xdsl.ir import Block, Operation, SSAValue

from tritium.backends.cpu.tiles.alias import in_step
from tritium.backends.cpu.tiles.ir import Body, Buffer, Dot, Nest, Root, RootKind, TileFunction
from tritium.ir import types as ir
from tritium.ops.base import Movement, Op
from tritium.ops.effects import Effects
from tritium.ops.ttir.memory import LoadOp


@dataclass(frozen=True)
class Summary:
    """Requirements of computing a value: `ready` is the position after which all scalars and
    buffers are known, `loads` the loads that it would do, `cost` that of one element. `depth`
    counts the moves (rearrangements, loads) on the longest way to it, from the last value that is
    `deep`: one that is kept because code is emitted by recursion over moves."""

    ready: float
    loads: frozenset[Any]
    cost: int
    depth: int = 0
    deep: bool = False


_DEPTH = 24
"""The moves between two values that are kept for no other reason."""


NOTHING: frozenset[Any] = frozenset()


@dataclass(eq=False)
class _Scope:
    body: Body
    nests: list[Nest] = field(default_factory=list[Nest])
    effects: list[tuple[float, Op]] = field(default_factory=list[Any])


class Grouping:
    """The nests of one function, made block by block."""

    def __init__(self, function: TileFunction, positions: dict[Any, float]):
        self.function, self.positions = function, positions
        self.summaries: dict[SSAValue, Summary] = {}
        self.body_of: dict[Block, Body] = {}
        self.nest_block: dict[Any, Block] = {}
        self.effects_of: dict[Block, list[tuple[float, Op]]] = {}
        self.dots: list[Dot] = []
        self.order: list[Any] = []
        self._scopes: list[_Scope] = []
        self._effects: dict[Operation, Effects] = {}

    def new_buffer(self, value: SSAValue) -> Buffer:
        """An unused buffer that fits a tile."""
        name = value.name_hint or "t"
        buffer = Buffer(
            f"{name}.{len(self.function.all_buffers)}",
            ir.shape_of(value.type),
            ir.element_type(value.type),
        )
        self.function.all_buffers.append(buffer)
        return buffer

    # The current block

    def enter(self, body: Body) -> None:
        """Go on with the ops of this block."""
        self._scopes.append(_Scope(body))
        self.body_of[body.block] = body
        self.effects_of[body.block] = self._scopes[-1].effects

    def leave(self) -> None:
        """Back to the block around it."""
        self._scopes.pop()

    @property
    def block(self) -> Block:
        """The current block."""
        return self._scopes[-1].body.block

    def effect(self, op: Op, position: float) -> None:
        """Note an op that may read or write memory."""
        if op.memory_effects(self._effects):
            self._scopes[-1].effects.append((position, op))

    def changed_between(self, start: float, stop: float) -> bool:
        """Whether something between two positions of this block may write."""
        return any(
            start < p < stop and not op.only_reads for p, op in self._scopes[-1].effects
        )

    # Values

    def value(self, op: Op, position: float) -> None:
        """An op whose results are computed where they are used."""
        self.order.append(op)
        loads, ready, total, depth = NOTHING, 0.0, op.cost, 0
        for operand in op.operands:
            summary = self.summary(operand)
            ready = max(ready, summary.ready)
            if summary.loads:
                loads = loads | summary.loads
            total += summary.cost
            depth = max(depth, summary.depth)
        is_load = isinstance(op, LoadOp)
        depth += op.movement is not None or is_load
        views = op.movement is Movement.IN_ORDER
        deep = depth >= _DEPTH and len(op.results) == 1 and not views
        if is_load:
            loads = loads | {op}
            self.effect(op, position)
        elif op.memory_effects():
            raise NotImplementedError(f"the CPU backend does not support {op.name} on tiles")
        for result in op.results:
            self.summaries[result] = Summary(
                ready, loads, min(total, 1 << 20), 0 if deep else depth, deep
            )

    def summary(self, value: SSAValue) -> Summary:
        """The facts about a value's computation."""
        found = self.summaries.get(value)
        if found is None or value in self.function.buffers:
            owner: Any = value.owner
            if isinstance(owner, Block):
                owner = owner.parent_op()
            return Summary(self.positions.get(owner, 0.0), NOTHING, 0)
        return found

    # Roots

    def root(self, root: Root) -> None:
        """Put a root into an earlier nest of the block if possible, else into a new one."""
        scope = self._scopes[-1]
        summaries = [self.summary(v) for v in root.values]
        ready = max([s.ready for s in summaries], default=0.0)
        loads = frozenset[Any]().union(*(s.loads for s in summaries))
        home = self._find(scope, root, ready, loads)
        if home is None:
            self._open(scope, root)
        else:
            home.roots.append(root)
            home.axis = home.axis if root.axis is None else root.axis
        if root.op is not None and root.kind == RootKind.STORE:
            scope.effects.append((root.position, root.op))

    def _find(
        self, scope: _Scope, root: Root, ready: float, loads: frozenset[Any]
    ) -> Nest | None:
        for nest in reversed(scope.nests):
            if nest.position <= ready:
                return None
            if self._joins(scope, nest, root, loads):
                return nest
        return None

    def _open(self, scope: _Scope, root: Root) -> Nest:
        nest = Nest(root.position, [root], root.domain, root.axis)
        scope.nests.append(nest)
        scope.body.add(nest)
        self.nest_block[nest] = scope.body.block
        return nest

    def alone(self, root: Root) -> None:
        """A root that shares its loops with nobody, and is an effect of its own."""
        scope = self._scopes[-1]
        nest = self._open(scope, root)
        scope.nests.remove(nest)
        if root.op is not None:
            self.effect(root.op, root.position)

    def elsewhere(self, value: SSAValue, buffer: Buffer, position: float) -> None:
        """Fill a buffer in the block that defines the value."""
        owner: Any = value.owner
        root = Root.copy(value, ir.shape_of(value.type), position, buffer)
        self.insert(root, owner.parent)

    def insert(self, root: Root, block: Block) -> Nest:
        """A new nest for `root` at its position in `block`."""
        nest = Nest(root.position, [root], root.domain, root.axis)
        self.body_of[block].add(nest)
        self.nest_block[nest] = block
        return nest

    def remove(self, nest: Nest) -> None:
        """Take away a nest that has nothing left to do."""
        self.body_of[self.nest_block.pop(nest)].steps.remove(nest)

    def _joins(self, scope: _Scope, nest: Nest, root: Root, loads: frozenset[Any]) -> bool:
        if nest.domain != root.domain:
            return False
        if root.axis is not None and nest.axis not in (None, root.axis):
            return False
        mine = {r.op for r in nest.roots}
        # A tile that loops carry is overwritten at the end of the iteration, after all reads of it.
        is_yield = root.kind == RootKind.COPY and root.position == int(root.position)
        if is_yield and nest.position != root.position:
            return False
        stores = [r.op for r in nest.roots if r.kind == RootKind.STORE]
        if any(not self._before(load, store) for load in loads for store in stores):
            return False
        if root.kind == RootKind.STORE:
            other = frozenset[Any]().union(
                *(self.summary(v).loads for r in nest.roots for v in r.values)
            )
            if any(not in_step(access, root.op) for access in (*other, *stores)):
                return False
            loads = loads | other
        for position, op in scope.effects:
            if not nest.position < position < root.position or op in mine:
                continue
            if not op.only_reads:
                later = any(self.positions[load] > position for load in loads)
                if later or root.kind == RootKind.STORE:
                    return False
            elif root.kind == RootKind.STORE and op not in loads:
                return False
        return True

    def _before(self, load: Any, store: Any) -> bool:
        """Whether a load can share loops with a store that follows it. (In one that it follows,
        it would read what the chunk is about to write.)"""
        return self.positions[load] < self.positions[store] and in_step(load, store)

    # Dots

    def uses(self, step: Dot) -> None:
        """A dot step of the current block. What it reads in place it reads where it stands."""
        self.dots.append(step)
        if step.a_is_view or step.b_is_view:
            self._scopes[-1].effects.append((step.position, step.op))
        self.nest_block[step] = self.block

