"""Start the loads of a loop some iterations ahead, into a ring of buffers in shared memory.

before (num_stages = 3):
    scf.for %i = %lo to %hi step %s iter_args(%p = %p0, %acc = %zero) {
      %x = tt.load %p, %mask
      %m = ttg.local_alloc %x : ... -> !ttg.memdesc<128x64xf16, #shared, #smem>
      %d = ttng.warp_group_dot %m, %w, %acc
      %q = tt.addptr %p, %step
      scf.yield %q, %d
    }
after:
    %ring = ttg.local_alloc : () -> !ttg.memdesc<3x128x64xf16, #shared, #smem, mutable>
    the copies of the first two iterations, each group committed
    scf.for %i = ... iter_args(%p, %acc, %in, %out, ...) {
      %out1 = %out + 1, or 0 at the ring's end
      ttg.async_wait {num = 1}
      %m = ttg.memdesc_index %ring[%out1]
      %d = ttng.warp_group_dot %m, %w, %acc
      the copy of the iteration after the next, if there is one, into %ring[%in1]; commit
      scf.yield ...
    }
    ttg.async_wait {num = 0}; ttg.local_dealloc %ring

Loads are taken that feed a product, or all with the attribute `tt.num_stages` on the loop, which
says how many stages then; in loops without nested loops, if they read nothing that the loop writes
(`analysis.loop_writes`). What computes their addresses and masks is computed ahead as well: loads
of indices too, into registers; it must have no other effects. A copy moves at least 4 bytes at a
time, so that narrow loads stay.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, cast

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from tritium.analysis.axis_info import AxisAnalysis
from tritium.analysis.loop_writes import unwritten
from tritium.analysis.loops import innermost_loops, stages_of
from tritium.analysis.regions import defined_inside, functions, outside_values
from tritium.analysis.shared_memory import allocates_memory
from tritium.ir import types as ir
from tritium.ir.layouts.encodings import (
    BLOCK,
    LANE,
    OFFSET,
    REGISTER,
    WARP,
    Cluster,
    DotOperandEncoding,
    Encoding,
    LinearEncoding,
    MatrixEncoding,
    SwizzledSharedEncoding,
    linear,
    part_of,
)
from tritium.ir.layouts.linear import LinearLayout
from tritium.ir.layouts.shared_linear import SharedLinearEncoding
from tritium.ir.layouts.swizzle import shared_layout
from tritium.ops import ttir
from tritium.ops.arith import is_zero
from tritium.ops.attributes import NUM_STAGES
from tritium.ops.base import Op, changes_layout, permutes
from tritium.ops.scf import ForOp
from tritium.ops.terminators import terminator
from tritium.ops.ttir.dot import TileProduct
from tritium.passes.base import Pass
from tritium.passes.ttgir.expand_pipeline import Stage, expand
from tritium.passes.ttgir.layout_propagation import (
    fills_buffers,
    first_run,
    is_tile,
    memory_encoding,
    order_of,
    processor_of,
)
from tritium.target import Processor


@dataclass(frozen=True)
class Pipeline(Pass):
    """Start the loads of loops some iterations ahead. `num_stages`: iterations under way at
    once; `direct`: lanes copy to shared memory (`Processor.lane_copy_bytes`) what `coalesce` has
    distributed for that."""

    name: ClassVar[str] = "pipeline"
    title: ClassVar[str] = "TritonGPUPipeline"
    num_stages: int = 3
    direct: bool = False

    def run(self, module: ModuleOp) -> bool:
        changed, processor = False, processor_of(module)
        for function in functions(module):
            for loop in innermost_loops(function):
                stages = stages_of(loop, self.num_stages)
                if stages < 2:
                    continue
                analysis = AxisAnalysis(function, assume_no_wrap=True)
                plan = plan_of(loop, analysis, stages, processor, self.direct)
                if plan:
                    # A second iteration in registers costs more of them than it hides latency.
                    held = NUM_STAGES not in loop.attributes and all(s.held for s in plan)
                    expand(loop, plan, 2 if held else stages)
                    changed = True
        return changed


def plan_of(
    loop: ForOp, analysis: AxisAnalysis, stages: int, processor: Processor, direct: bool = False
) -> list[Stage]:
    """The loads to start ahead, each with what computes its operands."""
    told = NUM_STAGES in loop.attributes
    bulk = [
        op for op in loop.body.ops
        if isinstance(op, ttir.BlockAccess) and op.is_load and op.missing_axes is not None
        and (told or _feeds_product(op)) and fills_buffers(op)
    ]  # fmt: skip
    # Their buffers share barriers, and so their number.
    count = stages if any(_stays_in_memory(op) for op in bulk) else stages - 1
    found = [Stage(op, memory_encoding(op), 1, count) for op in bulk]
    for op in loop.body.ops if processor.copy_bytes or processor.ahead_in_registers else ():
        if not isinstance(op, ttir.ElementAccess) or not op.is_load:
            continue
        if not is_tile(op.results[0]) or op.isVolatile:
            continue
        if not told and not _feeds_product(op):
            continue
        if not processor.copy_bytes:
            stage = _by_lanes(op, stages, analysis, processor) if direct else None
            found.append(stage or _by_registers(op, stages, processor))
            continue
        least, most = processor.copy_bytes
        width = copy_width(op, analysis, most)
        size = ir.bit_width(op.results[0].type) // 8
        encoding, buffered = _memory_for(op, stages, processor)
        if size * (width if _along_rows(op, encoding) else 1) < least:
            continue
        found.append(Stage(op, encoding, width, buffered))
    before = {s.load: _loaded_before(loop, s.load) for s in found}
    loads = {op: None for load, some in before.items() if some is not None for op in (load, *some)}
    free = set(unwritten(loop, list(loads)))
    ahead = [s for s in found if before[s.load] is not None and free.issuperset(
        (s.load, *(before[s.load] or ()))
    )]  # fmt: skip
    indices = {op for s in ahead for op in before[s.load] or ()}
    return [s for s in ahead if s.load not in indices]


def _by_lanes(
    load: ttir.ElementAccess, stages: int, analysis: AxisAnalysis, processor: Processor
) -> Stage | None:
    """A load that the lanes of each warp copy to neighbouring places of shared memory; None where
    it is not distributed for that, or fills in other numbers than zero."""
    kind = load.results[0].type
    encoding, shape = ir.encoding_of(kind), ir.shape_of(kind)
    if not isinstance(encoding, LinearEncoding):
        return None
    layout, size = linear(encoding, shape), ir.memory_bytes(kind)
    axis = order_of(encoding, shape)[0]
    registers, run = layout.bases(REGISTER), first_run(layout, axis)
    zeros = load.other is None or is_zero(load.other)
    enough = copy_width(load, analysis, size << run, per_thread=1 << run) == 1 << run
    if not zeros or not enough or size << run not in processor.lane_copy_bytes:
        return None
    if any(layout.free_variables().values()) or any(map(any, layout.bases(BLOCK))):
        return None
    bases = [*registers[:run], *layout.bases(LANE), *layout.bases(WARP), *registers[run:]]
    memory = SharedLinearEncoding.make(offset=bases, alignment=16)
    return Stage(load, memory, 1 << run, stages, early=True)


def _by_registers(load: Operation, stages: int, processor: Processor) -> Stage:
    """A load into registers, which are stored to shared memory if other threads need them."""
    kind = cast("ir.TensorType", load.results[0].type)
    chosen = _chosen(load)
    tile = (chosen or load).results[0]
    users = [use.operation for use in tile.uses]
    if not any(permutes(u) or changes_layout(u) or allocates_memory(u) for u in users):
        return Stage(load, None, 0, 0)
    wanted, layout = _read_layout(tile), linear(ir.encoding_of(kind), ir.shape_of(kind))
    if wanted is None or any(map(any, layout.bases(BLOCK))):  # blocks of a cluster have parts
        encoding = _memory_for(chosen or load, stages, processor)[0]
        return Stage(load, encoding, 0, stages - 1, chosen=chosen)
    size = ir.memory_bytes(kind)
    memory = shared_layout(layout, wanted, size, store=False, load=False, banks=processor.banks)
    encoding = SharedLinearEncoding.make(offset=memory.bases(OFFSET), alignment=16)
    return Stage(load, encoding, 0, stages - 1, chosen=chosen)


def _chosen(load: Operation) -> Operation | None:
    """The op that replaces some of what is loaded by what the loop does not change, where no other
    uses the load."""
    tile, users = load.results[0], [use.operation for use in load.results[0].uses]
    user = users[0] if len(users) == 1 and users[0].parent is load.parent else None
    if not isinstance(user, Op) or not user.is_elementwise:
        return None
    handed_on = [value for value, _ in user.forwarded_values()]
    inside = [v for v in user.operands if defined_inside(v, cast("Op", load.parent_op()))]
    return user if tile in handed_on and inside == [tile] else None


def _read_layout(tile: SSAValue) -> LinearLayout | None:
    """The layout in which a matrix unit wants a tile, perhaps after its axes were permuted."""
    for user in [use.operation for use in tile.uses]:
        if changes_layout(user):
            kind = user.results[0].type
            encoding = cast("Encoding", ir.encoding_of(kind))
            return linear(encoding, ir.shape_of(kind)) if _by_matrix_unit(encoding) else None
        if permutes(user):
            found = _read_layout(user.results[0])
            if found is None:
                return None
            axes = {f"dim{i}": f"dim{axis}" for i, axis in enumerate(user.permuted_axes or ())}
            outs = tuple((axes[name], bits) for name, bits in found.out_dims)
            return LinearLayout(found.in_dims, outs, found.columns)
    return None


def _by_matrix_unit(encoding: Encoding) -> bool:
    parent = encoding.get("parent") if isinstance(encoding, DotOperandEncoding) else None
    return isinstance(parent, MatrixEncoding)


def _stays_in_memory(load: Operation) -> bool:
    """True if a product reads what is loaded from shared memory, while the next iteration begins:
    its buffer cannot be filled again at the end of the iteration."""
    pending = list(load.results)
    while pending:
        for use in pending.pop().uses:
            if allocates_memory(use.operation):
                return True
            if permutes(use.operation) or changes_layout(use.operation):
                pending += use.operation.results
    return False


def _feeds_product(load: Operation) -> bool:
    """True if what is loaded becomes, perhaps after computing, an operand of a product."""
    pending, seen = list(load.results), set[int]()
    while pending:
        for use in pending.pop().uses:
            user = use.operation
            if id(user) in seen or user.parent is not load.parent:
                continue
            seen.add(id(user))
            if isinstance(user, TileProduct):
                return True
            pending += user.results
    return False


def copy_width(load: Any, analysis: AxisAnalysis, most: int, per_thread: int | None = None) -> int:
    """The number of elements that a thread can copy at once, in at most `most` bytes. `per_thread`:
    the number of neighbours that a thread has, if that is known."""
    kind = load.results[0].type
    shape = ir.shape_of(kind)
    encoding = ir.encoding_of(kind)
    axis = order_of(encoding, shape)[0]
    size = ir.memory_bytes(kind)
    info = analysis.of(load.ptr)
    width = min(
        info.contiguity[axis], max(info.divisibility[axis] // size, 1), most // size, shape[axis]
    )
    if load.mask is not None:
        width = min(width, analysis.of(load.mask).constancy[axis])
    if per_thread is not None:
        return min(width, per_thread)
    held = encoding.get("sizePerThread")[axis] if "sizePerThread" in encoding.KEYS else 1
    return min(width, held)


def _along_rows(load: Operation, encoding: object) -> bool:
    """True if what lies together in global memory does in shared memory too: a wgmma of 8-bit
    numbers reads its right operand by columns."""
    kind = load.results[0].type
    shape = ir.shape_of(kind)
    first = linear(encoding, shape).bases("offset")[:1]  # of one element there is none
    return not first or first[0][order_of(ir.encoding_of(kind), shape)[0]] != 0


def _memory_for(load: Operation, stages: int, processor: Processor) -> tuple[Any, int]:
    """(encoding of the buffers, how many): as a wgmma reads them, or else for loads."""
    uses = [use.operation for use in load.results[0].uses]
    for user in uses:
        if allocates_memory(user):
            kind: Any = user.results[0].type
            return kind.encoding, stages
    kind = load.results[0].type
    return operand_encoding(kind, processor, _changes_layout_later(load)), stages - 1


def _changes_layout_later(op: Operation) -> bool:
    """True if other threads need the op's result than have it, perhaps after its axes were
    permuted."""
    users = [use.operation for use in op.results[0].uses]
    return any(changes_layout(u) or (permutes(u) and _changes_layout_later(u)) for u in users)


def operand_encoding(
    kind: Any, processor: Processor, swizzled: bool = True
) -> SwizzledSharedEncoding:
    """The encoding of shared memory for a tile, fastest along the same axis; `swizzled`: an
    operand's, of which other parts are read together than are written."""
    shape, encoding = ir.shape_of(kind), ir.encoding_of(kind)
    order = order_of(encoding, shape)
    cluster = encoding.get("CGALayout") if "CGALayout" in encoding.KEYS else ()
    if not swizzled or len(shape) != 2:
        return SwizzledSharedEncoding.make(
            vec=1, perPhase=1, maxPhase=1, order=order, CGALayout=cluster
        )
    size, shape = ir.memory_bytes(kind), part_of(cluster, shape)
    return swizzled_encoding(shape, order, size, processor.access_bytes, processor, cluster)


