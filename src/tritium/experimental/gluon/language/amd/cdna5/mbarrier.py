"""Barriers in shared memory at which threads and copies arrive, phase after phase.

Every thread that runs the code arrives: `init` takes the arrivals of all of them, 32 times
`gl.num_warps()` for one `arrive`.
"""

from __future__ import annotations

from typing import Any

from tritium.experimental.gluon.language.nvidia.ampere.mbarrier import MBarrierLayout
from tritium.language import emitter
from tritium.language.builtins import casts
from tritium.language.builtins.build import build, emit
from tritium.language.decorators import builtin
from tritium.language.values.tensor import tensor
from tritium.language.values.types import int32
from tritium.ops import ttgir

__all__ = ["MBarrierLayout", "arrive", "init", "wait"]

_LANES = 32
"""The threads of a wave."""


def threads() -> int:
    """The threads that run the code."""
    return _LANES * emitter.current().features.asked_num_warps()


@builtin
def init(mbarrier: Any, count: int) -> None:
    """Make the memory a barrier of which a phase ends after `count` arrivals."""
    emit(ttgir.InitLDSBarrierOp, mbarrier, count=count)


@builtin
def wait(mbarrier: Any, phase: Any) -> None:
    """Wait until the phase of parity `phase` has ended."""
    parity = casts.cast(casts.to_tensor(phase), int32)
    emit(ttgir.WaitLDSBarrierOp, mbarrier, parity, None, ())


@builtin
def arrive(mbarrier: Any, *, count: int = 1) -> tensor:
    """Arrive `count` times, each thread; the parity (int32) of the phase that they arrive in."""
    return build(ttgir.ArriveThreadsOp, mbarrier, like=int32, count=count, threads=threads())
