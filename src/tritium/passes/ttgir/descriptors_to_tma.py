"""Let the copy engine (TMA) do the loads and stores of tensor descriptors.

before:
    %x = tt.descriptor_load %desc[%i, %j] : !tt.tensordesc<tensor<128x64xf16>> -> tensor<...>
    tt.descriptor_store %out[%i, %j], %y : ...
after:
    %m = ttg.local_alloc : () -> !ttg.memdesc<128x64xf16, #nvmma_shared, #smem, mutable>
    ttng.init_barrier %bar, 1; ttng.barrier_expect %bar, 16384, %true
    ttng.async_tma_copy_global_to_local %desc[%i, %j] %m, %bar, %true : ...
    ttng.wait_barrier %bar, 0; ttng.inval_barrier %bar
    %x = ttg.local_load %m
    %n = ttg.local_alloc %y : (...) -> !ttg.memdesc<..., #nvmma_shared, #smem>
    ttng.fence_async_shared; ttng.async_tma_copy_local_to_global %out[%i, %j] %n
    ttng.async_tma_store_wait {pendings = 0}

    %d = tt.make_tensor_descriptor %a, [%m, %n], [%s, %one] : <f16>, <tensor<128x64xf16>>
after:
    %0 = ttg.global_scratch_alloc {alignment = 128 : i32, nbytes = 128 : i32}
    ttng.tensormap_create %0, %a, [64, 128], [%n, %m], [%s * 2], [1, 1] {elem_type = 6 : i32, ...}
    ttng.tensormap_fenceproxy_acquire %0
    %d = ttng.reinterpret_tensor_descriptor %0

A store to memory that the program also loads from is waited for to its end (`complete`). Other
stores in loops have memory of their own (in loops of all warps where `late` is not "none"), and are
waited for when it is written again.

Loads that only go to shared memory of the same encoding are left there. The types of descriptors
are given the encoding of their blocks, which whoever makes a descriptor must use. `pipeline`, which
comes before, takes the loads of loops that feed products. What the engine does not serve has become
pointers before (`tensor_pointers`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from xdsl.dialects.builtin import ModuleOp, Signedness
from xdsl.ir import Operation, SSAValue

from tritium.analysis.pointer_roots import PointerRoots
from tritium.analysis.regions import functions
from tritium.ir import types as ir
from tritium.ir.source_errors import unsupported_at
from tritium.ir.tensor_maps import ALIGNMENT, BYTES, describe
from tritium.ops import ttir
from tritium.ops.arith import MulIOp
from tritium.ops.base import Op
from tritium.ops.effects import SHARED, Action, Queue
from tritium.ops.scf import ForOp, is_counted
from tritium.ops.ttgir import (
    AsyncTMACopyGlobalToLocalOp,
    AsyncTMACopyLocalToGlobalOp,
    AsyncTMAGatherOp,
    AsyncTMAReduceOp,
    AsyncTMAScatterOp,
    AsyncTMAStoreWaitOp,
    BarrierExpectOp,
    FenceAsyncSharedOp,
    GlobalScratchAllocOp,
    InitBarrierOp,
    InvalBarrierOp,
    LocalAllocOp,
    LocalDeallocOp,
    LocalLoadOp,
    LocalStoreOp,
    MemDescTransOp,
    ReinterpretTensorDescOp,
    TensormapCreateOp,
    TensormapFenceproxyAcquireOp,
    WaitBarrierOp,
    copied_bytes_of,
    memdesc_of,
)
from tritium.passes.base import Pass
from tritium.passes.rewriting import Builder, erase, insert_after
from tritium.passes.ttgir.expand_pipeline import barrier_memory, hand_on_types
from tritium.passes.ttgir.layout_propagation import (
    block_encoding,
    memory_encoding,
    processor_of,
    with_encoding,
)
from tritium.passes.ttir.descriptors.flow import (
    conflicts,
    descriptor_groups,
    descriptors,
    flow,
    made_descriptors,
    takes_bits,
)
from tritium.passes.ttir.descriptors.memory import is_loaded, memory_of

LATE = ("each", "one", "none")
"""The stores of loops that have memory of their own: each; those of a loop that store as much one
together; only those of loops of consumers (`warp_specialize`), one together. The first takes most
shared memory."""


_Shared = dict[tuple[Operation, Any], SSAValue]
"""Memory that stores share, by their loop and its type."""


@dataclass(frozen=True)
class DescriptorsToTMA(Pass):
    """Let the copy engine (TMA) do the loads and stores of tensor descriptors. `late`: which stores
    are read while the program goes on, from memory of their own, one of `LATE`."""

    name: ClassVar[str] = "descriptors-to-tma"
    title: ClassVar[str] = "TritonNvidiaGPUTMALowering"
    late: str = "none"

    def __post_init__(self) -> None:
        if self.late not in LATE:
            raise ValueError(f"late is {self.late!r}; {', '.join(LATE)} are allowed")

    def run(self, module: ModuleOp) -> bool:
        if not processor_of(module).bulk_copies or next(descriptors(module), None) is None:
            return False
        changed = False
        _take_bits(module)
        awaited = _awaited(module)
        for function in functions(module):
            late = _late_stores(function, awaited, self.late)
            shared: _Shared | None = None if self.late == "each" else {}
            for op in list(function.walk()):
                if not isinstance(op, ttir.RowAccess) and not (
                    isinstance(op, ttir.BlockAccess) and op.missing_axes is not None
                ):
                    continue
                if op.is_load:
                    _load(op)
                else:
                    loop = late.get(op)
                    staged = _staged(op, *loop, shared) if loop is not None else None
                    _store(op, op.desc in awaited, staged)
                changed = True
        return _encode(module) or changed


def _load(op: Any) -> None:
    at = Builder(op)
    kind = op.results[0].type
    shape, element = ir.shape_of(kind), ir.element_type(kind)
    memory = at.value(LocalAllocOp, None, result=memdesc_of(shape, element, memory_encoding(op)))
    memory.name_hint = op.results[0].name_hint
    barrier = at.value(LocalAllocOp, None, result=barrier_memory())
    at.make(InitBarrierOp, barrier, count=1)
    always = at.constant(1, ir.i1)
    at.make(BarrierExpectOp, barrier, always, size=copied_bytes_of(memory.type))
    if isinstance(op, ttir.RowAccess):
        at.make(AsyncTMAGatherOp, op.desc, op.x_offsets, op.y_offset, barrier, memory, always)
    else:
        at.make(AsyncTMACopyGlobalToLocalOp, op.desc, op.indices, barrier, memory, always,
                cache=op.cache, evict=op.evict)  # fmt: skip
    at.make(WaitBarrierOp, barrier, at.constant(0, ir.i32), None, [])
    at.make(InvalBarrierOp, barrier)
    at.make(LocalDeallocOp, barrier)
    for use in list(op.results[0].uses):
        user: Any = use.operation
        if isinstance(user, LocalAllocOp) and _same_memory(user, memory):
            _use_memory(user, memory)
    if op.results[0].first_use is not None:
        loaded = at.value(LocalLoadOp, memory, None, result=kind)
        loaded.name_hint = op.results[0].name_hint
        op.results[0].replace_all_uses_with(loaded)
    erase(op)


def _same_memory(user: Operation, memory: SSAValue) -> bool:
    wanted, have = user.results[0].type, memory.type
    return wanted.encoding == have.encoding and not wanted.mutable  # pyright: ignore


def _use_memory(alloc: Operation, memory: SSAValue) -> None:
    """Use mutable memory in place of an allocation that was filled once; views and waits follow."""
    alloc.results[0].replace_all_uses_with(memory)
    erase(alloc)
    for use in list(memory.uses):
        view: Any = use.operation
        if isinstance(view, MemDescTransOp):
            at = Builder(view)
            new = at.value(MemDescTransOp, memory, order=view.order)
            if new.type != view.results[0].type:
                view.results[0].replace_all_uses_with(new)
                erase(view)
                _hand_on_type(new)
            else:
                erase(new.owner)  # pyright: ignore
    _hand_on_type(memory)


def _hand_on_type(memory: SSAValue) -> None:
    for use in memory.uses:
        hand_on_types(use.operation)


def _awaited(module: ModuleOp) -> set[SSAValue]:
    """The descriptors whose stores must be complete before the program goes on: of memory that it
    also loads from by descriptors. With atomics, which may tell other programs, all."""
    atomics = any(isinstance(op, ttir.AtomicOp) for op in module.walk())
    groups = list(descriptor_groups(module))
    roots = PointerRoots(module)
    loaded = [memory_of(group, roots) for group in groups if is_loaded(group)]
    found: set[SSAValue] = set()
    for group in groups:
        if atomics or any(memory_of(group, roots) & memory for memory in loaded):
            found.update(group)
    return found


def _late_stores(
    function: Any, awaited: set[SSAValue], late: str
) -> dict[Operation, tuple[ForOp, int]]:
    """The stores of loops that are read from shared memory while the program goes on: the outermost
    loop of each, and how many others are under way then."""
    found: dict[ForOp, list[Any]] = {}
    for op in function.walk():
        stores = isinstance(op, ttir.BlockAccess) and not op.is_load
        if stores and op.missing_axes is not None and op.desc not in awaited:
            loop, alone = _loop_around(op)
            if loop is not None and (alone or late != "none"):
                found.setdefault(loop, []).append(op)
    return {
        op: (loop, len(ops) - 1 if late == "each" and len({o.parent for o in ops}) == 1 else 0)
        for loop, ops in found.items() for op in ops
    }  # fmt: skip


def _loop_around(op: Operation) -> tuple[ForOp | None, bool]:
    """The outermost loop around an op, and whether it is one of consumers."""
    loop, around = None, op.parent_op()
    while isinstance(around, Op) and not around.concurrent:
        loop = around if is_counted(around) else loop
        around = around.parent_op()
    return loop, isinstance(around, Op) and around.concurrent


def has_stores_in_loops(module: ModuleOp) -> bool:
    """True if there are stores by descriptors in loops."""
    return any(
        isinstance(op, ttir.BlockAccess) and not op.is_load and _loop_around(op)[0] is not None
        for op in module.walk()
    )


def _staged(op: Any, loop: ForOp, pendings: int, shared: _Shared | None) -> SSAValue:
    """Memory outside of a loop that holds what the op stores, after the wait for the copy that has
    read it the last time. `shared`: the memory of stores before, if others may use it."""
    tile, at = op.src.type, Builder(op)
    kind = memdesc_of(ir.shape_of(tile), ir.element_type(tile), memory_encoding(op))
    memory = shared.get((loop, kind)) if shared is not None else None
    if memory is None:
        memory = Builder(loop, op.location).value(LocalAllocOp, None, result=kind)
        if shared is not None:
            shared[loop, kind] = memory
    Builder(_before_barrier(op), op.location).make(AsyncTMAStoreWaitOp, pendings=pendings)
    at.make(LocalStoreOp, op.src, memory)
    if not isinstance(loop.next_op, AsyncTMAStoreWaitOp):
        insert_after(loop, AsyncTMAStoreWaitOp.build(pendings=0, location=loop.location))
    return memory


def _before_barrier(op: Operation) -> Operation:
    """The last op before `op` at which threads write shared memory, or `op`: what another op will
    read then needs a barrier, before which the wait for a copy costs no barrier of its own."""
    before = op.prev_op
    while isinstance(before, Op) and not before.regions:
        effects = before.own_effects()
        if any(e.queue is Queue.BULK_STORE for e in effects):
            return op
        by_threads = [e for e in effects if e.resource is SHARED and e.queue is None]
        if any(e.action is Action.WRITE for e in by_threads):
            return before
        before = before.prev_op
    return op


def _store(op: Any, complete: bool, staged: SSAValue | None) -> None:
    """Copy what the op stores, which is in the memory `staged` if some is given."""
    at = Builder(op)
    kind, memory = op.src.type, staged
    if memory is None:
        memory = at.value(
            LocalAllocOp, op.src,
            result=memdesc_of(
                ir.shape_of(kind), ir.element_type(kind), memory_encoding(op), False
            ),
        )  # fmt: skip
    at.make(FenceAsyncSharedOp, bCluster=False)
    if op.combines:
        at.make(AsyncTMAReduceOp, op.desc, op.indices, memory, kind=op.kind)
    elif isinstance(op, ttir.RowAccess):
        at.make(AsyncTMAScatterOp, op.desc, op.x_offsets, op.y_offset, memory)
    else:
        at.make(AsyncTMACopyLocalToGlobalOp, op.desc, op.indices, memory)
    if staged is None:
        at.make(AsyncTMAStoreWaitOp, pendings=0, complete=complete)
    erase(op)


def _take_bits(module: ModuleOp) -> None:
    """The engine combines the bits of 64-bit integers only where they are unsigned."""
    for group in descriptor_groups(module):
        if takes_bits(group):
            members: list[Any] = list(group)
            for value in members:
                unsigned: Any = ir.IntegerType(64, Signedness.UNSIGNED)
                value._type = ir.TensorDescType(ir.with_element(value.type.block, unsigned))


def _encode(module: ModuleOp) -> bool:
    """Give all descriptors the encodings of their blocks, and make the maps of those that the
    program makes. Raises `NotImplementedError` where a map's place is written while it is needed,
    which `tensor_pointers` avoids."""
    edges: dict[SSAValue, list[SSAValue]] = {}
    for source, target in flow(module):
        edges.setdefault(source, []).append(target)
    made = made_descriptors(module)
    for op in made:
        if conflicts(op.result, edges):
            raise unsupported_at(op.location, (
                "the descriptor that this line makes is needed after the line made another; make "
                "both by a line of their own"
            ))
    for function in functions(module):
        for value in descriptors(function):
            value._type = _encoded(value.type)
        function.update_type()
    for op in made:
        _make(op)
    return bool(made)


def _encoded(kind: object) -> Any:
    if not isinstance(kind, ir.TensorDescType):
        return kind
    return ir.TensorDescType(with_encoding(kind.block, block_encoding(kind)))


def _make(op: ttir.MakeTensorDescOp) -> None:
    at, meta = Builder(op), describe(op.result.type)
    place = at.value(GlobalScratchAllocOp, nbytes=BYTES, alignment=ALIGNMENT)
    size = at.constant(meta["elem_size"], ir.i64)
    one, (*outer, inner) = at.constant(1, ir.i32), op.shape
    if meta["fp4_padded"]:
        inner = at.value(MulIOp, inner, at.constant(2, ir.i32))
    at.make(
        TensormapCreateOp, place, op.base,
        [at.constant(extent, ir.i32) for extent in reversed(meta["block_size"])],
        [inner, *outer[::-1]], [at.value(MulIOp, stride, size) for stride in op.strides[-2::-1]],
        [one] * len(op.shape),
        elem_type=meta["elem_type"], interleave_layout=0, swizzle_mode=meta["swizzle"],
        fill_mode=int(op.padding is ttir.PaddingOption.PAD_NAN),
    )  # fmt: skip
    at.make(TensormapFenceproxyAcquireOp, place)
    found = at.value(ReinterpretTensorDescOp, place, result=op.result.type)
    found.name_hint = op.result.name_hint
    op.result.replace_all_uses_with(found)
    for use in list(found.uses):
        if isinstance(use.operation, Op) and use.operation.concurrent:
            _acquire(use.operation, use.index, place)
    erase(op)


def _acquire(split: Any, index: int, place: SSAValue) -> None:
    """Partitions that take a map from other warps acquire it before they use it."""
    split.operands = [*split.operands, place]
    for region in split.regions[1:]:
        block = region.block
        taken = block.insert_arg(place.type, len(block.args))
        if block.args[index].first_use is not None:
            Builder(block.first_op).make(TensormapFenceproxyAcquireOp, taken)
