"""Accesses to global memory through a pointer that all threads share and 32-bit offsets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tritium.language.builtins import arithmetic, casts
from tritium.language.builtins.atomics import UPDATES, Access
from tritium.language.builtins.build import build, emit
from tritium.language.builtins.memory import cache_options, check_pointer
from tritium.language.decorators import builtin
from tritium.language.values.tensor import tensor
from tritium.language.values.types import int1, int32
from tritium.ops import ttgir
from tritium.ops.ttir import AtomicKind


def checked_buffer(
    name: str, ptr: Any, offsets: Any, mask: Any
) -> tuple[tensor, tensor, tensor | None]:
    """The pointer, offsets and mask. Raises `TypeError` for others than the instructions take."""
    pointer, at = check_pointer(name, ptr), casts.to_tensor(offsets)
    if pointer.type.is_block() or not at.type.is_block() or at.dtype != int32:
        raise TypeError(
            f"{name}: {pointer.type} and offsets {at.type}; a pointer and a block of int32 are "
            "required"
        )
    if mask is None:
        return pointer, at, None
    at, chosen = arithmetic.broadcast_values(at, casts.to_tensor(mask))
    if chosen.dtype != int1:
        raise TypeError(f"{name}: the mask is {chosen.type}; int1 is required")
    return pointer, at, chosen


@builtin
def buffer_load(
    ptr: Any, offsets: Any, mask: Any = None, other: Any = None, cache: Any = None
) -> tensor:
    """The elements at `ptr + offsets` where the mask is true, `other` (or zero) elsewhere. Offsets
    are int32 and not negative."""
    pointer, at, chosen = checked_buffer("buffer_load", ptr, offsets, mask)
    element: Any = pointer.dtype
    rest = None
    if other is not None:
        if chosen is None:
            raise ValueError("buffer_load: `other` cannot be provided without `mask`")
        rest = arithmetic.broadcast_like(
            casts.cast(casts.to_tensor(other), element.element_ty), at.type
        )
    return build(ttgir.BufferLoadOp, pointer, at, chosen, rest, like=element.element_ty,
                 **cache_options(cache, None))  # fmt: skip


@builtin
def buffer_store(
    stored_value: Any, ptr: Any, offsets: Any, mask: Any = None, cache: Any = None
) -> None:
    """Write a block to `ptr + offsets` where the mask is true."""
    pointer, at, chosen = checked_buffer("buffer_store", ptr, offsets, mask)
    element: Any = pointer.dtype
    value = casts.cast(casts.to_tensor(stored_value), element.element_ty)
    value, at = arithmetic.broadcast_values(value, at)
    emit(ttgir.BufferStoreOp, value, pointer, at, chosen, **cache_options(cache, None))


class _BufferAccess(Access):
    """The checked arguments of an atomic operation."""

    prefix = "buffer_atomic"

    def __init__(
        self, name: str, ptr: tensor, offsets: tensor, value: Any, mask: Any, sem: Any, scope: Any
    ):
        super().__init__(name, ptr + offsets, value, mask, sem, scope)
        self.start, self.offsets = ptr, offsets

    def made(
        self, pointer: tensor, value: tensor, mask: tensor | None, kind: AtomicKind
    ) -> tensor:
        return build(
            ttgir.BufferAtomicRMWOp, self.to(self.start, value.dtype), value, self.offsets, mask,
            like=value, atomic_rmw_op=kind, **self.order,
        )  # fmt: skip


def _atomic(kind: str) -> Callable[..., Any]:
    def function(
        ptr: Any, offsets: Any, value: Any, mask: Any = None, sem: Any = None, scope: Any = None
    ) -> tensor:
        mask = None if mask is None else casts.cast(casts.to_tensor(mask), int1)
        pointer, at, chosen = checked_buffer(function.__name__, ptr, offsets, mask)
        return UPDATES[kind](_BufferAccess(kind, pointer, at, value, chosen, sem, scope))

    function.__name__ = f"buffer_atomic_{kind}"
    function.__doc__ = f"The atomic `{kind}` of a block to `ptr + offsets`; see `atomic_{kind}`."
    return builtin(function)


buffer_atomic_add, buffer_atomic_max, buffer_atomic_min = map(_atomic, ("add", "max", "min"))
buffer_atomic_and, buffer_atomic_or, buffer_atomic_xor = map(_atomic, ("and", "or", "xor"))
buffer_atomic_xchg = _atomic("xchg")

__all__ = [
    "buffer_atomic_add", "buffer_atomic_and", "buffer_atomic_max", "buffer_atomic_min",
    "buffer_atomic_or", "buffer_atomic_xchg", "buffer_atomic_xor", "buffer_load", "buffer_store",
]  # fmt: skip
