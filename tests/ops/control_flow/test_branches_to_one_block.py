"""Conditional branches both of whose targets are the same block."""

from __future__ import annotations

import numpy as np
import pytest

from tests.cpu.support import Kernel
from tests.nvidia.support import to_ptx

SCALARS = """tt.func public @kernel(%x: !tt.ptr<f32>, %o: !tt.ptr<f32>) {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %v = tt.load %x : !tt.ptr<f32>
  %c = arith.cmpf ogt, %v, %zero : f32
  cf.cond_br %c, ^bb1(%one : f32), ^bb1(%v : f32)
^bb1(%y: f32):
  tt.store %o, %y : !tt.ptr<f32>
  tt.return
}"""
TILES = """tt.func public @kernel(%x: !tt.ptr<f32>, %o: !tt.ptr<f32>) {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant dense<1.0> : tensor<8xf32>
  %two = arith.constant dense<2.0> : tensor<8xf32>
  %i = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32>
  %p = tt.splat %o : !tt.ptr<f32> -> tensor<8x!tt.ptr<f32>>
  %q = tt.addptr %p, %i : tensor<8x!tt.ptr<f32>>, tensor<8xi32>
  %v = tt.load %x : !tt.ptr<f32>
  %c = arith.cmpf ogt, %v, %zero : f32
  cf.cond_br %c, ^bb1(%one : tensor<8xf32>), ^bb1(%two : tensor<8xf32>)
^bb1(%y: tensor<8xf32>):
  tt.store %q, %y : tensor<8x!tt.ptr<f32>>
  tt.return
}"""


@pytest.mark.parametrize(("value", "wanted"), [(3, 1), (-3, -3)])
def test_scalars(value: float, wanted: float) -> None:
    out = np.zeros(1, np.float32)
    Kernel(SCALARS).run([np.full(1, value, np.float32), out])
    assert out[0] == wanted


def test_tiles_are_refused() -> None:
    with pytest.raises(NotImplementedError, match=r"cf\.cond_br to one block with different tiles"):
        Kernel(TILES)


@pytest.mark.usefixtures("no_ptxas")
def test_ptx() -> None:
    """Of ttgir, which is not simplified again."""
    facts = '"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, "ttg.threads-per-warp" = 32 : i32'
    text = to_ptx(f'module attributes {{{facts}, ttg.target = "cuda:90"}} {{\n{SCALARS}\n}}')
    assert text.count("st.global") == 1
