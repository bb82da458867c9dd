"""Reductions with a combine region."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.ir import Attribute
from xdsl.traits import IsTerminator
from xdsl.utils.exceptions import VerifyException

from tritium.errors import OpError
from tritium.ir import types as ir
from tritium.ops.base import Effects, Op
from tritium.ops.elementwise import check_same_shape, describe
from tritium.ops.evaluation import Context, Return
from tritium.ops.fields import i32_attr, variadic


def check_axis(name: str, axis: int, types: Sequence[ir.Type]) -> tuple[int, ...]:
    """The common shape of some tiles, which must have axis `axis`."""
    if not types:
        raise OpError(f"{name}: no operands; at least one tensor is required")
    shape = check_same_shape(name, *types)
    if not 0 <= axis < len(shape):
        raise OpError(f"{name}: axis is {axis}; {describe(types[0])} has axes 0 to {len(shape)-1}")
    return shape


def verify_combine(op: Op, operands: Sequence[Any], terminator: type[Op]) -> None:
    """The region must take two elements of each operand and return one of each."""
    elements = [ir.element_type(v.type) for v in operands]
    blocks = op.regions[0].blocks if op.regions else ()
    if not blocks or [a.type for a in blocks[0].args] != elements * 2:
        want = ", ".join(map(str, elements * 2))
        raise VerifyException(f"{op.name}: the combine region must take ({want})")
    for block in blocks:
        last = block.last_op
        if isinstance(last, terminator) and [v.type for v in last.operands] != elements:
            want = ", ".join(map(str, elements))
            raise VerifyException(f"{op.name}: the combine region must return ({want})")


class ReduceReturnOp(Op, traits=[IsTerminator()]):
    """Ends the combine region of a reduction."""

    name = "tt.reduce.return"
    syntax = "$values attrs : type(values)"
    values = variadic()

    @classmethod
    def infer(cls, values: Sequence[ir.Type]) -> tuple[ir.Type, ...]:
        return ()

    def evaluate(self, context: Context, values: tuple[Any, ...]) -> Return:
        return Return(values)


class ReduceOp(Op):
    """Combine the elements along an axis, pairwise and in any order.

    `ReduceOp.build(inputs, regions=[combine], axis=0)`: one result for each input, a scalar when
    it has no other axis. The region takes (a..., b...) and returns the combined elements.
    `evaluate` combines neighbours, halving the axis again and again.
    """

    name = "tt.reduce"
    effects = frozenset({Effects.RECURSIVE})
    inputs = variadic()
    axis = i32_attr()

    @classmethod
    def infer(
        cls, inputs: Sequence[ir.Type], *, axis: int, result: Any = None
    ) -> Sequence[ir.Type]:
        shape = check_axis(cls.name, axis, inputs)
        shape = (*shape[:axis], *shape[axis + 1 :])
        given = (result,) if isinstance(result, Attribute) else tuple(result or ())
        inferred = [ir.tensor_of(shape, ir.element_type(t)) for t in inputs]
        if [(ir.shape_of(t), ir.element_type(t)) for t in given] == [
            (ir.shape_of(t), ir.element_type(t)) for t in inferred
        ]:
            return given
        return inferred

    def evaluate(self, context: Context, inputs: tuple[Any, ...]) -> Any:
        values = [np.moveaxis(v, self.axis, 0) for v in inputs]
        while (size := values[0].shape[0]) > 1:
            even = size // 2 * 2
            pairs = [v[i:even:2] for i in (0, 1) for v in values]
            combined = context.run_elementwise(self.regions[0], *pairs)
            values = [np.concatenate([c, v[even:]]) for c, v in zip(combined, values)]
        results = tuple(v[0] for v in values)
        return results[0] if len(results) == 1 else results

    def verify_structure(self) -> None:
        verify_combine(self, self.inputs, ReduceReturnOp)


OPS: tuple[type[Op], ...] = (ReduceReturnOp, ReduceOp)
