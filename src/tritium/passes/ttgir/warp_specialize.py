"""Let a warp of its own start the copies of a loop that asks for it
(`tl.range(warp_specialize=True)`).

before (num_stages = 3, num_warps = 4):
    %d = scf.for %i = %lo to %hi step %s iter_args(%acc = %zero) {
      %x = tt.descriptor_load %desc[%i, %n]
      %m = ttg.local_alloc %x : ... -> !ttg.memdesc<128x64xf16, #shared, #smem>
      %d = ttng.warp_group_dot %m, %w, %acc
      scf.yield %d
    } {tt.warp_specialize = true}
after:
    %ring = ttg.local_alloc : () -> !ttg.memdesc<3x128x64xf16, #shared, #smem, mutable>
    %full, %empty = barriers of the buffers, for 1 arrival and for those of 4 warps
    %d = ttg.warp_specialize(%desc, %lo, %hi, %n, %ring, %full, %empty)
    default {
      %e:3 = scf.for %i = ... iter_args(%acc = %zero, %slot = 0, %phase = 0) {
        ttng.wait_barrier %full[%slot], %phase
        %m = ttg.memdesc_index %ring[%slot]
        %d = ttng.warp_group_dot %m, %w, %acc {isAsync = true}
        %f:3 = ttng.warp_group_dot_wait %d, %m, %w {pendings = 1}
        ttng.arrive_barrier %empty[%slot - 1], 4, %i != %lo {perWarp}
        scf.yield %f, the next slot, its phase
      }
      wait for the last product; ttng.arrive_barrier %empty[the last slot], 4 {perWarp}
      ttg.warp_yield ...
    }
    partition0(...) num_warps(1) {
      scf.for %i = ... iter_args(%slot = 0, %phase = 1) {
        ttng.wait_barrier %empty[%slot], %phase
        ttng.barrier_expect %full[%slot], 16384
        ttng.async_tma_copy_global_to_local %desc[%i, %n] %ring[%slot], %full[%slot]
        scf.yield the next slot, its phase
      }
      ttg.warp_return
    }

Loads that feed the same products share barriers: a channel. Loops inside of and around the loop
that asks are split in the same way, so that the copies of an outer iteration start during the one
before. Inner loops that load blocks of the same types one after the other use the same buffers: the
later loop goes on with the slot and the phase that the earlier one ended with. The partition gets
what computes the addresses and the loops' bounds; that must have no effects, and must be no tiles.
Other loops run unsplit, with the attribute `tt.not_warp_specialized` that says why.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, ClassVar

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue

from tritium.analysis.loop_writes import unwritten
from tritium.analysis.loops import counted_loops, loops_around, stages_of
from tritium.analysis.regions import ancestor_in, defined_inside, functions, outside_values
from tritium.ir import types as ir
from tritium.ops import ttir
from tritium.ops.attributes import (
    FLATTEN,
    NOT_WARP_SPECIALIZED,
    NUM_CTAS,
    NUM_WARPS,
    WARP_SPECIALIZE,
)
from tritium.ops.base import Op, changes_layout, is_constant, permutes
from tritium.ops.scf import ForOp, YieldOp
from tritium.ops.terminators import is_terminator, terminator
from tritium.ops.ttgir import (
    ArriveBarrierOp,
    MemDescType,
    WarpReturnOp,
    WarpSpecializeOp,
    WarpYieldOp,
    bytes_of,
)
from tritium.ops.ttgir.memory import untransposed
from tritium.ops.ttgir.warp_specialize import MOST_WARPS
from tritium.ops.ttir.dot import MatrixProduct
from tritium.passes.base import Pass
from tritium.passes.rewriting import Builder, erase, insert_after
from tritium.passes.ttgir.async_dots import delay_scalars, end_of, hand_on_ended, start_products
from tritium.passes.ttgir.expand_pipeline import (
    Stage,
    await_phase,
    buffer,
    expect,
    free_barriers,
    free_rings,
    has_run,
    is_later,
    make_barriers,
    make_ring,
    next_slot,
    slot_before,
    start_bulk_copy,
    use_buffer,
)
from tritium.passes.ttgir.layout_propagation import (
    fills_buffers,
    is_tile,
    memory_encoding,
    processor_of,
)
from tritium.passes.ttgir.rotate_matmul import Rotation, pays_off

PRODUCER_WARPS, PRODUCER_REGISTERS = 1, 24
BARRIER_BYTES = 1024
"""Shared memory for barriers and captures, and what alignment takes."""
Values = dict[SSAValue, SSAValue]


class Unsplittable(Exception):
    """A loop cannot be split; the message says why."""


@dataclass(frozen=True)
class WarpSpecialize(Pass):
    """Let a warp of its own start the copies of loops that ask for it. `num_stages`: the buffers
    of a load; `spare`: bytes of shared memory that buffers must leave; `automatic`: also of loops
    that do not ask, where it pays."""

    name: ClassVar[str] = "warp-specialize"
    title: ClassVar[str] = "TritonGPUAutomaticWarpSpecialization"
    num_stages: int = 3
    spare: int = 0
    automatic: bool = False

    def run(self, module: ModuleOp) -> bool:
        changed = False
        for function in functions(module):
            loops = counted_loops(function)
            asking = [loop for loop in loops if WARP_SPECIALIZE in loop.attributes]
            # The outermost loops around them: what is split ends only with those.
            for loop in dict.fromkeys([asker, *loops_around(asker)][-1] for asker in asking):
                changed = True
                try:
                    _check_place(module, function)
                    _Split(loop, plan_of(module, loop, self.num_stages, self.spare)).run()
                except Unsplittable as why:
                    loop.attributes[NOT_WARP_SPECIALIZED] = StringAttr(str(why))
            for loop in candidates(function) if self.automatic else ():
                if loop not in asking:
                    changed |= self._try(module, function, loop)
        return changed

    def _try(self, module: ModuleOp, function: Op, loop: ForOp) -> bool:
        try:
            _check_place(module, function)
            _Split(loop, plan_of(module, loop, self.num_stages, self.spare)).run()
        except Unsplittable:
            return False
        return True


def may_split(module: ModuleOp) -> bool:
    """True if there may be loops, in ttir too, that are split though they do not ask."""
    bodies = [list(loop.body.ops) for loop in counted_loops(module)]
    return any(
        sum(isinstance(op, MatrixProduct) for op in ops) > 1
        and any(isinstance(op, ttir.DescriptorLoadOp) for op in ops)
        for ops in bodies
    )


def candidates(function: Operation) -> list[ForOp]:
    """The loops of a function, in no other, that are worth splitting though they do not ask."""
    return [
        loop for loop in counted_loops(function)
        if loop.parent_op() is function
        and any(isinstance(op, ttir.DescriptorLoadOp) for op in loop.body.ops)
        and pays_off(loop)
    ]  # fmt: skip


@dataclass(eq=False)
class Channel:
    """Loads that share barriers, as the same products read them.

    Attributes:
        stages: the loads.
        last: the last op of their block that reads the buffers.
        first: the channel, of a loop before, whose buffers and barriers this one uses too.
    """

    stages: list[Stage]
    last: Operation
    first: Channel | None = None
    rings: list[SSAValue] = field(default_factory=list[SSAValue])
    full: Any = None
    empty: Any = None

    @property
    def block(self) -> Block:
        """The block of the loads."""
        return self.stages[0].load.parent

    @property
    def home(self) -> Block:
        """The block whose slots and phases the channel uses."""
        return self.block if self.first is None else self.first.block

    @property
    def buffers(self) -> int:
        return self.stages[0].buffers


def plan_of(module: ModuleOp, loop: ForOp, num_stages: int, spare: int) -> list[Channel]:
    """The channels of a loop. Raises `Unsplittable`."""
    loads = [
        op for op in loop.body.walk()
        if isinstance(op, ttir.DescriptorLoadOp) and op.missing_axes is not None and _nest(op, loop)
    ]  # fmt: skip
    if not loads:
        raise Unsplittable("it has no loads by tensor descriptors, outside of branches, to start")
    if len(unwritten(loop, loads)) < len(loads):
        raise Unsplittable("it may write what it loads")
    small: Any = next((load for load in loads if not fills_buffers(load)), None)
    if small is not None:
        raise Unsplittable(f"blocks of {small.tile.type} are too small for buffers of their own")
    groups: dict[tuple[Block, frozenset[Operation]], list[Any]] = {}
    load: Any
    for load in loads:
        groups.setdefault((load.parent, _products(load)), []).append(load)
    outer = {parent for load in loads for parent in _nest(load, loop)[:-1]}
    channels: list[Channel] = []
    for (block, _), members in groups.items():
        owner: Any = block.parent_op()
        count = 1 if owner in outer else stages_of(owner, stages_of(loop, num_stages))
        if count < 2 and owner not in outer:
            raise Unsplittable(f"num_stages is {count}: loads have no buffers to be ahead in")
        last = max((_last_reader(load) for load in members), key=list(block.ops).index)
        stages = [Stage(load, memory_encoding(load), 1, count) for load in members]
        channels.append(Channel(stages, last))
    _share(channels, outer)
    _fit(channels, loop, processor_of(module).max_shared - spare)
    return channels


def _share(channels: Sequence[Channel], outer: Collection[Operation]) -> None:
    """Let innermost loops, of which one ends before the next begins, use the buffers of the first
    that has buffers of the same types. All channels of a loop must match, as they share slots."""
    by_block: dict[Block, list[Channel]] = {}
    for channel in channels:
        if channel.block.parent_op() not in outer:
            by_block.setdefault(channel.block, []).append(channel)
    homes: dict[tuple[tuple[MemDescType, ...], ...], list[Channel]] = {}
    for members in by_block.values():
        first = homes.setdefault(tuple(tuple(s.ring for s in c.stages) for c in members), members)
        if first is not members:
            for channel, other in zip(members, first, strict=True):
                channel.first = other


def _fit(channels: Sequence[Channel], loop: ForOp, most: int) -> None:
    """Give rings fewer buffers where they leave no room for the stores of descriptors in the loop,
    whose tiles go through shared memory while the next loads are under way: those of one type
    through the same (`descriptors-to-tma`)."""
    stored = {
        (ir.shape_of(op.src.type), ir.element_type(op.src.type))
        for op in loop.body.walk()
        if isinstance(op, ttir.BlockAccess) and not op.is_load
    }
    room = sum(ir.bit_width(element) // 8 * prod(shape) for shape, element in stored)
    left = most - room - BARRIER_BYTES
    own = [channel for channel in channels if channel.first is None]
    while sum(bytes_of(stage.ring) for c in own for stage in c.stages) > left:
        largest = max((c.buffers for c in channels), default=0)
        if largest <= 2:
            raise Unsplittable(f"two buffers a load do not fit {left} bytes of shared memory")
        for channel in channels:
            if channel.buffers == largest:
                channel.stages = [replace(s, buffers=largest - 1) for s in channel.stages]


def _check_place(module: ModuleOp, function: Op) -> None:
    """Raise `Unsplittable` where no loop of a function can be split."""
    processor = processor_of(module)
    units = processor.matrix_units
    if processor.bulk_copies is None:
        raise Unsplittable(f"{processor.name} has no copy engine for a warp to start")
    if not units or units[0].from_shared is None:
        raise Unsplittable(
            f"products for {processor.name} keep all warps busy, as their operands are in "
            "registers: only those by warp groups, which read shared memory, leave some free"
        )
    if _number(module, NUM_CTAS) != 1:
        raise Unsplittable("the program runs on a cluster of thread blocks")
    warps = -(-(_number(module, NUM_WARPS) + PRODUCER_WARPS) // 4) * 4
    if warps > MOST_WARPS:
        raise Unsplittable(f"{warps} warps would be needed, of {MOST_WARPS} that a block can have")
    if function.sym_visibility == "private":  # pyright: ignore
        raise Unsplittable("it is in a function that is not inlined")


def _number(module: ModuleOp, name: str) -> int:
    attribute: Any = module.attributes[name]
    return attribute.value.data


def _nest(op: Operation, loop: ForOp) -> list[ForOp]:
    """The loops around an op, `loop` first; none where something else is between."""
    around = loops_around(op)
    return around[around.index(loop) :: -1] if loop in around else []


def _products(load: Operation) -> frozenset[Operation]:
    """The products that a load is an operand of, computing between or not."""
    pending, seen, found = list(load.results), set[Operation](), set[Operation]()
    while pending:
        for use in pending.pop().uses:
            user = use.operation
            if isinstance(user, MatrixProduct):
                found.add(user)
            elif user not in seen and not user.regions:
                seen.add(user)
                pending += user.results
    return frozenset(found)


def _last_reader(load: Any) -> Operation:
    """The last op of the load's block that reads the buffer rather than what was loaded from it."""
    block = load.parent
    order = {op: i for i, op in enumerate(block.ops)}
    last, pending = load, list(load.results)
    while pending:
        value = pending.pop()
        in_memory = isinstance(value.type, MemDescType)
        for use in value.uses:
            user = use.operation
            if in_memory and is_terminator(user):
                raise Unsplittable("what is loaded is needed in shared memory after its iteration")
            views = any(isinstance(r.type, MemDescType) for r in user.results)
            moved = permutes(user) or changes_layout(user)
            if not (in_memory or views or moved):
                continue
            above = ancestor_in(block, user)
            assert above is not None
            last = max(last, above, key=order.__getitem__)
            if views or permutes(user):
                pending += user.results
    return last


