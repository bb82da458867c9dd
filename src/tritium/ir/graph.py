"""The operands and results of our ops, in forms that are read fast.

Passes read operands, types and owners some hundred times for each op that they make. xDSL makes a
view of the operands for each reading, and answers, hashes and compares in Python code; what is here
does so without.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import Any, SupportsIndex

from xdsl.ir import Attribute, Block, Operation, OpResult, SSAValue, Use

by_identity: tuple[Any, Any] = object.__hash__, object.__eq__
"""The methods of values and ops that hash and compare."""


def ops_of(block: Block) -> list[Operation]:
    """The ops of a block as they are now: `list(block.ops)`, which counts them first, and takes
    each step in Python code."""
    found, op = list[Operation](), block.first_op
    while op is not None:
        found.append(op)
        op = op.next_op
    return found


class Operands(tuple[SSAValue, ...]):
    """The operands that an op has at the moment. To assign to an element changes the op, whose
    operands are another tuple from then on."""

    op: Operation

    def __setitem__(self, index: SupportsIndex, operand: SSAValue) -> None:
        op: Any = self.op
        values, place = list(op._operands), range(len(self))[index]
        use = op._operand_uses[place]
        values[place].remove_use(use)
        operand.add_use(use)
        values[place] = operand
        op._operands = Operands(values)
        op._operands.op = op


def set_operands(op: Any, values: Iterable[SSAValue]) -> None:
    """Let an op use these values instead of those that it uses."""
    operands = Operands(values)
    operands.op = op
    uses = tuple([Use(op, index) for index in range(len(operands))])
    for operand, use in zip(op._operands, op._operand_uses, strict=False):
        operand.remove_use(use)
    for operand, use in zip(operands, uses, strict=True):
        operand.add_use(use)
    op._operands, op._operand_uses = operands, uses


class Result(OpResult):
    """A result of an op."""

    # Slots, which hide the properties that they are named after, are read as fast as can be.
    __slots__ = ("owner", "type")  # pyright: ignore[reportIncompatibleMethodOverride]
    __hash__, __eq__ = by_identity
    op: Any = property(attrgetter("owner"))
    _type: Any = property(attrgetter("type"), lambda value, type: setattr(value, "type", type))

    def __init__(self, type: Attribute, op: Operation, index: int) -> None:
        result: Any = self
        result.type, result.owner, result.index = type, op, index
