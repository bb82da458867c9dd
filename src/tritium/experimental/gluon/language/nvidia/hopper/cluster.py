"""Clusters of thread blocks."""

from __future__ import annotations

from tritium.language.builtins.build import emit
from tritium.language.decorators import builtin
from tritium.ops import ttgir

__all__ = ["barrier"]


@builtin
def barrier(relaxed: bool = False) -> None:
    """Wait for the other thread blocks of the cluster; unless `relaxed`, see what they wrote."""
    emit(ttgir.ClusterBarrierOp, relaxed=bool(relaxed))
