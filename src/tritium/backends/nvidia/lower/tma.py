"""mbarriers and the bulk copy engine (TMA): one thread of the program starts a copy, all wait.

A tensor map's box is at most one swizzled row (128 bytes) wide and 256 elements long, so that a
block is copied in as many pieces as it takes; the launcher makes maps of the same box.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from typing import Any

from tritium import knobs
from tritium.backends.nvidia.lower.cluster_store import order
from tritium.backends.nvidia.lower.hardware import NVIDIA, Nvidia
from tritium.backends.nvidia.lower.hints import Hints
from tritium.backends.nvidia.lower.wgmma import byte_offsets
from tritium.codegen.gpu.context import Context, Memory
from tritium.codegen.gpu.memory.shared import gaps_of, memory_layout
from tritium.codegen.llvm.types import memory_bytes
from tritium.codegen.llvm.writer import Value
from tritium.codegen.registry import lowers
from tritium.ir import types as ir
from tritium.ir.layouts.encodings import BLOCK, NVMMASharedEncoding, part_of
from tritium.ir.locations import source_position
from tritium.ir.tensor_maps import box
from tritium.ops import ttgir
from tritium.ops.ttgir.types import blocks_of_barrier


def _first(c: Context, condition: Value | None = None) -> Value:
    """True if this is the thread that acts for the block, and a condition holds."""
    first = c.f.icmp("eq", c.thread, c.i32(0))
    return first if condition is None else c.f.op("and", first, condition)


MANY_WARPS = 8


@contextmanager
def _acting_warp(c: Context) -> Generator[None]:
    """Code of the warp alone whose first thread acts for the block: instructions of the copy engine
    hold up every warp that issues them, masked or not, behind those of the first. Of four warps the
    branch costs more than it saves (docs/hopper-speed.md)."""
    if c.num_warps < MANY_WARPS:
        yield
        return
    with c.f.when(c.f.icmp("ult", c.thread, c.i32(c.hardware.lanes)), "acts", "begun"):
        yield


def arch_of(c: Context) -> int:
    """The compute capability that is compiled for, 90 say."""
    hardware = c.hardware
    assert isinstance(hardware, Nvidia)
    return hardware.arch


def _barrier(c: Context, value: Any) -> Value:
    """The address of a barrier in this block's memory."""
    return c.address(c.memory(value).address)


def _shared_barrier(c: Context, value: Any) -> Value:
    """The address, in the cluster's memory, of the barrier that this block and others share."""
    text = "mapa.shared::cluster.u32 $0, $1, $2;"
    block = block_of_barrier(c, value)
    return c.asm("i32", text, "=r,r,r", _barrier(c, value), block, effects=False)


def block_of_barrier(c: Context, value: Any) -> Value:
    """The block whose memory has the barrier that this block and others share."""
    return c.f.op("and", c.block, c.i32(~blocks_of_barrier(value.type)))


def leads_barrier(c: Context, value: Any, condition: Value | None = None) -> Value | None:
    """True if a barrier is this block's, and a condition holds; None: always."""
    shared = blocks_of_barrier(value.type)
    if not shared:
        return condition
    leads = c.f.icmp("eq", c.f.op("and", c.block, c.i32(shared)), c.i32(0))
    return leads if condition is None else c.f.op("and", condition, leads)


@lowers(NVIDIA, ttgir.InitBarrierOp)
def init_barrier(c: Context, op: Any) -> None:
    count = op.count << blocks_of_barrier(op.alloc.type).bit_count()
    text = f"mbarrier.init.shared::cta.b64 [$0], {count};"
    if arch_of(c) >= 90:  # which has clusters, and copy engines that use barriers
        text += " fence.mbarrier_init.release.cluster;"
    address = _barrier(c, op.alloc)
    with c.f.when(_first(c, leads_barrier(c, op.alloc)), "first", "made"):
        c.asm("void", text, "r,~{memory}", address)


@lowers(NVIDIA, ttgir.InvalBarrierOp)
def inval_barrier(c: Context, op: Any) -> None:
    """The address has an immediate offset where it is known: else a register keeps it from the
    barrier's initialization on, and those of many barriers leave too few uniform registers for the
    loop between."""
    start = c.memory(op.alloc).start
    address, further = (_barrier(c, op.alloc), "") if start is None else (
        c.address(c.shared(0)), f"+{start}"
    )
    text = f"@$1 mbarrier.inval.shared::cta.b64 [$0{further}];"
    c.asm("void", text, "r,b,~{memory}", address, _first(c, leads_barrier(c, op.alloc)))


