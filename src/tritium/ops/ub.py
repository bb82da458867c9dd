"""The `ub` dialect: values that are undefined."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tritium.ir import types as ir
from tritium.ops.axis_info import MOST, AxisInfo, shape_of
from tritium.ops.base import Op
from tritium.ops.memory import Context


class PoisonOp(Op):
    """A value that the program must not depend on; zeros in `evaluate`."""

    name = "ub.poison"
    builders = ("create_poison result",)
    tile_source = True
    syntax = "attrs : type(result)"

    @classmethod
    def infer(cls, *, result: ir.Type) -> ir.Type:
        return result

    def axis_info(self, operands: Sequence[AxisInfo]) -> AxisInfo:
        """Any fact may be taken to hold."""
        kind = self.result_types[0]
        shape = shape_of(kind)
        return AxisInfo(shape, (MOST,) * len(shape), shape, non_negative=True)

    def evaluate(self, context: Context) -> Any:
        type = self.result_types[0]
        if isinstance(type, ir.TensorDescType) or ir.is_block_pointer(type):
            return None
        return np.zeros(ir.shape_of(type), ir.numpy_dtype(type))
