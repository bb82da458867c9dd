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


def single_block(name: str, from_cta: Any = None) -> None:
    """Raise `NotImplementedError` in a cluster."""
    if emitter.current().features.num_ctas > 1 or from_cta is not None:
        raise NotImplementedError(f"gluon.language.nvidia: mbarrier.{name} in clusters")


@builtin
def allocate_mbarrier(batch: Any = None, two_ctas: bool = False) -> shared_memory_descriptor:
    """Shared memory for a barrier, or for `batch` of them (`.index(i)` is one)."""
    single_block("allocate_mbarrier", two_ctas or None)
    shape = [1] if batch is None else [batch, 1]
    return allocate_shared_memory(int64, shape, MBarrierLayout())


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
    """Arrive `count` times, if `pred`."""
    single_block("arrive", from_cta)
    emit(ttgir.ArriveBarrierOp, mbarrier, predicate(pred), count=count)
