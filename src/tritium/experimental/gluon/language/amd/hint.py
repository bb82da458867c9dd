"""Hints about the order of instructions."""

from __future__ import annotations

from tritium.language.builtins.build import emit
from tritium.language.decorators import builtin
from tritium.ops import ttgir

__all__ = ["sched_barrier"]


@builtin
def sched_barrier(allow: None = None) -> None:
    """LLVM moves no instruction across this. Raises `ValueError` for classes of instructions that
    may: there are none."""
    if allow is not None:
        raise ValueError(f"sched_barrier: allow is {allow!r}; None is required")
    emit(ttgir.SchedBarrierOp)
