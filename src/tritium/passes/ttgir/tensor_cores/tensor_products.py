"""Put the sums of products into tensor memory (tcgen05).

before:
    %r = scf.for %i = ... iter_args(%acc = %zero) {
      %d = ttng.tensor_dot %a, %b, %acc {isAsync = true}
      %w:2 = ttng.warp_group_dot_wait %d, %a, %b {pendings = 1}
      scf.yield %w#0
    }
    %e = ttng.warp_group_dot_wait %r {pendings = 0}
after:
    %m = ttng.tmem_alloc : () -> !ttg.memdesc<128x128xf32, #tmem, #ttng.tensor_memory, mutable>
    %done = two barriers
    ttng.tmem_store %zero, %m
    %n = scf.for %i = ... iter_args(%k = 0) {
      ttng.tc_gen5_mma %a, %b, %m, true, true, %done[%k mod 2]
      ttng.wait_barrier %done[(%k - 1) mod 2], (%k - 1) / 2 mod 2 deps %a, %b; gpu.barrier
      scf.yield %k + 1
    }
    ttng.wait_barrier %done[(%n - 1) mod 2], ...
    %e = ttng.tmem_load %m

`webs` says which tiles share memory. A loop with products carries the number of its iteration,
which gives the phases of its barriers. A wait is for the barrier at which the newest product that
must have ended arrives; there are two such barriers where the next product begins before the wait.
Threads synchronize after a wait: one of them starts the product after the next, which may end
before the others have seen the phase. Memory of the same type is used again by later statements of
the function's body.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from tritium.analysis.loops import counted_loops
from tritium.analysis.regions import ancestor_in
from tritium.ir import types as ir
from tritium.ir.layouts.tensor_access import sums_encoding
from tritium.ir.layouts.tensor_memory import COLUMNS, TensorMemoryScalesEncoding, TensorMemorySpace
from tritium.ops.arith import AddIOp, AndIOp, ShRSIOp, SubIOp, constant_value
from tritium.ops.base import Op
from tritium.ops.gpu import BarrierMemory, BarrierOp
from tritium.ops.scf import ForOp, IfOp, is_choice
from tritium.ops.terminators import terminator
from tritium.ops.ttgir import (
    MemDescIndexOp,
    MemDescType,
    TCGen5MMAOp,
    TCGen5MMAScaledOp,
    TensorDotOp,
    TensorScaledDotOp,
    TMemAllocOp,
    TMemLoadOp,
    TMemStoreOp,
    WaitBarrierOp,
    WarpGroupDotWaitOp,
    memdesc_of,
)
from tritium.ops.ttgir.hopper import is_product_wait
from tritium.ops.ttgir.tensor_memory import columns_of
from tritium.ops.ttir.function import FuncOp
from tritium.passes.base import FunctionPass
from tritium.passes.rewriting import Builder, copy_names, erase
from tritium.passes.ttgir.expand_pipeline import free_barriers, make_barriers
from tritium.passes.ttgir.tensor_cores.webs import (
    Webs,
    is_product,
    loop_of,
    newest_ended,
    products_of,
    statement_of,
)


@dataclass(frozen=True)
class TensorProducts(FunctionPass):
    """Put the sums of products into tensor memory (tcgen05)."""

    name: ClassVar[str] = "tensor-products"
    title: ClassVar[str] = "TritonNvidiaGPUTensorProducts"

    def function(self, function: FuncOp) -> bool:
        dots = [op for op in function.walk() if is_product(op)]
        loops = dict.fromkeys(loop for d in dots if (loop := loop_of(d)) is not None)
        if not dots:
            return False
        counts = dict(map(count_iterations, loops))
        webs = Webs.find(function)
        memories = _Memories(webs) if webs.sound else None
        if memories is None or not memories.fit:
            webs = Webs.alone(function)
            memories = _Memories(webs)
        _Lowering(webs, memories.allocate(), counts).run()
        return True


Counts = dict[ForOp, SSAValue]


def memory_type(tile: ir.Type) -> MemDescType:
    """The type of tensor memory for the sums of a product."""
    shape = ir.shape_of(tile)
    return memdesc_of(shape, ir.element_type(tile), sums_encoding(shape), space=TensorMemorySpace())


def scales_type(tile: ir.Type) -> MemDescType:
    """The type of tensor memory for scales."""
    encoding = TensorMemoryScalesEncoding.make()
    return memdesc_of(ir.shape_of(tile), ir.element_type(tile), encoding, space=TensorMemorySpace())


def scales_of(dot: TensorDotOp | TensorScaledDotOp) -> tuple[SSAValue, ...]:
    """The scales of a product's operands."""
    return (dot.a_scale, dot.b_scale) if isinstance(dot, TensorScaledDotOp) else ()


