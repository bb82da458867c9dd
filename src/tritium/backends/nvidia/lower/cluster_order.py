"""The order that barriers give to memory which threads of several blocks of a cluster use."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from xdsl.ir import Operation

from tritium.codegen.gpu.context import Context
from tritium.ir import types as ir
from tritium.ops import ttgir
from tritium.ops.base import Op
from tritium.ops.effects import GLOBAL, SHARED, Action, Effect, Resource

_found: WeakKeyDictionary[Operation, bool] = WeakKeyDictionary()
"""Whether threads hand on memory, by module."""


def order(c: Context, op: Any, how: str) -> str:
    """What an arrival (`release`) at a barrier, or a wait (`acquire`), says of its scope.

    In the cluster's a release waits until all writes to memory are done, and an acquire drops the
    first-level cache: each costs hundreds of cycles. Without a scope threads are ordered in their
    own block. That is enough where they take no data from each other: what copy engines and tensor
    cores have done is done when they count for a barrier, or when a product has been waited for.
    """
    if c.num_ctas == 1 or getattr(op, "ownBlock", False):
        return ""
    while (around := op.parent_op()) is not None:
        op = around
    if op not in _found:
        _found[op] = _hands_on_memory(op)
    return f".{how}.cluster" if _found[op] else ""


def _hands_on_memory(module: Operation) -> bool:
    """True if a thread may read what a thread of another block has written."""
    actions = set[Action]()
    for op in module.walk():
        if not isinstance(op, Op) or op.is_call:
            continue
        if isinstance(op, ttgir.AsyncSharedStoreOp):
            return True
        for effect in op.own_effects():
            if effect.resource is SHARED and op.reaches_blocks and _is_access(effect):
                return True
            if effect.resource is Resource.HOST and not op.regions:  # code of the user's
                actions |= {Action.READ, Action.WRITE}
            elif effect.resource is GLOBAL and _by_pointer(op, effect):
                actions.add(effect.action)
    return {Action.READ, Action.WRITE} <= actions


def _is_access(effect: Effect) -> bool:
    """True for what the threads do themselves, and not an engine."""
    return effect.queue is None and effect.action in (Action.READ, Action.WRITE)


def _by_pointer(op: Op, effect: Effect) -> bool:
    """True if an effect is of the memory that pointers point to."""
    value = getattr(op, effect.value) if effect.value else None
    return value is not None and ir.is_pointer(ir.element_type(value.type))
