"""Operands that ops refuse: the message says what was given and what is allowed."""

from __future__ import annotations

import re
from typing import Any

import pytest
from xdsl.ir import Block, Region
from xdsl.utils.exceptions import VerifyException

from tritium.errors import OpError
from tritium.ir import types as ir
from tritium.ops import arith, cf, scf, ttgir, ttir
from tritium.ops import math as math_ops
from tritium.ops.arith import AddFOp, AddIOp, CmpIOp, CmpIPredicate, ConstantOp, SelectOp
from tritium.ops.base import Op
from tritium.ops.fields import operand, unit_attr
from tritium.ops.parsing import parse_module
from tritium.ops.ttir import (
    AddPtrOp,
    AtomicCASOp,
    AtomicKind,
    AtomicRMWOp,
    BroadcastOp,
    DotOp,
    ExpandDimsOp,
    GatherOp,
    HistogramOp,
    JoinOp,
    LoadOp,
    MakeRangeOp,
    MemScope,
    MemSemantic,
    PaddingOption,
    ReduceOp,
    ReshapeOp,
    Rounding,
    ScanOp,
    SplatOp,
    SplitOp,
    StoreOp,
    TransOp,
    UnsplatOp,
)  # fmt: skip

T = ir.tensor_of
PTR, PTRS = ir.pointer_to(ir.f32), T((8,), ir.pointer_to(ir.f32))
BLOCK = ir.pointer_to(T((8, 8), ir.f32))
RELAXED: dict[str, Any] = {"sem": MemSemantic.RELAXED, "scope": MemScope.GPU}

