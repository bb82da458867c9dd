"""The rewriting of a loop for which `pipeline` has a plan: rings, prologue, copies ahead, waits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue

from tritium.analysis.regions import outside_values
from tritium.ir import types as ir
from tritium.ir.layouts.encodings import SwizzledSharedEncoding
from tritium.ops import ttir
from tritium.ops.arith import AddIOp, AndIOp, CmpIOp, CmpIPredicate, MulIOp, SubIOp, XOrIOp
from tritium.ops.base import changes_layout, permutes
from tritium.ops.scf import ForOp, YieldOp, is_choice
from tritium.ops.terminators import terminator
from tritium.ops.ttgir import (
    AsyncCommitGroupOp,
    AsyncCopyGlobalToLocalOp,
    AsyncTMACopyGlobalToLocalOp,
    AsyncWaitOp,
    BarrierExpectOp,
    InitBarrierOp,
    InvalBarrierOp,
    LocalAllocOp,
    LocalDeallocOp,
    LocalLoadOp,
    LocalStoreOp,
    MemDescIndexOp,
    MemDescTransOp,
    MemDescType,
    WaitBarrierOp,
    bytes_of,
    memdesc_of,
)
from tritium.passes.rewriting import Builder, copy_names, erase
from tritium.passes.ttgir.clusters import in_block


@dataclass(frozen=True)
class Stage:
    """One load to start ahead.

    Attributes:
        load: the `tt.load` or `tt.descriptor_load`.
        encoding: of its buffers in shared memory; None where what is loaded stays in registers.
        width: elements that a thread copies at once; 0 where they are loaded into registers.
        buffers: how many there are.
        early: whether copies start at the beginning of an iteration rather than at its end,
            because one of the buffers is not read in that iteration.
        chosen: the op, if any, that replaces some of what is loaded before it is stored.
    """

    load: Any
    encoding: Any
    width: int
    buffers: int
    early: bool = False
    chosen: Any = None

    @property
    def tile(self) -> SSAValue:
        """The tile that the buffers hold."""
        return (self.chosen or self.load).results[0]

    @property
    def held(self) -> bool:
        """True if the loop carries what is loaded ahead in registers."""
        return self.encoding is None

    @property
    def by_registers(self) -> bool:
        """True if what is loaded goes through registers. If it is stored to a buffer, then at the
        end of the iteration, when the loads have had time to finish."""
        return self.width == 0

    @property
    def bulk(self) -> bool:
        """True if the copy engine (TMA) does the copy, and a barrier tells when it is done."""
        return isinstance(self.load, ttir.BlockAccess)

    @property
    def bytes(self) -> int:
        """The size of a buffer."""
        return bytes_of(self.ring) // self.buffers

    @property
    def ring(self) -> MemDescType:
        """The type of the buffers together."""
        kind = self.load.results[0].type
        shape = (self.buffers, *ir.shape_of(kind))
        return memdesc_of(shape, ir.element_type(kind), self.encoding)


def expand(loop: ForOp, plan: Sequence[Stage], stages: int) -> None:
    """Rewrite the loop so that the loads of the plan are `stages - 1` iterations ahead."""
    _Expansion(loop, plan, stages).run()


class _Ahead(NamedTuple):
    """One iteration ahead: whether it comes, values by those in the loop, what was loaded for it,
    and the carried values of the next iteration."""

    going: SSAValue
    values: dict[SSAValue, SSAValue]
    loaded: dict[Operation, SSAValue]
    state: list[SSAValue]


class _Expansion:
    def __init__(self, loop: ForOp, plan: Sequence[Stage], stages: int):
        self.loop, self.plan, self.stages = loop, plan, stages
        self.kind = loop.lower.type
        self.wraps = loop.may_wrap
        #: The ops that the copies ahead need, and the carried values: these get companions that
        #: run ahead.
        self.ahead, self.carried = _needed(loop, [s.load for s in plan])
        #: Buffers with the same number share their indices.
        self.sizes = sorted({s.buffers for s in plan if not s.held})
        self.bulk = [s for s in plan if s.bulk]
        self.held = [s for s in plan if s.held]
        self.copied = any(not s.bulk and not s.by_registers for s in plan)
        self.barriers: SSAValue | None = None

    def run(self) -> None:
        """Ring buffers and prologue before the loop, the loop, and what comes after."""
        before = Builder(self.loop)
        rings = {s.load: make_ring(before, s) for s in self.plan if not s.held}
        if self.bulk:
            self.barriers = make_barriers(before, self.bulk[0].buffers)
        state: list[SSAValue] = [self.loop.inits[a.index - 1] for a in self.carried]
        held = list[SSAValue]()
        for iteration in range(self.stages - 1):
            counter, going = self._later(before, self.loop.lower, iteration)
            if iteration and self.wraps:
                bounds = self.loop.lower, self.loop.upper
                some = before.value(CmpIOp, *bounds, predicate=self.loop.less)
                going = before.value(AndIOp, going, some)
            slots = {n: before.constant(iteration % n, ir.i32) for n in self.sizes}
            ahead = self._begin(before, counter, going, state)
            self._copies(before, rings, slots, ahead, self.plan)
            state = ahead.state
            held += [ahead.loaded[s.load] for s in self.held]
        new = self._new_loop(before, state, held)
        self._body(new, rings)
        self._finish(Builder(self.loop), new, list(rings.values()))
        erase(self.loop)

    def _later(self, at: Builder, start: SSAValue, iterations: int) -> tuple[SSAValue, SSAValue]:
        """start + iterations * step, and whether the loop gets there from `start`, where it is."""
        upper, step = self.loop.upper, self.loop.step
        if iterations == 0:
            return start, at.value(CmpIOp, start, upper, predicate=self.loop.less)
        if iterations > 1:
            step = at.value(MulIOp, step, at.constant(iterations, self.kind))
        counter = at.value(AddIOp, start, step)
        if not self.wraps:
            return counter, at.value(CmpIOp, counter, upper, predicate=self.loop.less)
        left = at.value(SubIOp, upper, start)
        return counter, at.value(CmpIOp, left, step, predicate=CmpIPredicate.UGT)

    def _begin(
        self, at: Builder, counter: SSAValue, going: SSAValue, state: Sequence[SSAValue]
    ) -> _Ahead:
        """Compute the addresses of one iteration, and load what goes through registers."""
        body = self.loop.body
        values: dict[SSAValue, SSAValue] = {body.args[0]: counter}
        values.update(zip(self.carried, state, strict=True))
        for op in self.ahead:
            if isinstance(op, ttir.ElementAccess):
                values[op.results[0]] = _load(at, op, going, values)
            else:
                at.copy(op, values)
        loaded = {
            s.load: _load(at, s.load, going, values) for s in self.plan if s.by_registers
        }  # fmt: skip
        yields = terminator(body).operands
        following: list[SSAValue] = [yields[a.index - 1] for a in self.carried]
        return _Ahead(going, values, loaded, [values.get(v, v) for v in following])

    def _copies(
        self, at: Builder, rings: Mapping[Operation, SSAValue], slots: Mapping[int, SSAValue],
        ahead: _Ahead, stages: Sequence[Stage],
    ) -> None:  # fmt: skip
        """Start the copies of some stages for one iteration, and store what was loaded for it."""
        going, values = ahead.going, ahead.values
        barrier: SSAValue | None = None
        if self.barriers is not None:
            barrier = buffer(at, self.barriers, slots[self.bulk[0].buffers])
            expect(at, barrier, self.bulk, going)
        tokens: list[SSAValue] = []
        for stage in stages:
            if stage.held:
                continue
            ring, slot = rings[stage.load], slots[stage.buffers]
            if stage.bulk:
                start_bulk_copy(at, stage, ring, slot, barrier, going, values)
            elif stage.by_registers:
                view = at.value(MemDescIndexOp, ring, slot)
                loaded = ahead.loaded[stage.load]
                if stage.chosen is not None:
                    loaded = at.copy(stage.chosen, {stage.load.results[0]: loaded}).results[0]
                at.make(LocalStoreOp, loaded, view)
            else:
                tokens.append(_start_copy(at, stage, ring, slot, going, values))
        if tokens:
            at.make(AsyncCommitGroupOp, tokens)

    def _new_loop(
        self, before: Builder, state: Sequence[SSAValue], held: Sequence[SSAValue]
    ) -> ForOp:
        """The loop, empty: it carries what the old one did, the companions, for each size of ring
        the indices of the buffers last filled and last read, the barriers' phase, and what is
        held for the iterations ahead."""
        old = self.loop
        filled = [before.constant((self.stages - 2) % n, ir.i32) for n in self.sizes]
        read = [before.constant(-1, ir.i32) for _ in self.sizes]
        phase = [before.constant(0, ir.i32)] if self.bulk else []
        inits = [*old.inits, *state, *filled, *read, *phase, *held]
        block = Block(arg_types=[old.body.args[0].type, *[v.type for v in inits]])
        for mine, theirs in zip(block.args, [*old.body.args, *self.carried], strict=False):
            mine.name_hint = theirs.name_hint
        block.add_op(YieldOp.build([], location=old.location))
        new: ForOp = before.make(
            ForOp, *old.operands[:3], inits, regions=[Region(block)], attributes=old.attributes
        )
        new.properties.update(old.properties)
        return new

    def _body(self, new: ForOp, rings: Mapping[Operation, SSAValue]) -> None:
        """Fill the loop."""
        old, body, count = self.loop, new.body, len(self.loop.inits)
        end = terminator(body)
        at = Builder(end, old.location)
        state = body.args[1 + count : 1 + count + len(self.carried)]
        indices = body.args[1 + count + len(self.carried) :]
        rest = len(self.sizes)
        filled, read = indices[:rest], indices[rest : 2 * rest]
        last = 2 * rest + bool(self.bulk)
        phase, held = list[SSAValue](indices[2 * rest : last]), list[SSAValue](indices[last:])
        ahead: _Ahead | None = None
        early, late_stages = ([s for s in self.plan if s.early == e] for e in (True, False))
        if not early and any(s.by_registers for s in self.plan):
            ahead = self._begin(at, *self._later(at, body.args[0], self.stages - 1), state)
        reading: dict[int, SSAValue] = {}
        for n, index in zip(self.sizes, read, strict=True):
            if self.barriers is not None and n == self.bulk[0].buffers:
                reading[n], phase[0] = next_slot(at, index, phase[0], n)
                await_phase(at, self.barriers, reading[n], phase[0])
            else:
                reading[n] = _following(at, index, n)
        if self.copied:
            at.make(AsyncWaitOp, [], num=self.stages - 2)
        filling: dict[int, SSAValue] = {}
        if early:  # after the wait, which counts what began before it
            filling = self._filling(at, filled)
            ahead = self._begin(at, *self._later(at, body.args[0], self.stages - 1), state)
            self._copies(at, rings, filling, ahead, early)
        views = {
            stage.tile: at.value(
                MemDescIndexOp, rings[stage.load], reading[stage.buffers]
            ) for stage in self.plan if not stage.held
        }  # fmt: skip
        values: dict[SSAValue, SSAValue] = dict(zip(old.body.args, body.args, strict=False))
        values.update((s.load.results[0], v) for s, v in zip(self.held, held, strict=False))
        skipped = [s.load for s in self.plan if s.held or s.chosen]
        ops = [op for op in list(old.body.ops)[:-1] if op not in skipped]
        # Copies start before what a fused loop does in some iterations alone, such as its stores.
        late = [op for op in ops[-1:] if is_choice(op) and op not in self.ahead]
        for op in ops[: len(ops) - len(late)]:
            if not use_buffer(op, views, values, at):
                hand_on_types(at.copy(op, values))
        if ahead is None:
            ahead = self._begin(at, *self._later(at, body.args[0], self.stages - 1), state)
        filling = filling or self._filling(at, filled)
        self._copies(at, rings, filling, ahead, late_stages)
        for op in late:
            at.copy(op, values)
        yielded: list[SSAValue] = list(terminator(old.body).operands)
        yields = [values.get(v, v) for v in yielded]
        held = [*held[len(self.held) :], *(ahead.loaded[s.load] for s in self.held)]
        at.make(
            YieldOp, [*yields, *ahead.state, *filling.values(), *reading.values(), *phase, *held]
        )
        erase(end)

    def _filling(self, at: Builder, filled: Sequence[SSAValue]) -> dict[int, SSAValue]:
        """The buffers to fill next, by the number of them."""
        return {n: _following(at, i, n) for n, i in zip(self.sizes, filled, strict=True)}

    def _finish(self, after: Builder, new: ForOp, rings: Sequence[SSAValue]) -> None:
        """Wait for what is in flight, free the buffers, and hand on the results."""
        for old, result in zip(self.loop.results, new.results, strict=False):
            copy_names([old], [result])
            old.replace_all_uses_with(result)
        if self.copied:
            after.make(AsyncWaitOp, [], num=0)
        if self.barriers is not None:
            free_barriers(after, self.barriers, self.bulk[0].buffers)
        free_rings(after, rings)


def _needed(loop: ForOp, loads: Sequence[Operation]) -> tuple[list[Operation], list[BlockArgument]]:
    """The ops of the body that the loads' operands are computed by, in this iteration and (through
    what the loop carries) in those before, in order; and the carried values among them."""
    yields = terminator(loop.body).operands
    pending: list[SSAValue] = [v for load in loads for v in load.operands]
    ops, carried = set[Operation](), dict[BlockArgument, None]()
    while pending:
        value = pending.pop()
        owner = value.owner
        if isinstance(value, BlockArgument):
            if owner is loop.body and value.index > 0 and value not in carried:
                carried[value] = None
                pending.append(yields[value.index - 1])
        elif isinstance(owner, Operation) and owner.parent is loop.body and owner not in ops:
            ops.add(owner)
            pending += list(outside_values(owner))
    order = sorted(carried, key=lambda a: a.index)
    return [op for op in loop.body.ops if op in ops], order


def make_ring(before: Builder, stage: Stage) -> SSAValue:
    here = Builder(before.before, stage.load.location)
    ring = here.value(LocalAllocOp, None, result=stage.ring)
    ring.name_hint = stage.load.results[0].name_hint
    return ring


def barrier_memory(count: int | None = None) -> MemDescType:
    """The type of a barrier, or of several."""
    encoding = SwizzledSharedEncoding.make(vec=1, perPhase=1, maxPhase=1, order=(0,))
    return memdesc_of((1,) if count is None else (count, 1), ir.i64, encoding)


def make_barriers(before: Builder, count: int, arrivals: int = 1) -> SSAValue:
    """Make `count` barriers, each for `arrivals` (one: of the thread that starts copies)."""
    barriers = before.value(LocalAllocOp, None, result=barrier_memory(count))
    for index in range(count):
        barrier = before.value(MemDescIndexOp, barriers, before.constant(index, ir.i32))
        before.make(InitBarrierOp, barrier, count=arrivals)
    return barriers


def start_bulk_copy(
    at: Builder, stage: Stage, ring: SSAValue, slot: SSAValue, barrier: object, going: SSAValue,
    values: Mapping[SSAValue, SSAValue],
) -> None:  # fmt: skip
    """Start the copy of a descriptor's block into a buffer."""
    load = stage.load
    here = Builder(at.before, load.location)
    view = here.value(MemDescIndexOp, ring, slot)
    coordinates = [values.get(v, v) for v in load.indices]
    here.make(
        AsyncTMACopyGlobalToLocalOp, load.desc, coordinates, barrier, view, going,
        cache=load.cache, evict=load.evict,
    )  # fmt: skip


