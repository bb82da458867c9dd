"""Checks that the sanitizer inserts (`tritium.sanitize`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from tritium.errors import OpError
from tritium.ir import types as ir
from tritium.ops.base import Op
from tritium.ops.effects import HOST, waits
from tritium.ops.elementwise import describe
from tritium.ops.fields import i32_attr, operand
from tritium.ops.memory import Context, EvaluationError


class SanitizerCheckOp(Op):
    """Report check number `site`, with the i64 `detail` (an address, say), and leave the program
    where `condition` is false.

    Not opaque, so that its operands do not count as memory that the host may write.
    """

    name = "tt.sanitizer_check"
    effects = (waits(HOST),)
    syntax = "$condition, $detail attrs : type(condition), type(detail)"
    condition = operand()
    detail = operand()
    site = i32_attr()

    @classmethod
    def infer(cls, condition: ir.Type, detail: ir.Type, **attrs: Any) -> None:
        if (condition, detail) != (ir.i1, ir.i64):
            raise OpError(f"{cls.name}: operands are {describe(condition, detail)}; i1, i64")

    def evaluate(self, context: Context, condition: Any, detail: Any) -> None:
        if not np.all(condition):
            place = ", ".join(map(str, context.program_id))
            raise EvaluationError(
                f"sanitizer check {self.site} failed in program ({place}): {int(detail):#x}"
            )