@lowers(NVIDIA, ttgir.BarrierExpectOp)
def barrier_expect(c: Context, op: Any) -> None:
    _arrive(c, op, "arrive.expect_tx", f", {op.size}", c.scalar(op.pred))


def _arrive(c: Context, op: Any, how: str, count: str, condition: Value | None) -> None:
    """Arrive at a barrier of this block, at one that blocks share, or at those of other blocks."""
    there = order(c, op, "release") + ".shared::cluster.b64"
    if c.num_ctas > 1 and (op.fromCTA != ttgir.ITSELF or op.multicastCTA):
        _arrive_in_blocks(c, op, how + there, count, condition)
        return
    condition, place, barrier = _first(c, condition), ".shared::cta.b64", _barrier
    if blocks_of_barrier(op.alloc.type):
        place, barrier = there, _shared_barrier
    text = f"@$1 mbarrier.{how}{place} _, [$0]{count};"
    c.asm("void", text, "r,b,~{memory}", barrier(c, op.alloc), condition)


def _arrive_in_blocks(c: Context, op: Any, how: str, count: str, condition: Value | None) -> None:
    """Arrive at the barriers of several blocks: one thread for each."""
    target, chosen = blocks_told(c, op)
    chosen = chosen if condition is None else c.f.op("and", chosen, condition)
    text = (
        "{ .reg .b32 there; mapa.shared::cluster.u32 there, $0, $1; "
        f"@$2 mbarrier.{how} _, [there]{count}; }}"
    )
    c.asm("void", text, "r,r,b,~{memory}", _barrier(c, op.alloc), target, chosen)


def blocks_told(c: Context, op: Any) -> tuple[Value, Value]:
    """The block in which this thread arrives, and whether it does, for an arrival in the blocks `t`
    for which this is `t & fromCTA`, or in those that differ from it in bits of `multicastCTA`."""
    if blocks_of_barrier(op.alloc.type):
        raise c.unsupported(op, "from or at other blocks, with a barrier that blocks share")
    kept = (op.fromCTA & ~op.multicastCTA) & (c.num_ctas - 1)
    free = [bit for bit in range(c.num_ctas.bit_length() - 1) if not kept >> bit & 1]
    f, number = c.f, c.linear_map(c.thread, [1 << bit for bit in free])
    target = c.block if number is None else f.op("xor", c.block, number)
    chosen = f.icmp("ult", c.thread, c.i32(1 << len(free)))
    if op.multicastCTA:  # each block; its first thread arrives at its own barrier
        return target, chosen
    own = f.op("and", c.block, c.i32(c.num_ctas - 1 & ~kept))
    return target, f.op("and", chosen, f.icmp("eq", own, c.i32(0)))


@lowers(NVIDIA, ttgir.ArriveBarrierOp)
def arrive_barrier(c: Context, op: Any) -> None:
    condition = None if op.pred is None else c.scalar(op.pred)
    if op.perWarp:
        if blocks_of_barrier(op.alloc.type) or op.multicastCTA:
            raise c.unsupported(op, "of each warp, at a barrier of several blocks")
        if op.count != c.num_warps:
            raise c.unsupported(op, f"{op.count} arrivals of {c.num_warps} warps")
        text = "bar.warp.sync 0xffffffff; @$1 mbarrier.arrive.shared::cta.b64 _, [$0];"
        first = c.f.icmp("eq", c.lane, c.i32(0))
        condition = first if condition is None else c.f.op("and", first, condition)
        c.asm("void", text, "r,b,~{memory}", _barrier(c, op.alloc), condition)
        return
    if op.count > 1 and arch_of(c) < 90:
        raise c.unsupported(op, f"{op.count} arrivals at once, before sm_90")
    _arrive(c, op, "arrive", f", {op.count}" if op.count > 1 else "", condition)


