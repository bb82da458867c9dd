"""Functions of libdevice on a GPU, against torch."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import tritium
import tritium.language as tl
from tests.support.device import from_gpu, to_gpu
from tritium.language.extra import libdevice

pytestmark = pytest.mark.gpu


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch")


def elementwise(function: Any, *arguments: np.ndarray, out: Any = None, **options: Any) -> Any:
    """A libdevice function (a builtin) of whole arrays."""

    @tritium.jit
    def unary(x, o, n: tl.constexpr, FUNCTION: tl.constexpr):
        i = tl.arange(0, n)
        tl.store(o + i, FUNCTION(tl.load(x + i)))

    @tritium.jit
    def binary(x, y, o, n: tl.constexpr, FUNCTION: tl.constexpr):
        i = tl.arange(0, n)
        tl.store(o + i, FUNCTION(tl.load(x + i), tl.load(y + i)))

    result = np.zeros_like(arguments[0] if out is None else out)
    moved = [to_gpu(a) for a in arguments]
    target = to_gpu(result)
    kernel = unary if len(moved) == 1 else binary
    kernel[(1,)](*moved, target, n=arguments[0].size, FUNCTION=function, **options)
    from_gpu(target, result)
    return result


UNARY = {
    "acos": np.arccos, "asinh": np.arcsinh, "atan": np.arctan, "cbrt": np.cbrt, "cosh": np.cosh,
    "erfc": np.vectorize(math.erfc), "exp10": lambda x: 10.0**x, "expm1": np.expm1,
    "lgamma": np.vectorize(math.lgamma), "log1p": np.log1p, "rsqrt": lambda x: 1 / np.sqrt(x),
    "tan": np.tan, "tanh": np.tanh, "tgamma": np.vectorize(math.gamma),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", UNARY)
def test_libdevice(torch: Any, name: str, dtype: Any):
    x = np.linspace(0.01, 0.99, 256).astype(dtype)
    found = elementwise(getattr(libdevice, name), x)
    want = UNARY[name](x.astype(np.float64))
    tolerance = 4e-6 if dtype == np.float32 else 1e-14
    np.testing.assert_allclose(found, want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_libdevice_of_two(torch: Any, dtype: Any):
    rng = np.random.default_rng(0)
    x, y = (rng.uniform(0.1, 9, 128).astype(dtype) for _ in range(2))
    for name, function in (("pow", np.power), ("fmod", np.fmod), ("atan2", np.arctan2),
                           ("hypot", np.hypot), ("copysign", np.copysign)):  # fmt: skip
        found = elementwise(getattr(libdevice, name), x, y)
        want = function(x.astype(np.float64), y.astype(np.float64))
        np.testing.assert_allclose(found, want, rtol=1e-5 if dtype == np.float32 else 1e-13)
