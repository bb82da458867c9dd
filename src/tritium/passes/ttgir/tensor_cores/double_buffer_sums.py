"""Keep two tiles of sums in tensor memory where a loop reads finished ones and begins new ones.

before (a fused loop over the products of tile after tile, see `fuse-nested-loops`):
    ttng.tmem_store %zero, %m
    scf.for %i = ... iter_args(%tile) {
      ttng.tc_gen5_mma %a, %b, %m, true, true, %done[%i mod 2]
      ttng.wait_barrier %done[(%i - 1) mod 2], ...; gpu.barrier
      scf.if %last {
        ttng.wait_barrier %done[%i mod 2], ...; gpu.barrier
        %d = ttng.tmem_load %m; store %d at %tile
        ttng.tmem_store %zero, %m
      }
      scf.yield %next
    }
after:
    %n:5 = scf.for %i = ... iter_args(%tile, %begins = true, %slot = 0, %t = poison) {
      ttng.tc_gen5_mma %a, %b, %m[%slot], not %begins, true, %done[%i mod 2]
      ttng.wait_barrier %done[(%i - 1) mod 2], ...; gpu.barrier
      scf.if %begins and %i is not the first { %d = ttng.tmem_load %m[1 - %slot]; store %d at %t }
      scf.yield %next, %last, %last ? 1 - %slot : %slot, %tile
    }
    if the last iteration was the last of a tile, the same for it

The first product of the next tile runs while threads read and store the sums of this one. Loops
with `tt.disallow_acc_multi_buffer` stay, and those where two tiles do not fit; where what the
branch does could change places with another access of memory; and where it needs more of its
iteration than scalars.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from xdsl.ir import Block, Operation, Region, SSAValue

from tritium.analysis.loops import innermost_loops
from tritium.analysis.regions import ancestor_in, defined_inside, is_removable, outside_values
from tritium.ir import types as ir
from tritium.ir.layouts.tensor_memory import COLUMNS
from tritium.ops.arith import AndIOp, ExtUIOp, XOrIOp, is_zero
from tritium.ops.attributes import DISALLOW_ACC_MULTI_BUFFER
from tritium.ops.base import Op
from tritium.ops.effects import BARRIER, GLOBAL, HOST, Action
from tritium.ops.scf import ForOp, IfOp, YieldOp
from tritium.ops.terminators import terminator
from tritium.ops.ttgir import (
    MemDescType,
    TCGen5MMAOp,
    TCGen5MMAScaledOp,
    TMemAllocOp,
    TMemLoadOp,
    TMemStoreOp,
    memdesc_of,
)
from tritium.ops.ttgir.memory import MemDescView
from tritium.ops.ttgir.tensor_memory import columns_of
from tritium.ops.ttir.function import FuncOp
from tritium.ops.ub import PoisonOp
from tritium.passes.base import FunctionPass
from tritium.passes.rewriting import Builder, copy_names, erase
from tritium.passes.ttgir.expand_pipeline import buffer, has_run, is_later
from tritium.passes.ttgir.tensor_cores.tensor_products import rebuilt
from tritium.passes.ttgir.tensor_cores.webs import branch_in


@dataclass(frozen=True)
class DoubleBufferSums(FunctionPass):
    """Keep two tiles of sums where a loop reads finished ones and begins new ones."""

    name: ClassVar[str] = "double-buffer-sums"
    title: ClassVar[str] = "TritonNvidiaGPUDoubleBufferSums"

    def function(self, function: FuncOp) -> bool:
        changed = False
        for loop in innermost_loops(function):
            if DISALLOW_ACC_MULTI_BUFFER not in loop.attributes:
                found = _find(function, loop)
                if found is not None:
                    found.run()
                    changed = True
        return changed


def _find(function: Operation, loop: ForOp) -> _Sums | None:
    """The sums of a loop that are to alternate; None if the loop lacks the form, or must stay."""
    products = [o for o in loop.walk() if isinstance(o, TCGen5MMAOp | TCGen5MMAScaledOp)]
    if len(products) != 1 or products[0].parent is not loop.body or not products[0].is_async:
        return None
    product = products[0]
    reads = [o for o in loop.walk() if isinstance(o, TMemLoadOp) and o.src is product.d]
    branch = branch_in(loop.body, reads[0]) if len(reads) == 1 else None
    if branch is None or len(product.barriers) != 1:
        return None
    sums = _Sums(loop, product, branch)
    return sums if sums.is_sound() and sums.fits(function) else None


@dataclass
class _Sums:
    """The sums of a loop's product, read in a branch that ends a tile.

    Attributes:
        loop, product, branch: the loop, its only product, and the branch of the iterations that
            are the last of a tile.
        sums: the memory of the sums.
        place: the op of the loop's body before which the branch is in the next iteration.
        kept, views: what the branch needs of its iteration: scalars, and buffers that they choose.
    """

    loop: ForOp
    product: Any
    branch: IfOp
    sums: SSAValue = field(init=False)
    place: Operation = field(init=False)
    kept: list[SSAValue] = field(default_factory=list[SSAValue])
    views: list[Operation] = field(default_factory=list[Operation])

    def __post_init__(self) -> None:
        """Begin with the branch in its place."""
        self.sums = self.product.d
        self.place = self.branch

    def is_sound(self) -> bool:
        """True if the branch may run in the next iteration, after that one's product has begun."""
        branch = self.branch
        used = any(r.first_use is not None for r in branch.results)
        if used or any(len(b.ops) > 1 for b in branch.regions[1].blocks):
            return False
        wait = self._wait()
        if wait is None or not self._owns_memory() or not self._needs_scalars():
            return False
        body = list(self.loop.body.ops)
        early, late = body.index(wait), body.index(branch)
        if any(map(_touches, body[early:late])):  # loads of later iterations stay behind it
            following = wait.next_op
            assert following is not None, "the branch follows"
            self.place = following
        passed = [*body[late + 1 : -1], *body[: body.index(self.place)]]
        return not any(_touches(op) for op in passed if op not in (self.product, branch))

    def _wait(self) -> Operation | None:
        """The wait for the product of the iteration before, in front of the branch; None if each
        product ends in its own iteration."""
        barriers = _root(self.product.barriers[0])
        if _count(barriers) < 2:
            return None
        op = self.product.next_op
        while op is not self.branch:
            if op is None or any(_root(memory) is barriers for memory in _waited(op)):
                return op
            op = op.next_op
        return None

    def _own(self) -> list[Operation]:
        """The ops of the branch that run later: all but the store of the next tile's first sums,
        and what is computed for nothing."""
        block = self.branch.regions[0].block
        found = dict.fromkeys(op for op in list(block.ops)[:-1] if not isinstance(op, TMemStoreOp))
        for op in reversed(list(found)):
            users = (ancestor_in(block, u.operation) for r in op.results for u in r.uses)
            if is_removable(op) and not any(user in found for user in users):
                del found[op]
        return list(found)

    def _needs_scalars(self) -> bool:
        """Find what the branch needs of its iteration; true if those are scalars, and barriers of
        rings that have others for this iteration. Other memory must be the branch's alone."""
        pending = [v for op in self._own() for v in outside_values(op)]
        pending = [v for v in pending if not defined_inside(v, self.branch) and v is not self.sums]
        memories = {_root(v) for v in pending if isinstance(v.type, MemDescType)}
        kept, views = dict[SSAValue, None](), dict[Operation, None]()
        while pending:
            value = pending.pop()
            if not defined_inside(value, self.loop):
                continue
            if isinstance(value.owner, MemDescView):
                views[value.owner] = None
                pending += value.owner.operands
            else:
                kept[value] = None
        self.kept, self.views = list(kept), [op for op in self.loop.body.ops if op in views]
        rings = [memory for memory in memories if _is_barriers(memory)]
        shared = memories.difference(rings)
        return (
            all(map(_is_scalar, kept))
            and all(_count(ring) > 1 for ring in rings)
            and not any(self._uses(op, shared) for op in self.loop.body.ops)
        )

    def _uses(self, op: Operation, memories: set[SSAValue]) -> bool:
        """True if an op beside the branch uses memory that the branch reads or writes."""
        values = outside_values(op) if op is not self.branch else ()
        return any(isinstance(v.type, MemDescType) and _root(v) in memories for v in values)

    def _owns_memory(self) -> bool:
        """True if the sums begin with zeros, and only the loop uses the memory: in front of it the
        zeros are stored, and in the branch again."""
        memory = self.sums
        allocation = memory.owner
        if not isinstance(allocation, TMemAllocOp) or allocation.src is not None:
            return False
        for use in memory.uses:
            user: Any = use.operation
            inside = ancestor_in(self.loop.body, user)
            if isinstance(user, TMemStoreOp) and user.dst is memory:
                first = inside is None and user.parent is self.loop.parent
                first = first and user.is_before_in_block(self.loop)
                if not is_zero(user.src) or not (first or inside is self.branch):
                    return False
            elif user is not self.product and not (
                isinstance(user, TMemLoadOp) and inside is self.branch
            ):
                return False
        return True

    def fits(self, function: Operation) -> bool:
        """True if there is tensor memory for a second tile."""
        taken = 0
        for op in function.walk():
            if isinstance(op, TMemAllocOp):
                columns = columns_of(op.results[0].type)
                columns *= 2 if op is self.sums.owner else 1
                taken += 1 << (columns - 1).bit_length()
        return taken <= COLUMNS

    def run(self) -> None:
        """Let the product alternate between two tiles, and the branch read one iteration later."""
        old: Any = self.sums.owner
        memory = self._memory(old)
        before, last = Builder(self.loop), self.branch.operands[0]
        inits = [
            before.constant(1, ir.i1), before.constant(0, ir.i32),
            *(before.value(PoisonOp, result=v.type) for v in self.kept),
        ]  # fmt: skip
        self.loop = loop = rebuilt(self.loop, [], inits)
        begins, slot, *kept = loop.body.args[-len(inits) :]
        copy_names(self.kept, kept)
        at = Builder(self.product)
        tile = buffer(at, memory, slot)
        self.product.operands = [tile if v is self.sums else v for v in self.product.operands]
        self._add_up(at, begins)
        at = Builder(self.place, self.branch.location)
        self._read(at, begins, is_later(at, loop), memory, slot, kept)
        end = terminator(loop.body)
        at = Builder(end)
        flip = at.value(ExtUIOp, last, result=ir.i32)
        end.operands = [*end.operands, last, at.value(XOrIOp, slot, flip), *self.kept]
        after: Any = loop.next_op
        at = Builder(after, self.branch.location)
        begins, slot, *kept = loop.results[-len(inits) :]
        self._read(at, begins, has_run(at, loop), memory, slot, kept)
        erase(self.branch)
        for use in list(self.sums.uses):  # the zeros of the first tile
            erase(use.operation)
        erase(old)

    @staticmethod
    def _memory(old: TMemAllocOp) -> SSAValue:
        """Memory of two tiles like one that is allocated."""
        type: Any = old.results[0].type
        shape = (2, *type.get_shape())
        pair = memdesc_of(
            shape, type.element_type, type.encoding, allocation=shape, space=type.memory_space
        )
        new = Builder(old).value(TMemAllocOp, None, result=pair)
        copy_names([old.results[0]], [new])
        return new

    def _add_up(self, at: Builder, begins: SSAValue) -> None:
        """Let the first product of a tile add to nothing."""
        goes_on = at.value(XOrIOp, begins, at.constant(1, ir.i1))
        use = at.value(AndIOp, self.product.useD, goes_on)
        index = self.product.operands.index(self.product.useD)
        self.product.operands[index] = use

    def _read(
        self, at: Builder, begins: SSAValue, some: SSAValue, memory: SSAValue, slot: SSAValue,
        kept: Sequence[SSAValue],
    ) -> None:  # fmt: skip
        """The branch, for the iteration of which `kept` is: if there was one, and a tile `begins`
        after it. The sums are in the tile of `memory` that `slot` is not."""
        block = Block()
        block.add_op(YieldOp.build([], location=self.branch.location))
        other = Block()
        other.add_op(YieldOp.build([], location=self.branch.location))
        condition = at.value(AndIOp, begins, some)
        at.make(IfOp, condition, regions=[Region(block), Region(other)], result=[])
        inside = Builder(terminator(block), self.branch.location)
        values = dict(zip(self.kept, kept, strict=True))
        one = inside.constant(1, ir.i32)
        values[self.sums] = buffer(inside, memory, inside.value(XOrIOp, slot, one))
        for op in [*self.views, *self._own()]:
            inside.copy(op, values)


