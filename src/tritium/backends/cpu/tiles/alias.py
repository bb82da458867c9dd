"""Which memory accesses may touch the same element, and which can be exchanged."""

from __future__ import annotations

from typing import Any

from xdsl.ir import Block, SSAValue

from tritium.ops.base import Effects, Op

_THROUGH = frozenset({
    "tt.addptr", "tt.splat", "tt.broadcast", "tt.expand_dims", "tt.trans", "tt.reshape",
})  # fmt: skip
_CHANGES = frozenset({Effects.WRITE, Effects.OTHER})


def base_of(pointer: SSAValue) -> SSAValue:
    """The scalar pointer that a pointer (or tile of pointers) was computed from."""
    while True:
        owner: Any = pointer.owner
        if isinstance(owner, Block) or owner.name not in _THROUGH:
            return pointer
        pointer = owner.operands[0]


def _is_argument(value: SSAValue) -> bool:
    owner = value.owner
    parent = owner.parent_op() if isinstance(owner, Block) else None
    return parent is not None and parent.name == "tt.func"


def in_step(load: Any, store: Any) -> bool:
    """Whether load and store may be done chunk by chunk instead of one whole after the other.

    They may if both go through the same pointers, so that each element is read before it is
    written. Pointers that come from different arguments of the kernel are taken to be either
    equal, element by element, or disjoint (an output may overwrite its input in place).
    """
    if load.ptr is store.ptr:
        return True
    first, second = base_of(load.ptr), base_of(store.ptr)
    if first is second:
        return False
    return _is_argument(first) and _is_argument(second)


def changes_memory(op: Op) -> bool:
    """Whether the op writes, or must keep its place among reads for other reasons."""
    return bool(op.memory_effects() & _CHANGES)
