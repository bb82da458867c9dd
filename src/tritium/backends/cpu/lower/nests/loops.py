"""The loops of a nest: which dimension runs over the lanes, chunks, unrolling, accumulators.

    no reduction             outer dims ..., chunks of the lane dim
    reduction of lane dim    outer dims ..., chunks of the lane dim (accumulating), lanes combined
    reduction of another     outer dims ..., chunks of the lane dim, reduced dim (accumulating)
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from xdsl.ir import Operation, SSAValue

from tritium.backends.cpu.lower.access import copy, inlined, store
from tritium.backends.cpu.lower.analysis.assume_no_wrap import assumption
from tritium.backends.cpu.lower.atomics.sums import lower_scalarized
from tritium.backends.cpu.lower.context import NOTHING_ASSUMED, Context, class_of, either
from tritium.backends.cpu.lower.emitter import At, Emitter
from tritium.backends.cpu.lower.nests.multiversioning import lower_versions, scalar_results
from tritium.backends.cpu.lower.nests.overlap import apart
from tritium.backends.cpu.lower.nests.prefetch import Ahead, memory_of, prefetch
from tritium.backends.cpu.lower.nests.reduce import Reduction
from tritium.backends.cpu.lower.nests.scan import lower_scan
from tritium.backends.cpu.lower.nests.streaming import Lines, write_lines
from tritium.backends.cpu.lower.values import NOTHING, ZERO, Facts, Index, Kind, Uniform, Vec
from tritium.backends.cpu.tiles.ir import Nest, Shape, copy_of, is_scalarized
from tritium.backends.cpu.tiles.schedule import choose
from tritium.backends.cpu.tiles.slices import Slice, slice_of
from tritium.codegen.llvm.types import memory_bytes
from tritium.codegen.llvm.writer import Value, const
from tritium.codegen.registry import rules
from tritium.ir import types as ir
from tritium.ops.tile.nests import BufferOp, CopyOp, NestOp, domain_of
from tritium.ops.ttir.reduction import CombiningOp


def lower_nest(context: Context, op: NestOp) -> None:
    """Write the loops of a nest at the current position."""
    part = slice_of(context.function, op, context.filled)
    _lower(context, part)
    context.assumed = NOTHING_ASSUMED
    for value in op.kept:
        context.fill(value)
    for root in part.nest.roots:
        for result in root.results:
            context.fill(result)


def _lower(context: Context, part: Slice) -> None:
    """Fused loops where the accesses are apart and nothing wraps around; else the accesses one
    after the other (there may be several in memory that a nest stores to), or the same loops."""
    nest, found = part.nest, assumption(context, part.index_ops)
    assert found is not None
    linear = "linear" in nest.versions
    context.assumed = found.then if linear else found.always
    fused, split = partial(_lower_fused, context, part), partial(_lower_split, context, part)
    holds = None
    if not nest.is_sequential and part.overlaps:
        holds = apart(context, part) if "apart" in nest.versions else const("i1", False)
    first, second, names = fused, partial(fused, fast=False), ("linear", "wrapping")
    if holds is not None:
        second, names = split, ("fused", "split")
        if holds.ref == "false":
            first, holds = split, None
    if linear and found.holds is not None:
        holds = found.holds if holds is None else context.f.op("and", holds, found.holds)
    if holds is None:
        first()
        return

    def otherwise() -> None:
        context.assumed = found.always
        second()

    either(context, scalar_results(nest), holds, first, otherwise, names)


def _lower_split(c: Context, whole: Slice) -> None:
    """The loads and stores of a nest one whole after the other, as they stand in the program, and
    then all else that it does."""
    nest, stores, loads = whole.nest, whole.stores, set(whole.loads)
    copies = {copy.value: copy for copy in nest.copies if copy.keeps}
    filled, done = dict(c.filled), set[Operation]()

    def one(root: Any) -> None:
        part = Nest(domain_of(root), None, (root,))
        shape = choose(c.facts, part, root.stores_elements)
        _Loops(c, part, shape._replace(unroll=1)).run()
        done.add(root)

    with c.temporary() as allocate, ExitStack() as temporary:
        for load in (op for op in stores[0].parent_op().parent.ops if op in loads):
            value = load.results[0]
            root = copies.get(value)
            if root is None:
                buffer = BufferOp.build(sym_name=f"apart.{len(done)}", tile=value.type)
                c.external[id(buffer)] = allocate(buffer.bytes)
                root = temporary.enter_context(_copy(c, value, buffer))
                temporary.callback(c.external.pop, id(buffer))
            one(root)
            c.filled[value] = c.function.named[root.target]
        for store in stores:
            one(store)
        rest = tuple(r for r in nest.roots if r not in done)
        if rest:
            part = nest._replace(roots=rest, shape=None)
            _Loops(c, part, choose(c.facts, part)._replace(unroll=1)).run()
    c.filled.clear()
    c.filled.update(filled)


@contextmanager
def _copy(c: Context, value: SSAValue, buffer: BufferOp) -> Generator[CopyOp]:
    """A copy to memory that is not one of the function's buffers."""
    copy = copy_of(value, buffer)
    c.function.named[buffer.sym_name] = buffer
    yield copy
    del c.function.named[buffer.sym_name]
    copy.erase()


