"""Stages of loops in which warps take turns at the units of a processor."""

from __future__ import annotations

from typing import Any

from tritium.language.builtins.build import emit
from tritium.language.values.constexpr import unwrap
from tritium.ops import ttgir

__all__ = ["warp_pipeline_stage"]


class warp_pipeline_stage:
    """A stage, as a context manager in a kernel: LLVM keeps its instructions together.
    Which warps are in which stage is not arranged: it is as they come to run.

    Args:
        label: names the stage for readers.
        priority: with which a warp's instructions are issued within the stage, 0 to 3.
    """

    __slots__ = ("label", "priority")

    def __init__(self, label: Any = None, *, priority: Any = None, **_: Any):
        self.label, self.priority = unwrap(label), unwrap(priority)
        if not isinstance(self.label, (str, type(None))):
            raise TypeError(f"warp_pipeline_stage: label is {self.label!r}; a string is required")

    def __enter__(self) -> None:
        emit(ttgir.SchedBarrierOp)
        if self.priority is not None:
            emit(ttgir.SetPriorityOp, priority=self.priority)

    def __exit__(self, *_: object) -> None:
        if self.priority is not None:
            emit(ttgir.SetPriorityOp, priority=0)
        emit(ttgir.SchedBarrierOp)
