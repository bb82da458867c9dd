"""Keep values in buffers: backward over the ops, from who needs them.

before:
    loops [1024] { store %q, exp(%x) }
    loops [32x32] { store %r, reshape(exp(%x)) }
after:
    loops [1024] { %b <- exp(%x); store %q, exp(%x) }
    loops [32x32] { store %r, reshape(%b) }

A value that is needed in several nests and is costly, or a load that a later write forbids to
delay, becomes a buffer, filled in the first nest that needs it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, prod
from typing import Any, ClassVar

from xdsl.ir import Block, SSAValue

from tritium.backends.cpu.tiles.alias import in_step
from tritium.backends.cpu.tiles.grouping import Grouping
from tritium.backends.cpu.tiles.ir import Dot, Nest, Root, RootKind, TileFunction
from tritium.backends.cpu.tiles.program import TileProgram
from tritium.ir import types as ir
from tritium.ops.base import Movement, Op
from tritium.ops.effects import GLOBAL
from tritium.ops.ttir.memory import LoadOp
from tritium.ops.ttir.shape import JoinOp, TransOp
from tritium.passes.base import Pass

User = Nest | Dot

_HEAVY = 12
"""From this cost on, a value that several nests need is kept instead of computed again."""

_SLIGHTLY = 2.0**-20
"""Between the positions of a nest and of one that is put right before it."""


_HERE = frozenset({0})
"""The position that a user itself is at."""


@dataclass(frozen=True)
class Materialize(Pass[TileProgram]):
    """Add copies to buffers, and nests where needed, for the values that are to be kept."""

    name: ClassVar[str] = "tile-materialize"
    title: ClassVar[str] = "TileMaterialize"

    def run(self, module: TileProgram) -> bool:
        for function, grouping in module.groupings.items():
            _Materialization(function, grouping).run()
        return True


class _Materialization:
    def __init__(self, function: TileFunction, grouping: Grouping):
        self.function, self.grouping = function, grouping
        self.demand: dict[SSAValue, dict[User, bool]] = {}
        self.ways: dict[tuple[SSAValue, User], frozenset[Any]] = {}
        """The positions, each by some name, at which a user needs a value for one of its own; of
        many only two."""
        self.rearranged: dict[SSAValue, set[User]] = {}
        self.joined: set[SSAValue] = set()
        self.inserted: dict[tuple[Any, tuple[int, ...]], list[Nest]] = {}
        self.stored: dict[Any, float] = {}
        """Where stores are done that have joined the loops of what comes before them."""
        self._names: dict[tuple[Any, int, int], int] = {}
        self._changes: dict[Any, list[tuple[float, float, Any]]] = {}
        self.filler: dict[SSAValue, Nest] = {}
        """The nests that fill the buffers of what something needs whole (a sort, a product)."""

    def run(self) -> None:
        for nest in [n for n in self.grouping.nest_block if isinstance(n, Nest)]:
            for root in nest.roots:
                if root.kind == RootKind.STORE:
                    self.stored[root.op] = nest.position
                elif root.kind == RootKind.COPY and self._fills(root):
                    self.filler[root.values[0]] = nest
        for nest in [n for n in self.grouping.nest_block if isinstance(n, Nest)]:
            for root in nest.roots:
                for value in root.values:
                    self.need(value, nest, ir.shape_of(value.type) == nest.domain)
        for dot in self.grouping.dots:
            op: Any = dot.op
            for value, view in ((op.a, dot.a_is_view), (op.b, dot.b_is_view)):
                if view:
                    self.need(value, dot, False)
        for op in reversed(self.grouping.order):
            self.op(op)

    def need(
        self, value: SSAValue, user: User, identity: bool, ways: frozenset[int] = _HERE
    ) -> None:
        """State that `user` needs the value, element for element of its domain or otherwise, at
        the positions `ways`."""
        if not isinstance(value.type, ir.TensorType):
            return
        if value in self.function.buffers and not self._computes(user, value):
            return
        users = self.demand.setdefault(value, {})
        users[user] = users.get(user, False) or identity
        found = self.ways.get((value, user), frozenset[Any]()) | ways
        self.ways[value, user] = found if len(found) <= 2 else frozenset(sorted(found)[:2])

    def op(self, op: Any) -> None:
        """Decide for the results of one op; pass on what it needs itself."""
        users: dict[User, bool] = {}
        for result in op.results:
            for user, identity in self.demand.get(result, {}).items():
                users[user] = users.get(user, False) or identity
        if not users:
            return
        is_load = isinstance(op, LoadOp)
        if op.results[0] not in self.function.buffers and len(op.results) == 1:
            home = self._home(op, users)
            if home is not None:
                self._keep(op, home)
                users = {home: True}
                self.ways[op.results[0], home] = _HERE
        elif is_load and op.results[0] in self.filler and self._pinned(op, users):
            users = {self._refill(op, users): True}
            self.ways[op.results[0], next(iter(users))] = _HERE
        if isinstance(op, JoinOp):
            self.joined.update(op.operands)
        keeps_place = op.movement is None
        for user, identity in users.items():
            if op.movement is Movement.REORDERED or user in self._rearranging(op):
                for operand in op.operands:
                    self.rearranged.setdefault(operand, set()).add(user)
            viewed = isinstance(user, Dot) and is_load
            here, there = self._positions(op, user)
            for number, operand in enumerate(op.operands):
                same = ir.shape_of(operand.type) == ir.shape_of(op.results[0].type)
                ways = here if keeps_place or _is_index(op, number) else there
                self.need(operand, user, identity and keeps_place and same and not viewed, ways)

    def _positions(self, op: Any, user: User) -> tuple[frozenset[int], frozenset[int]]:
        """Where `user` needs the results of an op, and where therefore operands whose elements
        the op moves."""
        here, there = set[int](), set[int]()
        for number, result in enumerate(op.results):
            for way in self.ways.get((result, user), ()):
                here.add(way)
                there.add(self._names.setdefault((op, number, way), len(self._names) + 1))
        return frozenset(here), frozenset(there)

    def _fills(self, root: Root) -> bool:
        """Whether a copy writes a value to the buffer where others find it."""
        return self.function.buffers.get(root.values[0]) is root.buffers[0]

    def _computes(self, user: User, value: SSAValue) -> bool:
        """Whether `user` computes a value that has a buffer: the nest that fills it, or one that
        comes earlier."""
        filler = self.filler.get(value)
        return filler is not None and (user is filler or user.position < filler.position)

    def _refill(self, load: Any, users: dict[User, bool]) -> Nest:
        """Have the buffer of a load filled at the load's own place."""
        value, late = load.results[0], self.filler[load.results[0]]
        (root,) = (r for r in late.roots if r.kind == RootKind.COPY and r.values == (value,)
                   and self._fills(r))  # fmt: skip
        late.roots.remove(root)
        if not late.roots:
            self.grouping.remove(late)
        first = min(u.position for u in users)
        root.position = min(self.grouping.positions[load] + 0.25, first - _SLIGHTLY)
        self.filler[value] = nest = self.grouping.insert(root, load.parent)
        return nest

    def _rearranging(self, op: Any) -> set[User]:
        """The users for which the op's results are put into another order."""
        found = [self.rearranged.get(result, set[User]()) for result in op.results]
        return set[User]().union(*found)

    def _home(self, op: Any, users: dict[User, bool]) -> Nest | None:
        """The nest that fills a buffer for the op's result; None to compute it where needed."""
        is_load = isinstance(op, LoadOp)
        value = op.results[0]
        summary = self.grouping.summaries[value]
        cheap = summary.cost < _HEAVY or _is_address(value, summary.loads)
        if not is_load and cheap and not summary.deep:
            return None
        if op.movement is Movement.IN_ORDER:
            return None  # only what it views is kept
        block: Any = op.parent
        first = min(users, key=lambda u: u.position)
        pinned = is_load and self._pinned(op, users)
        several = not is_load and any(len(self.ways[value, u]) > 1 for u in users)
        wanted = summary.deep or several or len(users) > 1 or any(
            self._repeats(op, value, user, identity, summary.cost)
            for user, identity in users.items()
        )
        if not pinned and not wanted:
            return None
        here = self.grouping.nest_block[first] is block
        apart = pinned or several or summary.deep
        if not apart and here and users[first] and isinstance(first, Nest):
            root = Root.copy(value, first.domain, first.position)
            first.roots.append(root)
            return first
        # The first user may have joined loops that come before the op in the text.
        last = first.position - _SLIGHTLY if here else inf
        position = min(self.grouping.positions[op] + 0.25, last)
        root = Root.copy(value, ir.shape_of(value.type), position)
        if not pinned:
            for nest in self.inserted.get((block, root.domain), []):
                if position <= nest.position <= last:
                    nest.roots.append(root)
                    return nest
        nest = self.grouping.insert(root, block)
        if not pinned:
            self.inserted.setdefault((block, root.domain), []).append(nest)
        return nest

    def _repeats(self, op: Any, value: SSAValue, user: User, identity: bool, cost: int) -> bool:
        """Whether one user alone would compute the value again and again."""
        if isinstance(user, Dot):
            loads = self.grouping.summaries[value].loads
            return bool(loads) and value not in _views(user)
        if self.grouping.nest_block[user] is not op.parent and _in_loop(
            self.grouping.nest_block[user], op.parent
        ):
            return True
        if isinstance(op, LoadOp):
            return False
        if value in self.joined:
            return True  # every element of a join computes both, and uses one
        if identity:
            return False
        return prod(user.domain) >= 2 * prod(ir.shape_of(value.type))

    def _pinned(self, load: Any, users: dict[User, bool]) -> bool:
        """Whether a load must be done at its own place."""
        grouping, block = self.grouping, load.parent
        start = grouping.positions[load]
        for user in users:
            where = grouping.nest_block[user]
            if where is not block:
                return True
            own: set[Any] = set()
            if isinstance(user, Nest):
                own = {r.op for r in user.roots}
                stores = [r.op for r in user.roots if r.kind == RootKind.STORE]
                rearranged = user in self._rearranging(load)
                if any(not in_step(load, s, rearranged) for s in stores):
                    return True
                # Atomics go element by element, also where addresses are equal.
                scalarized = [r.op for r in user.roots if r.kind == RootKind.SCALARIZED]
                if any(op is not None and op.writes(GLOBAL) for op in scalarized):
                    return True
            end = user.position
            for position, done, op in self._changes_in(block):
                if position >= start and done < end and op not in own:
                    return True
        return load.isVolatile

    def _changes_in(self, block: Block) -> list[tuple[float, float, Any]]:
        """The ops of a block that change memory: where each is in the text, where it is done."""
        found = self._changes.get(block)
        if found is None:
            found = self._changes[block] = [
                (position, self.stored.get(op, position), op)
                for position, op in self.grouping.effects_of[block]
                if not op.only_reads
            ]
        return found

    def _keep(self, op: Any, home: Nest) -> None:
        value = op.results[0]
        buffer = self.grouping.new_buffer(value)
        self.function.buffers[value] = buffer
        for root in home.roots:
            if root.kind == RootKind.COPY and root.values == (value,) and not root.buffers:
                root.buffers = (buffer,)


def _is_index(op: Any, number: int) -> bool:
    """Whether an operand of an op that moves elements is needed at the result's own position."""
    return op.placed_by is not None and op.operand_names()[number] == op.placed_by


def _is_address(value: SSAValue, loads: frozenset[Any]) -> bool:
    """Whether a value is index arithmetic that is better computed than read: what is known of its
    form would be lost."""
    return ir.is_pointer(value.type) and not loads


def _views(dot: Dot) -> list[SSAValue]:
    """The loads that a dot reads in place, and their transpositions."""
    op: Any = dot.op
    found: list[SSAValue] = []
    for value, view in ((op.a, dot.a_is_view), (op.b, dot.b_is_view)):
        while view and isinstance(value.owner, TransOp):
            found.append(value)
            value = value.owner.operands[0]
        if view:
            found.append(value)
    return found


def _in_loop(inner: Block | None, outer: Any) -> bool:
    """Whether a loop lies between a block and one around it."""
    while inner is not None and inner is not outer:
        parent = inner.parent_op()
        if isinstance(parent, Op) and parent.is_loop:
            return True
        inner = None if parent is None else parent.parent
    return False
