"""Dots natively: operands in memory and in buffers, masks, loops over K."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from tests.cpu.support import Kernel, compare
from tritium.ir.printing import print_module

MATMUL = (Path(__file__).parent / "matmul_f32.ttir").read_text()


@pytest.mark.parametrize(
    ("m", "n", "k"), [(64, 64, 64), (128, 64, 200), (70, 96, 33), (64, 63, 64), (1, 1, 1)]
)
def test_matmul(m: int, n: int, k: int) -> None:
    """Sizes that the tile does not divide; the strides and sizes are said to be multiples of 16
    only where they are."""
    text = MATMUL
    if any(s % 16 for s in (m, n, k)):
        text = text.replace(" {tt.divisibility = 16 : i32}", "")
    random = np.random.default_rng(0)
    a, b = random.standard_normal((m, k)), random.standard_normal((k, n))
    c = np.zeros((m, n), np.float32)
    programs = -(-m // 64) * -(-n // 64)
    a32, b32 = a.astype(np.float32), b.astype(np.float32)
    Kernel(text).run([a32, b32, c, m, n, k, k, n, n], (programs,))
    np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-4)


def test_aligned_operands_stay_in_memory() -> None:
    kernel = Kernel(MATMUL)
    tiles = print_module(kernel.tiles)
    assert tiles.count("tile.view_") == 2
    assert re.findall(r"tile.buffer .*: (tensor<\w+>)", tiles) == ["tensor<64x64xf32>"]  # the sum
    assert "at.once" in kernel.llir and "by.iterations" in kernel.llir


def dot(type: str, out: str, m: int, n: int, k: int, transposed: bool, masked: bool) -> str:
    """out = a @ b + out, one tile; b is (n, k) in memory if `transposed`."""
    b_shape = (n, k) if transposed else (k, n)

    def tile(name: str, shape: tuple[int, int], element: str) -> str:
        rows, columns = shape
        total, shaped = rows * columns, f"tensor<{rows}x{columns}x"
        return f"""
      %{name}r = tt.make_range {{end = {total} : i32, start = 0 : i32}} : tensor<{total}xi32>
      %{name}i = tt.reshape %{name}r : tensor<{total}xi32> -> {shaped}i32>
      %{name}s = tt.splat %{name} : !tt.ptr<{element}> -> {shaped}!tt.ptr<{element}>>
      %{name}p = tt.addptr %{name}s, %{name}i
          : {shaped}!tt.ptr<{element}>>, {shaped}i32>"""

    mask = f"""
      %lim = tt.splat %n : i32 -> tensor<{m}x{k}xi32>
      %mask = arith.cmpi slt, %ai, %lim : tensor<{m}x{k}xi32>""" if masked else ""
    turn = (
        f"%bb = tt.trans %bv {{order = array<i32: 1, 0>}} : tensor<{n}x{k}x{type}>"
        f" -> tensor<{k}x{n}x{type}>" if transposed
        else f"%bb = tt.bitcast %bv : tensor<{k}x{n}x{type}> -> tensor<{k}x{n}x{type}>"
    )
    return f"""
    tt.func public @kernel(%a: !tt.ptr<{type}>, %b: !tt.ptr<{type}>, %c: !tt.ptr<{out}>, %n: i32) {{
      {tile("a", (m, k), type)}{tile("b", b_shape, type)}{tile("c", (m, n), out)}{mask}
      %av = tt.load %ap{", %mask" if masked else ""} : tensor<{m}x{k}x!tt.ptr<{type}>>
      %bv = tt.load %bp : tensor<{b_shape[0]}x{b_shape[1]}x!tt.ptr<{type}>>
      {turn}
      %cv = tt.load %cp : tensor<{m}x{n}x!tt.ptr<{out}>>
      %d = tt.dot %av, %bb, %cv
          : tensor<{m}x{k}x{type}> * tensor<{k}x{n}x{type}> -> tensor<{m}x{n}x{out}>
      tt.store %cp, %d : tensor<{m}x{n}x!tt.ptr<{out}>>
      tt.return
    }}
    """


TYPES = {"f32": ("f32", np.float32), "f16": ("f32", np.float16), "f64": ("f64", np.float64),
         "i8": ("i32", np.int8)}  # fmt: skip
OUT = {"f32": np.float32, "f64": np.float64, "i32": np.int32}


@pytest.mark.covering(2)
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize("shape", [(16, 16, 16), (32, 64, 16), (16, 16, 64), (4, 8, 2)])
def test_one_dot(shape: tuple[int, int, int], type: str, transposed: bool, masked: bool) -> None:
    out, dtype = TYPES[type]
    m, n, k = shape
    random = np.random.default_rng(0)
    a = (random.standard_normal(m * k) * 4).astype(dtype)
    b = (random.standard_normal(n * k) * 4).astype(dtype)
    c = (random.standard_normal(m * n) * 4).astype(OUT[out])
    tolerance = {} if type == "i8" else {"rtol": 1e-5, "atol": 1e-4}
    text = dot(type, out, m, n, k, transposed, masked)
    compare(text, [a, b, c, m * k - 5], **tolerance)
