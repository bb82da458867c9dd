"""Products as tensor cores compute them, after `dot-precision`, against float64."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tritium.ops.evaluation import Evaluator
from tritium.ops.memory import Memory
from tritium.ops.parsing import parse_module
from tritium.ops.ttir.dot import DotOp, InputPrecision
from tritium.passes.ttir.dot_precision import DotPrecision

M, N, K = 16, 16, 64

PRODUCT = """
tt.func public @k(%x: !tt.ptr<{operand}>, %y: !tt.ptr<{operand}>, %z: !tt.ptr<{result}>) {{
  %i = tt.make_range {{start = 0 : i32, end = 1024 : i32}} : tensor<1024xi32>
  %j = tt.make_range {{start = 0 : i32, end = 256 : i32}} : tensor<256xi32>
  %xs = tt.splat %x : !tt.ptr<{operand}> -> tensor<1024x!tt.ptr<{operand}>>
  %ys = tt.splat %y : !tt.ptr<{operand}> -> tensor<1024x!tt.ptr<{operand}>>
  %zs = tt.splat %z : !tt.ptr<{result}> -> tensor<256x!tt.ptr<{result}>>
  %xp = tt.addptr %xs, %i : tensor<1024x!tt.ptr<{operand}>>, tensor<1024xi32>
  %yp = tt.addptr %ys, %i : tensor<1024x!tt.ptr<{operand}>>, tensor<1024xi32>
  %zp = tt.addptr %zs, %j : tensor<256x!tt.ptr<{result}>>, tensor<256xi32>
  %xl = tt.load %xp : tensor<1024x!tt.ptr<{operand}>>
  %yl = tt.load %yp : tensor<1024x!tt.ptr<{operand}>>
  %zl = tt.load %zp : tensor<256x!tt.ptr<{result}>>
  %a = tt.reshape %xl : tensor<1024x{operand}> -> tensor<16x64x{operand}>
  %b = tt.reshape %yl : tensor<1024x{operand}> -> tensor<64x16x{operand}>
  %c = tt.reshape %zl : tensor<256x{result}> -> tensor<16x16x{result}>
  %d = tt.dot %a, %b, %c{precision} : tensor<16x64x{operand}> * tensor<64x16x{operand}> -> tensor<16x16x{result}>
  %s = tt.reshape %d : tensor<16x16x{result}> -> tensor<256x{result}>
  tt.store %zp, %s : tensor<256x!tt.ptr<{result}>>
  tt.return
}}
"""  # noqa: E501


def tensor_core(op: Any, context: Any, a: Any, b: Any, c: Any) -> Any:
    """16-bit operands, or float32 ones without the bits that tf32 lacks; sums in float32."""
    a, b, c = map(np.asarray, (a, b, c))
    assert c.dtype == np.float32
    if a.dtype == np.float32:
        assert op.inputPrecision is InputPrecision.TF32
        a, b = ((v.view(np.uint32) & 0xFFFFE000).view(np.float32) for v in (a, b))
    else:
        assert a.dtype.itemsize == 2
    a, b = a.astype(np.float32), b.astype(np.float32)
    for k in range(K):
        c = c + a[:, k : k + 1] * b[k : k + 1]
    return c


def run(x: Any, y: Any, z: Any, operand: str, result: str, precision: str = "") -> None:
    """Store the product plus `z` to `z`."""
    module = parse_module(PRODUCT.format(operand=operand, result=result, precision=precision))
    DotPrecision(target="cuda:80").run(module)
    module.verify()
    buffers = [x, y, z]
    memory = Memory([(b.ctypes.data, b.nbytes) for b in buffers])
    with np.errstate(all="ignore"):
        Evaluator(module, memory).launch("k", [np.uint64(b.ctypes.data) for b in buffers], (1,))


@pytest.fixture(autouse=True)
def _tensor_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DotOp, "evaluate", tensor_core)


def operands(seed: int = 0) -> list[Any]:
    rng = np.random.default_rng(seed)
    shapes = ((M, K), (K, N), (M, N))
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


@pytest.mark.parametrize(
    ("precision", "bound"),
    [("tf32", 2e-3), ("tf32x3", 2e-6), ("bf16x3", 6e-5), ("bf16x6", 2e-6)],
)
def test_split_operands(precision: str, bound: float) -> None:
    x, y, z = operands()
    want = x.astype(np.float64) @ y.astype(np.float64) + z
    size = np.abs(x).astype(np.float64) @ np.abs(y) + np.abs(z)
    run(x, y, z, "f32", "f32", f", inputPrecision = {precision}")
    error = float((np.abs(z - want) / size).max())
    assert bound / 1000 < error < bound


@pytest.mark.parametrize("precision", ["tf32x3", "bf16x3", "bf16x6"])
def test_infinities_and_nan(precision: str) -> None:
    x, y, z = operands(1)
    x[0, 3], x[1, 5], y[7, 2], z[4, 4] = np.inf, np.nan, -np.inf, np.inf
    x.view(np.uint32)[2, 0] = 0x7FFFFFFF  # the NaN of GPUs; rounding must not carry into its sign
    x.view(np.uint32)[3, 0] = 0x7F800001
    with np.errstate(invalid="ignore"):
        want = x.astype(np.float64) @ y.astype(np.float64) + z
    run(x, y, z, "f32", "f32", f", inputPrecision = {precision}")
    special = ~np.isfinite(want)
    assert special.any() and np.array_equal(np.isfinite(z), ~special)
    assert np.array_equal(z[special], want[special].astype(np.float32), equal_nan=True)


@pytest.mark.parametrize("operand", ["f16", "f8E5M2", "f8E4M3FN"])
def test_sums_in_float16_are_rounded_once(operand: str) -> None:
    dtypes = {"f16": np.float16, "f8E5M2": ml_dtypes.float8_e5m2,
              "f8E4M3FN": ml_dtypes.float8_e4m3fn}  # fmt: skip
    x, y, z = operands(2)
    x, y = x.astype(dtypes[operand]), y.astype(dtypes[operand])
    z = z.astype(np.float16)
    want = x.astype(np.float64) @ y.astype(np.float64) + z.astype(np.float64)
    run(x, y, z, operand, "f16")
    assert (np.abs(z.astype(np.float64) - want) <= 0.51 * np.spacing(want.astype(np.float16))
            .astype(np.float64).__abs__() + 1e-5).all()  # fmt: skip
