"""`uniform-advance`: carried tiles become carried scalars, and mean the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tritium.ir.printing import print_module
from tritium.ops.evaluation import Evaluator
from tritium.ops.parsing import parse_module
from tritium.ops.scf import ForOp
from tritium.passes.ttir.uniform_advance import UniformAdvance


def program(step: str, extra: str = "", element: str = "i32") -> str:
    """Sum the elements at pointers that advance by `step` elements in each of `%n` turns."""
    return f"""
    tt.func public @kernel(%x: !tt.ptr<i32>, %out: !tt.ptr<i32>, %n: i32, %by: {element}) {{
      %c0 = arith.constant 0 : i32
      %c1 = arith.constant 1 : i32
      %range = tt.make_range {{end = 8 : i32, start = 0 : i32}} : tensor<8xi32>
      %xs = tt.splat %x : !tt.ptr<i32> -> tensor<8x!tt.ptr<i32>>
      %start = tt.addptr %xs, %range : tensor<8x!tt.ptr<i32>>, tensor<8xi32>
      %zero = arith.constant dense<0> : tensor<8xi32>
      %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%p = %start, %sum = %zero)
          -> (tensor<8x!tt.ptr<i32>>, tensor<8xi32>) : i32 {{
        %v = tt.load %p : tensor<8x!tt.ptr<i32>>
        %next = arith.addi %sum, %v : tensor<8xi32>
        {extra}
        %d = {step}
        %q = tt.addptr %p, %d : tensor<8x!tt.ptr<i32>>, tensor<8x{element}>
        scf.yield %q, %next : tensor<8x!tt.ptr<i32>>, tensor<8xi32>
      }}
      %os = tt.splat %out : !tt.ptr<i32> -> tensor<8x!tt.ptr<i32>>
      %oa = tt.addptr %os, %range : tensor<8x!tt.ptr<i32>>, tensor<8xi32>
      %last = tt.load %r#0 : tensor<8x!tt.ptr<i32>>
      %all = arith.addi %r#1, %last : tensor<8xi32>
      tt.store %oa, %all : tensor<8x!tt.ptr<i32>>
      tt.return
    }}
    """


def run(module: Any, n: int, by: int, element: Any) -> np.ndarray:
    x, out = np.arange(200, dtype=np.int32) ** 2, np.zeros(8, np.int32)
    addresses = [np.uint64(a.ctypes.data) for a in (x, out)]
    Evaluator(module).launch("kernel", [*addresses, np.int32(n), element(by)], (1,))
    return out


SPLAT = "tt.splat %by : {0} -> tensor<8x{0}>"
CASES = {
    "argument": (SPLAT.format("i32"), "", "i32", np.int32),
    "wide": (SPLAT.format("i64"), "", "i64", np.int64),
    "constant": ("arith.constant dense<3> : tensor<8xi32>", "", "i32", np.int32),
    "computed inside": ("tt.splat %m : i32 -> tensor<8xi32>", "%m = arith.muli %by, %n : i32",
                        "i32", np.int32),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_pointers_become_offsets(name: str) -> None:
    step, extra, element, kind = CASES[name]
    text = program(step, extra, element)
    before, after = parse_module(text), parse_module(text)
    assert UniformAdvance().run(after)
    after.verify()
    (loop,) = [op for op in after.walk() if isinstance(op, ForOp)]
    assert [str(v.type) for v in loop.inits] == ["i64", "tensor<8xi32>"]
    for n, by in ((0, 2), (1, 5), (4, 3)):
        np.testing.assert_array_equal(run(before, n, by, kind), run(after, n, by, kind))
    assert not UniformAdvance().run(after)


@pytest.mark.parametrize(
    ("step", "extra"),
    [("tt.splat %i : i32 -> tensor<8xi32>", ""), ("arith.addi %range, %range : tensor<8xi32>", "")],
)
def test_other_advances_are_left_alone(step: str, extra: str) -> None:
    module = parse_module(program(step, extra))
    text = print_module(module)
    assert not UniformAdvance().run(module)
    assert print_module(module) == text
