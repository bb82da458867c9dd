"""Make one loop of a loop that asks for it (`tl.range(flatten=True)`) and the loop inside it.

before:
    scf.for %i = %lo to %hi step %s {
      %p = prologue(%i)
      %d = scf.for %j = %l to %u step %t iter_args(%acc = %zero) { body(%j, %acc, %p) }
      epilogue(%i, %p, %d)
    } {tt.flatten}
after:
    %total = iterations of the outer loop * iterations of the inner one
    scf.for %n = 0 to %total step 1 iter_args(%i = %lo, %j = %l, %p = poison, %acc = %zero) {
      %first, %last = the first, the last iteration of the inner loop
      %p1 = scf.if %first { prologue(%i) } else { %p }
      %d = body(%j, %acc, %p1)
      %j1 = select %last, %l, %j + %t
      %i1 = select %last, %i + %s, %i
      %acc1 = scf.if %last { epilogue(%i, %p1, %d); %zero } else { %d }
      scf.yield %i1, %j1, %p1, %acc1
    } {tt.flatten}

so that `pipeline` starts the loads of an outer iteration during the one before. The bounds of the
inner loop must not depend on the outer loop; if the inner loop may have no iterations, the outer
loop without it is the other branch of an `scf.if`. Large tiles of the prologue that are cheaply
computed from smaller values are computed in each iteration rather than kept in registers, and what
the epilogue needs of a prologue without effects it computes again. Other nests are left as they
are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from tritium.analysis.loops import counted_loops
from tritium.analysis.regions import defined_inside, outside_values
from tritium.ir import types as ir
from tritium.ir.layouts.encodings import REGISTER, linear
from tritium.ops.arith import (
    AddIOp,
    CmpIOp,
    CmpIPredicate,
    DivUIOp,
    ExtUIOp,
    MulIOp,
    SubIOp,
    constant_int,
)
from tritium.ops.attributes import FLATTEN, WARP_SPECIALIZE
from tritium.ops.base import Op
from tritium.ops.scf import ForOp, IfOp, YieldOp
from tritium.ops.terminators import terminator
from tritium.ops.ub import PoisonOp
from tritium.passes.base import Pass
from tritium.passes.rewriting import Builder, erase
from tritium.passes.ttgir.layout_propagation import is_follower, is_source, is_tile, weight
from tritium.passes.ttgir.tensor_cores.webs import is_product

FEW = 8
"""Registers of a thread that a loop may carry for a tile rather than compute it in each
iteration."""
Values = dict[SSAValue, SSAValue]


@dataclass(frozen=True)
class FuseNestedLoops(Pass):
    """Make one loop of two nested ones where the outer one has `tt.flatten`."""

    name: ClassVar[str] = "fuse-nested-loops"
    title: ClassVar[str] = "TritonGPUFuseNestedLoops"

    def run(self, module: ModuleOp) -> bool:
        changed = False
        for outer in counted_loops(module):
            if FLATTEN in outer.attributes and self.takes(outer):
                inner = inner_loop(outer)
                fusion = None if inner is None else _Fusion(outer, inner)
                if fusion is not None and all(map(_in_registers, fusion.kept)):
                    fusion.run()
                    changed = True
        return changed

    def takes(self, outer: ForOp) -> bool:
        """True if the pass is for a loop that asks for it."""
        return True


@dataclass(frozen=True)
class FuseSplitLoops(FuseNestedLoops):
    """Make one loop of two that are to be split among warps, where sums are in tensor memory:
    `double-buffer-sums` lets threads read such sums while the next product runs. Elsewhere the
    warp that loads runs ahead of the outer iteration without that."""

    name: ClassVar[str] = "fuse-split-loops"
    title: ClassVar[str] = "TritonGPUFuseSplitLoops"

    def takes(self, outer: ForOp) -> bool:
        return WARP_SPECIALIZE in outer.attributes and any(map(is_product, outer.walk()))


def inner_loop(outer: ForOp) -> ForOp | None:
    """The only loop in the body, if it can be fused: its bounds are known before `outer`."""
    inner, *others = counted_loops(outer)
    loops = [op for op in outer.body.walk() if isinstance(op, Op) and op.is_loop]
    if loops != [inner] or others != [outer] or inner.parent is not outer.body:
        return None
    bounds = inner.operands[:3]
    counters = (outer.lower.type, bounds[0].type)
    if any(defined_inside(v, outer) for v in bounds) or not all(map(ir.is_integer, counters)):
        return None
    return None if inner.trip_count == 0 else inner


class _Fusion:
    def __init__(self, outer: ForOp, inner: ForOp):
        self.outer, self.inner = outer, inner
        ops = list(outer.body.ops)
        at = ops.index(inner)
        self.prologue, self.epilogue = ops[:at], ops[at + 1 : -1]
        self.outer_yields: list[SSAValue] = list(ops[-1].operands)
        self.inner_yields: list[SSAValue] = list(terminator(inner.body).operands)
        self._move_early()
        #: For each value that the inner loop carries, whether the last iteration resets it outside
        #: of the epilogue's branch.
        effected = self._effected()
        self.reset = [
            not defined_inside(init, outer) and value in effected
            for init, value in zip(inner.inits, self.inner_yields, strict=True)
        ]
        #: Values of the prologue that the loop carries; ops of it that are repeated instead.
        self.kept: dict[SSAValue, None] = {}
        self.repeated: set[Operation] = set()
        #: Ops of the prologue that the epilogue's branch computes for itself: where loads run
        #: ahead, nothing else of their iteration needs the prologue.
        self.again: set[Operation] = set()
        needed = [*outside_values(inner), *self.outer_yields]
        for op in self.epilogue:
            needed += [v for v in outside_values(op) if not self._compute_again(v)]
        self._divide(needed)

    def _move_early(self) -> None:
        """Take what gives the outer loop's next values into the prologue, as far as it does not
        depend on the inner loop: loads ahead need it before the epilogue has run."""
        late: set[Any] = {self.inner}
        for op in self.epilogue:
            owners = {v.owner for v in outside_values(op)}
            if owners & late or not isinstance(op, Op) or not op.is_pure:
                late.add(op)
        wanted, pending = set[Operation](), [v.owner for v in self.outer_yields]
        while pending:
            op = pending.pop()
            if op in self.epilogue and op not in late and op not in wanted:
                wanted.add(op)  # pyright: ignore
                pending += [v.owner for v in outside_values(op)]  # pyright: ignore
        self.prologue += [op for op in self.epilogue if op in wanted]
        self.epilogue = [op for op in self.epilogue if op not in wanted]

    def _effected(self) -> set[SSAValue]:
        """The values of the inner loop's body that ops with effects give, or depend on these."""
        body, found, size = self.inner.body, set[SSAValue](), -1
        carried = list(zip(body.args[1:], self.inner_yields, strict=True))
        while len(found) > size:
            size = len(found)
            for op in body.ops:
                pure = isinstance(op, Op) and op.is_pure
                if not pure or not found.isdisjoint(outside_values(op)):
                    found.update(op.results)
            found.update(argument for argument, value in carried if value in found)
        return found

    def _compute_again(self, value: SSAValue) -> bool:
        """Have the epilogue compute a value of the prologue, if only pure ops are needed."""
        found, pending = set[Operation](), [value]
        while pending:
            op = pending.pop().owner
            if op in found or op not in self.prologue:
                continue
            if not isinstance(op, Op) or not op.is_pure:
                return False
            found.add(op)
            pending += outside_values(op)
        self.again |= found
        return True

    def _divide(self, needed: Iterable[SSAValue]) -> None:
        """Divide what is needed of the prologue into values that are kept and ops repeated."""
        costs: dict[SSAValue, int] = {}
        cheap = set[Any]()
        for op in self.prologue:
            computed = sum(costs.get(v, 0) for v in op.operands)
            simple = (is_source(op) or is_follower(op)) and weight(op) <= 1
            if simple and is_tile(op.results[0]) and computed <= _bits(op.results[0]):
                cheap |= {op} if weight(op) == 0 or not _is_small(op.results[0]) else set()
            costs.update((r, computed if op in cheap else _bits(r)) for r in op.results)
        pending = list[SSAValue](needed)
        while pending:
            value: SSAValue = pending.pop()  # pyright: ignore
            if value.owner in cheap:
                if value.owner not in self.repeated:
                    self.repeated.add(value.owner)  # pyright: ignore
                    pending += value.owner.operands  # pyright: ignore
            elif value in costs:
                self.kept[value] = None

    def run(self) -> None:
        outer, inner = self.outer, self.inner
        iterations = inner.trip_count
        results: Sequence[SSAValue]
        if iterations is None:
            before = Builder(outer)
            some = before.value(CmpIOp, inner.lower, inner.upper, predicate=inner.less)
            regions = [Region(Block()), Region(Block())]
            choice = before.make(
                IfOp, some, regions=regions, result=[r.type for r in outer.results]
            )
            ends = [self._end(region.block) for region in regions]
            ends[0].operands = self._fused(Builder(ends[0], outer.location))
            ends[1].operands = self._without_inner(Builder(ends[1], outer.location)).results
            results = choice.results
        else:
            results = self._fused(Builder(outer))
        for old, new in zip(outer.results, results, strict=True):
            new.name_hint = old.name_hint
            old.replace_all_uses_with(new)
        erase(outer)

    def _end(self, block: Block) -> YieldOp:
        end = YieldOp.build([], location=self.outer.location)
        block.add_op(end)
        return end

    def _without_inner(self, at: Builder) -> ForOp:
        """The outer loop where the inner one has no iterations."""
        outer = self.outer
        block = Block(arg_types=[a.type for a in outer.body.args])
        end = self._end(block)
        values: Values = dict(zip(outer.body.args, block.args, strict=True))
        body = Builder(end, outer.location)
        for op in self.prologue:
            body.copy(op, values)
        inits: Sequence[SSAValue] = self.inner.inits
        for r, v in zip(self.inner.results, inits, strict=True):
            values[r] = values.get(v, v)
        for op in self.epilogue:
            body.copy(op, values)
        end.operands = [values.get(v, v) for v in self.outer_yields]
        attributes = {k: v for k, v in outer.attributes.items() if k != FLATTEN}
        new = at.make(
            ForOp, *outer.operands[:3], list(outer.inits), regions=[Region(block)],
            attributes=attributes,
        )  # fmt: skip
        new.properties.update(outer.properties)
        return new

    def _fused(self, at: Builder) -> Sequence[SSAValue]:
        """Write the fused loop; returns the results that are those of the outer loop."""
        outer, inner = self.outer, self.inner
        steps = _steps(at, inner)
        end_of_inner = at.value(AddIOp, inner.lower, at.value(MulIOp, steps, inner.step))
        one = at.constant(1, ir.i64)
        iterations = at.value(AddIOp, _wide(at, steps), one)
        some = at.value(CmpIOp, outer.lower, outer.upper, predicate=outer.less)
        outer_iterations = at.value(AddIOp, _wide(at, _steps(at, outer)), one)
        zero = at.constant(0, ir.i64)
        total = at.chosen(some, at.value(MulIOp, iterations, outer_iterations), zero)
        inits = [
            *outer.inits, outer.lower, inner.lower,
            *(at.value(PoisonOp, result=v.type) for v in self.kept),
            *(
                at.value(PoisonOp, result=v.type) if defined_inside(v, outer) else v
                for v in inner.inits
            ),
        ]  # fmt: skip
        block = Block(arg_types=[ir.i64, *(v.type for v in inits)])
        end = self._end(block)
        self._body(Builder(end, outer.location), block, end_of_inner, end)
        fused = at.make(
            ForOp, zero, total, one, inits, regions=[Region(block)],
            attributes={**outer.attributes, **inner.attributes},
        )  # fmt: skip
        return fused.results[: len(outer.inits)]

    def _body(self, at: Builder, block: Block, last_index: SSAValue, end: YieldOp) -> None:
        outer, inner = self.outer, self.inner
        count = len(outer.inits)
        i, j = block.args[1 + count : 3 + count]
        kept = block.args[3 + count : 3 + count + len(self.kept)]
        carried = block.args[3 + count + len(self.kept) :]
        values: Values = dict(zip(outer.body.args, [i, *block.args[1 : 1 + count]], strict=True))
        names = [*outer.body.args[1:], outer.body.args[0], inner.body.args[0], *self.kept]
        for new, old in zip(block.args[1:], [*names, *inner.body.args[1:]], strict=True):
            new.name_hint = old.name_hint
        equal = CmpIPredicate.EQ
        first = at.value(CmpIOp, j, inner.lower, predicate=equal)
        last = at.value(CmpIOp, j, last_index, predicate=equal)
        self._first_iteration(at, first, kept, values)
        values[inner.body.args[0]] = j
        for n, argument in enumerate(inner.body.args[1:]):
            begun = self.reset[n]
            values[argument] = (
                carried[n] if begun else self._choose(at, first, inner.inits[n], carried[n], values)
            )
        for op in list(inner.body.ops)[:-1]:
            at.copy(op, values)
        after = [values.get(v, v) for v in self.inner_yields]
        values.update(zip(inner.results, after, strict=True))
        early = {
            n: self._choose(at, last, v, block.args[1 + n], values)
            for n, v in enumerate(self.outer_yields) if not self._is_late(v)
        }  # fmt: skip
        next_i = at.chosen(last, at.value(AddIOp, i, outer.step), i)
        next_j = at.chosen(last, inner.lower, at.value(AddIOp, j, inner.step))
        final = self._last_iteration(at, last, after, block.args[1 : 1 + count], values)
        state = [early[n] if n in early else final.pop(0) for n in range(count)]
        new_kept = [values[v] for v in self.kept]
        following = [
            final.pop(0) if reset else value for reset, value in zip(self.reset, after, strict=True)
        ]
        end.operands = [*state, next_i, next_j, *new_kept, *following]

    def _is_late(self, value: SSAValue) -> bool:
        """True if a value of the outer loop comes of the inner loop or after it."""
        return value.owner is self.inner or value.owner in self.epilogue

    def _first_iteration(
        self, at: Builder, first: SSAValue, kept: Sequence[SSAValue], values: Values
    ) -> None:
        """The prologue, in first iterations; then what of it is repeated in all iterations."""
        if self.prologue:
            choice, (then, other) = self._branch(at, first, [v.type for v in self.kept])
            inside = dict(values)
            for op in self.prologue:
                then.copy(op, inside)
            then.before.operands = [inside[v] for v in self.kept]
            other.before.operands = list(kept)
            for value, result in zip(self.kept, choice.results, strict=True):
                result.name_hint = value.name_hint
                values[value] = result
        for op in self.prologue:
            if op in self.repeated:
                at.copy(op, values)

    def _last_iteration(
        self, at: Builder, last: SSAValue, after: Sequence[SSAValue], state: Sequence[SSAValue],
        values: Values,
    ) -> list[SSAValue]:  # fmt: skip
        """The epilogue, in last iterations; returns the late values of the outer loop, and what the
        inner loop begins the next iteration with."""
        late = [n for n, v in enumerate(self.outer_yields) if self._is_late(v)]
        resets = [n for n, reset in enumerate(self.reset) if reset]
        types = [state[n].type for n in late] + [after[n].type for n in resets]
        if not self.epilogue and not types:
            return []
        choice, (then, other) = self._branch(at, last, types)
        inside = dict(values)
        for op in [op for op in self.prologue if op in self.again] + self.epilogue:
            then.copy(op, inside)
        then.before.operands = [
            *(inside.get(self.outer_yields[n], self.outer_yields[n]) for n in late),
            *(self.inner.inits[n] for n in resets),
        ]
        other.before.operands = [*(state[n] for n in late), *(after[n] for n in resets)]
        return list(choice.results)

    def _branch(
        self, at: Builder, condition: SSAValue, types: Sequence[Attribute]
    ) -> tuple[IfOp, list[Builder]]:
        """A new `scf.if`, and where to write its branches."""
        regions = [Region(Block()), Region(Block())]
        choice = at.make(IfOp, condition, regions=regions, result=list(types))
        return choice, [Builder(self._end(r.block), self.outer.location) for r in regions]

    def _choose(
        self, at: Builder, condition: SSAValue, yes: SSAValue, no: SSAValue, values: Values
    ) -> SSAValue:
        """`yes` (of the old loop) where the condition holds, else `no` (of the new one)."""
        yes = values.get(yes, yes)
        if yes is no:
            return no
        if not is_tile(no) and (ir.is_integer(no.type) or ir.is_float(no.type)):
            return at.chosen(condition, yes, no)
        choice, (then, other) = self._branch(at, condition, [no.type])
        then.before.operands, other.before.operands = [yes], [no]
        return choice.results[0]


