"""Copies between global and shared memory that go on while the program computes."""

from typing import Any

from tritium.experimental.gluon.language._shared_memory import shared_memory_descriptor
from tritium.experimental.gluon.language.amd._copies import commit_group, start, wait_group
from tritium.experimental.gluon.language.amd.cdna5.mbarrier import threads
from tritium.language.builtins.build import emit
from tritium.language.builtins.memory import cache_options, check_mask, check_pointer
from tritium.language.decorators import builtin
from tritium.ops import ttgir

__all__ = ["commit_group", "global_to_shared", "mbarrier_arrive", "shared_to_global", "wait_group"]


@builtin
def global_to_shared(
    smem: Any, pointer: Any, mask: Any = None, other: Any = None, cache_modifier: str = ""
) -> None:
    """Start copying the elements at a block of pointers into shared memory of its shape; `other`
    (or zero) where the mask is false."""
    found = check_pointer("global_to_shared", pointer)
    start("global_to_shared", smem, found, mask, other, cache_modifier)


@builtin
def shared_to_global(
    pointer: Any, smem: Any, mask: Any = None, cache_modifier: str = ""
) -> None:
    """Start copying shared memory to the elements at a block of pointers of its shape, where the
    mask is true. The memory may be written after a `wait_group`."""
    found = check_pointer("shared_to_global", pointer)
    if not isinstance(smem, shared_memory_descriptor) or smem.shape != [*found.type.shape]:
        raise ValueError(f"shared_to_global: {smem!r} to {found.type}; memory of its shape is "
                         "required")  # fmt: skip
    emit(
        ttgir.AsyncCopyLocalToGlobalOp, smem, found, check_mask(found, mask),  # pyright: ignore
        **cache_options(cache_modifier or None, None),
    )  # fmt: skip


@builtin
def mbarrier_arrive(mbarrier: Any) -> None:
    """Each thread arrives at the barrier when the copies that it started are done."""
    emit(ttgir.AsyncCopyArriveLDSOp, mbarrier, arrivals=threads())