def copy_to(context: Context, value: SSAValue, buffer: BufferOp) -> None:
    """Compute a tile into a buffer that the caller provides, at the current position."""
    with _copy(context, value, buffer) as copy:
        nest = Nest(buffer.shape, None, (copy,))
        shape = choose(context.facts, nest)._replace(unroll=1)
        nest = nest._replace(shape=shape)
        found = assumption(context, Slice(context.function, nest, context.filled).index_ops)
        assert found is not None
        context.assumed = found.always
        _Loops(context, nest, shape).run()
    context.assumed = NOTHING_ASSUMED


def _lower_fused(context: Context, part: Slice, fast: bool = True) -> None:
    nest = part.nest
    if nest.scan is not None:
        lower_scan(context, nest)
    elif nest.is_scalarized:
        lower_scalarized(context, nest, lambda shape: _Loops(context, nest, shape).run())
    else:
        assert nest.shape is not None
        shape = nest.shape
        if not fast:
            _Loops(context, nest, shape._replace(unroll=1)).run()
            return
        ahead = memory_of(context, nest.prefetches)

        def write(
            facts: Facts = NOTHING, *, lines: Lines | None = None, quick: bool = False
        ) -> None:
            _Loops(context, nest, shape, facts, lines, quick, ahead).run()

        lower_versions(context, part, write)