class _Memories:
    """The tensor memory that webs have: webs of one type that live in other statements share."""

    def __init__(self, webs: Webs):
        self.webs = webs
        order = {op: i for b in webs.function.regions[0].blocks for i, op in enumerate(b.ops)}
        #: By web: the first and the last of its statements.
        lives: dict[SSAValue, tuple[int, int]] = {}
        for value in webs.parents:
            places = [value.owner, *(use.operation for use in value.uses)]
            found = [self._place(p, order) for p in places]
            known = lives.get(webs.root(value))
            found += [] if known is None else list(known)
            lives[webs.root(value)] = min(found), max(found)
        #: By type: the last statement that uses each piece of memory.
        self.last: dict[MemDescType, list[int]] = {}
        self.pieces: dict[SSAValue, tuple[MemDescType, int]] = {}
        for web, (first, last) in sorted(lives.items(), key=lambda item: item[1]):
            kind = memory_type(web.type)
            taken = self.last.setdefault(kind, [])
            free = next((i for i, end in enumerate(taken) if end < first), None)
            if free is None:
                free = len(taken)
                taken.append(last)
            taken[free] = last
            self.pieces[web] = kind, free

    def _place(self, owner: Operation | Block, order: dict[Operation, int]) -> int:
        op = owner.parent_op() if isinstance(owner, Block) else owner
        assert op is not None
        statement = statement_of(op, self.webs.function)
        return 0 if statement is None else order[statement]

    @property
    def fit(self) -> bool:
        """True if there is so much memory, with that for scales."""
        taken = sum(columns_of(k) * len(pieces) for k, pieces in self.last.items())
        scales = (columns_of(scales_type(v.type)) for d in self.webs.dots for v in scales_of(d))
        return taken + sum(scales) <= COLUMNS

    def allocate(self) -> dict[SSAValue, SSAValue]:
        """The memory of each web, allocated where the function begins."""
        first: Any = self.webs.function.regions[0].blocks[0].first_op
        at = Builder(first, self.webs.dots[0].location)
        made = {
            (kind, number): at.value(TMemAllocOp, None, result=kind)
            for kind, pieces in self.last.items() for number in range(len(pieces))
        }  # fmt: skip
        return {web: made[piece] for web, piece in self.pieces.items()}


