"""mbarriers, as on Hopper. Arrivals at several blocks at once are not built."""

from __future__ import annotations

from typing import Any

from tritium.experimental.gluon.language.nvidia.hopper import mbarrier as hopper
from tritium.experimental.gluon.language.nvidia.hopper.mbarrier import (
    MBarrierLayout,
    allocate_mbarrier,
    expect,
    init,
    invalidate,
    wait,
)
from tritium.language.decorators import builtin

__all__ = ["MBarrierLayout", "allocate_mbarrier", "arrive", "expect", "init", "invalidate", "wait"]


@builtin
def arrive(
    mbarrier: Any, *, count: int = 1, pred: Any = True, from_cta: Any = None,
    multicast_cta: int = 0,
) -> None:  # fmt: skip
    """`hopper.mbarrier.arrive`. Raises `NotImplementedError` for `multicast_cta`."""
    if multicast_cta:
        raise NotImplementedError("rubin.mbarrier.arrive(multicast_cta=...) is not built")
    hopper.arrive(mbarrier, count=count, pred=pred, from_cta=from_cta)
