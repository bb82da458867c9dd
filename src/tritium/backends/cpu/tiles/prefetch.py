"""Prefetch the memory that later nests, and the next program, access.

before:
    tile.nest [1024] along 0 { %m = "tt.reduce"(%x) ... }              // loads at %p
    tile.nest [1024] along 0 { %s = "tt.reduce"(%e) ... }              // reads scratch alone
    tile.nest [1024] { tt.store %q, %y, %mask }
after (%pn: %p of the next program):
    tile.nest [1024] along 0 { %m = "tt.reduce"(%x) ... }
    tile.nest [1024] along 0 {
      %s = "tt.reduce"(%e) ...
      tile.prefetch %pn, %mask {rounds = 32 : i32}
      tile.prefetch %q, %mask {rounds = 32 : i32, written}
    }
    tile.nest [1024] { tt.store %q, %y, %mask }

A processor fetches lines ahead by itself within a page, after it has seen some of them. A row is
about as long as a page, so that each nest begins by waiting. The next program's tile, or that of
the next iteration, is where the loads would be if the program's place in the grid, or the counter
of the loop, were one step further.

A launch that the second cache holds prefetches nothing (`rounds`), neither does a program whose
tiles that cache does not hold. Of rows longer than a page the processor fetches most by itself: a
loop asks for those only if it computes for so long that the requests take none of its time.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar, NamedTuple

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, SSAValue

from tritium.analysis.recursion import resolve
from tritium.backends.cpu.tiles.ir import Nest, TileFunction, functions_of
from tritium.backends.cpu.tiles.slices import Slice, nests_of, slice_of
from tritium.backends.cpu.tiles.version import LINE, is_long, of_indices
from tritium.codegen.llvm.types import memory_bytes
from tritium.ir import types as ir
from tritium.ops.arith import AddIOp, ConstantOp
from tritium.ops.base import Op
from tritium.ops.tile.nests import NestOp, PrefetchOp, is_tile
from tritium.ops.ttir.program import Axis
from tritium.passes.base import Pass

_SHORT = 512
"""Bytes of the shortest tile that is worth finding its addresses, some ten instructions."""
_PAGE = 4096
"""Bytes of the longest row that loops of few instructions prefetch."""
_SLOW = 12
"""The cost of an element from which on a loop prefetches longer rows too."""
_MOST_OPS = 24
"""Ops that finding a tile of addresses earlier than the program does may take."""


@dataclass(frozen=True)
class Prefetch(Pass):
    """Prefetch what later nests and the next program access; `l2`: bytes of the second cache."""

    l2: int = 1 << 20
    name: ClassVar[str] = "tile-prefetch"
    keeps_analyses: ClassVar[bool] = True

    def run(self, module: ModuleOp) -> bool:
        changed = False
        for function in functions_of(module):
            blocks: dict[Any, list[tuple[NestOp, Slice]]] = {}
            for op, filled in nests_of(function):
                blocks.setdefault(op.parent, []).append((op, slice_of(function, op, filled)))
            for block, nests in blocks.items():
                if len(nests) > 1 and not any(op.prefetches for op, _ in nests):
                    changed |= _Nests(function, block, nests).run(self.l2)
        return changed


class _Wish(NamedTuple):
    """An access whose memory is prefetched in a nest: in the program itself, or by the one before
    it; `streams`: it may store past the caches."""

    access: Any
    host: NestOp
    following: bool
    streams: bool


class _Nests:
    """The nests of a block."""

    def __init__(self, function: TileFunction, block: Block, nests: list[tuple[NestOp, Slice]]):
        self.function, self.block, self.nests = function, block, nests
        self.places = {op: number for number, op in enumerate(block.ops)}
        self.varying = dict[SSAValue, bool]()
        #: What is computed before a nest, of this program or the next one, by the original.
        self.moved = dict[tuple[NestOp, bool], dict[SSAValue, SSAValue]]()
        self.seed, self.step = self._seed()

    def _seed(self) -> tuple[SSAValue | None, SSAValue | None]:
        """The number that tells iterations, or programs, apart, and the distance to the next one
        (None: 1)."""
        outer = self.block.parent_op()
        if isinstance(outer, Op) and outer.counting is not None:
            return outer.counting[0], outer.counting[3]
        if outer is self.function.op and self.function.op.sym_visibility == "public":
            ops: Any = (op for op in self.block.ops if isinstance(op, Op) and op.counts_programs)
            first = next((op for op in ops if op.axis is Axis.X), None)
            return None if first is None else first.results[0], None
        return None, None

    def run(self, l2: int) -> bool:
        """Add prefetches; True if there are any."""
        if self.seed is None:
            return False
        rows = self._rows()
        wishes = list(self._wishes(rows))
        touched = sum(map(rows.__getitem__, {access.ptr for _, access in self._accesses(rows)}))
        if not wishes or touched + self.function.scratch_bytes > l2 // 2:
            return False
        for wish in wishes:
            self._add(wish, -(-l2 // (2 * touched)))
        for op, part in self.nests:
            part.nest = part.nest._replace(prefetches=op.prefetches)
        return True

    def _accesses(self, rows: dict[SSAValue, int]) -> Iterator[tuple[int, Any]]:
        """The first access to each row, with the number of its nest."""
        seen = set[SSAValue]()
        for number, (_, part) in enumerate(self.nests):
            for access in (*part.loads, *part.stores):
                if access.ptr in rows and access.ptr not in seen:
                    seen.add(access.ptr)
                    yield number, access

    def _rows(self) -> dict[SSAValue, int]:
        """The tiles of consecutive addresses that differ between programs, and their bytes."""
        found = dict[SSAValue, int]()
        for _, part in self.nests:
            nest = part.nest
            if nest.shape is None or not _is_row(nest):
                continue
            elements = prod(nest.domain)
            step = nest.shape.width * nest.shape.unroll
            for pointers in dict.fromkeys(a.ptr for a in (*part.loads, *part.stores)):
                size = _element_bytes(pointers)
                long = elements * size >= _SHORT and 2 * step * size >= LINE
                if long and ir.shape_of(pointers.type) == nest.domain:
                    run = max(self.function.address_axes.of(pointers).contiguity)
                    if run >= elements and self._varies(pointers):
                        found[pointers] = elements * size
        return found

    def _wishes(self, rows: dict[SSAValue, int]) -> Iterator[_Wish]:
        """The accesses to prefetch for, by nests over as many elements. The best nests for that use
        the caches alone; else the loop before that of the access will do, or, for the next program,
        the last one."""
        first = dict[int, set[SSAValue]]()
        for number, access in self._accesses(rows):
            first.setdefault(number, set()).add(access.ptr)
        long = [n for n, (_, part) in enumerate(self.nests) if _is_row(part.nest)]
        for number, access in self._accesses(rows):
            domain = ir.shape_of(access.ptr.type)
            hosts = [n for n in long if self.nests[n][1].nest.domain == domain]
            quiet = [n for n in hosts if n not in first]
            before = [n for n in quiet or hosts if n < number]
            after = [n for n in quiet or hosts[-1:] if n > number]
            if before or after:
                host, part = self.nests[before[-1] if before else after[0]]
                store = access.stores_elements
                if rows[access.ptr] > _PAGE and _cost(part) < _SLOW:
                    continue
                if before or not store:
                    streams = store and "streaming" in self.nests[number][0].versions
                    yield _Wish(access, host, not before, streams)

    def _add(self, wish: _Wish, rounds: int) -> None:
        """Add what one wishes, if its addresses can be known in time."""
        access, host = wish.access, wish.host
        given = [access.ptr] if access.mask is None else [access.ptr, access.mask]
        if access.mask is not None and not of_indices(access.mask):
            return
        ops = self._missing(given, host, wish.following)
        if ops is None:
            return
        known = self.moved.setdefault((host, wish.following), {})
        if wish.following and self.seed not in known:
            assert self.seed is not None
            step = self.step
            if step is None:
                step = self._insert(ConstantOp.of(1, self.seed.type), host)
            known[self.seed] = self._insert(AddIOp.build(self.seed, step), host)
        for op in ops:
            if op.results[0] not in known:
                self._insert(op.clone(known), host)
        found = [known.get(value, value) for value in given]
        mask = found[1] if len(found) > 1 else None
        host.body.add_op(PrefetchOp.build(
            found[0], mask, rounds=rounds, written=access.stores_elements,
            unless_streaming=wish.streams,
        ))  # fmt: skip

    def _insert(self, op: Any, host: NestOp) -> SSAValue:
        self.block.insert_op_before(op, host)
        return op.results[0]

    def _varies(self, value: SSAValue) -> bool:
        """True if a value differs between programs, or iterations."""
        return resolve(value, self._depends, self.varying)

    def _depends(self, value: SSAValue) -> Generator[SSAValue, bool, bool]:
        owner: Any = value.owner
        if value is self.seed or isinstance(owner, Block):
            return value is self.seed
        for operand in owner.operands:
            if (yield operand):
                return True
        return False

    def _missing(self, given: list[SSAValue], host: NestOp, following: bool) -> list[Op] | None:
        """The ops that must be copied before a nest for it to know values, or (`following`) those
        of the next program, in order; None if that cannot be."""
        found, stack = set[Any](), list(given)
        while stack:
            value = stack.pop()
            owner: Any = value.owner
            changes = following and self._varies(value)
            if value is self.seed or owner in found:
                continue
            if not changes and self._is_before(owner, host):
                continue
            movable = isinstance(owner, Op) and owner.parent is self.block and not owner.regions
            if not movable or not owner.is_pure or not owner.is_speculatable:
                return None
            found.add(owner)
            stack.extend(owner.operands)
        return sorted(found, key=self.places.__getitem__) if len(found) <= _MOST_OPS else None

    def _is_before(self, owner: Any, host: NestOp) -> bool:
        """True if what an op, or a block, defines is known before a nest."""
        while owner not in self.places:
            if isinstance(owner, Block) or owner is self.function.op:
                return True
            owner = owner.parent_op()
        return self.places[owner] < self.places[host]


def _cost(part: Slice) -> int:
    """The cost of what a nest computes for one element, its loads apart."""
    return sum(op.cost for value, op in part.values if is_tile(value) and not op.loads_elements)


def _element_bytes(pointers: SSAValue) -> int:
    pointee: Any = ir.element_type(pointers.type)
    return memory_bytes(pointee.pointee)


def _is_row(nest: Nest) -> bool:
    """True for a nest of stores, of reductions or of a scan by vectors over one long dimension."""
    if is_long(nest):
        return True
    wide = nest.scan is not None and nest.shape is not None and nest.shape.width > 1
    return wide and len(nest.domain) == 1
