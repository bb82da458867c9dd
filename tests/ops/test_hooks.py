"""Facts that op classes state (`source_axes`, `movement`, `weights`, `forwarded_values`,
`control_edges`) against the reference semantics."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import IndexType
from xdsl.ir import Block

from tritium.ir import types as ir
from tritium.ir.layouts.encodings import BlockedEncoding
from tritium.ops import arith, dialects, ttgir, ttir
from tritium.ops.base import REGISTRY, Movement, Op
from tritium.ops.evaluation import fold
from tritium.ops.parsing import parse_module

dialects.default_context()  # all classes are registered
I32 = ir.tensor_of((2, 1, 4), ir.i32)
ROWS, COLUMNS = (
    BlockedEncoding.make(sizePerThread=[1, 1], threadsPerWarp=[1, 32], warpsPerCTA=[4, 1], order=o)
    for o in ([1, 0], [0, 1])
)
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
PLACED = [
    *MOVES,
    built(ttir.UnsplatOp, ir.tensor_of((1, 1), ir.i32)),
    built(ttir.ReshapeOp, I32, result=ir.tensor_of((4, 2), ir.i32)),
    built(ttir.JoinOp, I32, I32),
    built(ttir.SplitOp, ir.tensor_of((3, 4, 2), ir.i32)),
    built(ttir.CatOp, ir.tensor_of((4,), ir.i32), ir.tensor_of((4,), ir.i32)),
    built(
        ttgir.ConvertLayoutOp, ir.tensor_of((4, 32), ir.i32, ROWS),
        result=ir.tensor_of((4, 32), ir.i32, COLUMNS),
    ),
    built(
        ttgir.InThreadTransposeOp, ir.tensor_of((4, 32), ir.i32, ROWS),
        result=ir.tensor_of((4, 32), ir.i32, COLUMNS),
    ),
    built(
        ttgir.ExtractSliceOp, ir.tensor_of((4, 64), ir.i32, ROWS), static_offsets=(0, 32),
        result=ir.tensor_of((4, 32), ir.i32, ROWS),
    ),
    ttgir.ConcatOp.build(
        Block(arg_types=[ir.tensor_of((4, 32), ir.i32, ROWS)] * 2).args,
        result=ir.tensor_of((4, 64), ir.i32, ROWS),
    ),
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
    placed = {cls for cls in REGISTRY.values() if cls.movement is not None}
    assert moves == {type(op) for op in MOVES}
    assert placed == {*map(type, PLACED), ttir.GatherOp}  # gather: tests/ops/shape
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


@pytest.mark.parametrize("op", PLACED, ids=lambda op: op.name)
def test_what_an_op_moves_is_of_its_operands(op: Op) -> None:
    """In order: what is repeated comes for the first time in the operand's row-major order."""
    shapes = [ir.shape_of(v.type) for v in op.operands]
    values = [np.arange(np.prod(s)).reshape(s).astype("i4") + 1000 * n
              for n, s in enumerate(shapes)]  # fmt: skip
    for result in fold(op, values) or pytest.fail("not folded"):
        first = list(dict.fromkeys(np.asarray(result).reshape(-1).tolist()))
        given = [number for v in values for number in v.reshape(-1).tolist()]
        assert set(first) <= set(given)
        if op.movement is Movement.IN_ORDER:
            assert first == given


CONTROL = """
tt.func @f(%n: i32, %p: i1, %x: f32, %y: f32) -> f32 {
  %a:2 = scf.for %i = %n to %n step %n iter_args(%s = %x, %t = %y) -> (f32, f32) : i32 {
    scf.yield %t, %s : f32, f32
  }
  %b = scf.if %p -> (f32) {
    scf.yield %a#0 : f32
  } else {
    scf.yield %a#1 : f32
  }
  %c = scf.while (%u = %b) : (f32) -> f32 {
    scf.condition(%p) %u : f32
  } do {
  ^bb0(%v: f32):
    scf.yield %v : f32
  }
  cf.cond_br %p, ^one(%c : f32), ^two(%x : f32)
^one(%d: f32):
  cf.br ^two(%d : f32)
^two(%e: f32):
  tt.return %e : f32
}
"""


def _name(value: Any) -> str:
    several = not isinstance(value.owner, Block) and len(value.owner.results) > 1
    return f"{value.name_hint}{value.index}" if several else value.name_hint


def test_all_that_blocks_and_results_hold_arrives_along_control_edges() -> None:
    arriving: dict[str, set[str]] = {}
    ops = [op for op in parse_module(CONTROL).walk() if isinstance(op, Op)]
    for op in ops:
        for edge in op.control_edges():
            assert edge.source is op or edge.source.parent_op() is op
            for value, target in zip(edge.values, edge.targets, strict=True):
                arriving.setdefault(_name(target), set()).add(_name(value))
    assert arriving == {
        "s": {"x", "t"}, "t": {"y", "s"}, "a0": {"x", "t"}, "a1": {"y", "s"}, "b": {"a0", "a1"},
        "u": {"b", "v"}, "v": {"u"}, "c": {"u"}, "d": {"c"}, "e": {"d", "x"},
    }  # fmt: skip
    assert {op.name for op in ops if op.is_loop} == {"scf.for", "scf.while"}
