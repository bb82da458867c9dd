"""Terminators: ops that end a block, and the base of those that end a region with values."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from xdsl.ir import Block, Operation
from xdsl.traits import IsTerminator

from tritium.ir import types as ir
from tritium.ops.base import Op
from tritium.ops.evaluation import Return
from tritium.ops.fields import variadic
from tritium.ops.memory import Context


class RegionEnd(Op, traits=[IsTerminator()]):
    """Ends a region; its operands are what the region gives to the op around it."""

    builders = None
    values = variadic()

    @classmethod
    def infer(cls, values: Sequence[ir.Type]) -> tuple[ir.Type, ...]:
        return ()

    def evaluate(self, context: Context, values: tuple[Any, ...]) -> Return:
        return Return(values)


def terminator(block: Block) -> Operation:
    """The last op of a block, which ends it."""
    assert block.last_op is not None
    return block.last_op


def is_terminator(op: Operation) -> bool:
    """True if the op ends its block."""
    return _ends_block(type(op))


@cache
def _ends_block(cls: type[Operation]) -> bool:
    return cls.has_trait(IsTerminator)
