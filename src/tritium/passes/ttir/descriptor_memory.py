"""Which memory descriptors are of, and what else touches it.

The bulk copy engine's accesses and those of threads are ordered only by fences, and its stores are
seen by later loads only when they are complete. So memory that is written on one way and accessed
on the other is left to pointers altogether, and a store to memory that the engine also loads from
is waited for to its end. Pointers of different arguments are taken to lead to different memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from xdsl.ir import Block, Operation, SSAValue

from tritium.ops.scf import ForOp
from tritium.ops.ttir.atomic import AtomicOp
from tritium.ops.ttir.descriptor import MakeTensorDescOp
from tritium.ops.ttir.memory import LoadOp, StoreOp

_LOADS = frozenset({
    "tt.descriptor_load", "tt.descriptor_gather", "ttng.async_tma_copy_global_to_local",
    "ttng.async_tma_gather",
})  # fmt: skip
_STORES = frozenset({"tt.descriptor_store", "tt.descriptor_reduce", "tt.descriptor_scatter"})
_THROUGH = frozenset({
    "tt.addptr", "tt.splat", "tt.broadcast", "tt.expand_dims", "tt.reshape", "tt.trans",
    "tt.bitcast", "tt.make_tensor_ptr", "tt.advance",
})  # fmt: skip


def roots(pointer: SSAValue) -> set[SSAValue]:
    """The arguments of its function that a pointer, a tile of them or a block pointer is derived
    from; others, loaded from memory say, have none."""
    found, pending, seen = set[SSAValue](), [pointer], set[SSAValue]()
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        owner: Any = value.owner
        if isinstance(owner, Block):
            loop = owner.parent_op()
            number: int = value.index  # pyright: ignore
            if isinstance(loop, ForOp) and number:
                pending += [loop.inits[number - 1], owner.last_op.operands[number - 1]]  # pyright: ignore
            else:
                found.add(value)
        elif isinstance(owner, ForOp):
            pending.append(owner.body.args[value.index + 1])  # pyright: ignore
        elif owner.name == "arith.select":
            pending += owner.operands[1:]
        elif owner.name == "scf.if":
            pending += [r.block.last_op.operands[value.index] for r in owner.regions]  # pyright: ignore
        elif owner.name in _THROUGH:
            pending.append(owner.operands[0])
    return found


class Threads:
    """The memory that threads read and write, as roots of pointers."""

    def __init__(self, module: Operation):
        self.read: set[SSAValue] = set()
        self.written: set[SSAValue] = set()
        for op in module.walk():
            if isinstance(op, LoadOp):
                self.read |= roots(op.ptr)
            elif isinstance(op, (StoreOp, AtomicOp)):
                self.written |= roots(op.ptr)

    def take(self, group: Iterable[SSAValue]) -> None:
        """Descriptors become pointers."""
        members = list(group)
        self.read |= memory_of(members)
        if is_stored(members):
            self.written |= memory_of(members)

    def touch(self, group: Iterable[SSAValue]) -> bool:
        """Whether threads write what descriptors of a group access, or access what they store."""
        members = list(group)
        memory = memory_of(members)
        return bool(memory & self.written) or (is_stored(members) and bool(memory & self.read))


def memory_of(descriptors: Iterable[SSAValue]) -> set[SSAValue]:
    """The roots of the pointers that descriptors are made of; those that functions take are roots
    themselves."""
    found: set[SSAValue] = set()
    for value in descriptors:
        owner = value.owner
        if isinstance(owner, MakeTensorDescOp):
            found |= roots(owner.base)
        elif isinstance(owner, Block):
            found.add(value)
    return found


def is_loaded(descriptors: Iterable[SSAValue]) -> bool:
    """Whether blocks of any are loaded."""
    return any(use.operation.name in _LOADS for value in descriptors for use in value.uses)


def is_stored(descriptors: Iterable[SSAValue]) -> bool:
    """Whether blocks of any are stored, or combined with memory."""
    return any(use.operation.name in _STORES for value in descriptors for use in value.uses)