class _Lowering:
    """A function whose products become those of tensor memory.

    Attributes:
        counts: the number of the iteration in each loop with products.
        carried: the places of members among what each loop carries.
        barriers: those of a product that is waited for, and how many there are.
    """

    def __init__(self, webs: Webs, memories: dict[SSAValue, SSAValue], counts: Counts):
        self.webs, self.memories, self.counts = webs, memories, counts
        self.carried = {
            loop: [i for i, a in enumerate(loop.body.args[1:]) if a in webs.parents]
            for loop in counted_loops(webs.function)
        }
        self.barriers: dict[Operation, tuple[SSAValue, int]] = {}

    def memory(self, value: SSAValue) -> SSAValue:
        """The tensor memory of a member."""
        return self.memories[self.webs.root(value)]

    def run(self) -> None:
        webs = self.webs
        waits = [op for op in webs.function.walk() if is_product_wait(op)]
        for loop in self.counts:
            self._make_barriers(loop, waits)
        for loop, places in self.carried.items():
            for i in places:
                if loop.inits[i] not in webs.parents:
                    self._store(Builder(loop), loop.inits[i], loop.body.args[1 + i])
        for op in webs.function.walk():
            if is_choice(op):
                self._store_in_branches(op)
        for value in list(webs.parents):
            if webs.is_read(value):
                self._load(value)
        for wait in waits:
            self._wait(wait)
        for dot in webs.dots:
            self._multiply(dot)
        self._erase([*waits, *webs.dots])

    def _make_barriers(self, loop: ForOp, waits: Sequence[WarpGroupDotWaitOp]) -> None:
        """Make the barriers of a loop's products that are waited for."""
        products = products_of(loop)
        needed: dict[Operation, int] = {
            dot: 1 for dot in self.webs.dots
            if dot.parent is loop.body and (not dot.isAsync or dot is products[-1])
        }  # fmt: skip
        for wait in waits:
            found = newest_ended(wait)
            if found is not None and found[0] is loop:
                dot = products[found[1] % len(products)]
                # The wait is in the next iteration, behind the next start of the same product.
                place = ancestor_in(loop.body, wait)
                late = found[1] < 0 and place is not None and dot.is_before_in_block(place)
                needed[dot] = max(needed.get(dot, 1), 2 if late else 1)
        # Other ops may stand between the loop and the wait for its last product.
        last: Any = loop
        for wait in waits:
            if wait.parent is loop.parent and any(v.owner is loop for v in wait.inputs):
                last = wait
        after = last.next_op
        for dot, number in needed.items():
            barriers = make_barriers(Builder(loop), number)
            self.barriers[dot] = barriers, number
            free_barriers(Builder(after, loop.location), barriers, number)

    def _barrier(self, at: Builder, dot: Operation, count: SSAValue) -> tuple[SSAValue, SSAValue]:
        """The barrier of a product in the iteration of this number, and its phase."""
        barriers, number = self.barriers[dot]
        one = at.constant(1, ir.i32)
        slot = at.constant(0, ir.i32) if number == 1 else at.value(AndIOp, count, one)
        iteration = count if number == 1 else at.value(ShRSIOp, count, one)
        return at.value(MemDescIndexOp, barriers, slot), at.value(AndIOp, iteration, one)

    def _store(self, at: Builder, tile: SSAValue, member: SSAValue) -> None:
        at.make(TMemStoreOp, tile, self.memory(member), at.constant(1, ir.i1))

    def _store_in_branches(self, op: IfOp) -> None:
        """Store what only one branch has in registers of what is a member after the branches."""
        for i, result in enumerate(op.results):
            ends = [terminator(r.block) for r in op.regions] if result in self.webs.parents else []
            for end in ends:
                if end.operands[i] not in self.webs.parents:
                    self._store(Builder(end), end.operands[i], result)
                    end.operands[i] = self._nothing(result.type)

    def _nothing(self, tile: ir.Type) -> SSAValue:
        """A tile in place of one that is in tensor memory."""
        first: Any = self.webs.function.regions[0].blocks[0].first_op
        return Builder(first).constant(0, tile)

    def _load(self, value: SSAValue) -> None:
        """Load a member where it is defined, for what needs it in registers."""
        owner: Any = value.owner
        inside = isinstance(value, BlockArgument)
        at = Builder(owner.first_op if inside else owner.next_op)
        at.location = at.location if inside else owner.location
        loaded = at.value(TMemLoadOp, self.memory(value), result=value.type)
        copy_names([value], [loaded])
        value.replace_uses_with_if(loaded, lambda use: not self.webs.in_place(use))

    def _await(
        self, at: Builder, barrier: SSAValue, phase: SSAValue, memories: Sequence[SSAValue],
        synchronize: bool = True,
    ) -> None:  # fmt: skip
        """Wait for a product. `synchronize`: threads then wait for each other, which they must
        before one of them starts the next product."""
        at.make(WaitBarrierOp, barrier, phase, None, list(memories))
        if synchronize:
            at.make(BarrierOp, memory=BarrierMemory.LOCAL)

    def _wait(self, wait: WarpGroupDotWaitOp) -> None:
        """Wait for the newest product that must have ended."""
        at, found = Builder(wait), newest_ended(wait)
        memories = [v for v in wait.inputs if isinstance(v.type, MemDescType)]
        one = at.constant(1, ir.i32)
        if found is not None:
            loop, order = found
            products, count = products_of(loop), self.counts[loop]
            count = at.value(SubIOp, count, one) if order < 0 else count
            place = self._barrier(at, products[order % len(products)], count)
            self._await(at, *place, memories)
            return
        for loop in dict.fromkeys(v.owner for v in wait.inputs):
            flying = [d for d in products_of(loop) if d.isAsync] if loop in self.carried else []
            if flying:
                last = at.value(SubIOp, loop.results[-1], one)  # pyright: ignore
                self._await(at, *self._barrier(at, flying[-1], last), memories)

    def _multiply(self, dot: TensorDotOp | TensorScaledDotOp) -> None:
        """Start a product, and wait for it unless it is to go on."""
        at, result, loop = Builder(dot), dot.results[0], loop_of(dot)
        member = self.webs.together and dot.c in self.webs.parents
        known = constant_value(dot.c)
        zero = not member and known is not None and not known.any()
        if not member and not zero:
            self._store(at, dot.c, result)
        true = at.constant(1, ir.i1)
        use = true if dot.useC is None else dot.useC
        use = at.constant(0, ir.i1) if zero else use
        own: SSAValue | None = None
        barrier: tuple[SSAValue, SSAValue] | None = None
        if dot in self.barriers:
            assert loop is not None
            barrier = self._barrier(at, dot, self.counts[loop])
        elif not dot.isAsync:
            own = make_barriers(at, 1)
            zero_i32 = at.constant(0, ir.i32)
            barrier = at.value(MemDescIndexOp, own, zero_i32), zero_i32
        place = [] if barrier is None else [barrier[0]]
        self._start(at, dot, use, place)
        if barrier is not None and not dot.isAsync:
            read = isinstance(dot.next_op, TMemLoadOp)  # it synchronizes threads
            self._await(at, *barrier, (dot.a, dot.b), not read)
        if own is not None:
            free_barriers(at, own, 1)

    def _start(
        self, at: Builder, dot: TensorDotOp | TensorScaledDotOp, use: SSAValue,
        barriers: Sequence[SSAValue],
    ) -> None:  # fmt: skip
        """Start a product, with its scales, if there are any, in tensor memory of their own."""
        true, sums = at.constant(1, ir.i1), self.memory(dot.results[0])
        told = barriers, [true] * len(barriers)
        if not isinstance(dot, TensorScaledDotOp):
            at.make(TCGen5MMAOp, dot.a, dot.b, sums, use, true, *told, is_async=True)
            return
        first: Any = self.webs.function.regions[0].blocks[0].first_op
        scales = list[SSAValue]()
        for tile in scales_of(dot):
            here = Builder(first, dot.location)
            scales.append(here.value(TMemAllocOp, None, result=scales_type(tile.type)))
            at.make(TMemStoreOp, tile, scales[-1], true)
        at.make(
            TCGen5MMAScaledOp, dot.a, dot.b, sums, *scales, use, true, *told,
            a_type=dot.a_type, b_type=dot.b_type, is_async=True,
        )  # fmt: skip

    def _erase(self, ops: Sequence[Op]) -> None:
        """Take out the products and waits, and what loops carried of members."""
        for op in ops:
            for source, result in op.forwarded_values():
                result.replace_all_uses_with(source)
        for value in self.webs.parents:
            if value.first_use is not None:
                value.replace_all_uses_with(self._nothing(value.type))
        for op in ops:
            erase(op)
        for loop, places in self.carried.items():
            if places:
                rebuilt(loop, places)


