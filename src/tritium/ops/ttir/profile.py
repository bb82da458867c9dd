"""Records of the profiler inside kernels (`tritium.profiler.language`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tritium.errors import OpError
from tritium.ir import types as ir
from tritium.ops.base import Op
from tritium.ops.effects import opaque
from tritium.ops.elementwise import describe
from tritium.ops.fields import bool_attr, i32_attr, string_attr, variadic
from tritium.ops.memory import Context


class RecordOp(Op):
    """Record that the scope `label` begins (or ends) here.

    Without `memory` there is nowhere to record it, and the op does nothing. Otherwise `memory` is
    the address of a ring of records (`tritium.sanitize.ring`) and its size in records less 1, both
    i64, and `number` stands for the label.
    """

    name = "proton.record"
    effects = (opaque(),)
    syntax = "attrs [$memory : type(memory)]"
    memory = variadic()
    starts = bool_attr()
    label = string_attr()
    number = i32_attr(0)

    @classmethod
    def infer(cls, memory: Sequence[ir.Type], **attrs: Any) -> None:
        if tuple(memory) not in ((), (ir.i64, ir.i64)):
            raise OpError(f"{cls.name}: operands are {describe(*memory)}; i64, i64 or none")

    def evaluate(self, context: Context, memory: tuple[Any, ...]) -> None:
        context.record(self.starts, self.label)
