"""Allocate tensor memory at a kernel's start.

before:
    scf.if %c {
      %m = ttng.tmem_alloc %x : (tensor<128x64xf32, #rows>) -> !ttg.memdesc<...>
      ...
    }
after:
    %m = ttng.tmem_alloc : () -> !ttg.memdesc<...>
    scf.if %c {
      ttng.tmem_store %x, %m, %true : ...
      ...
    }

An allocation lasts until the kernel's end, and all threads make it together: one in a branch or
loop is the same as one in front of everything, unless a loop or branch hands it on. Allocations of
partitions stay, and those that are handed on. Triton writes such text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from tritium.analysis.regions import functions
from tritium.ir import types as ir
from tritium.ir.layouts.tensor_memory import TensorMemorySpace
from tritium.ops.ttgir import MemDescType, TMemAllocOp, TMemStoreOp
from tritium.passes.base import Pass
from tritium.passes.rewriting import Builder, copy_names, erase


@dataclass(frozen=True)
class HoistTensorMemory(Pass):
    """Allocate tensor memory at a kernel's start."""

    name: ClassVar[str] = "hoist-tensor-memory"
    title: ClassVar[str] = "HoistTensorMemoryPass"

    def run(self, module: ModuleOp) -> bool:
        found = list(nested_allocations(module))
        for function, allocation in found:
            _hoist(function, allocation)
        return bool(found)


def nested_allocations(module: ModuleOp) -> Iterator[tuple[Operation, TMemAllocOp]]:
    """The allocations in branches and loops of each function that no op hands on."""
    for function in functions(module):
        entry = function.regions[0].first_block
        for op in function.walk():
            if isinstance(op, TMemAllocOp) and op.parent is not entry:
                parent: Any = op.parent_op()
                while parent.recursive_effects and not (parent.concurrent or _hands_on(parent)):
                    parent = parent.parent_op()
                if parent is function:
                    yield function, op


def _hands_on(op: Operation) -> bool:
    return any(
        isinstance(t, MemDescType) and isinstance(t.memory_space, TensorMemorySpace)
        for t in op.result_types
    )


def _hoist(function: Operation, allocation: TMemAllocOp) -> None:
    entry, old = function.regions[0].first_block, allocation.results[0]
    first = entry.first_op if entry is not None else None
    assert first is not None, "the allocation is in a block after the first"
    new = Builder(first, allocation.location).value(TMemAllocOp, None, result=old.type)
    copy_names([old], [new])
    if allocation.src is not None:
        at = Builder(allocation)
        at.make(TMemStoreOp, allocation.src, new, at.constant(1, ir.i1))
    old.replace_all_uses_with(new)
    erase(allocation)
