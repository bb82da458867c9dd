"""Let the products of warp groups in a loop run while the loop goes on.

before:
    scf.for ... iter_args(%acc) {
      %s = ttng.warp_group_dot %q, %k, %zero
      %p = softmax of %s
      %acc1 = ttng.warp_group_dot %p, %v, %acc
      scf.yield %acc1
    }
after:
    %r = scf.for ... iter_args(%acc) {
      %s = ttng.warp_group_dot %q, %k, %zero {isAsync = true}
      %w:2 = ttng.warp_group_dot_wait %s, %k {pendings = 0}
      %p = softmax of %w#0
      %acc1 = ttng.warp_group_dot %p, %v, %acc {isAsync = true}
      scf.yield %acc1
    }
    ttng.warp_group_dot_wait %r {pendings = 0}

A product starts as early as its operands allow (`_start_early`), and is waited for where something
but another product's accumulator needs it. Products end in the order in which they began, so that
a wait says how many of the newest may go on. The last ones of an iteration end in the next one,
before that one's copies write the buffers which they read. A product ends in its own iteration if
the next one could write its operands' registers, or memory that the loop's body allocates, before.
The last products whose left operand is computed in registers after an earlier product has begun
(`_Rewritten`) end in the next iteration, right before the operand is computed again:

    scf.for ... iter_args(%acc) {
      %p = first half of the weights, widened   // beside the last iteration's product of %q
      %d = ttng.warp_group_dot %p, %x, %acc {isAsync = true}
      %w:2 = ttng.warp_group_dot_wait %d, %words {pendings = 1}
      %q = second half of %w#1, widened         // beside the product of %p
      %e = ttng.warp_group_dot %q, %y, %w#0 {isAsync = true}
      %v = ttng.warp_group_dot_wait %e {pendings = 1}
      scf.yield %v
    }
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import Any, ClassVar

from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from tritium.analysis.loops import counted_loops
from tritium.analysis.regions import ancestor_in, outside_values
from tritium.ir import types as ir
from tritium.ir.layouts.encodings import REGISTER, linear
from tritium.ops.base import Op
from tritium.ops.effects import BARRIER, GLOBAL, SHARED, Action, Effect
from tritium.ops.scf import ForOp, IfOp, is_choice
from tritium.ops.terminators import terminator
from tritium.ops.ttgir import MemDescType, WarpGroupDotOp, WarpGroupDotWaitOp
from tritium.ops.ttgir.hopper import is_asynchronous, is_product_wait
from tritium.ops.ttgir.memory import MemDescView
from tritium.ops.ttir.dot import MatrixProduct
from tritium.ops.ttir.function import FuncOp
from tritium.passes.base import FunctionPass
from tritium.passes.rewriting import copy_names, insert_after, insert_before
from tritium.passes.ttgir.layout_propagation import is_tile


@dataclass(frozen=True)
class AsyncDots(FunctionPass):
    """Let the products of warp groups in a loop run while the loop goes on."""

    name: ClassVar[str] = "async-dots"
    title: ClassVar[str] = "TritonGPUAsyncDots"

    def function(self, function: FuncOp) -> bool:
        started = [
            start_products(loop) for loop in counted_loops(function) if not _arrives(loop)
        ]
        return any(started)


def start_products(loop: ForOp) -> bool:
    """Make the products of a loop asynchronous, if all can be; returns whether there are any."""
    products = [op for op in loop.body.walk() if isinstance(op, MatrixProduct)]
    dots = [d for d in products if is_asynchronous(d) and d.parent is loop.body and not d.isAsync]
    if not dots or len(dots) < len(products):
        return False
    _Loop(loop, _start_early(loop, dots)).run()
    return True


def hand_on_ended(loop: ForOp, results: list[SSAValue]) -> list[SSAValue]:
    """The results of a loop, where products were in flight after the wait for them."""
    wait = loop.next_op
    if not is_product_wait(wait):
        return results
    ended = dict(zip(wait.inputs, wait.results, strict=True))
    for index, value in enumerate(results):
        if value in ended:
            _start_ended(loop, index)
    return [ended.get(v, v) for v in results]


def _start_ended(loop: ForOp, index: int) -> None:
    """Let the initial value of an accumulator that is in flight around a loop pass a wait. Of a
    constant the assembler would find copies on the way around or out of the loop, where it takes
    products for running, and would let products run one by one."""
    init = loop.inits[index]
    if not is_product_wait(init.owner):
        wait = WarpGroupDotWaitOp.build([init], pendings=0, location=loop.location)
        insert_before(loop, wait)
        loop.operands[3 + index] = wait.results[0]


def delay_scalars(body: Block) -> None:
    """Compute scalars before a loop of a body that only what follows it needs beside its last
    products, which are waited for right behind it. The first ones need not wait for them then."""
    for wait in [op for op in body.ops if is_product_wait(op)]:
        loop = wait.prev_op
        if loop is None or loop not in {value.owner for value in wait.inputs}:
            continue
        op = loop.prev_op
        while op is not None:
            before = op.prev_op
            if loop.regions and _is_for_later(op, loop, body):
                body.detach_op(op)
                insert_after(loop, op)
            op = before


def _is_for_later(op: Operation, loop: Operation, body: Block) -> bool:
    """True for an op that computes scalars which only ops behind a loop use."""
    if not isinstance(op, Op) or not op.is_pure or op.regions or not op.operands:
        return False
    if any(ir.shape_of(value.type) for value in (*op.results, *op.operands)):
        return False
    users = [ancestor_in(body, use.operation) for v in op.results for use in v.uses]
    return all(user is not None and loop.is_before_in_block(user) for user in users)


def end_of(dot: Any) -> tuple[Operation, bool]:
    """The op of a loop's body at which a product has ended, and whether that is in the iteration
    after the product's."""
    if not dot.isAsync:
        return dot, False
    dots = [op for op in dot.parent.ops if isinstance(op, MatrixProduct)]
    order, begun, later = dots.index(dot), 0, None
    for op in dot.parent.ops:
        if isinstance(op, MatrixProduct):
            begun += 1
        elif is_product_wait(op):
            ended = begun - op.pendings
            if order < ended:
                return op, False
            if later is None and order - len(dots) < ended:
                later = op
    assert later is not None, "a product that the loop does not wait for"
    return later, True


