"""Ops that query the program's position in the grid."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any

import numpy as np

from tritium.ir import intervals
from tritium.ir import types as ir
from tritium.ir.intervals import Algebra, Interval
from tritium.ops import axis_info as facts
from tritium.ops.axis_info import AxisInfo
from tritium.ops.base import Op
from tritium.ops.fields import AttrField, enum_attr
from tritium.ops.memory import Context

MAX_GRID = 2**31 - 1


class Axis(IntEnum):
    """A dimension of the launch grid."""

    X, Y, Z = range(3)


class GridOp(Op):
    """A number that is known along each axis of the grid."""

    syntax = "$axis attrs : type(result)"
    axis: AttrField[Axis] = enum_attr(Axis)

    @classmethod
    def infer(cls, **attrs: Any) -> ir.Type:
        return ir.i32

    def axis_info(self, operands: Sequence[AxisInfo]) -> AxisInfo:
        return facts.unknown(self.results[0].type)._replace(non_negative=True)


class GetProgramIdOp(GridOp):
    """The program's index along an axis of the grid."""

    name = "tt.get_program_id"
    counts_programs = True

    def evaluate(self, context: Context) -> Any:
        return np.int32(context.program_id[self.axis])

    def interval(self, algebra: Algebra, operands: Sequence[Interval]) -> Interval:
        return intervals.known(0, MAX_GRID - 1)


class GetNumProgramsOp(GridOp):
    """The size of the grid along an axis."""

    name = "tt.get_num_programs"

    def evaluate(self, context: Context) -> Any:
        return np.int32(context.num_programs[self.axis])

    def interval(self, algebra: Algebra, operands: Sequence[Interval]) -> Interval:
        return intervals.known(1, MAX_GRID)