@dataclass
class _Loops:
    """One nest being written."""

    context: Context
    nest: Nest
    shape: Shape
    facts: Facts = NOTHING
    lines: Lines | None = None
    quick: bool = False
    ahead: Sequence[Ahead] = ()
    at: list[Index] = field(default_factory=list[Index])

    def run(self) -> None:
        nest = self.nest
        inline = inlined(nest)
        self.e = Emitter(self.context, self.shape.width, inline, self.facts)
        self.reductions = [
            Reduction(self.context, r, self.quick) for r in nest.roots if isinstance(r, CombiningOp)
        ]
        self.at = [ZERO] * len(nest.domain)
        self.e.push()
        lane = self.shape.lane
        outer = [d for d in range(len(nest.domain)) if d not in (lane, nest.axis, self.shape.block)]
        self.e.loops(nest.domain, outer, self.at, self._inner)
        self.e.pop()

    def _inner(self) -> None:
        lane, axis = self.shape.lane, self.nest.axis
        if self.lines is not None:
            write_lines(self.e, self.nest.domain[lane], self.shape, self.lines, self._stores)
        elif self.shape.block is not None:
            self._blocks(self.shape.block)
        elif axis is not None and axis != lane:
            self._chunks(lambda starts: self._reduce_across(starts))
        elif self.reductions:
            self._reduce_along()
        else:
            self._chunks(self._body)

    def _blocks(self, dim: int) -> None:
        """Squares of chunks, along the block dimension and the lanes."""
        e, width = self.e, self.shape.width

        def rows(starts: list[Index]) -> None:
            for number in range(width):
                self.at[dim] = Index(Kind.SCALAR, e.block, number, level)
                self._body(starts)

        if self.nest.domain[dim] == width:
            e.block, level = const("i64", 0), 0
            self._chunks(rows)
        else:
            with e.loop(self.nest.domain[dim], width) as loop:
                e.block, level = loop.index, e.depth
                self._chunks(rows)
        e.block = None

    def _starts(self, value: Value | None) -> list[Index]:
        """The unrolled chunks' positions along the lane dimension."""
        e, shape = self.e, self.shape
        kind = Kind.LANES if shape.width > 1 else Kind.SCALAR
        level = e.depth if value is not None else 0
        return [Index(kind, value, u * shape.width, level) for u in range(shape.unroll)]

    def _chunks(self, body: Callable[[list[Index]], None]) -> None:
        """Loop over the lane dimension in steps of width * unroll."""
        shape, size = self.shape, self.nest.domain[self.shape.lane] if self.nest.domain else 1
        step = shape.width * shape.unroll
        if size == step:
            body(self._starts(None))
            return
        with self.e.loop(size, step) as loop:
            self.e.chunks = loop.index, step
            prefetch(self.context, self.ahead, loop.index, step)
            body(self._starts(loop.index))

    def _position(self, index: Index) -> At:
        at = list(self.at)
        if at:
            at[self.shape.lane] = index
        return tuple(at)

    def _body(self, starts: list[Index]) -> None:
        """Everything but reductions, for the unrolled chunks."""
        places = [self._position(index) for index in starts]
        if all(root.stores_elements for root in self.nest.roots):
            # A load behind a store waits for it where the last twelve bits of both addresses are
            # the same, as those of arrays allocated one after the other nearly are.
            for at in places:
                self._compute(at)
        for at in places:
            self._pointwise(at)

    def _stores(self, index: Index, only: Value | None) -> None:
        """One chunk of a nest of stores; of the lanes `only` these, if any are given."""
        self._pointwise(self._position(index), only)

    def _pointwise(self, at: At, only: Value | None = None) -> None:
        """Copies and stores of one chunk. All is computed before anything is written, so that
        memory may be overwritten by a function of itself."""
        e = self.e
        if len(self.nest.roots) > 1:
            self._compute(at)
        copy(e, self.nest.copies, at)
        for root in self.nest.roots:
            if root.stores_elements:
                with e.context.lines(root):
                    _store(e, root, at, only)
            elif root.extracts:
                self._extract(root)
            elif is_scalarized(root):
                with e.context.lines(root):
                    _scalarized(e, root, at)

    def _compute(self, at: At) -> None:
        """The operands of the stores and reductions of one chunk."""
        for root in self.nest.roots:
            if root.stores_elements or isinstance(root, CombiningOp):
                for value in root.operands:
                    self.e.emit(value, at)

    def _extract(self, root: Any) -> None:
        found = self.e.emit(root.src, (ZERO,) * len(ir.shape_of(root.src.type)))
        assert isinstance(found, Uniform)
        self.context.scalars[root.result] = found.value

    # Reductions

    def _reduce_along(self) -> None:
        """Reduce the lane dimension: an accumulator for each unrolled chunk, then combine."""
        e, shape = self.e, self.shape
        size, step = self.nest.domain[shape.lane], shape.width * shape.unroll
        accumulators = self._accumulate(size, step, range(shape.unroll), self._along)
        at = [i for d, i in enumerate(self.at) if d != shape.lane]
        for reduction, found in zip(self.reductions, accumulators, strict=False):
            reduction.finish(e, reduction.lanes(e, reduction.fold(found)), tuple(at))

    def _along(self, value: Value | None, unrolled: int) -> At:
        return self._position(self._starts(value)[unrolled])

    def _reduce_across(self, starts: list[Index]) -> None:
        """Reduce another dimension: accumulators are the results for the chunks of the lanes."""
        axis = self.nest.axis
        assert axis is not None

        def place(value: Value | None, number: int) -> At:
            at = list(self._position(starts[number]))
            level = self.e.depth if value is not None else 0
            at[axis] = Index(Kind.SCALAR, value, 0, level)
            return tuple(at)

        size = self.nest.domain[axis]
        accumulators = self._accumulate(size, 1, range(len(starts)), place)
        for reduction, found in zip(self.reductions, accumulators, strict=False):
            for start, one in zip(starts, found, strict=False):
                at = [i for d, i in enumerate(self._position(start)) if d != axis]
                reduction.finish(self.e, one, tuple(at))

    def _accumulate(
        self, size: int, step: int, chunks: range, place: Callable[[Value | None, int], At]
    ) -> list[list[list[Value]]]:
        """Run over a dimension, accumulating; returns [reduction][chunk][operand]."""
        e = self.e
        state: list[list[list[Value]]] = []
        first = 0
        peel = size == step or any(r.identity(e.width) is None for r in self.reductions)
        if peel:
            state = self._iteration(None, chunks, place, None)
            first = step
        else:
            for reduction in self.reductions:
                start = reduction.identity(e.width)
                assert start is not None
                state.append([list(start) for _ in chunks])
        if first == size:
            return state
        flat = [v for per in state for chunk in per for v in chunk]
        with e.loop(size, step, flat, start=first) as loop:
            e.chunks = loop.index, step
            carried = iter(loop.carried)
            inside = [[[next(carried) for _ in c] for c in per] for per in state]
            following = self._iteration(loop.index, chunks, place, inside)
            loop.next = [v for per in following for chunk in per for v in chunk]
        results = iter(loop.results)
        return [[[next(results) for _ in c] for c in per] for per in state]

    def _iteration(
        self,
        value: Value | None,
        chunks: range,
        place: Callable[[Value | None, int], At],
        state: list[list[list[Value]]] | None,
    ) -> list[list[list[Value]]]:
        """One step of all unrolled chunks; without a state, the first elements themselves."""
        e = self.e
        following: list[list[list[Value]]] = [[] for _ in self.reductions]
        if value is not None:
            prefetch(self.context, self.ahead, value, self.shape.width * self.shape.unroll)
        for number in chunks:
            at = place(value, number)
            self._pointwise(at)
            for i, reduction in enumerate(self.reductions):
                new = reduction.elements(e, at)
                if state is not None:
                    new = reduction.accumulate(state[i][number], new)
                elif reduction.extreme:
                    new = reduction.combine(reduction.identity(e.width) or [], new)
                following[i].append(new)
        return following


def _store(e: Emitter, op: Any, at: At, only: Value | None) -> None:
    pointer, value = e.emit(op.ptr, at), e.emit(op.value, at)
    mask = None if op.mask is None else e.emit(op.mask, at)
    if only is not None:
        mask = Vec(only, e.depth)  # the store's own mask is true here
    type = ir.element_type(op.operands[1].type)
    store(e, pointer, value, type, mask, memory_bytes(type))


def _scalarized(e: Emitter, op: Any, at: At) -> None:
    """Write an op that is done element by element, in row-major order."""
    rule = rules("cpu.scalarized").get(class_of(op))
    if rule is None:
        raise e.context.unsupported(op)
    rule(e, op, at)
