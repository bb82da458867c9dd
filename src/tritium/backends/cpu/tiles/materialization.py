"""Keep values in buffers: backward over the ops, from who needs them.

before:
    tile.nest [1024] { store %q, exp(%x) }
    tile.nest [32, 32] { store %r, reshape(exp(%x)) }
after:
    tile.nest [1024] { store %q, exp(%x); copy exp(%x) to @b {keeps} }
    tile.nest [32, 32] { store %r, reshape(@b) }

A value that is needed in several nests and is costly, or a load that a later write forbids to
delay, becomes a buffer, filled in the first nest that needs it. Runs of floats are loaded again: to
copy them takes a store for each, and twice the memory in the caches (gradients of softmax of 4096
columns: 1.3 times as fast).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from tritium.backends.cpu.tiles.alias import in_step
from tritium.backends.cpu.tiles.ir import TileFunction, copy_of, functions_of, is_inlined, views_of
from tritium.backends.cpu.tiles.summaries import Summaries
from tritium.codegen.llvm.types import memory_bytes
from tritium.ir import types as ir
from tritium.ops.base import Movement, Op, permutes
from tritium.ops.effects import GLOBAL, Effects, only_read
from tritium.ops.tile.nests import NestOp, is_tile, tiles_of
from tritium.ops.ttir.dot import MatrixProduct
from tritium.passes.base import Pass

User = NestOp | MatrixProduct

_HEAVY = 12
"""From this cost on, a value that several nests need is kept instead of computed again."""

_RUN = 256
"""The least number of consecutive bytes that are loaded again instead of kept."""

_LARGE = 4096
"""Tiles of more bytes than this crowd the first cache; smaller ones are kept at no cost while their
neighbours are computed, and reading them takes fewer instructions."""

_FEW = 4
"""A value of more loads is not asked how many of them are kept anyway: this keeps the work
linear."""

_HERE = frozenset({0})
"""The position that a user itself is at."""


@dataclass(frozen=True)
class Materialize(Pass):
    """Add copies to buffers, and nests where needed, for the values that are to be kept."""

    name: ClassVar[str] = "tile-materialize"

    def run(self, module: ModuleOp) -> bool:
        for function in functions_of(module):
            _Materialization(function).run()
        return True


class _Materialization:
    def __init__(self, function: TileFunction):
        self.function = function
        self.places: dict[Operation, int] = {}
        """The order of the ops. Nests that are put behind an op have its place, roots that of their
        nest."""
        self.regular: dict[SSAValue, bool] = {}
        """True if the addresses of accesses are of a regular form (`alias.is_regular`)."""
        self.inlined: list[Op] = []
        self.users: list[User] = []
        self.domains: dict[Operation, tuple[int, ...]] = {}
        self.writes: dict[Block | None, list[tuple[int, Op]]] = {}
        """The ops of a block that may write memory."""
        self.demand: dict[SSAValue, dict[User, bool]] = {}
        self.ways: dict[tuple[SSAValue, User], frozenset[Any]] = {}
        """The positions, each by some name, at which a user needs a value for one of its own; of
        many only two."""
        self.rearranged: dict[SSAValue, set[User]] = {}
        self.joined: set[SSAValue] = set()
        self.inserted: dict[tuple[Any, tuple[int, ...]], list[tuple[int, NestOp]]] = {}
        self._effects: dict[Operation, Effects] = {}
        self._names: dict[tuple[Any, int, int], int] = {}
        self.filler: dict[SSAValue, NestOp] = {}
        """The nests that fill the buffers of what something needs whole (a sort, a product)."""

    def run(self) -> None:
        self._number()
        for user in self.users:
            if isinstance(user, NestOp):
                for root in user.roots:
                    for value in tiles_of(root):
                        identity = ir.shape_of(value.type) == self.domains[user]
                        self.need(value, user, identity)
            else:
                for value, view in zip((user.a, user.b), views_of(user), strict=True):
                    if view:
                        self.need(value, user, False)
        for op in reversed(self.inlined):
            self.op(op)

    def _number(self) -> None:
        """Number the ops in order, and find those that the decisions are about."""
        held = self.function.buffers.keys() - self.function.copied
        self.summaries = Summaries(held, self.places)
        op: Any
        for number, op in enumerate(self.function.order):
            if op in self.places:
                continue  # a root
            self.places[op] = number
            if op.__class__ is NestOp:
                self.users.append(op)
                self.domains[op] = op.domain
                for root in op.roots:
                    self.places[root] = number
                    self._writes(root, op.parent)
                held |= op.kept.keys()
                self.filler.update(dict.fromkeys(op.kept, op))
            elif is_inlined(op):
                self.inlined.append(op)
                self.summaries.add(op)
                if op.loads_elements:
                    self._writes(op, op.parent)
            else:
                self._writes(op, op.parent)
                if isinstance(op, MatrixProduct):
                    self.users.append(op)

    def _writes(self, op: Any, block: Block) -> None:
        """Note an op that may write memory when its block comes to it."""
        if isinstance(op, Op) and not only_read(op.memory_effects(self._effects)):
            self.writes.setdefault(block, []).append((self.places[op], op))

    def need(
        self, value: SSAValue, user: User, identity: bool, ways: frozenset[int] = _HERE
    ) -> None:
        """State that `user` needs the value, element for element of its domain or otherwise, at
        the positions `ways`."""
        if not is_tile(value):
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
        is_load = op.loads_elements
        if op.results[0] not in self.function.buffers and len(op.results) == 1:
            home = self._home(op, users)
            if home is not None:
                self._keep(op, home)
                users = {home: True}
                self.ways[op.results[0], home] = _HERE
        elif is_load and op.results[0] in self.filler and self._pinned(op, users):
            users = {self._refill(op): True}
            self.ways[op.results[0], next(iter(users))] = _HERE
        if op.interleaves:
            self.joined.update(op.operands)
        keeps_place = op.movement is None
        for user, identity in users.items():
            if op.movement is Movement.REORDERED or user in self._rearranging(op):
                for operand in op.operands:
                    self.rearranged.setdefault(operand, set()).add(user)
            viewed = is_load and type(user) is not NestOp
            here, there = self._positions(op, user)
            for number, operand in enumerate(op.operands):
                same = ir.shape_of(operand.type) == ir.shape_of(op.results[0].type)
                ways = here if keeps_place or _is_index(op, number) else there
                self.need(operand, user, identity and keeps_place and same and not viewed, ways)

    def _positions(self, op: Any, user: User) -> tuple[frozenset[int], frozenset[int]]:
        """The positions at which `user` needs the results of an op, and those at which it therefore
        needs operands whose elements the op moves."""
        here, there = set[int](), set[int]()
        for number, result in enumerate(op.results):
            for way in self.ways.get((result, user), ()):
                here.add(way)
                there.add(self._names.setdefault((op, number, way), len(self._names) + 1))
        return frozenset(here), frozenset(there)

    def _computes(self, user: User, value: SSAValue) -> bool:
        """True if `user` computes a value that has a buffer: the nest that fills it, or one that
        comes earlier."""
        filler = self.filler.get(value)
        return filler is not None and (user is filler or self.places[user] < self.places[filler])

    def _refill(self, load: Any) -> NestOp:
        """Have the buffer of a load filled at the load's own place."""
        value, late = load.results[0], self.filler[load.results[0]]
        copy = late.kept[value]
        copy.detach()
        if late.body.is_empty:
            late.detach()
            late.erase()
        self.filler[value] = nest = self._nest_behind(load)
        nest.body.add_op(copy)
        return nest

    def _nest_behind(self, op: Any) -> NestOp:
        """A new nest for copies of the op's result."""
        domain = ir.shape_of(op.results[0].type)
        nest = NestOp.of(domain)
        op.parent.insert_op_after(nest, op)
        self.places[nest], self.domains[nest] = self.places[op], domain
        return nest

    def _rearranging(self, op: Any) -> set[User]:
        """The users for which the op's results are put into another order."""
        found = [self.rearranged.get(result, set[User]()) for result in op.results]
        return set[User]().union(*found)

    def _home(self, op: Any, users: dict[User, bool]) -> NestOp | None:
        """The nest that fills a buffer for the op's result; None to compute it where needed."""
        is_load = op.loads_elements
        value = op.results[0]
        summary = self.summaries[value]
        cheap = summary.cost < _HEAVY or _is_address(value, summary.loads)
        if not is_load and cheap and not summary.deep:
            return None
        if op.movement is Movement.IN_ORDER:
            return None  # only what it views is kept
        block: Any = op.parent
        first = min(users, key=self.places.__getitem__)
        pinned = is_load and self._pinned(op, users)
        several = not is_load and any(len(self.ways[value, u]) > 1 for u in users)
        wanted = summary.deep or several or any(
            self._repeats(op, value, user, identity)
            for user, identity in users.items()
        )
        if not wanted and len(users) > 1:
            if is_load:
                wanted = not self._is_read_again(op, users)
            else:
                wanted = summary.cost - self._held(summary.loads, users) >= _HEAVY
        if not pinned and not wanted:
            return None
        here = first.parent is block
        apart = pinned or several or summary.deep
        if not apart and here and users[first] and isinstance(first, NestOp):
            return first
        found = self.inserted.setdefault((block, ir.shape_of(value.type)), [])
        own, use = self.places[op], self.places[first]
        for place, nest in () if pinned else found:
            if own <= place and not (here and place >= use):
                return nest
        nest = self._nest_behind(op)
        if not pinned:
            found.append((self.places[nest], nest))
        return nest

    def _held(self, loads: frozenset[Any], users: dict[User, bool]) -> int:
        """Reduction of a value's cost because loads that it is made of are kept anyway, or as cheap
        again."""
        if len(loads) > _FEW:
            return 0
        costs = [self.summaries[load.results[0]] for load in loads]
        simple = all(len(summary.loads) == 1 for summary in costs)  # none is of another's address
        if simple and all(
            self._pinned(x, users) or self._is_needed(x, users) or self._is_read_again(x, users)
            for x in loads
        ):
            return sum(summary.cost for summary in costs)
        return 0

    def _is_needed(self, load: Any, users: dict[User, bool]) -> bool:
        """True if a large load is kept or read again because of others than `users`."""
        return _is_large(load) and bool(self.demand.get(load.results[0], {}).keys() - users.keys())

    def _is_read_again(self, load: Any, users: dict[User, bool]) -> bool:
        """True if users do a load each instead of keeping it: of floats, since two loads may find
        different elements if another thread writes there, in runs, and without a mask, for which
        each nest would be compiled twice unless it needs the mask anyway."""
        type_ = load.results[0].type
        shape, size = ir.shape_of(type_), memory_bytes(type_)
        if load.isVolatile or not shape or not ir.is_float(type_) or not all(users.values()):
            return False
        if load.mask is not None:
            first = min(users, key=self.places.__getitem__)
            masked = self.demand.get(load.mask, {}).keys()
            if not _is_large(load) or not users.keys() <= masked | {first}:
                return False
        return size * self.function.address_axes.of(load.ptr).contiguity[-1] >= _RUN

    def _repeats(self, op: Any, value: SSAValue, user: User, identity: bool) -> bool:
        """True if one user alone would compute the value again and again."""
        if isinstance(user, MatrixProduct):
            loads = self.summaries[value].loads
            return bool(loads) and value not in _views(user)
        if user.parent is not op.parent and _in_loop(user.parent, op.parent):
            return True
        if op.loads_elements:
            return False
        if value in self.joined:
            return True  # every element of a join computes both, and uses one
        if identity:
            return False
        return prod(self.domains[user]) >= 2 * prod(ir.shape_of(value.type))

    def _pinned(self, load: Any, users: dict[User, bool]) -> bool:
        """True if a load must be done at its own place."""
        block, start = load.parent, self.places[load]
        for user in users:
            if user.parent is not block:
                return True
            own: tuple[Any, ...] = ()
            if isinstance(user, NestOp):
                own = user.roots
                rearranged = user in self._rearranging(load)
                for root in own:
                    if root.stores_elements:
                        if not in_step(load, root, rearranged, self.regular):
                            return True
                    elif root.writes(GLOBAL):  # atomics go one by one, also to equal addresses
                        return True
            end = self.places[user]
            for place, op in self.writes.get(block, ()):
                if start <= place <= end and op not in own:
                    return True
        return load.isVolatile

    def _keep(self, op: Any, home: NestOp) -> None:
        value = op.results[0]
        home.body.add_op(copy_of(value, self.function.keep(value), keeps=True))


