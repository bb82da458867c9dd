"""What the ops that end a region with values have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.traits import IsTerminator

from tritium.ir import types as ir
from tritium.ops.base import Op
from tritium.ops.evaluation import Context, Return
from tritium.ops.fields import variadic


class RegionEnd(Op, traits=[IsTerminator()]):
    """Ends a region; its operands are what the region gives to the op around it."""

    values = variadic()

    @classmethod
    def infer(cls, values: Sequence[ir.Type]) -> tuple[ir.Type, ...]:
        return ()

    def evaluate(self, context: Context, values: tuple[Any, ...]) -> Return:
        return Return(values)