def _arrives(loop: ForOp) -> bool:
    """True if other warps are told in the loop what this one has read, by barriers that the loop
    does not wait for: these warps do not see that a product still reads it."""
    told, awaited = set[SSAValue](), set[SSAValue]()
    for op in loop.body.walk():
        for effect in op.own_effects() if isinstance(op, Op) else ():
            if effect.resource is BARRIER:
                barriers = {_memory_of(v) for v in op.affected(effect)}  # pyright: ignore
                told |= barriers if effect.action is Action.ARRIVE else set()
                awaited |= barriers if effect.action is Action.WAIT else set()
    return not told <= awaited


MOST_REGISTERS = 208
"""Registers a thread that the products under way and the addresses of a loop may take, at most, for
a product to start early: of 255, the others are left for what is computed from products."""

ADDRESS_REGISTERS = 8
"""Registers a thread that an access through a tile of addresses takes, about. The gradients of an
attention with 64 columns (192 registers for products on 4 warps) fit with descriptors; with four
loads through addresses they would spill."""


def _start_early(loop: ForOp, dots: list[WarpGroupDotOp]) -> list[WarpGroupDotOp]:
    """Move each product to right after the first one at which its operands are there, if the
    registers suffice; returns the products in their new order."""
    kept = sum(registers(v) for v in loop.body.args[1:])
    kept += ADDRESS_REGISTERS * sum(map(_is_addressed, loop.body.walk()))
    ordered = dots[:1]
    for dot in dots[1:]:
        earlier = [(before, _operands_between(before, dot)) for before in ordered]
        place = next(((b, ops) for b, ops in earlier if ops is not None), None)
        own = [d for d in (*ordered, dot) if d.c not in loop.body.args]
        taken = kept + sum(registers(d.results[0]) for d in own)
        if place is not None and taken <= MOST_REGISTERS:
            before, moved = place
            for op in reversed([*moved, dot]):
                loop.body.detach_op(op)
                insert_after(before, op)
            ordered.insert(ordered.index(before) + 1, dot)
        else:
            ordered.append(dot)
    return ordered


