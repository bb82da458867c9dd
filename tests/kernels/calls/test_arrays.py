"""The dense functions on arrays that are not torch's."""

from __future__ import annotations

import sys
import types
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.kernels.support import torch
from tritium_kernels import arrays, dense
from tritium_kernels.errors import ArgumentError

pytestmark = pytest.mark.cpu
RNG = np.random.default_rng(0)


def exact_softmax(x: Any) -> Any:
    e = np.exp(x.astype(np.float64))
    return e / e.sum(-1, keepdims=True)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
def test_numpy(dtype: Any):
    x = RNG.standard_normal((6, 8)).astype(dtype)
    fixed = x.copy()
    fixed.flags.writeable = False
    for given in (x, x.T, x[:, ::-1], x[::2], fixed):
        y = arrays.softmax(given)
        assert isinstance(y, np.ndarray) and y.dtype == x.dtype
        np.testing.assert_allclose(y.astype(np.float64), exact_softmax(given), rtol=2e-2)


def test_results_and_options():
    x = RNG.standard_normal((4, 8)).astype(np.float32)
    values, index = arrays.sort(x, descending=True)
    np.testing.assert_array_equal(values, -np.sort(-x))
    np.testing.assert_array_equal(np.take_along_axis(x, index, 1), values)
    q, scale = arrays.quantize(x, torch.float8_e4m3fn)
    assert q.dtype == ml_dtypes.float8_e4m3fn and scale.shape == (4,)
    np.testing.assert_allclose(arrays.dequantize(q, scale), x, rtol=0.07, atol=0.01)
    weight = np.full(8, 2, np.float32)
    right = x / np.sqrt((x * x).mean(1, keepdims=True)) * 2
    np.testing.assert_allclose(arrays.rms_norm(x, weight=weight), right, rtol=1e-5)
    assert set(arrays.__all__) == {n for n in dense.__all__ if "adam" not in n.lower()}


def test_arrays_of_jax(monkeypatch: pytest.MonkeyPatch):
    """By what JAX's arrays and its module have: DLPack both ways."""

    class Array:
        def __init__(self, held: Any):
            self.held = held

        def __dlpack__(self, **options: Any) -> Any:
            return self.held.__dlpack__(**options)

        def __dlpack_device__(self) -> Any:
            return self.held.__dlpack_device__()

    class Traced(Array):
        pass

    jax: Any = types.ModuleType("jax")
    jax.core = types.SimpleNamespace(Tracer=Traced)
    jax.Array, jax.dlpack = Array, types.SimpleNamespace(
        from_dlpack=lambda tensor: Array(np.from_dlpack(tensor))
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "jax", jax)
    x = RNG.standard_normal((4, 8)).astype(np.float32)
    y = arrays.softmax(Array(x))
    assert isinstance(y, Array)
    np.testing.assert_allclose(y.held, exact_softmax(x), rtol=1e-5)
    with pytest.raises(NotImplementedError, match="swiglu: up is an array that jax traces"):
        arrays.swiglu(x, up=Traced(x))


def test_the_other_byte_order():
    x = RNG.standard_normal((4, 8)).astype(np.float32)
    swapped = x.astype(x.dtype.newbyteorder())
    np.testing.assert_array_equal(arrays.softmax(swapped), arrays.softmax(x))


def test_errors():
    wide = np.zeros(3, np.longdouble)
    with pytest.raises(ArgumentError, match=f"swiglu: up has dtype {wide.dtype}; accepted: types"):
        arrays.swiglu(np.zeros(3), wide)
    for given in ([1.0, 2.0], np.float32(1)):
        found = f"softmax: x is {type(given).__name__}; accepted: a NumPy or JAX array"
        with pytest.raises(ArgumentError, match=found):
            arrays.softmax(given)
    with pytest.raises(TypeError, match="positional argument"):
        arrays.softmax(wide.astype(np.float32), -1, 3)
    with pytest.raises(ArgumentError, match="softmax: x has dtype <U1; accepted: types that torch"):
        arrays.softmax(np.array(["a"]))
    with pytest.raises(ArgumentError, match="softmax: x has dtype int64"):
        arrays.softmax(np.arange(3))
