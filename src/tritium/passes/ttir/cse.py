"""Merge ops that compute the same.

before:
    %a = arith.addi %x, %y : i32
    %b = arith.addi %x, %y : i32
    %c = tt.load %p : !tt.ptr<f32>
    %d = tt.load %p : !tt.ptr<f32>
    use %a, %b, %c, %d
after:
    %a = arith.addi %x, %y : i32
    %c = tt.load %p : !tt.ptr<f32>
    use %a, %a, %c, %c
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar, cast

from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from tritium.analysis.cfg import dominator_tree
from tritium.analysis.regions import only_computes
from tritium.ir.graph import ops_of
from tritium.ops.base import Op
from tritium.ops.effects import Effects, only_read
from tritium.ops.terminators import is_terminator
from tritium.ops.ttir.function import FuncOp
from tritium.passes.base import FunctionPass
from tritium.passes.rewriting import copy_names, erase

Scope = dict[Hashable, Operation]


@dataclass(frozen=True)
class CSE(FunctionPass):
    """Merge ops that compute the same, reads with no write between them, and constant memory."""

    name: ClassVar[str] = "cse"
    title: ClassVar[str] = "CSE"

    def function(self, function: FuncOp) -> bool:
        merger = _Merger()
        merger.region(function.regions[0], [])
        return merger.changed


class Interner:
    """Small numbers for attributes: equal attributes get equal numbers. Hashing an attribute
    costs microseconds, so each object is hashed once."""

    def __init__(self) -> None:
        self.known: dict[int, int] = {}
        """The numbers, none of which is 0, of attributes met before, by identity."""
        self._by_value: dict[Attribute, int] = {}
        # An id is only good while its object lives.
        self._alive: list[Attribute] = []

    def __call__(self, attribute: Attribute) -> int:
        number = self.known.get(id(attribute))
        if number is None:
            number = self._by_value.setdefault(attribute, len(self._by_value) + 1)
            self.known[id(attribute)] = number
            self._alive.append(attribute)
        return number


_DEEPEST = 4
"""Depth of nested regions down to which ops are compared: the number of ops around each op that it
is keyed for."""


class _Merger:
    def __init__(self) -> None:
        self.intern = Interner()
        self.epoch = 0  # counts what may have written to memory
        self.effects: dict[Operation, Effects] = {}
        self.changed = False

    def region(self, region: Region, scopes: list[Scope]) -> None:
        """Merge within a region; `scopes` hold what is available where it is entered."""
        first = region.first_block
        if first is None:
            return
        if first is region.last_block:
            self.block(first, [*scopes, {}])
            return
        self.tree(first, dominator_tree(region), scopes)

    def tree(self, block: Block, children: dict[Block, list[Block]], scopes: list[Scope]) -> None:
        inner = [*scopes, {}]
        # Another path may have written to memory since the dominating block.
        self.epoch += 1
        self.block(block, inner)
        for child in children.get(block, ()):
            self.tree(child, children, inner)

    def block(self, block: Block, scopes: list[Scope]) -> None:
        for op in ops_of(block):
            if only_computes(op.__class__) and not op.regions:
                if op.results:
                    self.merge(cast(Op, op), scopes, -1)
                continue
            if not isinstance(op, Op) or is_terminator(op):
                continue
            effects = () if op.is_constant_memory else op.memory_effects(self.effects)
            writes = not only_read(effects)
            # A loop's body may see what a later part of it wrote in the iteration before.
            self.epoch += bool(op.regions) and writes
            for region in op.regions:
                self.region(region, [] if op.isolates(region) else scopes)
            self.epoch += writes
            if not writes and op.results:
                self.merge(op, scopes, self.epoch if effects else -1)

    def merge(self, op: Op, scopes: list[Scope], epoch: int) -> None:
        key = (epoch, self.key(op, {}, 0))
        for scope in reversed(scopes):
            known = scope.get(key)
            if known is not None:
                for old, new in zip(op.results, known.results, strict=True):
                    copy_names([old], [new])
                    old.replace_all_uses_with(new)
                erase(op)
                self.changed = True
                return
        scopes[-1][key] = op

    def key(self, op: Operation, local: dict[SSAValue, int], depth: int) -> Hashable:
        """A key of the op's computation: equal keys, equal results. `local` numbers the values that
        are defined in the op that the key is for, `depth` counts its regions around `op`."""
        intern, known = self.intern, self.intern.known
        if local:
            operands = tuple([local[v] if v in local else id(v) for v in op.operands])
        else:
            operands = tuple(map(id, op.operands))
        if len(operands) == 2 and isinstance(op, Op) and op.commutative:
            operands = tuple(sorted(operands))
        return (
            type(op),
            operands,
            tuple([(n, intern(a)) for n, a in op.properties.items()]) if op.properties else (),
            tuple([(n, intern(a)) for n, a in op.attributes.items()]) if op.attributes else (),
            tuple([known.get(id(r.type)) or intern(r.type) for r in op.results]),
            tuple([self.region_key(r, local, depth) for r in op.regions]) if op.regions else (),
        )

    def region_key(self, region: Region, local: dict[SSAValue, int], depth: int) -> Hashable:
        """A key for the computation of a region; a deep one, or one with branches, has its own."""
        if depth == _DEEPEST or region.first_block is not region.last_block:
            return id(region)
        keys = list[Hashable]()
        for block in region.blocks:
            for arg in block.args:
                local[arg] = -1 - len(local)
                keys.append(self.intern(arg.type))
            for op in ops_of(block):
                keys.append(self.key(op, local, depth + 1))
                for result in op.results:
                    local[result] = -1 - len(local)
        return tuple(keys)