class _Split:
    def __init__(self, loop: ForOp, channels: Sequence[Channel]):
        self.loop, self.channels = loop, channels
        module: Any = loop.get_toplevel_object()
        self.warps = _number(module, NUM_WARPS)
        self.by_load = {s.load: (c, i) for c in channels for i, s in enumerate(c.stages)}
        #: The loops that have channels, with the home blocks of their own and inner loops'.
        self.blocks: dict[ForOp, list[Block]] = {}
        for channel in channels:
            for outer in _nest(channel.stages[0].load, loop):
                known = self.blocks.setdefault(outer, [])
                if channel.home not in known:
                    known.append(channel.home)
        self.buffers = {c.home: c.buffers for c in channels}
        self.homes = {c.block: c.home for c in channels}
        self.needed, self.carried = self._slice()

    def run(self) -> None:
        """Replace the loop by a `ttg.warp_specialize`."""
        loop, before = self.loop, Builder(self.loop)
        for channel in self.channels:
            if (first := channel.first) is not None:
                channel.rings, channel.full, channel.empty = first.rings, first.full, first.empty
                continue
            channel.rings = [make_ring(before, stage) for stage in channel.stages]
            channel.full = make_barriers(before, channel.buffers)
            channel.empty = make_barriers(before, channel.buffers, self.warps)
        main, end = _region(WarpYieldOp, loop)
        results = self._consume(loop, Builder(end, loop.location), {}, {})
        used = [i for i, r in enumerate(loop.results) if r.first_use is not None]
        end.operands = [results[i] for i in used]
        producer, end = _region(WarpReturnOp, loop)
        self._produce(loop, Builder(end, loop.location), {}, {})
        captures = _captured(producer)
        split = before.make(
            WarpSpecializeOp, captures, regions=[main, producer],
            partitionNumWarps=(PRODUCER_WARPS,), requestedRegisters=(PRODUCER_REGISTERS,),
            result=[loop.results[i].type for i in used],
        )  # fmt: skip
        for index, result in zip(used, split.results, strict=True):
            result.name_hint = loop.results[index].name_hint
            loop.results[index].replace_all_uses_with(result)
        self._free(before)
        erase(loop)

    def _free(self, after: Builder) -> None:
        for channel in self.channels:
            if channel.first is not None:
                continue
            for barriers in (channel.full, channel.empty):
                free_barriers(after, barriers, channel.buffers)
            free_rings(after, channel.rings)

    # What the producer needs

    def _slice(self) -> tuple[set[Operation], dict[ForOp, set[int]]]:
        """The ops that compute the loads' operands and the loops' bounds, and the numbers of the
        values that each loop carries for them. Raises `Unsplittable`."""
        needed, carried = set[Operation](), {loop: set[int]() for loop in self.blocks}
        pending: list[SSAValue] = [v for load in self.by_load for v in load.operands]
        for loop in self.blocks:
            pending += loop.operands[:3]
        while pending:
            value = pending.pop()
            if not defined_inside(value, self.loop):
                _check_capture(value)
                continue
            owner: Any = value.owner
            loop = owner.parent_op() if isinstance(value, BlockArgument) else owner
            if loop in carried:
                position: Any = value
                index: int = position.index - isinstance(value, BlockArgument)
                if index >= 0 and index not in carried[loop]:
                    carried[loop].add(index)
                    pending += [loop.inits[index], terminator(loop.body).operands[index]]
            elif isinstance(owner, Operation) and owner not in needed:
                _check_repeatable(owner)
                needed.add(owner)
                pending += list(outside_values(owner))
            elif not isinstance(owner, Operation):
                raise Unsplittable("the place of a load is computed in a branch")
        return needed, carried

    def _produce(
        self, loop: ForOp, at: Builder, values: Values, states: dict[Block, list[SSAValue]]
    ) -> None:
        """The producer's part of a loop. `states`: the next slot of each block's buffers, and the
        parity with which the end of its use is awaited."""
        kept = sorted(self.carried[loop])
        new = self._loop(loop, at, values, states, kept, first_phase=1)
        inner, mine = self._inside(new, loop, len(kept))
        values[loop.body.args[0]] = new.body.args[0]
        for number, index in enumerate(kept):
            values[loop.body.args[1 + index]] = new.body.args[1 + number]
        begun: set[Channel] = set()
        for op in loop.body.ops:
            if op in self.blocks:
                self._produce(op, inner, values, mine)  # pyright: ignore
            elif op in self.by_load:
                channel, index = self.by_load[op]
                slot, phase = mine[channel.home]
                here = Builder(inner.before, op.location)
                full, always = buffer(here, channel.full, slot), here.constant(1, ir.i1)
                if channel not in begun:
                    begun.add(channel)
                    await_phase(here, channel.empty, slot, phase)
                    expect(here, full, channel.stages, always)
                start_bulk_copy(here, channel.stages[index], channel.rings[index], slot, full,
                                always, values)  # fmt: skip
            elif op in self.needed:
                inner.copy(op, values)
        yields = terminator(loop.body).operands
        self._yield(inner, loop, [values.get(yields[i], yields[i]) for i in kept], mine)
        for number, index in enumerate(kept):
            values[loop.results[index]] = new.results[number]
        self._leave(new.results, loop, len(kept), states)

    # The consumer

    def _consume(
        self, loop: ForOp, at: Builder, values: Values, states: dict[Block, list[SSAValue]]
    ) -> list[SSAValue]:
        """The part of a loop that the default region has; returns its results."""
        count = len(loop.inits)
        new = self._loop(loop, at, values, states, range(count), first_phase=0)
        inner, mine = self._inside(new, loop, count)
        values.update(zip(loop.body.args, new.body.args, strict=False))
        views: Values = {}
        waits: dict[Channel, Operation] = {}
        read: dict[Channel, Any] = {}
        for op in list(loop.body.ops)[:-1]:
            if op in self.blocks:
                self._consume(op, inner, values, mine)  # pyright: ignore
            else:
                if op in self.by_load:
                    self._await(op, inner, views, waits, mine)
                if not use_buffer(op, views, values, inner):
                    inner.copy(op, values)
            read.update((c, inner.before.prev_op) for c in self.channels if c.last is op)
        last = terminator(loop.body).operands
        self._yield(inner, loop, [values.get(v, v) for v in last], mine)
        delay_scalars(new.body)
        results: list[SSAValue] = list(new.results)
        reads = {c: _readers(c, views, new) for c in read}
        last = [op for op in new.body.ops if isinstance(op, MatrixProduct)][-1:]
        later = [c for c in read if reads[c] == last]
        if Rotation(new, [waits[c] for c in later]).allowed():
            results = self._rotate(new, read, reads, later, waits, mine)
        else:
            if start_products(new):
                results = hand_on_ended(new, results)
            for channel, op in read.items():
                self._release(channel, reads[channel], op, new, mine[channel.home][0], at)
        for old, result in zip(loop.results, results, strict=False):
            result.name_hint = old.name_hint
            values[old] = result
        self._leave(results, loop, count, states)
        return results[:count]

    def _rotate(
        self, loop: ForOp, read: dict[Channel, Operation],
        reads: dict[Channel, list[MatrixProduct]],
        later: list[Channel], waits: dict[Channel, Operation],
        states: dict[Block, list[SSAValue]],
    ) -> list[SSAValue]:  # fmt: skip
        """Let the last product of a loop run beside the next iteration. Each channel's buffers are
        released when the products that read them have ended; those `later` are its alone."""
        arrivals: dict[Channel, Operation] = {}
        for channel, op in read.items():
            place: Any = op.next_op
            slot = states[channel.home][0]
            arrivals[channel] = self._arrive(Builder(place), channel, slot, None)
        rotation = Rotation(loop, [op[c] for op in (waits, arrivals) for c in later])
        results = rotation.run()
        start_products(rotation.loop)
        order = {op: i for i, op in enumerate(rotation.loop.body.ops)}
        for channel, arrival in arrivals.items():
            moved = rotation.copies[arrival]
            ends = [end_of(rotation.copies[d])[0] for d in reads[channel]]
            last = max([moved, *ends], key=order.__getitem__)
            if last is not moved:
                rotation.loop.body.detach_op(moved)
                insert_after(last, moved)
        return results

    def _await(
        self, load: Operation, at: Builder, views: Values, waits: dict[Channel, Operation],
        states: dict[Block, list[SSAValue]],
    ) -> None:  # fmt: skip
        """Wait for the buffers of a load's channel, and let a view stand for what is loaded."""
        channel, index = self.by_load[load]
        slot, phase = states[channel.home]
        here = Builder(at.before, load.location)
        if channel not in waits:
            waits[channel] = await_phase(here, channel.full, slot, phase)
        views[load.results[0]] = buffer(here, channel.rings[index], slot)

    def _release(
        self, channel: Channel, readers: Sequence[MatrixProduct], last: Operation, loop: ForOp,
        slot: SSAValue, after: Builder,
    ) -> None:  # fmt: skip
        """Release the buffers of a slot after the last op that reads them, and when the products
        that do have ended. That may be in the next iteration; then the last slot is released
        after the loop."""
        order = {op: i for i, op in enumerate(loop.body.ops)}
        ends = [end_of(op) for op in readers]
        late = [op for op, later in ends if later]
        if not late:
            place: Any = max([last, *(op for op, _ in ends)], key=order.__getitem__)
            self._arrive(Builder(place.next_op), channel, slot, None)
            return
        here: Any = max(late, key=order.__getitem__).next_op
        at = Builder(here)
        self._arrive(at, channel, slot_before(at, slot, channel.buffers), is_later(at, loop))
        some = has_run(after, loop)
        final = loop.results[loop.body.args.index(slot) - 1]  # pyright: ignore
        self._arrive(after, channel, slot_before(after, final, channel.buffers), some)

    def _arrive(
        self, at: Builder, channel: Channel, slot: SSAValue, condition: SSAValue | None
    ) -> Operation:
        """Tell the producer that this warp does not need the buffers of a slot any more."""
        empty = buffer(at, channel.empty, slot)
        return at.make(ArriveBarrierOp, empty, condition, count=self.warps, perWarp=True)

    # Loops

    def _loop(
        self, loop: ForOp, at: Builder, values: Values, states: dict[Block, list[SSAValue]],
        kept: Sequence[int], first_phase: int,
    ) -> ForOp:  # fmt: skip
        """A loop, empty, that carries some of what `loop` does, and the states of its channels."""
        old: Sequence[SSAValue] = loop.inits
        inits = [values.get(old[i], old[i]) for i in kept]
        for block in self.blocks[loop]:
            if block not in states:
                states[block] = [at.constant(0, ir.i32), at.constant(first_phase, ir.i32)]
            inits += states[block]
        body = Block(arg_types=[loop.body.args[0].type, *[v.type for v in inits]])
        for argument, number in zip(body.args[1:], kept, strict=False):
            argument.name_hint = loop.body.args[1 + number].name_hint
        body.args[0].name_hint = loop.body.args[0].name_hint
        body.add_op(YieldOp.build([], location=loop.location))
        bounds = [values.get(v, v) for v in loop.operands[:3]]
        dropped = (WARP_SPECIALIZE, FLATTEN)
        attributes = {k: v for k, v in loop.attributes.items() if k not in dropped}
        here = Builder(at.before, loop.location)
        new = here.make(ForOp, *bounds, inits, regions=[Region(body)], attributes=attributes)
        new.properties.update(loop.properties)
        return new

    def _inside(
        self, new: ForOp, loop: ForOp, count: int
    ) -> tuple[Builder, dict[Block, list[SSAValue]]]:
        """The builder of the loop's body, and the states in it."""
        arguments: list[SSAValue] = list(new.body.args[1 + count :])
        states = {b: arguments[2 * i : 2 * i + 2] for i, b in enumerate(self.blocks[loop])}
        return Builder(terminator(new.body), loop.location), states

    def _yield(
        self, at: Builder, loop: ForOp, values: list[SSAValue],
        states: dict[Block, list[SSAValue]],
    ) -> None:  # fmt: skip
        """End a loop's body: its own channels go on to the next slot."""
        for block in self.blocks[loop]:
            slot, phase = states[block]
            if block is self.homes.get(loop.body):
                slot, phase = next_slot(at, slot, phase, self.buffers[block])
            values = [*values, slot, phase]
        at.before.operands = values

    def _leave(
        self, results: Sequence[SSAValue], loop: ForOp, count: int,
        states: dict[Block, list[SSAValue]],
    ) -> None:  # fmt: skip
        """The states after a loop."""
        left = list(results[count:])
        for index, block in enumerate(self.blocks[loop]):
            states[block] = left[2 * index : 2 * index + 2]


