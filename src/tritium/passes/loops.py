"""What is known of a loop's bounds."""

from __future__ import annotations

from typing import Any

from xdsl.ir import SSAValue

from tritium.ir import types as ir
from tritium.ops.arith.constant import ConstantOp
from tritium.ops.scf import ForOp


def constant_int(value: SSAValue) -> int | None:
    """The Python integer that a scalar constant holds."""
    owner = value.owner
    if type(owner) is not ConstantOp or not ir.is_integer(value.type) or ir.shape_of(value.type):
        return None
    attribute: Any = owner.properties["value"]
    return attribute.value.data


def trip_count(loop: ForOp) -> int | None:
    """How often the loop runs, if its bounds tell."""
    if loop.lower is loop.upper:
        return 0
    bounds = [constant_int(v) for v in loop.operands[:3]]
    lower, upper, step = bounds
    if lower is None or upper is None or step is None:
        return None
    if loop.unsignedCmp:
        width = ir.bit_width(loop.lower.type)
        lower, upper = lower % (1 << width), upper % (1 << width)
    return max(0, -((lower - upper) // step)) if step > 0 else None