def _operands(
    here: Builder, load: ttir.ElementAccess, going: SSAValue, values: Mapping[SSAValue, SSAValue]
) -> tuple[SSAValue | None, SSAValue, SSAValue | None]:
    """The pointer, mask and other value of a load, if the iteration that it is for comes."""
    pointer, mask, other = (
        None if v is None else values.get(v, v) for v in (load.ptr, load.mask, load.other)
    )
    flags = going
    if ir.shape_of(load.ptr.type):
        flags = here.value(ttir.SplatOp, going, result=ir.with_element(load.ptr.type, ir.i1))
    if mask is not None:
        flags = here.value(AndIOp, flags, mask)
    return pointer, flags, other


def _load(
    at: Builder, load: ttir.ElementAccess, going: SSAValue, values: Mapping[SSAValue, SSAValue]
) -> SSAValue:
    """Load into registers, if the iteration that it is for comes."""
    here = Builder(at.before, load.location)
    loaded = here.value(
        type(load), *_operands(here, load, going, values), cache=load.cache, evict=load.evict
    )
    loaded.name_hint = load.results[0].name_hint
    return loaded


def _start_copy(
    at: Builder, stage: Stage, ring: SSAValue, slot: SSAValue, going: SSAValue,
    values: Mapping[SSAValue, SSAValue],
) -> SSAValue:  # fmt: skip
    """Start a load's copy into a buffer, if the iteration that it is for comes."""
    load = stage.load
    here = Builder(at.before, load.location)
    pointer, flags, other = _operands(here, load, going, values)
    view = here.value(MemDescIndexOp, ring, slot)
    return here.value(
        AsyncCopyGlobalToLocalOp, pointer, view, flags, other, cache=load.cache, evict=load.evict,
        contiguity=stage.width,
    )  # fmt: skip


