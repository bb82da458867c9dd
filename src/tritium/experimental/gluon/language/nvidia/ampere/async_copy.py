"""Copies from global to shared memory (`cp.async`) in groups that one can wait for."""

from __future__ import annotations

from typing import Any

from tritium.experimental.gluon.language._memory import chosen
from tritium.experimental.gluon.language._shared_memory import shared_memory_descriptor
from tritium.language import emitter
from tritium.language.builtins.build import emit
from tritium.language.builtins.memory import cache_options, check_mask, check_pointer
from tritium.language.decorators import builtin
from tritium.language.values.tensor import tensor
from tritium.ops import ttgir

__all__ = ["async_copy_global_to_shared", "async_load", "commit_group", "mbarrier_arrive",
           "wait_group"]  # fmt: skip


@builtin
def async_load(
    smem: shared_memory_descriptor, pointer: tensor, mask: Any = None, cache_modifier: Any = None,
    eviction_policy: Any = None, volatile: bool = False, cache_policy: Any = None,
) -> None:  # fmt: skip
    """Start copying the elements at `pointer` into shared memory; zeros where the mask is false.
    The copy belongs to the group that the next `commit_group` ends.

    Args:
        smem: of the shape and dtype of what the block of pointers points to.
        cache_modifier, eviction_policy, volatile, cache_policy: as for `load`.
    """
    words = chosen(cache_policy, cache_modifier, eviction_policy)
    pointers = check_pointer("async_load", pointer)
    emit(
        ttgir.AsyncCopyGlobalToLocalOp, pointers, smem,  # pyright: ignore[reportArgumentType]
        check_mask(pointers, mask), None, **cache_options(*words),
        isVolatile=bool(volatile),
    )  # fmt: skip


async_copy_global_to_shared = async_load
"""The name of `async_load` in release 3.6."""


@builtin
def mbarrier_arrive(mbarrier: Any, increment_count: bool = True) -> None:
    """The barrier's phase ends only after the copies that were started so far. Without
    `increment_count` each thread arrives as well, when its copies are done: the barrier is to be
    initialized for one more arrival of each thread."""
    features = emitter.current().features
    lanes = 32 if features.target is None else features.target.warp_size
    arrivals = 0 if increment_count else lanes * features.asked_num_warps()
    emit(ttgir.AsyncCopyMbarrierArriveOp, mbarrier, arrivals=arrivals)


@builtin
def commit_group() -> None:
    """The copies started since the last call become a group."""
    emit(ttgir.AsyncCommitGroupOp, ())


@builtin
def wait_group(num_outstanding: int = 0) -> None:
    """Wait until all but the `num_outstanding` newest groups are done."""
    emit(ttgir.AsyncWaitOp, (), num=num_outstanding)
