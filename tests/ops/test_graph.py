"""Operands and results of ops (`ir/graph.py`)."""

from __future__ import annotations

from xdsl.ir import OpResult

from tritium.ir import types as ir
from tritium.ops.arith.constant import ConstantOp
from tritium.ops.arith.integer import AddIOp


def _users(op: ConstantOp) -> list[tuple[object, int]]:
    return [(use.operation, use.index) for use in op.results[0].uses]


def test_assigning_to_an_operand_changes_the_op_and_the_uses():
    one, two = ConstantOp.of(1, ir.i32), ConstantOp.of(2, ir.i32)
    add = AddIOp.build(one.results[0], one.results[0])
    before = add.operands
    add.operands[-1] = two.results[0]
    before[0] = two.results[0]  # as the op is by now, not as it was when they were read
    assert list(add.operands) == [two.results[0], two.results[0]]
    assert list(before) == [one.results[0], one.results[0]]
    assert _users(one) == [] and sorted(_users(two), key=str) == [(add, 0), (add, 1)]


def test_the_type_of_a_result_changes_in_place():
    value = ConstantOp.of(1, ir.i32).results[0]
    assert isinstance(value, OpResult) and value.op is value.owner
    value._type = ir.i64  # pyright: ignore[reportPrivateUsage]
    assert value.type == ir.i64 and hash(value) == object.__hash__(value)