def free_barriers(after: Builder, barriers: SSAValue, count: int) -> None:
    """End the lives of `make_barriers`'s."""
    for index in range(count):
        barrier = after.value(MemDescIndexOp, barriers, after.constant(index, ir.i32))
        after.make(InvalBarrierOp, barrier)
    after.make(LocalDeallocOp, barriers)


def free_rings(after: Builder, rings: Sequence[SSAValue]) -> None:
    """End the lives of `make_ring`'s."""
    for ring in reversed(rings):
        after.make(LocalDeallocOp, ring)


def await_phase(at: Builder, barriers: SSAValue, slot: SSAValue, phase: SSAValue) -> WaitBarrierOp:
    """Wait for the phase of one of several barriers."""
    return at.make(WaitBarrierOp, buffer(at, barriers, slot), phase, None, [])


def expect(at: Builder, barrier: SSAValue, stages: Sequence[Stage], going: SSAValue) -> None:
    """Arrive at a barrier for copies of some loads, of which it counts the bytes."""
    at.make(BarrierExpectOp, barrier, going, size=sum(s.bytes for s in stages))


def buffer(at: Builder, ring: SSAValue, slot: SSAValue) -> SSAValue:
    """One of several buffers or barriers."""
    return at.value(MemDescIndexOp, ring, slot)


