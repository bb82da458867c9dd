"""Reductions that choose by an index: comparisons that are known where elements come in order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tritium
import tritium.language as tl
from tests.cpu.support import Kernel, compare
from tritium.backends.compiler import GPUTarget
from tritium.backends.cpu.lower.analysis.index_compares import known_in_order
from tritium.compiler import ASTSource
from tritium.ops.parsing import parse_module
from tritium.runtime.jit import JITFunction

INDICES = {
    "positions": "%n = arith.constant dense<0> : tensor<256xi32>\n"
                 "%index = tt.make_range {end = 261 : i32, start = 5 : i32} : tensor<256xi32>",
    "backwards": "%n = arith.constant dense<255> : tensor<256xi32>\n"
                 "%index = arith.subi %n, %range : tensor<256xi32>",
    "wrapping": "%n = arith.constant dense<2147483600> : tensor<256xi32>\n"
                "%index = arith.addi %n, %range : tensor<256xi32>",
}  # fmt: skip
"""Indices that increase, decrease, and seem to increase."""

RESULTS = {
    "select": "%k = arith.select %left, %i, %j : i32",
    "smaller": "%k = arith.minsi %i, %j : i32",
    "sum": "%k = arith.addi %i, %j : i32",
}


def program(index: str, predicate: str, swap: bool, result: str) -> str:
    """The largest of 256 integers; of equal ones, as an index comparison says."""
    order = "%j, %i" if swap else "%i, %j"
    return f"""
    tt.func public @kernel(%x: !tt.ptr<i32>, %out: !tt.ptr<i32>) {{
      %range = tt.make_range {{end = 256 : i32, start = 0 : i32}} : tensor<256xi32>
      %xs = tt.splat %x : !tt.ptr<i32> -> tensor<256x!tt.ptr<i32>>
      %xa = tt.addptr %xs, %range : tensor<256x!tt.ptr<i32>>, tensor<256xi32>
      %v = tt.load %xa : tensor<256x!tt.ptr<i32>>
      {INDICES[index]}
      %r:2 = "tt.reduce"(%v, %index) <{{axis = 0 : i32}}> ({{
      ^bb0(%a: i32, %i: i32, %b: i32, %j: i32):
        %more = arith.cmpi sgt, %a, %b : i32
        %same = arith.cmpi eq, %a, %b : i32
        %first = arith.cmpi {predicate}, {order} : i32
        %better = arith.andi %same, %first : i1
        %left = arith.ori %more, %better : i1
        %m = arith.select %left, %a, %b : i32
        {RESULTS[result]}
        tt.reduce.return %m, %k : i32, i32
      }}) : (tensor<256xi32>, tensor<256xi32>) -> (i32, i32)
      %one = arith.constant 1 : i32
      %next = tt.addptr %out, %one : !tt.ptr<i32>, i32
      tt.store %out, %r#0 : !tt.ptr<i32>
      tt.store %next, %r#1 : !tt.ptr<i32>
      tt.return
    }}
    """


def settled(text: str) -> list[bool]:
    module = parse_module(text)
    (reduction,) = (op for op in module.walk() if op.name == "tt.reduce")
    return list(known_in_order(reduction).values())


@pytest.mark.parametrize(
    ("predicate", "expected"), [("slt", True), ("sle", True), ("ne", True), ("sgt", False),
                                ("sge", False), ("eq", False)],
)  # fmt: skip
def test_comparisons_of_positions_are_known(predicate: str, expected: bool) -> None:
    assert settled(program("positions", predicate, False, "select")) == [expected]
    mirrored = expected if predicate in ("eq", "ne") else not expected
    assert settled(program("positions", predicate, True, "select")) == [mirrored]


def test_others_are_not() -> None:
    assert settled(program("positions", "ult", False, "select")) == []
    assert settled(program("backwards", "slt", False, "select")) == []
    assert settled(program("wrapping", "slt", False, "select")) == []
    assert settled(program("positions", "slt", False, "sum")) == []
    assert settled(program("positions", "slt", False, "smaller")) == [True]


def test_the_loop_compares_no_indices() -> None:
    llir = Kernel(program("positions", "slt", False, "select")).llir
    loop = llir[llir.index("phi") : llir.index("exit")]
    assert "icmp sgt <16" in loop or "icmp sgt <8" in loop or "icmp sgt <4" in loop
    assert "icmp slt <" not in loop
    assert "icmp slt <" in llir[llir.index("exit") :]  # the lanes are not in order


@pytest.mark.covering(1)
@pytest.mark.parametrize("index", INDICES)
@pytest.mark.parametrize("swap", [False, True])
@pytest.mark.parametrize("predicate", ["slt", "sge", "ult"])
def test_the_first_of_equals(index: str, predicate: str, swap: bool) -> None:
    x = np.random.default_rng(1).integers(0, 3, 256).astype(np.int32)
    compare(program(index, predicate, swap, "select"), [x, np.zeros(2, np.int32)])


@tritium.jit
def latest(a, i, b, j):
    """The largest, of equal ones the last, as users write it."""
    take = (a > b) | ((a == b) & (i > j))
    return tl.where(take, a, b), tl.where(take, i, j)


@tritium.jit
def last_of_largest(x, value, place, axis: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    rows, columns = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    tile = tl.load(x + rows * N + columns)
    index = tl.broadcast_to(rows if axis == 0 else columns, [M, N])
    v, i = tl.reduce((tile, index), axis, latest)
    kept = tl.arange(0, N if axis == 0 else M)
    tl.store(value + kept, v)
    tl.store(place + kept, i)


@pytest.mark.covering(1)
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("shape", [(64, 64), (4, 512), (128, 1)])
@pytest.mark.parametrize("dtype", [np.float32, np.int16])
def test_users_function_on_tiles(shape: tuple[int, int], axis: int, dtype: Any) -> None:
    x = np.random.default_rng(2).integers(0, 4, shape).astype(dtype)
    value = np.zeros(shape[1 - axis], dtype)
    place = np.zeros(shape[1 - axis], np.int32)
    last_of_largest[(1,)](x, value, place, axis, *shape)
    np.testing.assert_array_equal(value, x.max(axis))
    flipped = np.flip(x, axis)
    np.testing.assert_array_equal(place, shape[axis] - 1 - flipped.argmax(axis))


def position(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out, tl.argmax(tl.load(x + i), 0))


def test_masks_are_chosen_as_they_are() -> None:
    """LLVM chooses among masks in words of 16 bits, which takes conversions."""
    source = ASTSource(JITFunction(position), {"x": "*fp32", "out": "*i32"}, {"N": 256})
    text = tritium.compile(source, target=GPUTarget("cpu", "haswell", 1)).asm["asm"]
    assert "vblendv" in text and "vpackssdw" not in text
