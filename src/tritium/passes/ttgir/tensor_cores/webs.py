"""Webs of tiles that can be in one piece of tensor memory: a product's sums, those that it adds to,
and what loops and branches hand on of them.

A member of a web is what the memory holds from where it is defined until a product of the web
starts, or the value is handed on. Members that something else reads are loaded where they are
defined. Webs are used only if that is so for all members of a function (`find`); else each product
has its operand stored, its sums loaded, and ends before the next op (`alone`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from xdsl.ir import Block, BlockArgument, Operation, SSAValue, Use

from tritium.analysis.regions import ancestor_in
from tritium.ops.scf import ForOp, IfOp, is_choice, is_counted
from tritium.ops.terminators import is_terminator, terminator
from tritium.ops.ttgir import WarpGroupDotOp, WarpGroupDotWaitOp
from tritium.ops.ttgir.hopper import is_asynchronous, is_product_wait
from tritium.ops.ttir.dot import TileProduct
from tritium.ops.ttir.function import FuncOp


def statement_of(op: Operation, function: FuncOp) -> Operation | None:
    """The op of a function's body that is or has an op; None where the body is several blocks,
    which may follow each other in any order."""
    if len(function.regions[0].blocks) > 1:
        return None
    return ancestor_in(function.regions[0].block, op)


def is_product(op: Operation) -> bool:
    """True if an op is a product whose sums are in tensor memory."""
    return isinstance(op, TileProduct) and op.in_tensor_memory


def products_of(loop: ForOp) -> list[WarpGroupDotOp]:
    """The products of a loop's body that may go on while it does, in their order."""
    return [op for op in loop.body.ops if is_asynchronous(op)]


def loop_of(op: Operation) -> ForOp | None:
    """The loop whose body an op is in, in no other op."""
    parent = op.parent_op()
    return parent if is_counted(parent) else None


def branch_in(block: Block, op: Operation) -> IfOp | None:
    """The `scf.if` in a block in whose branches an op is."""
    found = ancestor_in(block, op)
    return found if is_choice(found) else None


def newest_ended(wait: WarpGroupDotWaitOp) -> tuple[ForOp, int] | None:
    """The loop whose products a wait is for, and the order of the newest one that has then ended,
    negative for those of the iteration before; None of a wait that is after its loop."""
    loop = wait.parent_op()
    while loop is not None and not is_counted(loop):
        loop = loop.parent_op()
    if not is_counted(loop) or not any(d.isAsync for d in products_of(loop)):
        return None
    place, begun = ancestor_in(loop.body, wait), 0
    for op in loop.body.ops:
        if op is place:
            break
        begun += is_asynchronous(op)
    return loop, begun - 1 - wait.pendings


def carrier(value: SSAValue) -> Iterator[SSAValue]:
    """The value in the next iteration, and after the loop, of one that a loop's body yields; the
    value after a branch of one that this yields."""
    for use in value.uses:
        around = use.operation.parent_op()
        if is_terminator(use.operation) and (is_counted(around) or is_choice(around)):
            yield around.results[use.index]
            if is_counted(around):
                yield around.body.args[1 + use.index]