def next_slot(
    at: Builder, slot: SSAValue, phase: SSAValue, count: int
) -> tuple[SSAValue, SSAValue]:
    """The slot of a ring after another one, and its phase."""
    following, wraps = _advanced(at, slot, count)
    flipped = at.value(XOrIOp, phase, at.constant(1, ir.i32))
    return following, at.chosen(wraps, flipped, phase)


def slot_before(at: Builder, slot: SSAValue, count: int) -> SSAValue:
    """The slot of a ring before another one."""
    first = at.value(CmpIOp, slot, at.constant(0, ir.i32), predicate=CmpIPredicate.EQ)
    before = at.value(SubIOp, slot, at.constant(1, ir.i32))
    return at.chosen(first, at.constant(count - 1, ir.i32), before)


def is_later(at: Builder, loop: ForOp) -> SSAValue:
    """True if an iteration of a loop, in its body, is not the first one."""
    return at.value(CmpIOp, loop.body.args[0], loop.lower, predicate=CmpIPredicate.NE)


def has_run(after: Builder, loop: ForOp) -> SSAValue:
    """True if a loop had any iteration."""
    return after.value(CmpIOp, loop.lower, loop.upper, predicate=loop.less)


def _following(at: Builder, index: SSAValue, count: int) -> SSAValue:
    """The index of the next buffer of a ring."""
    return at.constant(0, ir.i32) if count == 1 else _advanced(at, index, count)[0]


