"""The barrier of the workgroups of a cluster, in two parts."""

from __future__ import annotations

from tritium.language import emitter
from tritium.language.builtins.build import emit
from tritium.language.decorators import builtin
from tritium.ops import ttgir

__all__ = ["arrive", "wait"]


def _check(name: str) -> None:
    count = emitter.current().features.num_ctas
    if count == 1:
        raise ValueError(f"cluster.{name} with num_ctas=1; 2 or more are required")


@builtin
def arrive() -> None:
    """Tell the other workgroups of the cluster that this one has come here. A `wait` follows
    before the next. Raises `ValueError` without a cluster."""
    _check("arrive")
    emit(ttgir.ClusterArriveOp)


@builtin
def wait() -> None:
    """Wait until all workgroups of the cluster have come to their `arrive`, and see what they wrote
    before it. Raises `ValueError` without a cluster."""
    _check("wait")
    emit(ttgir.ClusterWaitOp)
