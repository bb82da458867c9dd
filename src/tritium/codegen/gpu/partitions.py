"""`ttg.warp_specialize`: at the start of the kernel the warps of partitions branch to their code;
the others run the code around the op and its default region.

    entry:   if warp >= num_warps: goto workers
             ... captures to shared memory; hand over; default region; hand over; ...
             return
    workers: for each ttg.warp_specialize: hand over; the partition of this warp; hand over
             return

"Hand over" is a barrier of all these warps: at the first, partitions find their captures; at the
second, all regions have ended. Where the ops are in loops or branches, workers run a loop: at the
first barrier they also find the number of the op that is to come, or that the kernel ends. Each
region synchronizes its own warps with a barrier of its own
number. Warps that only fill up a group of four, whose registers change together, return at once.

In a cluster of thread blocks a region synchronizes its warps of all blocks at an mbarrier of its
own, as the cluster's barrier counts all warps. All warps make these ready before they branch.
Where workers are idle, and the code around the ops is one block, they come to the cluster's
barriers of that code as well: these cost a tenth of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from xdsl.ir import Block, Operation, SSAValue

from tritium.analysis.barrier_waits import endless_wait
from tritium.analysis.shared_memory import allocates_memory
from tritium.codegen.gpu.context import Context, Memory
from tritium.codegen.gpu.control import ends_together, lower_block
from tritium.codegen.gpu.types import GPU, value_type
from tritium.codegen.gpu.types import SHARED as SHARED_SPACE
from tritium.codegen.llvm.writer import Value
from tritium.codegen.registry import lowers
from tritium.ir import types as ir
from tritium.ir.layouts.tensor_memory import TensorEncoding
from tritium.ir.source_errors import error_at
from tritium.ops.attributes import NUM_CTAS
from tritium.ops.base import Op, is_constant
from tritium.ops.effects import BARRIER, SHARED
from tritium.ops.terminators import terminator
from tritium.ops.ttgir import ClusterBarrierOp, GlobalScratchAllocOp, MemDescType, WarpSpecializeOp
from tritium.ops.ttgir.warp_specialize import MOST_WARPS

HAND_OVER = 1
"""The number of the barrier of all warps; the default region's is 0."""
FIRST_BARRIER, BARRIERS = 2, 16
"""The number of the first partition's barrier, and how many there are."""
GROUP = 4
"""Warps whose registers change together."""
SLOT = 8
"""Bytes of shared memory for a capture."""
STATE_BYTES = 16
"""Bytes of shared memory for the number of the op that is to come."""
MBARRIER_BYTES = 8
"""Bytes of shared memory for an mbarrier."""
THE_END = -1
"""The number that stands for the end of the kernel."""


@dataclass(frozen=True)
class Registers:
    """Registers of a thread: at the launch, and of the default region's warps from then on."""

    launch: int
    default: int


