"""Facts that op classes state of their elements (`source_axes`, `weights`, `forwarded_values`)
against the reference semantics."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import IndexType
from xdsl.ir import Block

from tritium.ir import types as ir
from tritium.ops import arith, dialects, ttir
from tritium.ops.base import REGISTRY, Op
from tritium.ops.evaluation import fold

dialects.default_context()  # all classes are registered
I32 = ir.tensor_of((2, 1, 4), ir.i32)
POINTERS = ir.tensor_of((2, 1, 4), ir.pointer_to(ir.i32))


def built(cls: type[Op], *types: Any, **attributes: Any) -> Op:
    return cls.build(*Block(arg_types=types).args, **attributes)


MOVES = [
    built(ttir.SplatOp, ir.i32, result=I32),
    built(ttir.BroadcastOp, I32, result=ir.tensor_of((2, 8, 4), ir.i32)),
    built(ttir.BroadcastOp, I32, result=I32),
    *(built(ttir.ExpandDimsOp, I32, axis=axis) for axis in range(4)),
    *(built(ttir.TransOp, I32, order=order) for order in ((0, 1, 2), (2, 0, 1), (1, 2, 0))),
]
SUMS = [
    built(arith.AddIOp, I32, I32),
    built(arith.SubIOp, I32, I32),
    built(arith.ExtSIOp, I32, result=ir.tensor_of((2, 1, 4), ir.i64)),
    built(arith.IndexCastOp, ir.i32, result=IndexType()),
    built(ttir.AddPtrOp, POINTERS, I32),
]


def numbers(type: Any, seed: int) -> np.ndarray:
    found = np.random.default_rng(seed).integers(-99, 99, ir.shape_of(type))
    return (found * 4).astype(ir.numpy_dtype(type)) if ir.is_pointer(type) else found.astype("i4")


def test_every_op_with_a_hook_is_here() -> None:
    moves = {cls for cls in REGISTRY.values() if cls.source_axes is not Op.source_axes}
    sums = {cls for cls in REGISTRY.values() if cls.weights}
    assert moves == {type(op) for op in MOVES}
    assert sums == {type(op) for op in SUMS}


@pytest.mark.parametrize("op", MOVES, ids=lambda op: op.name)
def test_elements_run_along_the_axes_of_the_source(op: Op) -> None:
    source = numbers(op.operands[0].type, 1)
    (result,) = fold(op, [source]) or ()
    axes = op.source_axes()
    assert axes is not None and len(axes) == result.ndim
    for place in np.ndindex(result.shape):
        at = [0] * source.ndim
        for axis, index in zip(axes, place, strict=True):
            if axis is not None:
                at[axis] = index
        assert result[place] == source[tuple(at)]


@pytest.mark.parametrize("op", SUMS, ids=lambda op: op.name)
def test_a_linear_op_is_the_sum_of_its_weighted_operands(op: Op) -> None:
    values = [numbers(v.type, seed) for seed, v in enumerate(op.operands)]
    (result,) = fold(op, values) or ()
    size = 4 if isinstance(op, ttir.AddPtrOp) else 1
    scaled = [v if v.dtype == np.uint64 else v.astype("i8") * size for v in values]
    terms = [np.asarray(v).astype("i8") * w for v, w in zip(scaled, op.weights, strict=True)]
    assert (np.asarray(result).astype("i8") == sum(terms)).all()


@pytest.mark.parametrize("cls", [arith.MinSIOp, arith.MaxSIOp, arith.MinUIOp, arith.MaxUIOp])
def test_an_extreme_hands_on_one_of_its_operands(cls: type[Op]) -> None:
    op = built(cls, I32, I32)
    assert list(op.forwarded_values()) == [(v, op.results[0]) for v in op.operands]
    values = [numbers(I32, seed) for seed in (1, 2)]
    (result,) = fold(op, values) or ()
    assert ((result == values[0]) | (result == values[1])).all()
