"""Clusters of thread blocks."""

from __future__ import annotations

from tritium.language.decorators import builtin

__all__ = ["barrier"]


@builtin
def barrier(relaxed: bool = False) -> None:
    """Wait for the other thread blocks of the cluster."""
    raise NotImplementedError("gluon.language.nvidia.hopper.cluster.barrier is not built")
