"""Analysis of memory accesses: which may touch the same element, and which can be exchanged."""

from __future__ import annotations

from typing import Any

from xdsl.ir import Block, SSAValue

from tritium.analysis.regions import is_argument
from tritium.ir import types as ir
from tritium.ops.base import Op, retypes_pointers


def base_of(pointer: SSAValue) -> SSAValue:
    """The scalar pointer that a pointer (or tile of pointers) was computed from."""
    while True:
        owner = pointer.owner
        if not isinstance(owner, Op) or len(owner.memory_operands) != 1:
            return pointer
        (pointer,) = owner.operand_values(owner.memory_operands[0])


def _is_fixed(value: SSAValue) -> bool:
    """A scalar that no loop steps on: an argument of the kernel, or computed or loaded."""
    if isinstance(value.owner, Block):
        return is_argument(value)
    return not isinstance(value.type, ir.TensorType)


def in_step(
    load: Any, store: Any, rearranged: bool = False, regular: dict[SSAValue, bool] | None = None
) -> bool:
    """True if load and store may be done chunk by chunk instead of one whole after the other.

    They may if both go through the same pointers, so that each element is read before it is
    written; unless what is loaded is `rearranged` on its way to where it is stored, so that a chunk
    takes elements of others. Pointers that come from different arguments of the kernel, or from
    other scalars, such as addresses in a table, are taken to be either equal, element by element,
    or disjoint (an output may overwrite its input in place). That is tested when the program runs,
    and that no two pointers of a tile are equal (`lower/nests/overlap.py`). Addresses of no regular
    form are not known well enough for that.
    `regular` holds the answers of `is_regular` for who asks about many pairs.
    """
    regular = {} if regular is None else regular
    for pointer in (load.ptr, store.ptr):
        if pointer not in regular:
            regular[pointer] = is_regular(pointer)
        if not regular[pointer]:
            return False
    if load.ptr is store.ptr:
        return not rearranged
    first, second = base_of(load.ptr), base_of(store.ptr)
    if first is second:
        return False
    return _is_fixed(first) and _is_fixed(second)


def is_regular(pointer: SSAValue) -> bool:
    """True if a tile of pointers is sums and products of ranges and scalars."""
    seen: set[SSAValue] = set()
    stack = [pointer]
    while stack:
        value = stack.pop()
        owner: Any = value.owner
        if value in seen or isinstance(owner, Block):
            continue
        seen.add(value)
        if not isinstance(value.type, ir.TensorType):
            continue
        regular = owner.tile_source or owner.weights or owner.source_axes() is not None
        if not (regular or owner.multiplies or retypes_pointers(owner)):
            return False
        stack.extend(owner.operands)
    return True