def _is_addressed(op: Operation) -> bool:
    """True for an access of memory through a tile of addresses."""
    return isinstance(op, Op) and any(
        effect.resource is GLOBAL and any(map(is_tile, op.affected(effect)))
        for effect in op.own_effects()
    )


def _operands_between(before: Operation, dot: Operation) -> list[Operation] | None:
    """The ops after `before` that a product's operands are made by, in order, if they only make
    views of memory, scalars and constants; None if others are among them, or if shared memory
    changes between the two."""
    needed, moved = set(dot.operands), list[Operation]()
    op = dot.prev_op
    while op is not None and op is not before:
        if not needed.isdisjoint(op.results):
            computes = any(is_tile(v) for v in op.operands) or op.regions
            if computes or not isinstance(op, Op) or not op.is_pure:
                return None
            needed.update(op.operands)
            moved.insert(0, op)
        elif not isinstance(op, Op) or any(_changes_shared(e) for e in op.memory_effects()):
            return None
        op = op.prev_op
    return moved


def _changes_shared(effect: Effect) -> bool:
    return not effect.is_read and effect.resource in (SHARED, BARRIER)


def registers(value: SSAValue) -> int:
    """Registers a thread that a tile of numbers takes; few of a tile of addresses are kept."""
    if not is_tile(value) or isinstance(ir.element_type(value.type), ir.PointerType):
        return 0
    layout = linear(ir.encoding_of(value.type), ir.shape_of(value.type))
    return layout.in_size(REGISTER) * ir.bit_width(value.type) // 32


@dataclass(frozen=True)
class _Rewritten:
    """The last products of a loop, whose left operands are computed in registers after an earlier
    product has begun.

    Attributes:
        dots: the products.
        after: the earlier product, after which those of the iteration before have to end.
        sources: the tiles that the operands are computed from after that, which pass the wait, so
            that nothing writes the operands' registers before.
    """

    dots: list[WarpGroupDotOp]
    after: WarpGroupDotOp
    sources: list[SSAValue]


def _rewritten(body: Block, dots: list[WarpGroupDotOp]) -> _Rewritten | None:
    """The last products of a loop's body of that kind, as many as there are."""
    for first in range(1, len(dots)):
        found = [_sources(dot.a, dots[first - 1], dots) for dot in dots[first:]]
        if all(found):
            sources = dict.fromkeys(v for some in found for v in some)
            return _Rewritten(dots[first:], dots[first - 1], [*sources])
    return None


def _sources(operand: SSAValue, after: Operation, dots: Container[object]) -> list[SSAValue]:
    """The tiles of a loop's body that a left operand in registers is computed from after a product;
    none if it is computed before, or from a product."""
    pending, seen, sources = [operand], set[SSAValue](), list[SSAValue]()
    computes = False
    while pending:
        value = pending.pop()
        owner = value.owner
        block = owner if isinstance(owner, Block) else owner.parent
        if value in seen or block is not after.parent:
            continue
        seen.add(value)
        if owner in dots:
            return []
        if isinstance(owner, Operation) and after.is_before_in_block(owner):
            computes |= isinstance(owner, Op) and owner.is_elementwise
            pending += outside_values(owner)
        elif is_tile(value):
            sources.append(value)
    return sources if computes else []