def _advanced(at: Builder, index: SSAValue, count: int) -> tuple[SSAValue, SSAValue]:
    """The index of the next buffer of a ring, and whether it is the first one again."""
    following = at.value(AddIOp, index, at.constant(1, ir.i32))
    wraps = at.value(CmpIOp, following, at.constant(count, ir.i32), predicate=CmpIPredicate.SGE)
    return at.chosen(wraps, at.constant(0, ir.i32), following), wraps


def hand_on_types(op: Any) -> None:
    """Give what an op hands on of memory the type that the memory has now."""
    for source, target in op.forwarded_values():
        if isinstance(source.type, MemDescType):
            target._type = source.type


def use_buffer(
    op: Any, views: dict[SSAValue, SSAValue], values: dict[SSAValue, SSAValue], at: Builder
) -> bool:
    """Let an op that has to do with a load use its buffer; returns whether that is all there is to
    do. A transpose of a load becomes a view, too."""
    here = Builder(at.before, op.location)
    if op.results and op.results[0] in views:
        load = op.results[0]
        # Users in branches are copied as they are, with what they read.
        direct = any(
            u.operation.parent is not op.parent or not _reads_buffer(u.operation, views[load].type)
            for u in load.uses
        )
        if direct:
            values[load] = here.value(LocalLoadOp, views[load], None, result=load.type)
            values[load].name_hint = load.name_hint
        return True
    if permutes(op) and op.operands[0] in views:
        view = views[op.operands[0]]
        if not _reads_buffer(op, view.type):
            return False
        views[op.results[0]] = here.value(MemDescTransOp, view, order=op.permuted_axes)
        return True
    if isinstance(op, MemDescTransOp) and values.get(op.src) is not None:
        values[op.results[0]] = here.value(MemDescTransOp, values[op.src], order=op.order)
        return True
    allocates = isinstance(op, LocalAllocOp)
    view = views.get(op.operands[0]) if op.operands and (allocates or changes_layout(op)) else None
    if view is not None:
        if not _reads_buffer(op, view.type):
            return False
        result = op.results[0]
        if allocates:
            values[result] = view
        else:
            values[result] = here.value(LocalLoadOp, view, None, result=result.type)
            values[result].name_hint = result.name_hint
        return True
    return False


def _reads_buffer(user: Operation, memory: Any) -> bool:
    """True if a user of a load can take its buffer instead."""
    if isinstance(user, LocalAllocOp):
        wanted: Any = user.results[0].type
        return wanted.encoding == memory.encoding and not wanted.mutable
    if permutes(user):
        view = MemDescTransOp.infer(memory, order=user.permuted_axes or ())
        uses = [use.operation for use in user.results[0].uses]
        return all(
            changes_layout(inner) and inner.parent is user.parent
            and _reads_buffer(inner, view) for inner in uses
        )  # fmt: skip
    return changes_layout(user) and in_block(user.results[0].type, memory)