def rebuilt(loop: ForOp, dropped: Sequence[int], more: Sequence[SSAValue] = ()) -> ForOp:
    """A loop without some of the values that it carried, which nothing uses, and with others, of
    which the body does not yield the next ones yet."""
    body, end = loop.body, terminator(loop.body)
    kept = [i for i in range(len(loop.inits)) if i not in dropped]
    inits = [*(loop.inits[i] for i in kept), *more]
    end.operands = [end.operands[i] for i in kept]
    for i in sorted(dropped, reverse=True):
        body.erase_arg(body.args[1 + i])
    for value in more:
        body.insert_arg(value.type, len(body.args))
    bounds, attributes, properties = loop.operands[:3], loop.attributes, loop.properties
    region = loop.detach_region(loop.regions[0])
    new = Builder(loop).make(ForOp, *bounds, inits, regions=[region], attributes=attributes)
    new.properties.update(properties)
    for i, result in zip(kept, new.results, strict=False):
        copy_names([loop.results[i]], [result])
        loop.results[i].replace_all_uses_with(result)
    erase(loop)
    return new


def count_iterations(loop: ForOp) -> tuple[ForOp, SSAValue]:
    """The loop, carrying the number of its iteration as the last value; and that."""
    new = rebuilt(loop, [], [Builder(loop).constant(0, ir.i32)])
    count, end = new.body.args[-1], terminator(new.body)
    at = Builder(end)
    end.operands = [*end.operands, at.value(AddIOp, count, at.constant(1, ir.i32))]
    return new, count
