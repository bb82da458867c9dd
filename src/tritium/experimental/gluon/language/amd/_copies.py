"""Copies from global to shared memory that go on while the program computes, in groups."""

from __future__ import annotations

from typing import Any

from tritium.experimental.gluon.language._shared_memory import shared_memory_descriptor
from tritium.experimental.gluon.language.amd._buffers import checked_buffer
from tritium.language.builtins import arithmetic, casts
from tritium.language.builtins.build import emit
from tritium.language.builtins.memory import cache_options, check_mask, check_pointer
from tritium.language.decorators import builtin
from tritium.language.values.tensor import tensor
from tritium.ops import ttgir


def start(
    name: str, dest: Any, pointer: tensor, mask: Any, other: Any, cache_modifier: Any
) -> None:
    """Start a copy. Raises `ValueError` where the memory is none, or of another shape."""
    if not isinstance(dest, shared_memory_descriptor) or dest.shape != [*pointer.type.shape]:
        raise ValueError(f"{name}: {pointer.type} to {dest!r}; memory of its shape is required")
    rest: tensor | None = None
    if other is not None:
        rest = arithmetic.broadcast_like(casts.cast(casts.to_tensor(other), dest.dtype),
                                         pointer.type)  # fmt: skip
    emit(
        ttgir.AsyncCopyGlobalToLocalOp, pointer, dest, check_mask(pointer, mask), rest,  # pyright: ignore
        **cache_options(cache_modifier or None, None),
    )  # fmt: skip


@builtin
def global_load_to_shared(
    dest: Any, ptr: Any, mask: Any = None, other: Any = None, cache_modifier: str = ""
) -> None:
    """Start copying the elements at a block of pointers into shared memory of its shape; `other`
    (or zero) where the mask is false."""
    pointer = check_pointer("global_load_to_shared", ptr)
    start("global_load_to_shared", dest, pointer, mask, other, cache_modifier)


@builtin
def buffer_load_to_shared(
    dest: Any, ptr: Any, offsets: Any, mask: Any = None, other: Any = None,
    cache_modifier: str = "",
) -> None:  # fmt: skip
    """Start copying the elements at `ptr + offsets` into shared memory; see `buffer_load`."""
    pointer, at, chosen = checked_buffer("buffer_load_to_shared", ptr, offsets, mask)
    start("buffer_load_to_shared", dest, pointer + at, chosen, other, cache_modifier)


@builtin
def commit_group() -> None:
    """The copies started since the last call become a group."""
    emit(ttgir.AsyncCommitGroupOp, ())


@builtin
def wait_group(num_outstanding: int = 0) -> None:
    """Wait until all but the `num_outstanding` newest groups are done."""
    emit(ttgir.AsyncWaitOp, (), num=num_outstanding)


@builtin
def load_shared_relaxed(smem: Any, layout: Any) -> tensor:
    """`smem.load(layout)`, of memory that the program itself waited for by `wait_group`."""
    return smem.load(layout)