class Webs:
    """The webs of a function.

    Attributes:
        dots: its products.
        parents: a member that each one is in a web with; roots have themselves.
        together: whether products hand on what they leave in memory.
        sound: whether members are what the memory holds when they are used.
    """

    def __init__(self, function: FuncOp):
        self.function = function
        self.dots: list[Any] = [op for op in function.walk() if is_product(op)]
        self.parents: dict[SSAValue, SSAValue] = {}
        self.together = True
        self.sound = True

    @staticmethod
    def find(function: FuncOp) -> Webs:
        """Webs as large as they can be."""
        webs = Webs(function)
        webs._collect()
        webs.sound = webs._is_sound()
        return webs

    @staticmethod
    def alone(function: FuncOp) -> Webs:
        """A web for each product, which all end where they are."""
        webs = Webs(function)
        webs.together = False
        for dot in webs.dots:
            webs.parents[dot.results[0]] = dot.results[0]
            dot.properties.pop("isAsync", None)
        for op in list(function.walk()):
            if is_product_wait(op):
                for source, result in op.forwarded_values():
                    result.replace_all_uses_with(source)
                op.detach()
                op.erase()
        return webs

    def root(self, value: SSAValue) -> SSAValue:
        """The member that stands for a web."""
        while self.parents[value] is not value:
            value = self.parents[value]
        return value

    def _unite(self, a: SSAValue, b: SSAValue) -> None:
        self.parents[self.root(a)] = self.root(b)

    def _collect(self) -> None:
        pending: list[SSAValue] = [dot.results[0] for dot in self.dots]
        while pending:
            value = pending.pop()
            if value in self.parents:
                continue
            self.parents[value] = value
            pending += carrier(value)
            for use in value.uses:
                if is_product_wait(use.operation):
                    pending.append(use.operation.results[use.index])
        for value in list(self.parents):
            for following in carrier(value):
                self._unite(value, following)
        for op in self.function.walk():
            if is_product_wait(op):
                for source, result in op.forwarded_values():
                    if source in self.parents:
                        self._unite(source, result)
            elif isinstance(op, TileProduct) and op.in_tensor_memory and op.c in self.parents:
                self._unite(op.c, op.results[0])
            elif is_counted(op):
                for init, argument in zip(op.inits, op.body.args[1:], strict=True):
                    if init in self.parents and argument in self.parents:
                        self._unite(init, argument)

    def in_place(self, use: Use) -> bool:
        """True if a use of a member leaves it where it is."""
        user = use.operation
        if not self.together or is_product_wait(user):
            return self.together
        if isinstance(user, TileProduct) and user.in_tensor_memory:
            return user.operands[use.index] is user.c
        if is_counted(user):
            return use.index >= 3 and user.body.args[use.index - 2] in self.parents
        around = user.parent_op()
        return is_terminator(user) and (is_counted(around) or is_choice(around))

    def is_read(self, value: SSAValue) -> bool:
        """True if something needs a member in registers."""
        return any(not self.in_place(use) for use in value.uses)

    def _is_sound(self) -> bool:
        members = list(self.parents)
        if any(self.is_read(v) and self._flies(v) for v in members):
            return False
        if any(d.isAsync and loop_of(d) is None for d in self.dots):
            return False
        return all(self._holds(b, {}) for b in self.function.regions[0].blocks)

    def _order(
        self, value: SSAValue, seen: frozenset[SSAValue] = frozenset()
    ) -> tuple[ForOp, int] | None:
        """The loop and the order of the product that a member is of; None of a finished one, and
        of one that is `seen` before on the way."""
        if value in seen:
            return None
        seen |= {value}
        owner: Any = value.owner
        if is_product(owner):
            loop = loop_of(owner)
            return (loop, products_of(loop).index(owner)) if owner.isAsync and loop else None
        if is_product_wait(owner):
            found = self._order(owner.operands[value.index], seen)  # pyright: ignore
            ended = newest_ended(owner)
            if found is None or ended is None or ended[0] is not found[0]:
                return None
            return found if found[1] > ended[1] else None
        if is_choice(owner):
            index = owner.results.index(value)  # pyright: ignore
            ends: list[SSAValue] = [terminator(r.block).operands[index] for r in owner.regions]
            orders = [self._order(end, seen) for end in ends if end in self.parents]
            return next((order for order in orders if order is not None), None)
        loop = owner if is_counted(owner) else owner.parent_op()
        index = value.index - isinstance(value, BlockArgument)  # pyright: ignore
        last: Any = loop.body.last_op
        found = self._order(last.operands[index], seen)
        if found is None or found[0] is not loop:
            return None
        return loop, found[1] - len(products_of(loop))

    def _flies(self, value: SSAValue) -> bool:
        """True if a member's product may not have ended where the member is defined."""
        return self._order(value) is not None

    def _holds(self, block: Block, held: dict[SSAValue, SSAValue | None]) -> bool:
        """True if members are what the memory holds where they are used in place. `held`: by web,
        before the block and then after it."""
        for op in block.ops:
            if not self._uses(op, held):
                return False
            before = dict(held)
            for region in op.regions:
                inside = dict(before)
                if is_counted(op):
                    members = [a for a in region.block.args if a in self.parents]
                    inside = dict[SSAValue, SSAValue | None]((self.root(a), a) for a in members)
                if not all(self._holds(inner, inside) for inner in region.blocks):
                    return False
                changed = {web for web, value in inside.items() if before.get(web) is not value}
                held.update(dict.fromkeys(changed))
            for result in op.results:
                if result in self.parents:
                    held[self.root(result)] = result
        return True

    def _uses(self, op: Operation, held: dict[SSAValue, SSAValue | None]) -> bool:
        """True if the memory holds what an op uses in place."""
        for value in op.operands:
            for use in value.uses if value in self.parents else ():
                here = use.operation is op and self.in_place(use)
                if here and held.get(self.root(value)) is not value:
                    return False
        return True