@dataclass(frozen=True)
class Plan:
    """The assignment of a block's warps to regions.

    Attributes:
        ops: the `ttg.warp_specialize` of a kernel, in order.
        num_warps: the warps of the default regions.
        workers: for each op the first warp of each of its partitions.
        total: all warps.
        state: the place in shared memory of the number of the op that is to come; None where the
            ops run one after the other.
        clusters: the place of the mbarriers of regions in a cluster: the default regions', and
            each partition's; None without a cluster.
        meetings: the cluster's barriers in the kernel's own code that all warps come to: those
            before each op, and those behind the last; empty where they come to none.
        late: the registers of the default regions' warps where these take them at the first op, so
            that what comes before need not wait until others have given theirs back; else None.
    """

    ops: tuple[WarpSpecializeOp, ...]
    num_warps: int
    workers: tuple[tuple[int, ...], ...]
    total: int
    state: int | None = None
    clusters: int | None = None
    meetings: tuple[tuple[ClusterBarrierOp, ...], ...] = ()
    late: Registers | None = None

    def meets_all(self, op: Op) -> bool:
        """True for a barrier of the cluster that all warps come to."""
        return any(op is one for between in self.meetings for one in between)

    def regions(self) -> int:
        """Regions that run at a time, at most."""
        return 1 + max(len(op.partitions) for op in self.ops)

    def ranges(self) -> list[tuple[int, int, int]]:
        """(first warp, end, registers or 0) of all partitions."""
        found: list[tuple[int, int, int]] = []
        for op, firsts in zip(self.ops, self.workers, strict=True):
            registers = op.requestedRegisters or (0,) * len(firsts)
            for first, count, wanted in zip(firsts, op.partitionNumWarps, registers, strict=True):
                found.append((first, first + count, wanted))
        return found

    def active(self) -> int:
        """Warps that hand over."""
        busy = {w for first, end, _ in self.ranges() for w in range(first, end)}
        return self.num_warps + len(busy)

    def group_registers(self) -> dict[int, int]:
        """The registers that partitions ask for, by group of warps; empty if registers do not
        change: where a group has warps of the default region, or one asks for nothing."""
        if self.num_warps % GROUP or self.total % GROUP:
            return {}
        found: dict[int, int] = {}
        for first, end, wanted in self.ranges():
            for group in {w // GROUP for w in range(first, end)}:
                found[group] = max(found.get(group, 0), wanted)
        return found if all(found.values()) else {}


def plan_of(kernel: Any, num_warps: int) -> Plan | None:
    """The plan of a kernel; None where all warps run the same code."""
    check_waits(kernel)
    ops = tuple(op for op in kernel.walk() if isinstance(op, WarpSpecializeOp))
    if not ops:
        return None
    for op in ops:
        for inner in (i for region in op.partitions for i in region.walk()):
            calls = isinstance(inner, Op) and inner.is_call
            if calls or isinstance(inner, GlobalScratchAllocOp):
                raise error_at(inner.location, f"{inner.name}: in a partition this is not built")
        if len(op.partitions) > BARRIERS - FIRST_BARRIER:
            raise error_at(op.location, (
                f"{op.name}: {len(op.partitions)} partitions; there are {BARRIERS} barriers, for "
                f"at most {BARRIERS - FIRST_BARRIER}"
            ))  # fmt: skip
    workers = tuple(tuple(op.first_warps(num_warps)) for op in ops)
    plan = Plan(ops, num_warps, workers, 0)
    total = max((end for _, end, _ in plan.ranges()), default=num_warps)
    if any(op.requestedRegisters for op in ops):
        total = -(-total // GROUP) * GROUP
    if total > MOST_WARPS:
        parts = " + ".join(str(n) for n in (num_warps, *ops[0].partitionNumWarps))
        raise error_at(ops[0].location, (
            f"{ops[0].name}: {total} warps ({parts}, in groups of {GROUP}) are needed; a block has "
            f"at most {MOST_WARPS}"
        ))  # fmt: skip
    return replace(plan, total=total)


def check_waits(kernel: Any) -> None:
    """Refuse waits for phases of mbarriers that never end. Raises `CompilationError`."""
    if (found := endless_wait(kernel)) is not None:
        op, why = found
        message = f"{op.name}: {why}, so that its warps wait for ever"
        raise error_at(op.location, message)


def _passed(op: WarpSpecializeOp) -> list[SSAValue]:
    """The captures that go through shared memory: not what is known at compile time (constants,
    places of allocations) nor what all threads have (arguments)."""
    return [
        v for v in op.captures
        if not is_constant(v) and not _is_argument(v) and not _is_place(v)
    ]  # fmt: skip


def _is_argument(value: SSAValue) -> bool:
    """True if a value is an argument of a function."""
    function = value.owner.parent_op() if isinstance(value.owner, Block) else None
    return function is not None and "sym_name" in function.properties


def _is_place(value: SSAValue) -> bool:
    return isinstance(value.owner, Operation) and allocates_memory(value.owner)


def capture_bytes(op: Any) -> int:
    """Shared memory for the captures that need some."""
    return SLOT * len(_passed(op))


def in_order(kernel: Any) -> bool:
    """True if the kernel runs each `ttg.warp_specialize` once, one after the other."""
    blocks = kernel.regions[0].blocks
    ops = [op for op in kernel.walk() if isinstance(op, WarpSpecializeOp)]
    return all(op.parent is blocks[0] for op in ops) and (len(blocks) == 1 or not ops)


def _cluster_bytes(kernel: Any) -> int:
    """Shared memory for the mbarriers of a kernel's regions in a cluster."""
    counts = [len(op.partitions) for op in kernel.walk() if isinstance(op, WarpSpecializeOp)]
    found = kernel.parent_op().attributes.get(NUM_CTAS)
    if not counts or found is None or found.value.data == 1:
        return 0
    return -(-MBARRIER_BYTES * (1 + max(counts)) // STATE_BYTES) * STATE_BYTES


def plan_bytes(kernel: Any) -> int:
    """Shared memory that a kernel's plan needs, behind all other."""
    return _cluster_bytes(kernel) + (0 if in_order(kernel) else STATE_BYTES)


def with_memory(plan: Plan, kernel: Any, end: int) -> Plan:
    """The plan with places in the last `plan_bytes` before the end of shared memory."""
    state = None if in_order(kernel) else end - STATE_BYTES
    clusters = end - plan_bytes(kernel) if _cluster_bytes(kernel) else None
    meetings = _meetings(plan, kernel) if clusters is not None and state is None else ()
    return replace(plan, state=state, clusters=clusters, meetings=meetings)


def _meetings(plan: Plan, kernel: Any) -> tuple[tuple[ClusterBarrierOp, ...], ...]:
    """The cluster's barriers that all warps of a kernel come to; see `Plan`."""
    if len(kernel.regions[0].blocks) > 1:
        return ()
    found: list[list[ClusterBarrierOp]] = [[]]
    for op in kernel.regions[0].block.ops:
        if op in plan.ops:
            found.append([])
        elif isinstance(op, ClusterBarrierOp):
            found[-1].append(op)
    return tuple(map(tuple, found))


def _begins_with_meeting(plan: Plan, kernel: Any) -> bool:
    """True if all warps come to a barrier of the cluster before any could need one: ahead of it
    the kernel computes only with scalars, and makes places in shared memory and barriers."""
    for op in kernel.regions[0].block.ops if plan.meetings else ():
        if isinstance(op, ClusterBarrierOp):
            return plan.meets_all(op)
        if op.regions or any(isinstance(v.type, ir.TensorType) for v in op.operands):
            return False
        if op.reaches_blocks or not {e.resource for e in op.own_effects()} <= {BARRIER, SHARED}:
            return False
    return False


def with_registers(plan: Plan, kernel: Any, registers: Registers | None) -> Plan:
    """The plan with registers that are taken late, if the kernel has no tiles before its first op,
    to which it comes once. Registers that are given back the others may be waiting for."""
    if plan.state is not None or registers is None or registers.default <= registers.launch:
        return plan
    for op in kernel.regions[0].blocks[0].ops:
        if op is plan.ops[0]:
            return replace(plan, late=registers)
        if op.regions or any(_is_held(value) for value in op.results):
            return plan
    return plan


def _is_held(value: SSAValue) -> bool:
    """True for a tile that takes registers."""
    return isinstance(value.type, ir.TensorType) and not is_constant(value)


def hand_over(c: Context, plan: Plan) -> None:
    """Let all warps that run code synchronize."""
    c.hardware.barriers.named(c, HAND_OVER, plan.active())


@lowers(GPU, WarpSpecializeOp, scratch=capture_bytes)
def warp_specialize(c: Context, op: Any) -> None:
    assert c.plan is not None, "only kernels have partitions"
    first = c.f.icmp("eq", c.thread, c.i32(0))
    for index, value in enumerate(_passed(op)):
        found = c.values[value]
        word = found.address if isinstance(found, Memory) else c.scalar(value)
        slot = c.shared(c.offsets[op] + SLOT * index)
        c.hardware.shared.store(c, slot, [_as_word(c, word)], first)
    _announce(c, c.plan, c.plan.ops.index(op))
    hand_over(c, c.plan)
    if c.plan.late is not None and op is c.plan.ops[0]:
        c.hardware.set_registers(c, c.plan.late.default, c.plan.late.launch)
    lower_block(c, op.default.block)
    for result, value in zip(op.results, terminator(op.default.block).operands, strict=True):
        c.values[result] = c.values[value]
    hand_over(c, c.plan)


def _announce(c: Context, plan: Plan, number: int) -> None:
    """Tell workers which op is to come."""
    if plan.state is not None:
        first = c.f.icmp("eq", c.thread, c.i32(0))
        c.hardware.shared.store(c, c.shared(plan.state), [c.i32(number)], first)


def _leave(c: Context, plan: Plan) -> None:
    """At the end of a kernel, let workers that wait for the next op return."""
    if plan.state is not None:
        _announce(c, plan, THE_END)
        hand_over(c, plan)


def _as_word(c: Context, value: Value) -> Value:
    """A capture as the integer of its size in which it is passed."""
    if value.type.startswith("ptr"):
        return c.f.cast("ptrtoint", value, "i64")
    if value.type == "i1":
        return c.f.cast("zext", value, "i8")
    return value


def enter(c: Context, kernel: Any, plan: Plan, registers: Registers | None) -> str:
    """Send workers to the label that is returned; what follows is for the others."""
    if plan.clusters is not None:
        places = [c.shared(plan.clusters + MBARRIER_BYTES * n) for n in range(plan.regions())]
        c.hardware.barriers.prepare_clusters(c, places)
        if not _begins_with_meeting(plan, kernel):
            c.hardware.barriers.cluster(c)
    workers, main = c.f.new_label("workers"), c.f.new_label("main")
    warp = c.hardware.shuffles.index(c, c.warp, c.i32(0))
    c.f.branch_if(c.f.icmp("ult", warp, c.i32(plan.num_warps)), main, workers)
    c.f.label(main)
    if registers is not None and plan.late is None:
        c.hardware.set_registers(c, registers.default, registers.launch)
    c.entry, c.at_return = c.f.section(), partial(_leave, c, plan)
    return workers


def write_workers(c: Context, plan: Plan, label: str, registers: Registers | None) -> None:
    """The code of the partitions, from `label` on."""
    f, groups = c.f, plan.group_registers() if registers is not None else {}
    f.label(label)
    warp = c.hardware.shuffles.index(c, c.warp, c.i32(0))
    for count in sorted(set(groups.values())) or [0]:
        mine = {g for g, wanted in groups.items() if wanted == count}
        following = f.new_label("workers")
        if groups:
            here = f.new_label("group")
            group = f.op("lshr", warp, c.i32(GROUP.bit_length() - 1))
            f.branch_if(_is_one_of(c, group, mine), here, following)
            f.label(here)
            assert registers is not None
            c.hardware.set_registers(c, count, registers.launch)
        _idle(c, plan, warp)
        _work(c, plan, warp, mine)
        if groups:
            f.label(following)
    if groups:
        f.unreachable()


def _work(c: Context, plan: Plan, warp: Value, groups: set[int]) -> None:
    """Run the partitions that have warps of some groups (of all, if none is given), and return."""
    f = c.f
    if plan.state is None:
        for number in range(len(plan.ops)):
            _meet(c, plan, number)
            hand_over(c, plan)
            _partitions(c, plan, number, warp, groups)
            hand_over(c, plan)
        _meet(c, plan, len(plan.ops))
        if plan.meetings and ends_together(c, plan.ops[0]):
            c.hardware.barriers.cluster(c)
        f.ret()
        return
    again, go_on, done = (f.new_label(name) for name in ("again", "go_on", "done"))
    f.branch(again)
    f.label(again)
    hand_over(c, plan)
    state = f.load("i32", c.shared(plan.state), STATE_BYTES)
    f.branch_if(f.icmp("eq", state, c.i32(THE_END)), done, go_on)
    f.label(done)
    f.ret()
    f.label(go_on)
    for number in range(len(plan.ops)):
        with f.when(f.icmp("eq", state, c.i32(number)), "op", "next"):
            _partitions(c, plan, number, warp, groups)
    hand_over(c, plan)
    f.branch(again)


def _meet(c: Context, plan: Plan, number: int) -> None:
    """Come to the cluster's barriers before an op, or behind the last."""
    for op in plan.meetings[number] if plan.meetings else ():
        c.hardware.barriers.cluster(c, relaxed=op.relaxed)


def _partitions(c: Context, plan: Plan, number: int, warp: Value, groups: set[int]) -> None:
    op = plan.ops[number]
    for index, first in enumerate(plan.workers[number]):
        count = op.partitionNumWarps[index]
        if not groups or groups & {w // GROUP for w in range(first, first + count)}:
            _partition(c, op, index, first, warp)


def _is_one_of(c: Context, number: Value, numbers: set[int]) -> Value:
    found = Value("i1", "false")
    for one in sorted(numbers):
        found = c.f.op("or", found, c.f.icmp("eq", number, c.i32(one)))
    return found


def _idle(c: Context, plan: Plan, warp: Value) -> None:
    """Warps of no partition return."""
    busy = {w for first, end, _ in plan.ranges() for w in range(first, end)}
    if idle := set(range(plan.num_warps, plan.total)) - busy:
        leave, stay = c.f.new_label("idle"), c.f.new_label("busy")
        c.f.branch_if(_is_one_of(c, warp, idle), leave, stay)
        c.f.label(leave)
        c.f.ret()
        c.f.label(stay)


def _partition(c: Context, op: WarpSpecializeOp, index: int, first: int, warp: Value) -> None:
    f, count = c.f, op.partitionNumWarps[index]
    inside = f.icmp("ult", f.op("sub", warp, c.i32(first)), c.i32(count))
    with f.when(inside, "partition", "end"):
        thread = f.op("sub", c.thread, c.i32(first * c.hardware.lanes))
        own_warp = f.op("sub", c.warp, c.i32(first))
        place = None if c.cluster_place is None else c.cluster_place + MBARRIER_BYTES * (1 + index)
        own = replace(  # the section follows the numbers, which what is computed in it may use
            c, entry=f.section(), num_warps=count, thread=thread, warp=own_warp,
            barrier_number=FIRST_BARRIER + index, share=None, cluster_place=place,
        )  # fmt: skip
        block = op.partitions[index].block
        _define(own, op, block.args)
        lower_block(own, block)
        if terminator(block) in own.barriers:
            own.barrier(own.barriers[terminator(block)])


def _define(c: Context, op: WarpSpecializeOp, arguments: Sequence[SSAValue]) -> None:
    """Give a partition its captures."""
    passed = _passed(op)
    for value, argument in zip(op.captures, arguments, strict=True):
        if value in passed:
            slot = c.shared(c.offsets[op] + SLOT * passed.index(value))
            c.values[argument] = _loaded(c, slot, argument.type)
        elif _is_place(value):
            c.values[argument] = Memory(c.shared(c.offsets[value.owner]), argument.type)
        else:
            c.values[argument] = c.values[value]


def _loaded(c: Context, slot: Value, type: Any) -> Any:
    memory = isinstance(type, MemDescType)
    in_columns = memory and isinstance(type.encoding, TensorEncoding)
    kind = "i32" if in_columns else SHARED_SPACE if memory else value_type(type)
    word = "i8" if kind == "i1" else "i64" if kind.startswith("ptr") else kind
    value = c.f.load(word, slot, SLOT)
    if kind == "i1":
        return c.f.cast("trunc", value, "i1")
    found = c.f.cast("inttoptr", value, kind) if kind.startswith("ptr") else value
    return Memory(found, type) if memory else found