def _in_registers(value: SSAValue) -> bool:
    kind = ir.element_type(value.type)
    return ir.is_integer(kind) or ir.is_float(kind) or isinstance(kind, ir.PointerType)


def _is_small(value: SSAValue) -> bool:
    """True if a tile of numbers takes a thread few registers."""
    kind = value.type
    if ir.encoding_of(kind) is None or ir.element_type(kind) == ir.i1:
        return False
    bases = linear(ir.encoding_of(kind), ir.shape_of(kind)).bases(REGISTER)
    return max(ir.bit_width(kind) // 32, 1) << sum(map(any, bases)) <= FEW


def _bits(value: SSAValue) -> int:
    """The size of a value; that of memory or a descriptor does not matter, as it is not kept."""
    if not _in_registers(value):
        return 64
    return prod(ir.shape_of(value.type)) * ir.bit_width(value.type)


def _steps(at: Builder, loop: ForOp) -> SSAValue:
    """The iterations of a loop less one, an unsigned number; of a loop that has any."""
    distance = at.value(SubIOp, loop.upper, loop.lower)
    before = at.value(SubIOp, distance, at.constant(1, loop.lower.type))
    return before if constant_int(loop.step) == 1 else at.value(DivUIOp, before, loop.step)


def _wide(at: Builder, value: SSAValue) -> SSAValue:
    return value if value.type == ir.i64 else at.value(ExtUIOp, value, result=ir.i64)
