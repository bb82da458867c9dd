"""mbarriers: words of shared memory at which threads and copies arrive, phase after phase."""

from __future__ import annotations

from typing import Any

from tritium.experimental.gluon.language._layouts import SwizzledSharedLayout
from tritium.experimental.gluon.language._shared_memory import (
    allocate_shared_memory,
    shared_memory_descriptor,
)
from tritium.language import emitter
from tritium.language.builtins import casts
from tritium.language.builtins.build import emit
from tritium.language.decorators import builtin
from tritium.language.values.constexpr import constexpr_function
from tritium.language.values.tensor import tensor
from tritium.language.values.types import int1, int32, int64
from tritium.ops import ttgir

__all__ = ["MBarrierLayout", "allocate_mbarrier", "arrive", "init", "invalidate", "wait"]


class MBarrierLayout(SwizzledSharedLayout):
    """The layout of mbarriers. `cga_layout`: the thread blocks that have one, in a cluster."""

    def __init__(self, cga_layout: Any = None):
        super().__init__(1, 1, 1, [0], cga_layout or [])

    @staticmethod
    @constexpr_function
    def multicta(num_ctas: int, two_cta: bool = False) -> MBarrierLayout:
        """One barrier for each thread block, or with `two_cta` for each two."""
        shared = [[0]] if two_cta else []
        count = (num_ctas // 2 if two_cta else num_ctas).bit_length() - 1
        return MBarrierLayout([*shared, *([1 << i] for i in range(count))])


def route(from_cta: Any) -> int:
    """The blocks of the cluster from which arrivals come, as the op takes it. Raises `ValueError`
    for a mask that has other bits than a block's number."""
    count = emitter.current().features.num_ctas
    if from_cta is None or from_cta == count - 1:
        return ttgir.ITSELF
    if not isinstance(from_cta, int) or not 0 <= from_cta < count:
        raise ValueError(f"from_cta is {from_cta!r}; an int from 0 to {count - 1} is required")
    return from_cta


@builtin
def allocate_mbarrier(batch: Any = None, two_ctas: bool = False) -> shared_memory_descriptor:
    """Shared memory for a barrier, or for `batch` of them (`.index(i)` is one). Each block of a
    cluster has its own, or with `two_ctas` each two blocks, at which both arrive and for which the
    first one waits. Raises `ValueError` for `two_ctas` without a cluster."""
    count = emitter.current().features.num_ctas
    if two_ctas and count == 1:
        raise ValueError("allocate_mbarrier(two_ctas=True) with num_ctas=1; 2 or more are required")
    barriers = count // 2 if two_ctas else count
    shape = [barriers] if batch is None else [batch, barriers]
    return allocate_shared_memory(int64, shape, MBarrierLayout.multicta(count, bool(two_ctas)))


@builtin
def init(mbarrier: Any, count: int) -> None:
    """Make the memory a barrier of which a phase ends after `count` arrivals, and when all bytes
    are there that were to be expected."""
    emit(ttgir.InitBarrierOp, mbarrier, count=count)


@builtin
def invalidate(mbarrier: Any) -> None:
    """The memory is no barrier any more."""
    emit(ttgir.InvalBarrierOp, mbarrier)


def predicate(pred: Any) -> tensor | None:
    """A condition as the op takes it: None for one that always holds. Raises `TypeError`."""
    if pred is True or pred is None:
        return None
    value = casts.to_tensor(pred)
    if value.type.is_block() or not value.dtype.is_int():
        raise TypeError(f"pred is {value.type}; a scalar condition is required")
    return casts.cast(value, int1)


@builtin
def wait(mbarrier: Any, phase: Any, pred: Any = True, deps: Any = ()) -> None:
    """Wait until the phase of parity `phase` has ended, if `pred`. `deps`: memory that what one
    waits for uses until then."""
    parity = casts.cast(casts.to_tensor(phase), int32)
    emit(ttgir.WaitBarrierOp, mbarrier, parity, predicate(pred), tuple(deps))


@builtin
def arrive(mbarrier: Any, *, count: int = 1, pred: Any = True, from_cta: Any = None) -> None:
    """Arrive `count` times, if `pred`. In a cluster the barrier of the block t gets the arrival
    from the block `t & from_cta`: by default each from its own, with 0 all from the first."""
    emit(ttgir.ArriveBarrierOp, mbarrier, predicate(pred), count=count, fromCTA=route(from_cta))
