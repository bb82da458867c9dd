"""Let a product of one iteration run beside the vector work of the next one.

before (attention):
    %r = scf.for %i = %lo to %hi iter_args(%acc = %zero) {
      wait for %k; %s = ttng.warp_group_dot %q, %k, %none
      %p, %shrunk = softmax of %s, %acc times its change
      wait for %v; %acc1 = ttng.warp_group_dot %p, %v, %shrunk
      scf.yield %acc1
    }
after:
    %r = scf.if %lo < %hi {
      %s, %p0, %shrunk0 = the iteration %lo, without the last product
      %e:2 = scf.for %i = %lo + 1 to %hi iter_args(%p = %p0, %shrunk = %shrunk0) {
        wait for %k; %s = ttng.warp_group_dot %q, %k, %none
        wait for %v; %acc = ttng.warp_group_dot %p, %v, %shrunk   // of the iteration before
        %p1, %shrunk1 = softmax of %s, %acc times its change
        scf.yield %p1, %shrunk1
      }
      wait for %v; %acc1 = ttng.warp_group_dot %e#0, %v, %e#1
      scf.yield %acc1
    } else {
      scf.yield %zero
    }

Products end in the order in which they begin, and the first is begun first: the softmax waits for
it alone, and the tensor cores compute the second one meanwhile. The order is that of
FlashAttention-3 (Shah et al., 2024, algorithm 2).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from typing import Any

from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue

from tritium.analysis.regions import outside_values
from tritium.ir import types as ir
from tritium.ops.arith.integer import AddIOp
from tritium.ops.base import Op
from tritium.ops.scf import ForOp, IfOp
from tritium.ops.terminators import is_terminator, terminator
from tritium.ops.ttgir import MemDescType
from tritium.ops.ttir.dot import MatrixProduct
from tritium.passes.rewriting import Builder, copy_names, erase
from tritium.passes.ttgir.async_dots import MOST_REGISTERS, registers
from tritium.passes.ttgir.expand_pipeline import has_run
from tritium.passes.ttgir.layout_propagation import is_tile

Values = dict[SSAValue, SSAValue]

LEAST_COLUMNS = 128
"""Columns that the second product has at least: of each number of the first one's tile, the tensor
cores then take as long (4 * columns operations, of 8192 a cycle) as exp2 (1 of 16 a cycle). With 64
an attention on an H200 is .92 to 1.02 times as fast as without, with 128 1.02 to 1.09 times."""


class Rotation:
    """A loop of two products of which the second is to run beside the next iteration.

    Attributes:
        loop: the loop as it is now.
        copies: the ops of the old body, and their copies in the new one.
    """

    def __init__(self, loop: ForOp, with_last: Container[Operation]):
        """`with_last`: the ops with effects that stay with the last product: waits for its
        operands, and arrivals that say that these have been read."""
        self.loop, self.body = loop, loop.body
        self.copies: dict[Operation, Operation] = {}
        self.yields = list(terminator(self.body).operands)
        self.dots: list[Any] = [op for op in loop.body.walk() if isinstance(op, MatrixProduct)]
        ops = list(self.body.ops)[:-1]
        if len(self.dots) != 2:
            return
        product = self.dots[1].results[0]
        pairs = zip(self.body.args[1:], self.yields, strict=True)
        #: The sums of the second product, as the loop carries them.
        self.sums = [argument for argument, value in pairs if value is product]
        self.last = self._users_in(ops, {self.dots[1]}, with_last, _is_view)
        own = [op for op in ops if op not in self.last]
        #: The ops that only compute what the next iteration starts with, on scalars.
        self.steps = self._users_in(own, set(), (), _is_scalar, ends=True)
        self.own = [op for op in own if op not in self.steps]

    @staticmethod
    def _users_in(
        ops: list[Operation], found: set[Operation], given: Container[Operation],
        belongs: Callable[[Operation], bool], ends: bool = False,
    ) -> set[Operation]:  # fmt: skip
        """`found`, those `given`, and the ops of a kind that only these use, or, with `ends`, only
        these and the loop's end."""
        for op in reversed(ops):
            users = {use.operation for r in op.results for use in r.uses}
            if ends:
                users = {user for user in users if not is_terminator(user)}
            used = bool(op.results) and users <= found
            if op in given or (used and belongs(op)):
                found.add(op)
        return found

    def allowed(self) -> bool:
        """True if the loop has the form: a product, and one of what is computed from it, which sums
        up what the loop carries; and whether the registers suffice."""
        if len(self.dots) != 2 or any(not d.asynchronous or d.isAsync for d in self.dots):
            return False
        last = self.dots[1]
        if any(d.parent is not self.body for d in self.dots) or len(self.sums) != 1:
            return False
        if not last.results[0].has_one_use() or _columns(last) < LEAST_COLUMNS:
            return False
        if isinstance(last.a.type, MemDescType) or last.c.owner not in self.own:
            return False
        if any(op.regions and any(map(_has_effects, op.walk())) for op in self.body.ops):
            return False
        if self.sums[0] in {v for op in self._head() for v in outside_values(op)}:
            return False
        held = [self.dots[0].results[0], *(v for v in self._carried() if is_tile(v))]
        return sum(map(registers, held)) <= MOST_REGISTERS

    def _head(self) -> list[Operation]:
        """The ops to the first product."""
        return self.own[: self.own.index(self.dots[0]) + 1]

    def _carried(self) -> list[SSAValue]:
        """The values that the last product and the start of the next iteration need."""
        found: dict[SSAValue, None] = {}
        pending = [v for v in self.yields if v is not self.dots[1].results[0]]
        pending += [v for op in self.last for v in outside_values(op)]
        while pending:
            value = pending.pop()
            owner = value.owner
            if isinstance(value, BlockArgument):
                if owner is self.body:
                    found[value] = None
            elif owner in self.steps:
                pending += list(outside_values(owner))  # pyright: ignore
            elif owner in self.own:
                found[value] = None
        order = {v: i for i, v in enumerate(_defined(self.body))}
        return sorted(found, key=order.__getitem__)

    def run(self) -> list[SSAValue]:
        """Replace the loop; returns what stands for its results."""
        old, carried = self.loop, self._carried()
        before = Builder(old)
        then, other = Block([self._end([])]), Block([self._end(old.inits)])
        at = Builder(terminator(then), old.location)
        values: Values = dict(zip(self.body.args, [old.lower, *old.inits], strict=True))
        self._copy(self.own, at, values)
        lower = at.value(AddIOp, old.lower, old.step)
        self._loop(at, lower, carried, [values.get(v, v) for v in carried])
        values = dict(zip(carried, self.loop.results, strict=True))
        self._copy(self._last(), at, values)
        terminator(then).operands = [self._next(v, at, values) for v in self.yields]
        outcome = before.make(
            IfOp, has_run(before, old), regions=[Region(then), Region(other)],
            result=[v.type for v in old.results],
        )  # fmt: skip
        copy_names(old.results, outcome.results)
        for result, new in zip(old.results, outcome.results, strict=True):
            result.replace_all_uses_with(new)
        erase(old)
        return list(outcome.results)

    def _loop(
        self, at: Builder, lower: SSAValue, carried: list[SSAValue], inits: list[SSAValue]
    ) -> None:
        """The new loop."""
        old = self.loop
        body = Block(arg_types=[lower.type, *[v.type for v in carried]])
        copy_names([old.body.args[0], *carried], body.args)
        body.add_op(self._end([]))
        inside = Builder(terminator(body), old.location)
        values: Values = dict(zip(carried, body.args[1:], strict=True))
        following: Values = {self.body.args[0]: body.args[0]}
        for argument, value in zip(self.body.args[1:], self.yields, strict=True):
            if argument not in self.sums:
                following[argument] = self._next(value, inside, values)
        head = self._head()
        self._copy(head, inside, following, self.copies)
        self._copy(self._last(), inside, values, self.copies)
        following[self.sums[0]] = values[self.dots[1].results[0]]
        self._copy(self.own[len(head) :], inside, following, self.copies)
        terminator(body).operands = [following.get(v, v) for v in carried]
        new = at.make(
            ForOp, lower, old.upper, old.step, inits, regions=[Region(body)],
            attributes=dict(old.attributes),
        )  # fmt: skip
        new.properties.update(old.properties)
        self.loop = new

    def _end(self, values: Iterable[SSAValue]) -> Operation:
        """The end of a loop's or a branch's body."""
        end: Any = type(terminator(self.body))
        return end.build(list(values), location=self.loop.location)

    def _last(self) -> list[Operation]:
        return [op for op in self.body.ops if op in self.last]

    def _next(self, value: SSAValue, at: Builder, values: Values) -> SSAValue:
        """The values that an iteration yields; its steps are copied where they are not yet."""
        owner: Any = value.owner
        if value not in values and owner in self.steps:
            for operand in outside_values(owner):
                self._next(operand, at, values)
            at.copy(owner, values)
        return values.get(value, value)

    def _copy(
        self, ops: Iterable[Operation], at: Builder, values: Values,
        copies: dict[Operation, Operation] | None = None,
    ) -> None:  # fmt: skip
        for op in ops:
            copy = Builder(at.before, op.location).copy(op, values)  # pyright: ignore
            if copies is not None:
                copies[op] = copy


def pays_off(loop: ForOp) -> bool:
    """True if a loop is as much faster with copies by a warp of their own, as the rotation then
    applies, that it should be split though nobody asks for it (1.2 times, of an attention with 128
    columns on an H200)."""
    rotation = Rotation(loop, ())
    return rotation.allowed() and _columns(rotation.dots[0]) >= LEAST_COLUMNS


def _columns(product: Operation) -> int:
    return ir.shape_of(product.results[0].type)[-1]


def _defined(block: Block) -> list[SSAValue]:
    return [*block.args, *(r for op in block.ops for r in op.results)]


def _is_view(op: Operation) -> bool:
    """True if an op makes a view of memory."""
    return isinstance(op, Op) and op.is_pure and isinstance(op.results[0].type, MemDescType)


def _is_scalar(op: Operation) -> bool:
    """True if an op computes scalars and no more."""
    values = [*op.results, *outside_values(op)]
    memory = any(is_tile(v) or isinstance(v.type, MemDescType) for v in values)
    return isinstance(op, Op) and op.is_pure and not memory


def _has_effects(op: Operation) -> bool:
    return not isinstance(op, Op) or not op.is_pure
