"""Barriers in shared memory at which threads and copies arrive, phase after phase.

Every thread that runs the code arrives: `init` takes the arrivals of all of them, 32 times
`gl.num_warps()` for one `arrive`.
"""

from __future__ import annotations

from typing import Any

from tritium.experimental.gluon.language.nvidia.ampere import mbarrier as common
from tritium.experimental.gluon.language.nvidia.ampere.mbarrier import MBarrierLayout, init
from tritium.language import emitter
from tritium.language.builtins.build import build
from tritium.language.decorators import builtin
from tritium.language.values.tensor import tensor
from tritium.language.values.types import int32
from tritium.ops import ttgir

__all__ = ["MBarrierLayout", "arrive", "init", "wait"]

_LANES = 32
"""The threads of a wave."""


@builtin
def wait(mbarrier: Any, phase: Any) -> None:
    """Wait until the phase of parity `phase` has ended."""
    common.wait(mbarrier, phase)


@builtin
def arrive(mbarrier: Any, *, count: int = 1) -> tensor:
    """Arrive `count` times, each thread; the parity (int32) of the phase that they arrive in."""
    threads = _LANES * emitter.current().features.asked_num_warps()
    return build(ttgir.ArriveThreadsOp, mbarrier, like=int32, count=count, threads=threads)
