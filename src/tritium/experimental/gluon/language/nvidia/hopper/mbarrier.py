"""mbarriers that count the bytes of bulk copies."""

from __future__ import annotations

from typing import Any

from tritium.experimental.gluon.language.nvidia.ampere.mbarrier import (
    MBarrierLayout,
    allocate_mbarrier,
    init,
    invalidate,
    predicate,
    route,
)
from tritium.language import emitter
from tritium.language.builtins import casts
from tritium.language.builtins.build import emit
from tritium.language.decorators import builtin
from tritium.language.values.types import int1, int32
from tritium.ops import ttgir

__all__ = ["MBarrierLayout", "allocate_mbarrier", "arrive", "expect", "init", "invalidate", "wait"]


@builtin
def arrive(
    mbarrier: Any, *, count: int = 1, pred: Any = True, from_cta: Any = None,
    multicast_cta: Any = 0, scope: Any = "cluster",
) -> None:  # fmt: skip
    """Arrive `count` times, if `pred`. In a cluster the barrier of the block t gets the arrival
    from the block `t & from_cta`: by default each from its own, with 0 all from the first.
    `multicast_cta`: bits of a block's number; each block arrives at its own barrier and at those of
    all blocks whose numbers differ from its in these bits alone. `scope`: who sees by a wait what
    threads wrote to memory before; "cta" for the block's own threads alone, which costs less where
    other blocks only learn that copies can start. Raises `ValueError` for bits that no block has,
    for both masks, and for another scope.
    """
    source, blocks = route(from_cta), emitter.current().features.num_ctas
    if not isinstance(multicast_cta, int) or not 0 <= multicast_cta < blocks:
        raise ValueError(f"arrive: multicast_cta is {multicast_cta!r}; bits of a block's number, "
                         f"from 0 to {blocks - 1}, are required")  # fmt: skip
    if multicast_cta and source != ttgir.ITSELF:
        raise ValueError(f"arrive: from_cta={from_cta} and multicast_cta={multicast_cta}; arrivals "
                         "at several blocks come from each block")  # fmt: skip
    emit(ttgir.ArriveBarrierOp, mbarrier, predicate(pred), count=count, fromCTA=source,
         multicastCTA=multicast_cta, ownBlock=_is_own("arrive", scope))  # fmt: skip


@builtin
def wait(
    mbarrier: Any, phase: Any, pred: Any = True, deps: Any = (), scope: Any = "cluster"
) -> None:
    """Wait until the phase of parity `phase` has ended, if `pred`. `deps`: memory that what one
    waits for uses until then. `scope`: as for `arrive`; copies are seen with either."""
    parity = casts.cast(casts.to_tensor(phase), int32)
    emit(ttgir.WaitBarrierOp, mbarrier, parity, predicate(pred), tuple(deps),
         ownBlock=_is_own("wait", scope))  # fmt: skip


def _is_own(name: str, scope: Any) -> bool:
    if scope not in ("cta", "cluster"):
        raise ValueError(f'{name}: scope is {scope!r}; "cta" or "cluster" is required')
    return scope == "cta"


@builtin
def expect(
    mbarrier: Any, bytes_per_cta: Any = None, pred: Any = True, *, from_cta: Any = None,
    bytes: Any = None,
) -> None:  # fmt: skip
    """Arrive, and let the phase end only after `bytes_per_cta` more bytes are copied, if `pred`.
    Release 3.6 names the number `bytes`. `from_cta`: as for `arrive`."""
    size = bytes if bytes_per_cta is None else bytes_per_cta
    if not isinstance(size, int):
        raise TypeError(f"expect: {size!r} bytes; a compile-time int is required")
    always = casts.cast(casts.to_tensor(pred), int1)
    emit(ttgir.BarrierExpectOp, mbarrier, always, size=size, fromCTA=route(from_cta))
