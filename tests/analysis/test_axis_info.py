"""Axis info against evaluation: what it claims of a tile holds of its elements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import FunctionType, IntegerAttr, ModuleOp, i32
from xdsl.ir import Block, Region, SSAValue

from tritium.analysis.axis_info import AxisAnalysis
from tritium.ir import types as ir
from tritium.ops import arith
from tritium.ops.axis_info import AxisInfo
from tritium.ops.evaluation import Evaluator
from tritium.ops.parsing import parse_module
from tritium.ops.ttir.function import FuncOp, ReturnOp
from tritium.ops.ttir.program import Axis, GetProgramIdOp
from tritium.ops.ttir.shape import BroadcastOp, ExpandDimsOp, MakeRangeOp, SplatOp, TransOp


def holds(info: AxisInfo, values: np.ndarray) -> None:
    """Check the claims about a tile of numbers."""
    values = np.asarray(values, np.int64)
    if values.ndim == 0:
        values = values.reshape(1)
    if info.known is not None:
        assert (values == info.known).all(), (info, values)
    if info.non_negative:
        assert (values >= 0).all(), (info, values)
    for axis in range(values.ndim):
        rows = np.moveaxis(values, axis, -1).reshape(-1, values.shape[axis])
        run = min(info.contiguity[axis], values.shape[axis])
        groups = rows.reshape(rows.shape[0], -1, run)
        assert (np.diff(groups, axis=-1) == 1).all(), (info, axis, values)
        assert (groups[..., 0] % min(info.divisibility[axis], 1 << 40) == 0).all(), (
            info, axis, values,
        )  # fmt: skip
        run = min(info.constancy[axis], values.shape[axis])
        groups = rows.reshape(rows.shape[0], -1, run)
        assert (groups == groups[..., :1]).all(), (info, axis, values)


OPS = (
    arith.AddIOp, arith.SubIOp, arith.MulIOp, arith.DivSIOp, arith.RemSIOp, arith.DivUIOp,
    arith.RemUIOp, arith.AndIOp, arith.MinSIOp, arith.MaxSIOp, arith.ShLIOp, arith.ShRSIOp,
    arith.ShRUIOp, arith.OrIOp, arith.FloorDivSIOp,
)  # fmt: skip
NUMBERS = st.sampled_from((0, 1, 2, 3, 4, 6, 8, 16, 24, 32, -1, -4, -16, 5))
SHAPE = (8, 16)


@st.composite
def functions(draw: Any) -> tuple[FuncOp, list[int]]:
    """A function of index arithmetic on tiles of shape (8, 16), and its scalar arguments."""
    aligned = draw(st.lists(st.sampled_from((1, 4, 16)), min_size=2, max_size=2))
    arguments = [draw(st.integers(-4, 8)) * a for a in aligned]
    block = Block(arg_types=[ir.i32, ir.i32])
    scalars: list[SSAValue] = list(block.args)
    tile = ir.tensor_of(SHAPE, ir.i32)

    def add(op: Any) -> SSAValue:
        block.add_op(op)
        return op.results[0]

    scalars.append(add(GetProgramIdOp.build(axis=Axis.X)))
    tiles: list[SSAValue] = []
    for axis, size in enumerate(SHAPE):
        start = draw(st.sampled_from((0, 4, 3, 16)))
        line = add(MakeRangeOp.build(start=start, end=start + size))
        column = add(ExpandDimsOp.build(line, axis=1 - axis))
        tiles.append(add(BroadcastOp.build(column, result=tile)))
    for scalar in scalars:
        tiles.append(add(SplatOp.build(scalar, result=tile)))
    for _ in range(draw(st.integers(1, 8))):
        choice = draw(st.integers(0, 9))
        if choice == 0:
            tiles.append(add(arith.ConstantOp.of(draw(NUMBERS), tile)))
            continue
        cls = draw(st.sampled_from(OPS))
        left, right = draw(st.sampled_from(tiles)), draw(st.sampled_from(tiles))
        if cls in (arith.ShLIOp, arith.ShRSIOp, arith.ShRUIOp) or choice < 4:
            limit = st.integers(0, 4) if cls is arith.ShLIOp else st.integers(0, 6)
            number = draw(limit) if "sh" in cls.name else draw(NUMBERS)
            right = add(arith.ConstantOp.of(number, tile))
        tiles.append(add(cls.build(left, right)))
    last = tiles[-1]
    other = draw(st.sampled_from(tiles))
    predicate = draw(st.sampled_from(tuple(arith.CmpIPredicate)))
    compared = add(arith.CmpIOp.build(last, other, predicate=predicate))
    add(arith.SelectOp.build(compared, last, other))
    add(TransOp.build(last, order=(1, 0)))
    add(arith.ExtSIOp.build(last, result=ir.tensor_of(SHAPE, ir.i64)))
    block.add_op(ReturnOp.build([]))
    attrs = [{"tt.divisibility": IntegerAttr(a, i32)} for a in aligned]
    function = FuncOp.build(
        sym_name="f", function_type=FunctionType.from_lists([ir.i32, ir.i32], []),
        sym_visibility="public", regions=[Region(block)], arg_attrs=attrs,
    )  # fmt: skip
    ModuleOp([function])
    return function, arguments


class Watching(Evaluator):
    """Keeps all values."""

    def values(self) -> dict[SSAValue, Any]:
        return self._environment


@settings(
    max_examples=120, deadline=None, derandomize=True, report_multiple_bugs=False,
    phases=(Phase.explicit, Phase.generate),
)
@given(sample=functions(), program=st.integers(0, 3))
def test_claims_hold(sample: tuple[FuncOp, list[int]], program: int) -> None:
    function, arguments = sample
    module: Any = function.parent_op()
    evaluator = Watching(module)
    evaluator.program_id = (program, 0, 0)
    evaluator.call("f", *(np.int32(a) for a in arguments))
    analysis = AxisAnalysis(function)
    for value, found in evaluator.values().items():
        if ir.is_integer(value.type) and np.abs(np.asarray(found, np.float64)).max() < 2**30:
            holds(analysis.of(value), found)


def info_of(text: str, name: str, assume_no_wrap: bool = False) -> AxisInfo:
    module = parse_module(text)
    function: Any = module.body.block.first_op
    analysis = AxisAnalysis(function, assume_no_wrap)
    for op in function.walk():
        for result in op.results:
            if result.name_hint == name:
                return analysis.of(result)
    raise AssertionError(name)


def test_the_rows_of_a_matrix_multiplication() -> None:
    text = """
    tt.func public @f(%p: !tt.ptr<f32> {tt.divisibility = 16 : i32},
                      %n: i32 {tt.divisibility = 16 : i32}) {
      %c64 = arith.constant 64 : i32
      %pid = tt.get_program_id x : i32
      %start = arith.muli %pid, %c64 : i32
      %range = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>
      %starts = tt.splat %start : i32 -> tensor<64xi32>
      %offsets = arith.addi %starts, %range : tensor<64xi32>
      %ns = tt.splat %n : i32 -> tensor<64xi32>
      %wrapped = arith.remsi %offsets, %ns : tensor<64xi32>
      %ps = tt.splat %p : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
      %at = tt.addptr %ps, %wrapped : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
      %mask = arith.cmpi slt, %offsets, %ns : tensor<64xi32>
      tt.return
    }
    """
    assert info_of(text, "offsets").contiguity == (64,)
    assert info_of(text, "wrapped").contiguity == (16,)
    at = info_of(text, "at")
    assert (at.contiguity, at.divisibility) == ((16,), (16,))
    assert info_of(text, "mask").constancy == (16,)


def test_pointers_of_another_type() -> None:
    text = """
    tt.func public @f(%p: !tt.ptr<i8> {tt.divisibility = 16 : i32}) {
      %words = tt.bitcast %p : !tt.ptr<i8> -> !tt.ptr<i32>
      %range = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>
      %ps = tt.splat %words : !tt.ptr<i32> -> tensor<64x!tt.ptr<i32>>
      %at = tt.addptr %ps, %range : tensor<64x!tt.ptr<i32>>, tensor<64xi32>
      %bytes = tt.bitcast %at : tensor<64x!tt.ptr<i32>> -> tensor<64x!tt.ptr<i8>>
      tt.return
    }
    """
    assert info_of(text, "words").divisibility == (16,)
    assert info_of(text, "at") == AxisInfo((64,), (16,), (1,))
    assert info_of(text, "bytes") == AxisInfo((1,), (1,), (1,))


def test_loops_keep_what_every_turn_keeps() -> None:
    text = """
    tt.func public @f(%n: i32, %step: i32 {tt.divisibility = 16 : i32}) {
      %c0 = arith.constant 0 : i32
      %c8 = arith.constant 8 : i32
      %range = tt.make_range {end = 32 : i32, start = 0 : i32} : tensor<32xi32>
      %steps = tt.splat %step : i32 -> tensor<32xi32>
      %r = scf.for %i = %c0 to %n step %c8 iter_args(%x = %range) -> (tensor<32xi32>) : i32 {
        %next = arith.addi %x, %steps : tensor<32xi32>
        %is = tt.splat %i : i32 -> tensor<32xi32>
        scf.yield %next : tensor<32xi32>
      }
      tt.return
    }
    """
    r = info_of(text, "r")
    assert (r.contiguity, r.divisibility) == ((32,), (16,))
    assert info_of(text, "is").divisibility == (8,)


DIVIDED = """
tt.func public @f(%n: i32 {{tt.divisibility = 16 : i32}}, %m: i32) {{
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c16 = arith.constant 16 : i32
  %c64 = arith.constant 64 : i32
  %pid = tt.get_program_id x : i32
  %first = arith.muli %pid, %c64 : i32
  %before = arith.subi %n, %c16 : i32
  %turn = arith.muli %first, %m : i32
  %quotient = arith.divsi %pid, %m : i32
  %rows = arith.muli %quotient, %c16 : i32
  %below = arith.subi %first, %n : i32
  scf.for %i = %c0 to %n step %c16 : i32 {{
    scf.for %j = %c16 to %n step %c16 : i32 {{
      %range = tt.make_range {{end = 64 : i32, start = 0 : i32}} : tensor<64xi32>
      %start = tt.splat %{start} : i32 -> tensor<64xi32>
      %sum = arith.addi %start, %range : tensor<64xi32>
      %sixteen = arith.constant dense<16> : tensor<64xi32>
      %number = tt.splat %{number} : i32 -> tensor<64xi32>
      %shifted = arith.{sign} %sum, %number : tensor<64xi32>
      %quotients = arith.divsi %shifted, %sixteen : tensor<64xi32>
      %remainders = arith.remsi %shifted, %sixteen : tensor<64xi32>
    }}
  }}
  tt.return
}}
"""


@pytest.mark.parametrize(
    ("start", "sign", "number", "group"),
    [
        ("c0", "subi", "c16", 1), ("first", "subi", "c16", 1), ("i", "subi", "c16", 1),
        ("c16", "subi", "c16", 16), ("j", "subi", "c16", 16), ("n", "subi", "c16", 16),
        ("before", "addi", "c16", 16), ("turn", "addi", "c16", 16), ("rows", "addi", "c16", 16),
        ("first", "subi", "n", 1), ("below", "addi", "c16", 16), ("n", "subi", "turn", 16),
    ],
)  # fmt: skip
def test_what_is_divided_is_negative_where_the_source_says_so(
    start: str, sign: str, number: str, group: int
) -> None:
    text = DIVIDED.format(start=start, sign=sign, number=number)
    assert info_of(text, "quotients", assume_no_wrap=True).constancy == (group,)
    assert info_of(text, "remainders", assume_no_wrap=True).contiguity == (group,)
