"""Facts about a loop's bounds."""

from __future__ import annotations

from typing import Any

from xdsl.ir import Operation, SSAValue

from tritium.ir import types as ir
from tritium.ops.arith.constant import ConstantOp
from tritium.ops.attributes import NUM_STAGES
from tritium.ops.scf import ForOp


def innermost_loops(function: Operation) -> list[ForOp]:
    """The counted loops of a function without one inside."""
    loops = [op for op in function.walk() if isinstance(op, ForOp)]
    return [op for op in loops if not any(isinstance(inner, ForOp) for inner in op.body.walk())]


def stages_of(loop: ForOp, default: int) -> int:
    """The number of iterations that may overlap in a loop; `default` unless the loop states it."""
    given: Any = loop.attributes.get(NUM_STAGES)
    return default if given is None else int(given.value.data)


def constant_int(value: SSAValue) -> int | None:
    """The Python integer that a scalar constant holds."""
    owner = value.owner
    if type(owner) is not ConstantOp or not ir.is_integer(value.type) or ir.shape_of(value.type):
        return None
    attribute: Any = owner.properties["value"]
    return attribute.value.data


def trip_count(loop: ForOp) -> int | None:
    """The number of the loop's iterations, if its bounds tell."""
    if loop.lower is loop.upper:
        return 0
    lower, upper, step = _bounds(loop)
    if lower is None or upper is None or not step:
        return None
    return max(0, -((lower - upper) // step))


def may_wrap(loop: ForOp) -> bool:
    """Whether the last counter and the step may add up to more than their type holds."""
    _, upper, step = _bounds(loop)
    if step == 1:
        return False
    if step is None or upper is None:
        return True
    width = ir.bit_width(loop.lower.type)
    return upper + step > 1 << (width if loop.unsignedCmp else width - 1)


def _bounds(loop: ForOp) -> tuple[int | None, int | None, int | None]:
    """Lower and upper bound and step where they are known; the step is an unsigned number."""
    lower, upper, step = (constant_int(v) for v in loop.operands[:3])
    size = 1 << ir.bit_width(loop.lower.type)
    if loop.unsignedCmp:
        lower, upper = (None if v is None else v % size for v in (lower, upper))
    return lower, upper, None if step is None else step % size