def _readers(channel: Channel, views: Values, loop: ForOp) -> list[MatrixProduct]:
    """The products of a loop that read the buffers of a channel."""
    buffers = {views[s.load.results[0]] for s in channel.stages}
    return [
        op for op in loop.body.ops
        if isinstance(op, MatrixProduct) and {untransposed(op.a), untransposed(op.b)} & buffers
    ]  # fmt: skip


def _check_capture(value: SSAValue) -> None:
    if is_tile(value):
        raise Unsplittable("the place of a load is computed from a tile")
    owner = value.owner
    chosen = isinstance(owner, Op) and next(owner.forwarded_values(), None) is not None
    if isinstance(value.type, ir.TensorDescType) and chosen:
        raise Unsplittable("the descriptor of a load is chosen by a loop or branch before")


def _check_repeatable(op: Operation) -> None:
    """The producer must be able to compute what the op does beside the consumer."""
    if any(map(is_tile, op.results)):
        raise Unsplittable(f"the place of a load is computed from a tile, by {op.name}")
    makes = any(isinstance(r.type, ir.TensorDescType) for n in op.walk() for r in n.results)
    if not isinstance(op, Op) or not op.is_pure or makes:
        raise Unsplittable(f"the place of a load is computed by {op.name}, which has effects")


def _region(kind: type[Op], loop: ForOp) -> tuple[Region, Op]:
    end = kind.build(location=loop.location)
    return Region(Block([end])), end


def _captured(region: Region) -> list[SSAValue]:
    """Replace the values that a region uses from outside, but constants, by arguments of it;
    returns them."""
    inside = set(_defined(region))
    found: dict[SSAValue, SSAValue] = {}
    for op in region.walk():
        for index, value in enumerate(op.operands):
            if value in inside or is_constant(value):
                continue
            if value not in found:
                block = region.block
                found[value] = block.insert_arg(value.type, len(block.args))
                found[value].name_hint = value.name_hint
            op.operands[index] = found[value]
    return list(found)


def _defined(region: Region) -> Iterator[SSAValue]:
    for block in region.blocks:
        yield from block.args
    for op in region.walk():
        yield from op.results
        for inner in op.regions:
            for block in inner.blocks:
                yield from block.args