@lowers(NVIDIA, ttgir.WaitBarrierOp)
def wait_barrier(c: Context, op: Any) -> None:
    """One piece of assembly, with labels of its own scope: optimizers must not copy the loop."""
    arguments = [_barrier(c, op.alloc), c.scalar(op.phase)]
    skip, constraints = "", "r,r,~{memory}"
    condition = leads_barrier(c, op.alloc, None if op.pred is None else c.scalar(op.pred))
    if condition is not None:
        arguments.append(condition)
        skip, constraints = "@!$2 bra DONE; ", "r,r,b,~{memory}"
    how = "try_wait" if arch_of(c) >= 90 else "test_wait"
    ask = f"mbarrier.{how}.parity{order(c, op, 'acquire')}.shared::cta.b64 P, "
    limit = knobs.nvidia.mbarrier_timeout
    if limit:
        _wait_so_long(c, op, ask, limit, arguments)
        return
    text = (
        "{ .reg .pred P; " + skip
        + f"AGAIN: {ask}[$0], $1; "
        "@P bra DONE; bra AGAIN; DONE: }"
    )
    c.asm("void", text, constraints, *arguments)


def _wait_so_long(c: Context, op: Any, ask: str, limit: int, arguments: Sequence[Value]) -> None:
    """Wait for at most `limit` milliseconds; then the kernel ends with the line of the wait."""
    skip = "@!$3 bra DONE; " if len(arguments) > 2 else ""
    text = (
        "{ .reg .pred P; .reg .b64 start, now; mov.u64 start, %globaltimer; mov.u32 $0, 0; " + skip
        + f"AGAIN: {ask}[$1], $2; @P bra DONE; mov.u64 now, %globaltimer; sub.u64 now, now, start; "
        f"setp.lt.u64 P, now, {limit * 1_000_000}; @P bra AGAIN; mov.u32 $0, 1; DONE: }}"
    )
    constraints = ",".join(["=&r,r,r", *["b"] * (len(arguments) - 2), "~{memory}"])
    late = c.f.icmp("ne", c.asm("i32", text, constraints, *arguments), c.i32(0))
    file, line, _ = source_position(op.location) or ("<unknown>", 0, 0)
    with c.f.when(late, "late", "arrived"):
        message = f"mbarrier: waited for {limit} ms (TRITIUM_MBARRIER_TIMEOUT)"
        c.hardware.host.fail(c, message, file, line)


@lowers(NVIDIA, ttgir.AsyncCopyMbarrierArriveOp)
def async_copy_arrive(c: Context, op: Any) -> None:
    how = ".noinc" if op.arrivals else ""
    text = f"cp.async.mbarrier.arrive{how}.shared::cta.b64 [$0];"
    c.asm("void", text, "r,~{memory}", _barrier(c, op.barrier))


