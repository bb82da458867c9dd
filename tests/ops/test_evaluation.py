"""Memory, folding, effects and control flow of the reference semantics."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tritium.errors import OpError
from tritium.ir import types as ir
from tritium.ops import math as math_ops
from tritium.ops import ttir
from tritium.ops.arith import AddIOp, ConstantOp, DivSIOp
from tritium.ops.effects import GLOBAL, opaque, reads
from tritium.ops.evaluation import Evaluator, fold
from tritium.ops.memory import EvaluationError, Memory
from tritium.ops.parsing import parse_module

TILE = ir.tensor_of((4,), ir.i32)


def call(text: str, *arguments: Any) -> tuple[Any, ...]:
    """Run the function `k` of a module."""
    module = parse_module(text)
    module.verify()
    return Evaluator(module).call("k", *arguments)


def addresses(array: np.ndarray, index: Any) -> np.ndarray:
    return np.uint64(array.ctypes.data) + np.asarray(index, np.uint64) * np.uint64(array.itemsize)


def test_masked_lanes_do_not_touch_memory() -> None:
    a = np.arange(4, dtype=np.float32)
    memory = Memory([(a.ctypes.data, a.nbytes)])
    at = addresses(a, [0, 3, 4, 100])
    mask = np.array([True, True, False, False])
    assert memory.load(at, a.dtype, mask).tolist() == [0, 3, 0, 0]
    memory.store(at, np.full(4, 7, np.float32), mask)
    assert a.tolist() == [7, 1, 2, 7]
    with pytest.raises(EvaluationError, match="belongs to no argument"):
        memory.load(at, a.dtype, None)


def test_a_null_pointer_is_an_error() -> None:
    with pytest.raises(EvaluationError, match="invalid address 0x0"):
        Memory().load(np.zeros((), np.uint64), np.dtype("f4"), None)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(-9, 9), st.booleans()), max_size=40))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_updates_happen_one_after_the_other(steps: list[tuple[int, int, bool]]) -> None:
    memory, expected, found = np.arange(6, dtype=np.int32), list(range(6)), []
    for at, value, active in steps:
        found.append(expected[at] if active else 0)
        expected[at] = expected[at] * 3 + value if active else expected[at]
    where, values, mask = (np.array([s[i] for s in steps]) for i in range(3))
    old = Memory().update(
        addresses(memory, where),
        memory.dtype,
        mask.astype(bool),
        lambda old, at: (old * 3 + values[at]).astype(np.int32),
    )
    assert old.tolist() == found and memory.tolist() == expected


def test_folding() -> None:
    three, zero = ConstantOp.of(3, ir.i32), ConstantOp.of(0, ir.i32)
    op = AddIOp.build(three.result, three.result)
    assert fold(op, [np.int32(3), np.int32(3)]) == (6,)
    # Undefined, so any value will do, but it must not raise.
    assert fold(DivSIOp.build(three.result, zero.result), [np.int32(3), np.int32(0)]) == (0,)
    split = ttir.SplitOp.build(ConstantOp.of(1, ir.tensor_of((4, 2), ir.i32)).result)
    found = fold(split, [np.ones((4, 2), np.int32)])
    assert found is not None and [v.shape for v in found] == [(4,), (4,)]


def test_what_cannot_be_folded() -> None:
    address = ConstantOp.of(64, ir.i64)
    pointer = ttir.IntToPtrOp.build(address.result, result=ir.pointer_to(ir.f32))
    assert fold(ttir.LoadOp.build(pointer.result), [np.uint64(64)]) is None
    assert fold(ttir.GetProgramIdOp.build(axis=ttir.Axis.X), []) is None
    asm = ttir.ElementwiseInlineAsmOp.build(
        [], result=[ir.i32], asm_string="nop", constraints="=r", pure=True, packed_element=1
    )
    assert asm.is_pure and fold(asm, []) is None


def test_effects() -> None:
    pointer = ttir.IntToPtrOp.build(
        ConstantOp.of(64, ir.i64).result, result=ir.pointer_to(ir.f32)
    ).result
    load = ttir.LoadOp.build(pointer)
    assert load.memory_effects() == (reads(GLOBAL, "ptr"),)
    assert load.only_reads and not load.is_pure and not load.writes(GLOBAL)
    assert load.affected(load.effects[0]) == (pointer,)
    volatile = ttir.LoadOp.build(pointer, isVolatile=True)
    assert volatile.memory_effects() == (reads(GLOBAL, "ptr"), opaque(GLOBAL))
    assert not volatile.only_reads
    assert math_ops.ExpOp.build(ConstantOp.of(1.0, ir.f32).result).is_pure
    text = """tt.func @k(%c: i1, %p: !tt.ptr<f32>) {
      scf.if %c {
        %0 = tt.load %p : !tt.ptr<f32>
      }
      tt.return
    }"""
    branch: Any = next(op for op in parse_module(text).walk() if op.name == "scf.if")
    assert branch.memory_effects() == (reads(GLOBAL, "ptr"),) and branch.only_reads


FOR = """tt.func @k(%a: i32, %b: i32, %s: i32) -> i32 {{
  %c0 = arith.constant 0 : i32
  %r = scf.for {kind}%i = %a to %b step %s iter_args(%x = %c0) -> (i32) : i32 {{
    %y = arith.addi %x, %i : i32
    scf.yield %y : i32
  }}
  tt.return %r : i32
}}"""


@given(st.integers(-20, 20), st.integers(-20, 20), st.integers(1, 7))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_for(a: int, b: int, step: int) -> None:
    bounds = [np.int32(v) for v in (a, b, step)]
    assert call(FOR.format(kind=""), *bounds) == (sum(range(a, b, step)),)


def test_unsigned_for() -> None:
    bounds = [np.int32(v) for v in (2**31 - 2, -(2**31) + 2, 1)]
    numbers = range(2**31 - 2, 2**31 + 2)
    (found,) = call(FOR.format(kind="unsigned "), *bounds)
    assert int(found) % 2**32 == sum(numbers) % 2**32
    assert call(FOR.format(kind=""), *bounds) == (0,)


def test_a_combine_region_with_control_flow() -> None:
    text = """tt.func @k(%t: tensor<8x4xf32>) -> tensor<4xf32> {
      %0 = "tt.reduce"(%t) <{axis = 0 : i32}> ({
      ^bb0(%x: f32, %y: f32):
        %c = arith.cmpf ogt, %x, %y : f32
        %m = scf.if %c -> (f32) {
          scf.yield %x : f32
        } else {
          scf.yield %y : f32
        }
        tt.reduce.return %m : f32
      }) : (tensor<8x4xf32>) -> tensor<4xf32>
      tt.return %0 : tensor<4xf32>
    }"""
    tile = np.random.default_rng(0).standard_normal((8, 4)).astype(np.float32)
    (found,) = call(text, tile)
    np.testing.assert_array_equal(found, tile.max(0))


def test_reductions_keep_the_order_of_elements() -> None:
    """A combination that is associative but not commutative: the last element wins."""
    text = """tt.func @k(%t: tensor<8xi32>) -> (i32, tensor<8xi32>) {
      %0 = "tt.reduce"(%t) <{axis = 0 : i32}> ({
      ^bb0(%x: i32, %y: i32):
        tt.reduce.return %y : i32
      }) : (tensor<8xi32>) -> i32
      %1 = "tt.scan"(%t) <{axis = 0 : i32, reverse = true}> ({
      ^bb0(%x: i32, %y: i32):
        tt.scan.return %x : i32
      }) : (tensor<8xi32>) -> tensor<8xi32>
      tt.return %0, %1 : i32, tensor<8xi32>
    }"""
    reduced, scanned = call(text, np.arange(8, dtype=np.int32))
    assert reduced == 7 and scanned.tolist() == [7] * 8


def test_assertions_and_assumptions() -> None:
    text = 'tt.func @k(%c: i1) {\n  tt.assert %c, "it must" : i1\n  tt.return\n}'
    assert call(text, np.True_) == ()
    with pytest.raises(EvaluationError, match=r"program \(0, 0, 0\): it must"):
        call(text, np.False_)
    text = "tt.func @k(%c: i1) {\n  llvm.intr.assume %c : i1\n  tt.return\n}"
    with pytest.raises(EvaluationError, match="assumption does not hold"):
        call(text, np.False_)


@pytest.mark.parametrize(
    ("offset", "expected"), [(-1, [np.nan, 0, 2, 4]), (0, [0, 2, 4, np.nan])]
)
def test_block_pointers_pad(offset: int, expected: list[float]) -> None:
    data = np.arange(6, dtype=np.float32)
    text = """tt.func @k(%p: !tt.ptr<f32>, %n: i64, %s: i64, %o: i32) -> tensor<4xf32> {
      %b = tt.make_tensor_ptr %p, [%n], [%s], [%o] {order = array<i32: 0>} : <tensor<4xf32>>
      %0 = tt.load %b {boundaryCheck = array<i32: 0>, padding = 2 : i32} : !tt.ptr<tensor<4xf32>>
      tt.return %0 : tensor<4xf32>
    }"""
    arguments = np.uint64(data.ctypes.data), np.int64(3), np.int64(2), np.int32(offset)
    (found,) = call(text, *arguments)
    np.testing.assert_array_equal(found, expected)


def test_missing_functions_are_named() -> None:
    with pytest.raises(EvaluationError, match="call of 'g'"):
        call("tt.func @k() {\n  tt.call @g() : () -> ()\n  tt.return\n}")


def test_types_without_arrays_are_named() -> None:
    with pytest.raises(OpError, match="i7 has no NumPy equivalent"):
        ir.numpy_dtype(ir.IntegerType(7))


def test_a_splat_in_a_region_for_all_elements_makes_a_tile_for_each() -> None:
    op = ttir.SplatOp.create(result_types=[TILE])
    assert op.evaluate(Evaluator(parse_module("module {}")), np.int32(7)).tolist() == [7] * 4
    many = op.evaluate(Evaluator(parse_module("module {}")), np.array([1, 2], np.int32))
    assert many.tolist() == [[1] * 4, [2] * 4]
