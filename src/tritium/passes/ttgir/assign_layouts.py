"""Choose the encoding of every tile so that little has to move between threads.

before:
    %r = tt.make_range {...} : tensor<128xi32, #blocked>
    %s = tt.splat %base : !tt.ptr<f32> -> tensor<128x!tt.ptr<f32>, #blocked>
    %p = tt.addptr %s, %r : ...
    %c = ttg.convert_layout %p : ... -> tensor<128x!tt.ptr<f32>, #blocked1>
    %x = tt.load %c : tensor<128x!tt.ptr<f32>, #blocked1>
after:
    %r = tt.make_range {...} : tensor<128xi32, #blocked1>
    %s = tt.splat %base : !tt.ptr<f32> -> tensor<128x!tt.ptr<f32>, #blocked1>
    %p = tt.addptr %s, %r : ...
    %x = tt.load %p : tensor<128x!tt.ptr<f32>, #blocked1>

The whole function is looked at once, existing conversions as if they were not there. Anchors
(loads, stores, products, ...) keep their encodings. From them two things spread: *demands*
backwards, what encodings a value is used in; and *homes* forwards, the encoding that a value is
computed in: that of its dearest operand (a product's before a loaded one's), or of a demand where
it is made of nothing but scalars and ranges. Where a value is used in another encoding than its
home it is computed again if that is cheaper than moving it, else converted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf, prod
from typing import Any, ClassVar, TypeGuard

from xdsl.ir import Block, Operation, SSAValue

from tritium.analysis.regions import is_removable
from tritium.analysis.shared_memory import allocates_memory
from tritium.ir import types as ir
from tritium.ir.graph import ops_of
from tritium.ir.layouts.encodings import BLOCK, Encoding, linear
from tritium.ops.base import ControlEdge, Op, changes_layout
from tritium.ops.terminators import terminator
from tritium.ops.ttir.descriptor import DescriptorAccess
from tritium.ops.ttir.dot import TileProduct
from tritium.ops.ttir.function import FuncOp
from tritium.passes.base import FunctionPass
from tritium.passes.rewriting import insert_before, remove_unused
from tritium.passes.ttgir.accelerate_matmul import source_of
from tritium.passes.ttgir.convert_ttir_to_ttgir import convert
from tritium.passes.ttgir.layout_propagation import (
    is_follower,
    is_source,
    is_tile,
    layouts_before,
    retype,
    weight,
)

SOFT, CARRIED, LOADED, PRODUCT = range(4)
"""The cost of converting a value, from cheap to dear: made of scalars and ranges; such a one
carried by a loop; made of what memory or other threads gave; made of a product."""


@dataclass(frozen=True)
class AssignLayouts(FunctionPass):
    """Choose the encoding of every tile so that little has to move between threads."""

    name: ClassVar[str] = "assign-layouts"
    title: ClassVar[str] = "TritonGPURemoveLayoutConversions"

    def function(self, function: FuncOp) -> bool:
        homes = _Homes(function)
        _Rewrite(function, homes).run()
        remove_unused(function)
        return True


class _Flow:
    """The values that control hands on between the blocks of a function's loops and choices.

    Attributes:
        groups: by op, the arguments and results that are tied (`Op.tied_values`).
        sources: by value, (the op that hands on, the value that is handed on) for each that may
            arrive; of tied values but the first one, that first one alone.
        targets: by the op that hands on, where its last operands arrive.
    """

    def __init__(self, function: Operation):
        self.groups: dict[Operation, list[tuple[SSAValue, ...]]] = {}
        self.sources: dict[SSAValue, list[tuple[Operation, SSAValue]]] = {}
        self.targets: dict[Operation, Sequence[SSAValue]] = {}
        for op in function.walk():
            if op.regions and isinstance(op, Op) and (edges := list(op.control_edges())):
                self._add(op, edges)

    def _add(self, op: Op, edges: Sequence[ControlEdge]) -> None:
        self.groups[op] = groups = op.tied_values()
        for first, *others in groups:
            self.sources[first] = []
            self.sources.update((value, [(op, first)]) for value in others)
        firsts = {group[0] for group in groups}
        for edge in edges:
            self.targets.setdefault(edge.source, edge.targets)
            for value, target in zip(edge.values, edge.targets, strict=True):
                if target in firsts:
                    self.sources[target].append((edge.source, value))


class _Homes:
    """The encoding in which each value of a function is computed (`home`), and how dear it is
    (`level`)."""

    def __init__(self, function: Operation):
        self.home: dict[SSAValue, Encoding] = {}
        self.level: dict[SSAValue, int] = {}
        self._demands: dict[SSAValue, list[Encoding]] = {}
        self.flow = _Flow(function)
        for op in function.walk():
            for index, value in enumerate(op.operands):
                encoding = self.required(op, index)
                if encoding is not None:
                    self._want(value, encoding)
        for region in function.regions:
            for block in region.blocks:
                for argument in block.args:
                    if is_tile(argument):
                        self._set([argument], ir.encoding_of(argument.type), LOADED)
            for block in region.blocks:
                self._block(block)

    # Demands

    def _want(self, value: SSAValue, encoding: Encoding) -> None:
        pending = [(value, encoding)]
        while pending:
            value, encoding = pending.pop()
            value = source_of(value)
            demands = self._demands.setdefault(value, [])
            if encoding in demands:
                continue
            demands.append(encoding)
            # What control passes on as this value should have its encoding, too.
            pending += [(v, encoding) for _, v in self.flow.sources.get(value, ())]
            owner = value.owner
            if isinstance(owner, Operation) and is_follower(owner):
                wanted = layouts_before(owner, encoding) or []
                pending += [
                    (v, e) for v, e in zip(owner.operands, wanted, strict=False) if e is not None
                ]

    def _demand(self, value: SSAValue) -> Encoding:
        """The encoding that a value is first used in, or else the one that it has."""
        return self._demand_of_any([value])

    def _demand_of_any(self, values: Sequence[SSAValue]) -> Encoding:
        """The encoding that the first used one of some values is used in, or else the one that
        they have."""
        used = (self._demands[v][0] for v in values if self._demands.get(v))
        return next(used, ir.encoding_of(values[0].type))

    def required(self, op: Operation, index: int) -> Encoding | None:
        """The encoding that an anchor needs its operand in: the one that it has. None for operands
        that may have any, and for ops that are no anchors."""
        value = op.operands[index]
        if not is_tile(value) or op in self.flow.targets:
            return None
        free = isinstance(op, Op) and op.takes_any_layout
        if free or is_follower(op) or _place_of(op) is not None:
            return None
        return ir.encoding_of(value.type)

    # Homes

    def of(self, value: SSAValue) -> tuple[int, Encoding]:
        """(how dear, home) of a tile."""
        value = source_of(value)
        return self.level[value], self.home[value]

    def _set(self, values: Iterable[SSAValue], encoding: Encoding, level: int) -> None:
        for value in values:
            self.home[value], self.level[value] = encoding, level

    def _block(self, block: Block) -> None:
        for op in ops_of(block):
            if op in self.flow.groups:
                self._control(op)
            elif not changes_layout(op):
                self._op(op)

    def _op(self, op: Operation) -> None:
        tiles = [r for r in op.results if is_tile(r)]
        if not tiles:
            return
        if _places_results(op):
            level, parent = self.best(op.operands)
            home = op.result_layout(parent)
            assert home is not None, op.name
            self._set(tiles, home, max(level, LOADED))
        elif (place := _place_of(op)) is not None:
            level, home = self.of(place)
            self._set(tiles, home, max(level, LOADED))
        elif is_follower(op):
            self._follower(op)
        elif isinstance(op, Op) and (passed := list(op.forwarded_values())):
            for source, result in passed:
                if result in tiles:
                    level, home = self.of(source)
                    self._set([result], home, level)
        else:
            level = SOFT if is_source(op) else LOADED
            if isinstance(op, TileProduct):
                level = PRODUCT
            for result in tiles:
                home = self._demand(result) if level == SOFT else ir.encoding_of(result.type)
                self._set([result], home, level)

    def _follower(self, op: Op) -> None:
        level, home = SOFT, None
        for value in op.operands:
            if not is_tile(value):
                continue
            theirs, encoding = self.of(value)
            if theirs > level:
                found = op.result_layout(encoding)
                level, home = (theirs, found) if found is not None else (level, home)
        if home is None:
            home = self._demand_of_any(op.results)
            if layouts_before(op, home) is None:
                home = op.result_layout(self.best(op.operands)[1]) or home
        self._set(op.results, home, level)  # of one encoding, which `result_layout` gives

    def best(self, values: Iterable[SSAValue]) -> tuple[int, Encoding]:
        """The level and the home of the value with the highest level."""
        return max((self.of(v) for v in values if is_tile(v)), key=lambda pair: pair[0])

    def _carried(self, values: Sequence[SSAValue], init: SSAValue) -> None:
        """A first guess for what a loop carries, tied values."""
        level, home = self.of(init)
        if level < LOADED:
            level = CARRIED
            home = self._demands[values[0]][0] if self._demands.get(values[0]) else home
        self._set(values, home, level)

    def _raise(self, values: Sequence[SSAValue], other: SSAValue) -> bool:
        """Take over the home of a dearer value that tied ones will be; returns whether it was
        dearer."""
        level, home = self.of(other)
        if level <= self.level[values[0]]:
            return False
        self._set(values, home, level)
        return True

    def _control(self, op: Operation) -> None:
        """Loops and choices: what a loop carries has the home of the dearest value that it may be;
        other arguments and results follow from what arrives at them once all of it is known."""
        groups = [group for group in self.flow.groups[op] if is_tile(group[0])]
        for group in groups:
            for source, value in self.flow.sources[group[0]]:
                if source is op:
                    self._carried(group, value)
        blocks, changed = [block for region in op.regions for block in region.blocks], True
        while changed:
            changed = False
            for block in blocks:
                self._block(block)
                for group in groups:  # all, not any: each may be raised
                    changed |= self._arrive(op, group, terminator(block))

    def _arrive(self, op: Operation, group: tuple[SSAValue, ...], end: Operation) -> bool:
        """Note what a terminator hands on to some tied values of an op; returns True if a loop
        carries them and they are dearer than before."""
        sources = self.flow.sources[group[0]]
        if sources[0][0] is op:
            return any(self._raise(group, value) for source, value in sources if source is end)
        if sources[-1][0] is end:
            level, home = self.best(value for _, value in sources)
            home = self._demand(group[0]) if level == SOFT else home
            self._set(group, home, max(level, CARRIED))
        return False


def _places_results(op: Operation) -> TypeGuard[Op]:
    """True if the operands may have any one layout, which gives that of the results."""
    return isinstance(op, Op) and op.takes_any_layout and op.layouts_from == "operands"


def _place_of(op: Operation) -> SSAValue | None:
    """The operand whose encoding the results get, for an op that takes the others as they are; in a
    cluster each block must have its whole operands, which ties their encodings."""
    if not isinstance(op, Op) or op.placed_by is None:
        return None
    whole = [v.type for name in op.whole_operands for v in op.operand_values(name)]
    if any(linear(ir.encoding_of(t), ir.shape_of(t)).in_bits(BLOCK) for t in whole):
        return None
    (place,) = op.operand_values(op.placed_by)
    return place


class _Rewrite:
    """Brings a function to its homes."""

    def __init__(self, function: Operation, homes: _Homes):
        self.function, self.homes = function, homes
        self._made: dict[tuple[SSAValue, Encoding], SSAValue] = {}
        # Costs of one request: a value that several others need is looked at once.
        self._costs: dict[tuple[SSAValue, Encoding], float] = {}

    def run(self) -> None:
        """Change types, then operands, in program order."""
        ops = [op for op in self.function.walk() if not changes_layout(op)]
        needs = [[self.homes.required(op, i) for i in range(len(op.operands))] for op in ops]
        for value, home in list(self.homes.home.items()):
            retype(value, home)
        for op, needed in zip(ops, needs, strict=True):
            wanted = self._wanted(op)
            for index, value in enumerate(op.operands):
                if is_tile(value):
                    encoding = needed[index] or wanted[index]
                    source = source_of(value)
                    have = encoding or self.homes.of(source)[1]
                    new = self._request(source, have, op)
                    if new is not value:
                        op.operands[index] = new

    def _wanted(self, op: Operation) -> list[Encoding | None]:
        """The encodings of operands that follow from homes."""
        homes = self.homes.home
        none: list[Encoding | None] = [None] * len(op.operands)
        if is_follower(op):
            return op.operand_layouts(homes[op.results[0]])
        if _places_results(op):
            return [self.homes.best(op.operands)[1]] * len(op.operands)
        if (place := _place_of(op)) is not None:
            return [homes[op.results[0]] if v is place else None for v in op.operands]
        arriving = [homes.get(v) for v in self.homes.flow.targets.get(op, ())]
        return [*none[len(arriving) :], *arriving]

    def _request(self, value: SSAValue, encoding: Encoding, user: Operation) -> SSAValue:
        """The value in an encoding, made before `user` if it is not there yet."""
        if self.homes.home[value] == encoding:
            return value
        key = value, encoding
        known = self._made.get(key)
        if known is None:
            self._costs.clear()  # what was made since makes others cheaper
            place = _before_memory(_ancestor(user, value), value)
            moving, cost = _moving(value), self._again(value, encoding, 0)
            # A home that only a demand chose is as good as any: at the same cost, what is loaded is
            # converted, or read from a buffer in the encoding in which it is used.
            chosen = _can_compute_again(value.owner) and (
                self.homes.level[value] == SOFT or _views_block(value)
            )
            if cost < moving or (chosen and self._computing(value, encoding, 0) <= moving):
                known = self._recompute(value, encoding, place)
            else:
                known = convert(value, encoding, place)
            self.homes.home[known], self.homes.level[known] = encoding, SOFT
            if place.parent is _block_of(value):
                self._made[key] = known
        return known

    def _recompute(self, value: SSAValue, encoding: Encoding, place: Operation) -> SSAValue:
        op: Any = value.owner
        clone: Operation = op.clone_without_regions()
        insert_before(place, clone)
        if is_follower(op):
            wanted = op.operand_layouts(encoding)
            for index, (operand, needed) in enumerate(zip(op.operands, wanted, strict=True)):
                if needed is not None:
                    clone.operands[index] = self._request(source_of(operand), needed, clone)
        retype(clone.results[0], encoding)
        clone.results[0].name_hint = value.name_hint
        return clone.results[0]

    def _again(self, value: SSAValue, encoding: Encoding, depth: int) -> float:
        """Cost of having a value in another encoding as well."""
        if self.homes.home[value] == encoding or (value, encoding) in self._made:
            return 0
        op = value.owner
        moving = _moving(value)
        if depth > 40 or not _can_compute_again(op):
            return moving
        if (cost := self._costs.get((value, encoding))) is None:
            cost = min(self._computing(value, encoding, depth), moving)
            self._costs[value, encoding] = cost
        return cost

    def _computing(self, value: SSAValue, encoding: Encoding, depth: int) -> float:
        """Cost of computing a value again, and of what that needs; at least `_moving` of the value
        if that is dearer than to convert it."""
        op: Any = value.owner
        moving = _moving(value)
        if is_source(op):
            return 1
        wanted = layouts_before(op, encoding)
        if wanted is None:
            return inf
        cost: float = weight(op) * prod(ir.shape_of(value.type))
        for operand, needed in zip(op.operands, wanted, strict=True):
            if needed is not None and cost < moving:
                cost += self._again(source_of(operand), needed, depth + 1)
        return cost


def _can_compute_again(op: Operation | Block) -> bool:
    """True if an op can be cloned with a result in another encoding."""
    if isinstance(op, Block):
        return False
    return is_source(op) or (is_follower(op) and len(op.results) == 1 and is_removable(op))


def _moving(value: SSAValue) -> float:
    """Cost of converting a value, in the unit of `weight`: it is written to shared memory
    and read again, with a barrier between."""
    words = max(ir.bit_width(value.type) / 32, 0.5)
    return 4096 + 4 * (1 + words) * prod(ir.shape_of(value.type))


def _views_block(value: SSAValue) -> bool:
    """True for a reshaped or permuted block of a descriptor. The block is read from shared memory,
    in any encoding."""
    owner = value.owner
    while isinstance(owner, Operation) and is_follower(owner) and not weight(owner):
        if len(owner.operands) != 1:
            return False
        owner = source_of(owner.operands[0]).owner
    return isinstance(owner, DescriptorAccess) and owner is not value.owner


def _block_of(value: SSAValue) -> Block | None:
    return value.owner if isinstance(value.owner, Block) else value.owner.parent


def _before_memory(user: Operation, value: SSAValue) -> Operation:
    """The first of the allocations just before a product, its operands in shared memory, or the
    product itself: the scratch of a conversion that is before them can be in the same place."""
    place, former = user, user.prev_op if isinstance(user, TileProduct) else None
    while former is not None and former is not value.owner:
        allocates = allocates_memory(former)
        if not allocates and not changes_layout(former):
            break
        place, former = former if allocates else place, former.prev_op
    return place


def _ancestor(user: Operation, value: SSAValue) -> Operation:
    """The op of the value's region that is or contains `user`."""
    block = _block_of(value)
    region, op = None if block is None else block.parent, user
    while op.parent_region() is not region:
        outer = op.parent_op()
        assert outer is not None, "a value is used where it is not defined"
        op = outer
    return op