class _Loop:
    """A loop whose products are made asynchronous.

    The order of a product is its place among the products of an iteration; those of the iteration
    before have negative orders.
    """

    def __init__(self, loop: ForOp, dots: list[WarpGroupDotOp]):
        self.loop, self.body, self.dots = loop, loop.body, dots
        #: The value that a product in flight is known as now -> the product's order.
        self.flying: dict[SSAValue, int] = {}
        #: How many products have begun, and the order of the first that may not have ended.
        self.begun = 0
        self.oldest = -len(dots)
        self.rewritten = _rewritten(self.body, dots)

    def run(self) -> None:
        """Mark the products, insert the waits."""
        for dot in self.dots:
            dot.properties["isAsync"] = dot.attr_fields["isAsync"].encode(True)
        carried = self._carried()
        for argument, order in carried.items():
            self.flying[argument] = order - len(self.dots)
        if not carried:
            self.oldest = 0
        for op in list(self.body.ops):
            self._op(op, carried)
        self._end(carried)

    def _op(self, op: Operation, carried: dict[BlockArgument, int]) -> None:
        """Wait before an op for what it needs."""
        if is_choice(op) and self._wait_in_branch(op):
            return
        needed = self._needed(op, carried)
        if needed:
            newest = max(self.flying[v] for v in needed)
            ended = [v for v, n in self.flying.items() if n <= newest]
            self._wait(op, newest, [v for v in ended if not _only_accumulates(v)])
            self.flying = {v: n for v, n in self.flying.items() if n > newest}
        least = min(carried.values(), default=0)
        if op is self.body.last_op and self.oldest < least:
            self._wait(op, least - 1, [*self.flying])
        if op not in self.dots:
            return
        dot: Any = op
        self.flying.pop(dot.c, None)
        self.flying[dot.results[0]] = self.begun
        self.begun += 1
        if self.oldest < 0 and self.rewritten is not None and dot is self.rewritten.after:
            self._wait(op.next_op, -1, [dot.results[0], *self.rewritten.sources])
        if self.begun == len(self.dots) and self.oldest < 0:
            self._wait(op.next_op, -1, [dot.results[0]])

    def _needed(self, op: Operation, carried: dict[BlockArgument, int]) -> list[SSAValue]:
        """Products in flight that an op cannot take as they are."""
        if op is self.body.last_op:
            pairs = zip(op.operands, self.body.args[1:], strict=True)
            needed = [v for v, a in pairs if v in self.flying and a not in carried]
            return needed + [
                v for v, n in self.flying.items() if 0 <= n < min(carried.values(), default=0)
            ]
        needed = [v for v in outside_values(op) if v in self.flying]
        if is_asynchronous(op) and op in self.dots and op.c.has_one_use():
            return [v for v in needed if v is not op.c]
        return needed

    def _wait(self, place: Operation | None, newest: int, values: list[SSAValue]) -> None:
        """Insert a wait for the products up to the order `newest`; uses of `values` from there on
        are of its results."""
        assert place is not None, "a product at the end of a loop's body"
        ended = self.dots[max(self.oldest, 0) : max(newest + 1, 0)]
        memories = [v for d in ended for v in (d.a, d.b) if isinstance(v.type, MemDescType)]
        if newest < 0:
            memories = [
                v for v in (self.dots[-1].a, self.dots[-1].b)
                if isinstance(v.type, MemDescType) and self._is_before(v, place)
            ]  # fmt: skip
        inputs = list(dict.fromkeys([*values, *memories]))
        wait = WarpGroupDotWaitOp.build(
            inputs, pendings=self.begun - 1 - newest, location=place.location
        )
        self.body.insert_op_before(wait, place)
        for old, new in zip(values, wait.results, strict=False):
            copy_names([old], [new])
            order = self.flying.pop(old, newest)
            if order > newest:
                self.flying[new] = order
            _replace_after(old, new, wait, self.body)
        self.oldest = max(self.oldest, newest + 1)

    def _is_before(self, value: SSAValue, place: Operation) -> bool:
        """True if an op of the loop's body may use a value."""
        owner = value.owner
        if not isinstance(owner, Operation) or owner.parent is not self.body:
            return True
        return owner.is_before_in_block(place)

    def _wait_in_branch(self, op: IfOp) -> bool:
        """Wait for the newest product in the one branch of an op that needs it."""
        for value, order in list(self.flying.items()):
            if order != len(self.dots) - 1 or _only_branch(value) is not op:
                continue
            then, other = op.regions[0].block, op.regions[1]
            end = WarpGroupDotWaitOp.build([value], pendings=0, location=op.location)
            copy_names([value], end.results)
            then.insert_op_before(end, then.first_op)  # pyright: ignore
            passes = terminator(other.block) if other.blocks else None
            for use in list(value.uses):
                if use.operation not in (end, passes) and op.is_ancestor(use.operation):
                    use.operation.operands[use.index] = end.results[0]
            passed = _passed(op, value)
            if passed is not None:
                del self.flying[value]
                self.flying[passed] = order
            return True
        return False

    def _carried(self) -> dict[BlockArgument, int]:
        """The arguments that are products of the iteration before, in flight, with their orders."""
        yields = list(terminator(self.body).operands)
        found: dict[BlockArgument, int] = {}
        for order, dot in enumerate(self.dots):
            carrier: Any = dot.results[0]
            branch = _only_branch(carrier)
            if branch is not None and carrier not in yields:
                carrier = _passed(branch, carrier)
            if carrier is not None and yields.count(carrier) == 1:
                found[self.body.args[yields.index(carrier) + 1]] = order
        ended = [order for order, dot in enumerate(self.dots) if not self._may_fly(dot)]
        return {a: order for a, order in found.items() if order > max(ended, default=-1)}

    def _may_fly(self, dot: WarpGroupDotOp) -> bool:
        """True if a product may end in the next iteration, before that one changes its operands."""
        if not all(map(self._is_outside, (dot.a, dot.b))):
            return False
        if isinstance(dot.a.type, MemDescType) or self._after_a_product(dot.a):
            return True
        return self.rewritten is not None and dot in self.rewritten.dots

    def _is_outside(self, value: SSAValue) -> bool:
        """True if memory, if it is that, is allocated outside of the loop."""
        if not isinstance(value.type, MemDescType):
            return True
        owner = _memory_of(value).owner
        return not isinstance(owner, Operation) or owner.parent is not self.body

    def _after_a_product(self, value: SSAValue) -> bool:
        """True if what computes a tile waits for a product of its iteration first."""
        pending, seen = [value], set[SSAValue]()
        while pending:
            value = pending.pop()
            owner = value.owner
            if value in seen or not isinstance(owner, Operation) or owner.parent is not self.body:
                continue
            if owner in self.dots:
                return True
            seen.add(value)
            pending += outside_values(owner)
        return False

    def _end(self, carried: dict[BlockArgument, int]) -> None:
        """Wait for the rest: in the loop, or after it for what is carried."""
        last: Any = self.body.last_op
        if not carried:
            if self.flying:
                self._wait(last, self.begun - 1, list(self.flying))
            return
        if not all(map(self._may_fly, self.dots)):
            for argument in carried:
                _start_ended(self.loop, argument.index - 1)
        results = [self.loop.results[a.index - 1] for a in carried]
        wait = WarpGroupDotWaitOp.build(results, pendings=0, location=self.loop.location)
        block = self.loop.parent
        assert block is not None
        block.insert_op_after(wait, self.loop)
        for old, new in zip(results, wait.results, strict=True):
            copy_names([old], [new])
            old.replace_uses_with_if(new, lambda use: use.operation is not wait)