def pieces(memory: Memory, rows: int = 0) -> list[tuple[tuple[int, ...], int]]:
    """(where in the block, byte offset) of the parts that one copy each moves; in a cluster, of
    what the first of its blocks has. `rows`: of a part of a matrix, if it is not a box."""
    shape, size = part_of_block(memory), memory_bytes(memory.type.element_type)
    part = box(shape, memory.type.encoding, size)
    part = (rows, part[1]) if rows else part
    where = byte_offsets(memory.type)
    starts = product(*(range(0, n, step) for n, step in zip(shape, part, strict=True)))
    encoding = memory.type.encoding
    row = max(swizzle_of(encoding), 1)
    # The first element may have been moved within its row, the piece begins where the row does.
    return [(s, where(**{f"dim{i}": x for i, x in enumerate(s)}) // row * row) for s in starts]


def swizzle_of(encoding: Any) -> int:
    """The bytes of a row that is permuted; 0 without."""
    swizzled = isinstance(encoding, NVMMASharedEncoding)
    return encoding.get("swizzlingByteWidth") if swizzled else 0


def bulk_start(memory: Memory) -> int:
    """The start of a slice in its tile, in bytes: that of the row of its first element."""
    row, size = max(swizzle_of(memory.type.encoding), 1), memory_bytes(memory.type.element_type)
    gaps = sum(memory.origin // run * padding for run, padding in gaps_of(memory.type))
    return (memory.origin + gaps) * size // row * row


def _start(c: Context, memory: Memory) -> Value:
    """The address of a tile that is copied."""
    start, offset = c.address(memory.address), bulk_start(memory)
    return c.f.op("add", start, c.i32(offset)) if offset else start


def part_of_block(memory: Memory) -> tuple[int, ...]:
    """The shape of what a block of the cluster has of a tile."""
    return part_of(memory.type.encoding.get("CGALayout"), memory.type.get_shape())


def own_coordinates(c: Context, memory: Memory, coordinates: Sequence[Any]) -> list[Value]:
    """The coordinates of what this block of the cluster has of a tile."""
    return own_place(c, memory, [c.scalar(value) for value in coordinates])


def own_place(c: Context, memory: Memory, coordinates: Sequence[Value]) -> list[Value]:
    """The coordinates of this block's part of a tile whose coordinates are in registers."""
    bases = memory_layout(memory.type).bases(BLOCK)
    missing = len(coordinates) - len(memory.type.get_shape())
    found = list(coordinates[:missing])
    for axis, start in enumerate(coordinates[missing:]):
        further = c.linear_map(c.block, [basis[axis] for basis in bases])
        found.append(start if further is None else c.f.op("add", start, further, "nsw"))
    return found


def own_patches(c: Context, op: Any, memory: Memory) -> list[Value]:
    """The coordinates of what this block of the cluster has of patches: some of the pixels and
    some of the channels."""
    bases = memory_layout(memory.type).bases(BLOCK)
    *pixels, channel = map(c.scalar, op.coord)
    skipped = c.linear_map(c.block, [basis[0] for basis in bases])
    if skipped is not None:
        pixels = _later_pixel(c, op, pixels, skipped)
    further = c.linear_map(c.block, [basis[1] for basis in bases])
    return [*pixels, channel if further is None else c.f.op("add", channel, further, "nsw")]


def _later_pixel(c: Context, op: Any, pixels: list[Value], skipped: Value) -> list[Value]:
    """The pixel at which filters begin `skipped` positions after those at `pixels`. Positions go
    along the rows, from the lower corner to the upper one, row after row, image after image."""
    f, (lower, upper, steps) = c.f, op.desc.type.filter_numbers()
    found = list(pixels)
    for axis in range(len(pixels) - 1, 0, -1):
        step, low = c.i32(steps[axis]), c.i32(lower[axis - 1])
        last = f.op("add", c.scalar(op.shape[axis]), c.i32(upper[axis - 1] - 1))
        # How many positions the row has from the pixel on, and from its start on.
        left, every = (
            f.op("add", f.op("udiv", f.op("sub", last, begin), step), c.i32(1))
            for begin in (pixels[axis], low)
        )
        beyond, over = f.icmp("uge", skipped, left), f.op("sub", skipped, left)
        within = f.op("add", pixels[axis], f.op("mul", skipped, step))
        later = f.op("add", low, f.op("mul", f.op("urem", over, every), step))
        found[axis] = f.select(beyond, later, within)
        rows = f.op("add", f.op("udiv", over, every), c.i32(1))
        skipped = f.select(beyond, rows, c.i32(0))
    found[0] = f.op("add", pixels[0], f.op("mul", skipped, c.i32(steps[0])))
    return found


def _coordinates(
    c: Context, coordinates: Sequence[Value], start: Sequence[int], halves: bool = False
) -> list[Value]:
    """The map's coordinates, innermost first; `halves`: that one counts halves of elements."""
    further = dict(enumerate(reversed(start)))
    inner, *outer = [
        c.f.op("add", v, c.i32(further[i]), "nsw") if further.get(i) else v
        for i, v in enumerate(reversed(coordinates))
    ]
    return [c.f.op("shl", inner, c.i32(1), "nsw") if halves else inner, *outer]


def is_padded(memory: Memory) -> bool:
    """True for memory with gaps between the elements of 4 bits."""
    encoding = memory.type.encoding
    return isinstance(encoding, NVMMASharedEncoding) and encoding.get("fp4Padded")


def cache_hint(c: Context, op: Any, number: int) -> tuple[str, str, list[Value]]:
    """The suffix of a copy, its last operand, which has the number, and the operand's value."""
    hints = Hints.of(getattr(op, "hints", ""))
    if hints.policy is None:
        return "", "", []
    return hints.cached, f", ${number}", [hints.policy(c)]


def _listed(start: int, count: int) -> str:
    return "{" + ", ".join(f"${start + i}" for i in range(count)) + "}"


@lowers(NVIDIA, ttgir.AsyncTMACopyGlobalToLocalOp)
def copy_in(c: Context, op: Any) -> None:
    memory, (barrier, group) = c.memory(op.result), barrier_of_copy(c, op)
    descriptor, condition = c.scalar(op.desc), _first(c, c.scalar(op.pred))
    rank, blocks, share = len(op.coord), sharing(c, op, memory)[0], share_of_copy(c, op, memory)
    if share.acts is not None:
        condition = c.f.op("and", condition, share.acts)
    start = _start(c, memory)
    start = start if share.offset is None else c.f.op("add", start, share.offset)
    halves, last = [c.scalar(v) for v in reversed(op.offsets)], rank + 4 + len(op.offsets)
    mode, moved = (".im2col", f", {_listed(rank + 4, len(halves))}") if halves else ("", "")
    how, mask = ("", "") if blocks is None else (".multicast::cluster", f", ${last}")
    hint, policy, policies = cache_hint(c, op, last + (blocks is not None))
    text = (
        f"@$3 cp.async.bulk.tensor.{rank}d{group}.shared::cluster.global{mode}"
        f".mbarrier::complete_tx::bytes{how}{hint} [$0], [$1, {_listed(4, rank)}], "
        f"[$2]{moved}{mask}{policy};"
    )
    halves += [] if blocks is None else [blocks]
    codes = ["r", "l", "r", "b", *["r"] * rank, *["h"] * len(halves), *["l"] * len(policies),
             "~{memory}"]  # fmt: skip
    constraints = ",".join(codes)
    coordinates = own_patches(c, op, memory) if mode else own_coordinates(c, memory, op.coord)
    coordinates = share.moved(c, coordinates)
    with _acting_warp(c):
        for piece, offset in share.pieces:
            to = c.f.op("add", start, c.i32(offset)) if offset else start
            further = (0,) * (rank - len(piece)) + piece
            c.asm("void", text, constraints, to, descriptor, barrier, condition,
                  *_coordinates(c, coordinates, further, is_padded(memory)), *halves,
                  *policies)  # fmt: skip


def barrier_of_copy(c: Context, op: Any) -> tuple[Value, str]:
    """The address of the barrier that learns of a copy, and what the instruction says of it."""
    shared = blocks_of_barrier(op.barrier.type)
    if not shared:
        return _barrier(c, op.barrier), ""
    if shared > 1 or not 100 <= arch_of(c) < 120:
        reached = "each two blocks, on sm_100 to sm_119"
        raise c.unsupported(op, f"to a barrier that blocks share; copies reach that of {reached}")
    return _shared_barrier(c, op.barrier), ".cta_group::2"


@dataclass(frozen=True)
class Share:
    """The part of a copy that this block of the cluster makes: pieces (see `pieces`) of the first
    block's share, how much further its own are in memory and along the last axes of the tensor
    (None: no further), and whether it makes any (None: always)."""

    pieces: list[tuple[tuple[int, ...], int]]
    offset: Value | None
    axes: tuple[Value | None, ...]
    acts: Value | None

    def moved(self, c: Context, coordinates: Sequence[Value]) -> list[Value]:
        """The coordinates of this block's share."""
        missing = len(coordinates) - len(self.axes)
        axes = (None,) * missing + self.axes
        return [at if further is None else c.f.op("add", at, further, "nsw")
                for at, further in zip(coordinates, axes, strict=True)]  # fmt: skip


def share_of_copy(c: Context, op: Any, memory: Memory) -> Share:
    """The part that this block has of a copy to shared memory. A `divided` one is shared out by
    pieces: where there are fewer pieces than blocks with copies the last blocks make none."""
    patches = isinstance(op.desc.type, ir.PatchesDescType)
    every = pieces(memory, part_of_block(memory)[0] if patches else 0)
    free = memory_layout(memory.type).free_variables().get(BLOCK, 0)
    if not op.multicast or not op.divided or not free:
        return Share(every, None, (), sharing(c, op, memory)[1])
    bits = [bit for bit in range(free.bit_length()) if free >> bit & 1]
    dividing = bits[: (len(every) & -len(every)).bit_length() - 1]
    count = len(every) >> len(dividing)
    firsts = {bit: every[count << i] for i, bit in enumerate(dividing)}
    (begin, start), rank = every[0], len(every[0][0])

    def further(distances: Callable[[tuple[tuple[int, ...], int]], int]) -> Value | None:
        columns = [distances(firsts[bit]) if bit in firsts else 0 for bit in range(max(bits) + 1)]
        return c.linear_map(c.block, columns)

    axes = [further(lambda piece, axis=axis: piece[0][axis] - begin[axis]) for axis in range(rank)]
    idle, acts = sum(1 << bit for bit in bits[len(dividing) :]), None
    if idle:
        acts = c.f.icmp("eq", c.f.op("and", c.block, c.i32(idle)), c.i32(0))
    return Share(every[:count], further(lambda piece: piece[1] - start), tuple(axes), acts)


def sharing(c: Context, op: Any, memory: Memory) -> tuple[Value | None, Value | None]:
    """The blocks (a mask of 16 bits) that have copies of what this one copies for all of them, and
    whether it is the first of them; None where each copies what it has."""
    free = memory_layout(memory.type).free_variables().get(BLOCK, 0)
    if not op.multicast or not free:
        return None, None
    first = sum(1 << block for block in range(c.num_ctas) if not block & ~free)
    mask = c.f.op("shl", c.i32(first), c.f.op("and", c.block, c.i32(~free)))
    leads = c.f.icmp("eq", c.f.op("and", c.block, c.i32(free)), c.i32(0))
    return c.f.cast("trunc", mask, "i16"), leads


@lowers(NVIDIA, ttgir.AsyncTMACopyLocalToGlobalOp)
def copy_out(c: Context, op: Any) -> None:
    _copy_out(c, op, "cp.async.bulk.tensor", "")


def _copy_out(c: Context, op: Any, instruction: str, how: str) -> None:
    memory, rank = c.memory(op.src), len(op.coord)
    if is_padded(memory):
        raise c.unsupported(op, "from memory with gaps between elements of 4 bits")
    condition = _first(c, c.owner(memory_layout(memory.type), of_program=True))
    start, descriptor = _start(c, memory), c.scalar(op.desc)
    hint, policy, policies = cache_hint(c, op, 3 + rank)
    text = (
        f"@$2 {instruction}.{rank}d.global.shared::cta{how}.bulk_group{hint} "
        f"[$1, {_listed(3, rank)}], [$0]{policy};"
    )
    codes = ["r", "l", "b", *["r"] * rank, *["l"] * len(policies), "~{memory}"]
    constraints = ",".join(codes)
    coordinates = own_coordinates(c, memory, op.coord)
    with _acting_warp(c):
        for piece, offset in pieces(memory):
            source = c.f.op("add", start, c.i32(offset)) if offset else start
            c.asm("void", text, constraints, source, descriptor, condition,
                  *_coordinates(c, coordinates, piece), *policies)  # fmt: skip
        c.asm("void", "cp.async.bulk.commit_group;", "~{memory}")


@lowers(NVIDIA, ttgir.AsyncTMAReduceOp)
def reduce_out(c: Context, op: Any) -> None:
    _copy_out(c, op, "cp.reduce.async.bulk.tensor", f".{op.kind.name.lower()}")


@lowers(NVIDIA, ttgir.AsyncTMAStoreWaitOp)
def store_wait(c: Context, op: Any) -> None:
    read = "" if op.complete else ".read"
    c.asm("void", f"cp.async.bulk.wait_group{read} {op.pendings};", "~{memory}")


@lowers(NVIDIA, ttgir.ClusterBarrierOp)
def cluster_barrier(c: Context, op: Any) -> None:
    if c.num_ctas == 1:
        c.barrier()
    elif c.cluster_place is None or (c.plan is not None and c.plan.meets_all(op)):
        c.hardware.barriers.cluster(c, relaxed=op.relaxed)
    else:
        c.synchronize()


@lowers(NVIDIA, ttgir.FenceAsyncSharedOp)
def fence(c: Context, op: Any) -> None:
    scope = "shared::cluster" if op.bCluster else "shared::cta"
    c.asm("void", f"fence.proxy.async.{scope};", "~{memory}")
