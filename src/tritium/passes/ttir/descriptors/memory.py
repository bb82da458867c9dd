"""The memory that descriptors stand for, and the other accesses to it.

The bulk copy engine's accesses and those of threads are ordered only by fences, and its stores are
seen by later loads only when they are complete. So memory that is written on one way and accessed
on the other is left to pointers altogether, and a store to memory that the engine also loads from
is waited for to its end. Pointers of different arguments are taken to lead to different memory.
"""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.ir import Operation, SSAValue, Use

from tritium.analysis.pointer_roots import PointerRoots
from tritium.ir import types as ir
from tritium.ops.base import Op
from tritium.ops.effects import GLOBAL, Action


class Threads:
    """The memory that threads read and write, as roots of pointers."""

    def __init__(self, module: Operation):
        self.roots = PointerRoots(module)
        self.read: set[SSAValue] = set()
        self.written: set[SSAValue] = set()
        for op in module.walk():
            if not isinstance(op, Op):
                continue
            for effect in op.effects:
                for value in op.affected(effect) if effect.resource is GLOBAL else ():
                    if ir.is_pointer(value.type):
                        written = effect.action is Action.WRITE
                        (self.written if written else self.read).update(self.roots.of(value))

    def take(self, group: Iterable[SSAValue]) -> None:
        """Descriptors become pointers."""
        members = list(group)
        self.read |= self.memory_of(members)
        if is_stored(members):
            self.written |= self.memory_of(members)

    def memory_of(self, descriptors: Iterable[SSAValue]) -> set[SSAValue]:
        """The roots of descriptors."""
        return memory_of(descriptors, self.roots)

    def touch(self, group: Iterable[SSAValue]) -> bool:
        """True if threads write what descriptors of a group access, or access what they store."""
        members = list(group)
        memory = self.memory_of(members)
        return bool(memory & self.written) or (is_stored(members) and bool(memory & self.read))


def memory_of(descriptors: Iterable[SSAValue], roots: PointerRoots) -> set[SSAValue]:
    """The roots of descriptors; those that functions take are roots themselves."""
    return set[SSAValue]().union(*(roots.of(value) for value in descriptors))


def is_loaded(descriptors: Iterable[SSAValue]) -> bool:
    """True if blocks of any are loaded."""
    return any(
        _acts(use, Action.READ) and not _acts(use, Action.WRITE)
        for value in descriptors for use in value.uses
    )  # fmt: skip


def is_stored(descriptors: Iterable[SSAValue]) -> bool:
    """True if blocks of any are stored, or combined with memory."""
    return any(_acts(use, Action.WRITE) for value in descriptors for use in value.uses)


def _acts(use: Use, action: Action) -> bool:
    """True if an op acts so on the global memory that one of its operands names."""
    op = use.operation
    return isinstance(op, Op) and any(
        effect.action is action and effect.resource is GLOBAL
        and op.operands[use.index] in op.affected(effect)
        for effect in op.effects
    )  # fmt: skip