def _waited(op: Operation) -> Iterator[SSAValue]:
    """The barriers that an op waits for."""
    for effect in op.own_effects() if isinstance(op, Op) else ():
        if effect.action is Action.WAIT and effect.resource is BARRIER:
            yield getattr(op, str(effect.value))


def _count(memory: SSAValue) -> int:
    """The number of buffers or barriers in a ring."""
    type: Any = memory.type
    return type.get_shape()[0]


def _root(memory: SSAValue) -> SSAValue:
    """The allocation that a piece of memory is in."""
    owner = memory.owner
    return _root(owner.src) if isinstance(owner, MemDescView) else memory


def _is_barriers(memory: SSAValue) -> bool:
    type: Any = memory.type
    return type.element_type == ir.i64 and type.get_shape()[-1] == 1


def _is_scalar(value: SSAValue) -> bool:
    kind = value.type
    return not isinstance(kind, MemDescType) and not ir.shape_of(kind) and (
        ir.is_integer(kind) or ir.is_float(kind) or isinstance(kind, ir.PointerType)
    )  # fmt: skip


def _touches(op: Operation) -> bool:
    """True if an op, or one in its regions, does more than synchronize and use memory on chip."""
    return any(not isinstance(inner, Op) or _leaves_chip(inner) for inner in op.walk())


def _leaves_chip(op: Op) -> bool:
    """True if an op accesses global memory or is seen by the host; a barrier of all threads, which
    names no memory, orders what others access."""
    return any(
        effect.resource is HOST
        or (effect.resource is GLOBAL and (effect.value is not None or bool(op.operands)))
        for effect in op.own_effects()
    )
