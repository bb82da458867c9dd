"""Strides: the steps of tiles and loops (`tiles/steps.py`) as code, i64."""

from __future__ import annotations

from typing import Any

from xdsl.ir import SSAValue

from tritium.backends.cpu.dot.operand import Step, add, as_value, scale, static
from tritium.backends.cpu.lower.context import Context
from tritium.backends.cpu.lower.types import value_type
from tritium.backends.cpu.tiles.steps import Steps
from tritium.codegen.llvm.writer import const


class Strides(Steps):
    """Differences along a dimension of tiles (`dim`), or between iterations of `loop` (an
    `scf.for`), under the assumptions of the code that is being written."""

    def __init__(self, context: Context, loop: Any = None):
        super().__init__(context.buffers, loop)
        self.c, self.f = context, context.f

    def sum(self, left: Step, right: Step) -> Step:
        return add(self.f, left, right)

    def negative(self, step: Step) -> Step:
        known = static(step)
        if known is not None:
            return -known
        return self.f.op("sub", const("i64", 0), as_value(step))

    def product(self, left: Step, right: Step) -> Step:
        return self.f.op("mul", as_value(left), as_value(right))

    def scaled(self, step: Step, factor: int) -> Step:
        return scale(self.f, step, factor)

    def scalar(self, value: SSAValue) -> Step | None:
        scalar = self.c.scalars.get(value)
        if scalar is None or value_type(value.type) == "ptr":
            return None
        known = static(scalar)
        return known if known is not None else self.f.cast("sext", scalar, "i64")

    def wraps(self, value: SSAValue) -> bool:
        return value not in self.c.assumed.unwrapped
