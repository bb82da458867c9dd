"""mbarriers, as on Hopper."""

from tritium.experimental.gluon.language.nvidia.hopper.mbarrier import (
    MBarrierLayout,
    allocate_mbarrier,
    arrive,
    expect,
    init,
    invalidate,
    wait,
)

__all__ = ["MBarrierLayout", "allocate_mbarrier", "arrive", "expect", "init", "invalidate", "wait"]
