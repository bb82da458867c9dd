"""mbarriers that count the bytes of bulk copies."""

from __future__ import annotations

from typing import Any

from tritium.experimental.gluon.language.nvidia.ampere.mbarrier import (
    MBarrierLayout,
    allocate_mbarrier,
    arrive,
    init,
    invalidate,
    route,
    wait,
)
from tritium.language.builtins import casts
from tritium.language.builtins.build import emit
from tritium.language.decorators import builtin
from tritium.language.values.types import int1
from tritium.ops import ttgir

__all__ = ["MBarrierLayout", "allocate_mbarrier", "arrive", "expect", "init", "invalidate", "wait"]


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