def swizzled_encoding(
    shape: tuple[int, ...], order: tuple[int, ...], size: int, access: int, processor: Processor,
    cluster: Cluster = (),
) -> SwizzledSharedEncoding:  # fmt: skip
    """The encoding of shared memory for elements of `size` bytes, of which threads access as many
    as `access` bytes of a row at once, in several rows."""
    row, full = shape[order[0]] * size, processor.banks.row_bytes
    per_phase = max(1, full // row)
    phases = min(full // access, row // access, shape[order[1]])
    phases = max(1, phases // (per_phase if row >= full else 1))
    return SwizzledSharedEncoding.make(
        vec=min(access // size, shape[order[0]]), perPhase=per_phase, maxPhase=phases,
        order=order, CGALayout=cluster,
    )  # fmt: skip


def _loaded_before(loop: ForOp, load: Operation) -> list[Operation] | None:
    """The loads by which the load's operands in a later iteration are computed, such as those of
    indices; None where they cannot be computed now."""
    pending, seen, loads = list(load.operands), set[Any](), list[Operation]()
    yields = terminator(loop.body).operands
    while pending:
        value = pending.pop()
        owner = value.owner
        if value in seen:
            continue
        seen.add(value)
        if owner is loop.body:
            if value.index > 0:  # pyright: ignore
                pending.append(yields[value.index - 1])  # pyright: ignore
            continue
        if not isinstance(owner, Operation) or owner.parent is not loop.body:
            continue
        if isinstance(owner, ttir.ElementAccess) and owner.is_load and not owner.isVolatile:
            loads.append(owner)
            pending += list(owner.operands)
            continue
        effects = not isinstance(owner, Op) or owner.memory_effects()
        # A descriptor's map is written again in each iteration; copies that are under way read it.
        results = (result for inner in owner.walk() for result in inner.results)
        if effects or any(isinstance(result.type, ir.TensorDescType) for result in results):
            return None
        pending += list(outside_values(owner)) if owner.regions else list(owner.operands)
    return loads
