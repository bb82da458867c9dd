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

Loads that only go to shared memory of the same encoding are left there. The types of descriptors
are given the encoding of their blocks, which whoever makes a descriptor must use. `pipeline`, which
comes before, takes the loads of loops that feed products.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from tritium.ir import types as ir
from tritium.ops import ttir
from tritium.ops.ttgir import (
    AsyncTMACopyGlobalToLocalOp,
    AsyncTMACopyLocalToGlobalOp,
    AsyncTMAStoreWaitOp,
    BarrierExpectOp,
    FenceAsyncSharedOp,
    InitBarrierOp,
    InvalBarrierOp,
    LocalAllocOp,
    LocalDeallocOp,
    LocalLoadOp,
    MemDescTransOp,
    WaitBarrierOp,
    memdesc_of,
)
from tritium.passes.base import Pass
from tritium.passes.rewriting import erase, functions
from tritium.passes.ttgir.expand_pipeline import Builder, barrier_memory
from tritium.passes.ttgir.pipeline import block_encoding, is_bulk
from tritium.passes.ttgir.rules import capability_of, with_encoding


@dataclass(frozen=True)
class DescriptorsToTMA(Pass):
    """Let the copy engine (TMA) do the loads and stores of tensor descriptors."""

    name: ClassVar[str] = "descriptors-to-tma"
    title: ClassVar[str] = "TritonNvidiaGPUTMALowering"

    def run(self, module: ModuleOp) -> bool:
        if capability_of(module) < 90:
            return False
        changed = False
        for function in functions(module):
            for op in list(function.walk()):
                if isinstance(op, ttir.DescriptorLoadOp) and is_bulk(op):
                    _load(op)
                elif isinstance(op, ttir.DescriptorStoreOp) and is_bulk(op):
                    _store(op)
                else:
                    continue
                changed = True
            _encode_arguments(function)
        return changed


def _load(op: Any) -> None:
    at = Builder(op)
    kind = op.results[0].type
    shape, element = ir.shape_of(kind), ir.element_type(kind)
    memory = at.value(
        LocalAllocOp, None, result=memdesc_of(shape, element, block_encoding(op.desc.type))
    )
    memory.name_hint = op.results[0].name_hint
    barrier = at.value(LocalAllocOp, None, result=barrier_memory())
    at.make(InitBarrierOp, barrier, count=1)
    always = at.constant(1, ir.i1)
    size = prod(shape) * max(ir.bit_width(element) // 8, 1)
    at.make(BarrierExpectOp, barrier, always, size=size)
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


def _same_memory(user: Any, memory: SSAValue) -> bool:
    wanted, have = user.results[0].type, memory.type
    return wanted.encoding == have.encoding and not wanted.mutable  # pyright: ignore


def _use_memory(alloc: Operation, memory: SSAValue) -> None:
    """Use mutable memory in place of an allocation that was filled once; views follow."""
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
            else:
                erase(new.owner)  # pyright: ignore


def _store(op: Any) -> None:
    at = Builder(op)
    kind = op.src.type
    memory = at.value(
        LocalAllocOp, op.src,
        result=memdesc_of(ir.shape_of(kind), ir.element_type(kind), block_encoding(op.desc.type),
                          False),
    )  # fmt: skip
    at.make(FenceAsyncSharedOp, bCluster=False)
    at.make(AsyncTMACopyLocalToGlobalOp, op.desc, op.indices, memory)
    at.make(AsyncTMAStoreWaitOp, pendings=0)
    erase(op)


def _encode_arguments(function: Any) -> None:
    """Give the descriptors that the function takes the encodings of their blocks."""
    entry = function.regions[0].blocks[0]
    for argument in entry.args:
        kind: Any = argument.type
        if isinstance(kind, ir.TensorDescType):
            block = with_encoding(kind.block, block_encoding(kind))
            argument._type = ir.TensorDescType(block)
    types: Any = function.function_type
    function.properties["function_type"] = type(types).from_lists(
        [a.type for a in entry.args], list(types.outputs)
    )