CASES: list[tuple[Any, tuple[Any, ...], dict[str, Any], str]] = [
    *(
        (cls, (), {name: -1, **more}, f"{cls.name}: {name} is -1; 0 or more is required")
        for cls, name, more in (
            (ttgir.AsyncTMAStoreWaitOp, "pendings", {"complete": False}),
            (ttgir.AsyncTDMWaitOp, "num", {}),
        )
    ),
    (AddIOp, (ir.i32, ir.i64), {},
     "arith.addi: operands have types i32, i64; they must be the same"),
    (AddIOp, (ir.f32, ir.f32), {}, "operand has type f32; integer elements are required"),
    (AddFOp, (ir.i32, ir.i32), {}, "operand has type i32; float elements are required"),
    (math_ops.ExpOp, (ir.i8,), {}, "float elements are required"),
    (CmpIOp, (ir.i32, ir.i32), {}, "attribute 'predicate' is missing"),
    (CmpIOp, (ir.f32, ir.f32), {"predicate": CmpIPredicate.EQ}, "integer elements"),
    (SelectOp, (ir.i32, ir.f32, ir.f32), {}, "condition has type i32; i1 is required"),
    (SelectOp, (T((4,), ir.i1), T((8,), ir.f32), T((8,), ir.f32)), {}, "differ in shape"),
    (arith.ExtSIOp, (ir.i64,), {"result": ir.i32}, "from i64 to i32; the result must be wider"),
    (arith.TruncFOp, (ir.f32,), {"result": ir.f64}, "the result must be narrower"),
    (arith.BitcastOp, (ir.f32,), {"result": ir.i64}, "the widths must be the same"),
    (SplatOp, (T((4,), ir.i32),), {"result": T((8,), ir.i32)}, "a scalar is required"),
    (SplatOp, (ir.i32,), {"result": T((8,), ir.f32)}, "the elements must be the same"),
    (UnsplatOp, (T((2,), ir.i32),), {}, "one element is required"),
    (BroadcastOp, (T((2,), ir.i32),), {"result": T((8,), ir.i32)}, "only axes of size 1 grow"),
    (ExpandDimsOp, (T((2,), ir.i32),), {"axis": 2}, "axis is 2; 0 to 1 is allowed"),
    (ReshapeOp, (T((8,), ir.i32),), {"result": T((4,), ir.i32)}, "number of elements"),
    (TransOp, (T((8, 2), ir.i32),), {"order": (0, 0)}, "permute dims must be a permutation"),
    (JoinOp, (T((8,), ir.i32), T((4,), ir.i32)), {}, "they must be the same"),
    (SplitOp, (T((8, 4), ir.i32),), {}, "the last of size 2"),
    (GatherOp, (T((8,), ir.f32), T((4, 2), ir.i32)), {"axis": 0}, "ranks must match"),
    (GatherOp, (T((8, 4), ir.f32), T((8, 2), ir.i32)), {"axis": 0}, "only differ in axis 0"),
    (HistogramOp, (T((8,), ir.f32), None), {"result": T((4,), ir.i32)}, "only supports integer"),
    (MakeRangeOp, (), {"start": 2, "end": 7}, "[2, 7); arange's range must be a power of 2"),
    (AddPtrOp, (ir.i64, ir.i32), {}, "a pointer and an integer are required"),
    (AddPtrOp, (BLOCK, ir.i32), {}, "a pointer and an integer are required"),
    (LoadOp, (ir.i64, None, None), {}, "address has type i64; a pointer is required"),
    (LoadOp, (PTRS, None, T((8,), ir.f32)), {}, "`other` cannot be provided without `mask`"),
    (LoadOp, (PTRS, T((4,), ir.i1), None), {},
     "mask has type tensor<4xi1>; tensor<8xi1> is required"),
    (LoadOp, (BLOCK, ir.i1, None), {}, "a mask cannot be used with the block pointer"),
    (LoadOp, (BLOCK, None, None), {"boundaryCheck": (2,)}, "boundary check of axes (2,)"),
    (LoadOp, (PTR, None, None), {"boundaryCheck": (0,)}, "boundary check of axes (0,)"),
    (LoadOp, (ir.pointer_to(T((8,), ir.i8)), None, None), {"padding": PaddingOption.PAD_NAN},
     "`nan` is not supported for integer"),
    (StoreOp, (PTRS, T((8,), ir.i32), None), {}, "value has type tensor<8xi32>; tensor<8xf32>"),
    (AtomicRMWOp, (PTR, ir.f32, None), {"atomic_rmw_op": AtomicKind.ADD, **RELAXED},
     "add of f32 is not supported"),
    (AtomicRMWOp, (ir.pointer_to(ir.i32), ir.i32, None),
     {"atomic_rmw_op": AtomicKind.FADD, **RELAXED}, "fadd of i32 is not supported"),
    (AtomicCASOp, (PTR, ir.i32, ir.f32), RELAXED, "compares i32 but stores f32"),
    (DotOp, (T((16, 8), ir.f16), T((16, 8), ir.f16), T((16, 8), ir.f32)), {},
     "(8) must be equal to first index of second shape (16)"),
    (DotOp, (T((16, 8), ir.f16), T((8, 16), ir.f16), T((16, 8), ir.f32)), {},
     "(M, K) * (K, N) -> (M, N) is required"),
    (DotOp, (T((16, 16), ir.i8),) * 2 + (T((16, 16), ir.f32),), {}, "mix integers and floats"),
    (ScanOp, ([T((8,), ir.f32)],), {"axis": 1, "reverse": False}, "axis is 1"),
    (ReduceOp, ([],), {"axis": 0}, "at least one tensor is required"),
    (ttir.FpToFpOp, (ir.f32,), {"result": ir.f8e5m2},
     "a narrowing conversion needs a rounding mode"),
    (ttir.FpToFpOp, (ir.i32,), {"result": ir.f32, "rounding": Rounding.RTZ}, "float elements"),
    (ttir.IntToPtrOp, (ir.i32,), {"result": PTR}, "i64 to a pointer is required"),
    (ttir.MakeTensorPtrOp, (PTR, [ir.i64], [ir.i32], [ir.i32]),
     {"order": (0,), "result": ir.pointer_to(T((8,), ir.f32))},
     "strides (i32); i64 is required"),
    (ttir.DescriptorLoadOp, (PTR, [ir.i32]), {}, "a tensor descriptor is required"),
    (ttir.DescriptorLoadOp, (ir.TensorDescType(T((8, 8), ir.f32)), [ir.i32]), {},
     "expected 2 offsets, but got 1"),
    (ttir.DescriptorGatherOp, (ir.TensorDescType(T((8, 8), ir.f32)), T((8,), ir.i32), ir.i32), {},
     "one row (1 x N) is required"),
    (scf.IfOp, (ir.i32,), {}, "condition has type i32; i1 is required"),
    (scf.ForOp, (ir.i32, ir.i64, ir.i32, []), {}, "they must be the same"),
    (scf.ForOp, (ir.f32, ir.f32, ir.f32, []), {}, "integer elements are required"),
    (cf.CondBranchOp, (ir.i32, [], []), {}, "condition has type i32"),
    (ConstantOp, (), {"value": PTR}, "a number or dense<...> is required"),
    (ttir.PrintOp, ([ir.i32],), {"prefix": "", "hex": False, "isSigned": ()},
     "isSigned has 0 entries"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("cls", "types", "attrs", "message"), CASES, ids=lambda c: getattr(c, "__name__", None)
)
def test_refuses(cls: Any, types: tuple[Any, ...], attrs: dict[str, Any], message: str) -> None:
    block = Block()

    def value(type: Any) -> Any:
        if isinstance(type, list):
            return [value(t) for t in type]
        return None if type is None else block.insert_arg(type, len(block.args))

    with pytest.raises(OpError, match=re.escape(message)) as caught:
        cls.build(*(value(t) for t in types), **attrs)
    assert str(caught.value).startswith(cls.name + ":")


def verify_error(text: str) -> str:
    with pytest.raises(VerifyException) as caught:
        parse_module(text).verify()
    return str(caught.value)


LOOP = """tt.func @k(%i: i32, %f: f32) {{
  %0 = "scf.for"(%i, %i, %i, %f) ({{
  ^bb0({arguments}):
    {end}
  }}) : (i32, i32, i32, f32) -> f32
  tt.return
}}"""


def test_fields_of_all_bases_are_inherited() -> None:
    class Left(Op):
        x = operand()
        first = unit_attr()

    class Right(Op):
        y = operand()
        second = unit_attr()

    class Both(Left, Right):
        third = unit_attr()

    assert [field.name for field in Both.operand_fields] == ["x", "y"]
    assert [*Both.attr_fields] == ["first", "second", "third"]


def test_loops_are_verified() -> None:
    parse_module(LOOP.format(arguments="%k: i32, %x: f32", end="scf.yield %x : f32")).verify()
    bad = LOOP.format(arguments="%k: i64, %x: f32", end="scf.yield %x : f32")
    assert "the body takes (i64, f32); (i32, f32) is required" in verify_error(bad)
    bad = LOOP.format(arguments="%k: i32, %x: f32", end="scf.yield %k : i32")
    assert "the body yields (i32); (f32) is required" in verify_error(bad)
    bad = LOOP.format(arguments="%k: i32, %x: f32", end="tt.return")
    assert "must be one block that ends in scf.yield" in verify_error(bad)


def test_result_types_are_verified() -> None:
    text = 'tt.func @k(%i: i32) {\n%0 = "arith.addi"(%i, %i) : (i32, i32) -> i64\ntt.return\n}'
    assert "result types are (i64); its operands give (i32)" in verify_error(text)
    text = 'tt.func @k(%i: i32) {\n%0 = "arith.addi"(%i) : (i32) -> i32\ntt.return\n}'
    assert "arith.addi" in verify_error(text)


def test_combine_regions_are_verified() -> None:
    text = """tt.func @k(%t: tensor<8xf32>) {
      %0 = "tt.reduce"(%t) <{axis = 0 : i32}> ({
      ^bb0(%x: f32, %y: i32):
        tt.reduce.return %x : f32
      }) : (tensor<8xf32>) -> f32
      tt.return
    }"""
    assert "the combine region must take (f32, f32)" in verify_error(text)


def test_branches_are_verified() -> None:
    text = """tt.func @k(%f: f32) {
      "cf.br"(%f)[^bb1] : (f32) -> ()
    ^bb1(%i: i32):
      tt.return
    }"""
    assert "passes (f32) to a block that takes (i32)" in verify_error(text)


def test_builders_for_regions() -> None:
    """The calls that the frontend makes."""
    outer = Block(arg_types=[ir.i32, ir.i1, ir.f32])
    i, c, f = outer.args
    body = Block(arg_types=[ir.i32, ir.f32])
    body.add_op(scf.YieldOp.build([body.args[1]]))
    loop = scf.ForOp.build(i, i, i, [f], regions=[Region(body)])
    assert [r.type for r in loop.results] == [ir.f32] and loop.body is body
    branches = [Block([scf.YieldOp.build([f])]) for _ in range(2)]
    choice = scf.IfOp.build(c, regions=[Region(b) for b in branches], result=[ir.f32])
    before, after = Block(arg_types=[ir.f32]), Block(arg_types=[ir.f32])
    before.add_op(scf.ConditionOp.build(c, [before.args[0]]))
    after.add_op(scf.YieldOp.build([after.args[0]]))
    loops = scf.WhileOp.build([f], regions=[Region(before), Region(after)], result=[ir.f32])
    combine = Block(arg_types=[ir.f32, ir.f32])
    combine.add_op(ttir.ReduceReturnOp.build([combine.args[0]]))
    tile = SplatOp.build(f, result=T((8,), ir.f32))
    reduced = ReduceOp.build([tile.result], regions=[Region(combine)], axis=0)
    for op in (loop, choice, loops, tile, reduced):
        outer.add_op(op)
        op.verify()
    assert reduced.result.type == ir.f32