def _only_accumulates(value: SSAValue) -> bool:
    """True if a value is only another product's accumulator."""
    users = [(use.operation, use.index) for use in value.uses]
    return all(isinstance(op, MatrixProduct) and op.operands[i] is op.c for op, i in users)


def _replace_after(old: SSAValue, new: SSAValue, wait: Operation, block: Block) -> None:
    """Use `new` for `old` after the wait."""
    for use in list(old.uses):
        user = ancestor_in(block, use.operation)
        if user is not None and user is not wait and wait.is_before_in_block(user):
            use.operation.operands[use.index] = new


def _only_branch(value: SSAValue) -> IfOp | None:
    """The `scf.if` that has all uses of the value, in its first region or as it is handed on by
    the second one, which does nothing else."""
    use = next(iter(value.uses), None)
    op = None if use is None else use.operation
    while op is not None and op.parent is not value.owner.parent:  # pyright: ignore
        op = op.parent_op()
    if not is_choice(op):
        return None
    users = {*op.regions[0].walk()}
    for block in op.regions[1].blocks:
        users |= {block.last_op} if block.first_op is block.last_op else set()  # pyright: ignore
    return op if all(use.operation in users for use in value.uses) else None


def _passed(branch: IfOp, value: SSAValue) -> SSAValue | None:
    """The result that is the value where the second region runs."""
    handed = terminator(branch.regions[1].block).operands if branch.results else ()
    return next((r for r, v in zip(branch.results, handed, strict=True) if v is value), None)


def _memory_of(value: SSAValue) -> SSAValue:
    """The memory that views are of."""
    while isinstance(value.owner, MemDescView):
        value = value.owner.src
    return value
