"""The one op of the `llvm` dialect that appears in `tt` programs."""

from __future__ import annotations

from typing import Any

import numpy as np

from tritium.ir import types as ir
from tritium.ops.base import Op
from tritium.ops.effects import opaque
from tritium.ops.elementwise import check_condition
from tritium.ops.fields import operand
from tritium.ops.memory import Context, EvaluationError


class AssumeOp(Op):
    """The compiler may assume that the condition holds; `evaluate` checks it."""

    name = "llvm.intr.assume"
    effects = (opaque(),)
    syntax = "$condition attrs : type(condition)"
    condition = operand()

    @classmethod
    def infer(cls, condition: ir.Type) -> None:
        check_condition(cls.name, condition)

    def evaluate(self, context: Context, condition: Any) -> None:
        if not np.all(condition):
            raise EvaluationError("tl.assume: the assumption does not hold")