def _is_large(load: Any) -> bool:
    """True if a tile that is loaded is a large part of the first cache, and of numbers that need no
    conversion before they are computed with."""
    type_ = load.results[0].type
    size = memory_bytes(type_)
    return size >= 4 and size * prod(ir.shape_of(type_)) > _LARGE


def _is_index(op: Any, number: int) -> bool:
    """True if an operand of an op that moves elements is needed at the result's own position."""
    return op.placed_by is not None and op.operand_names()[number] == op.placed_by


def _is_address(value: SSAValue, loads: frozenset[Any]) -> bool:
    """True if a value is index arithmetic that is better computed than read: what is known of its
    form would be lost."""
    return ir.is_pointer(value.type) and not loads


def _views(product: MatrixProduct) -> list[SSAValue]:
    """The loads that a dot reads in place, and their transpositions."""
    found: list[SSAValue] = []
    for value, view in zip((product.a, product.b), views_of(product), strict=True):
        while view and permutes(value.owner):
            found.append(value)
            value = value.owner.operands[0]
        if view:
            found.append(value)
    return found


def _in_loop(inner: Block | None, outer: Any) -> bool:
    """True if a loop lies between a block and one around it."""
    while inner is not None and inner is not outer:
        parent = inner.parent_op()
        if isinstance(parent, Op) and parent.is_loop:
            return True
        inner = None if parent is None else parent.parent
    return False
