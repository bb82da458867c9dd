"""Arithmetic of 8-bit floats: in float32, rounded to the type (and finite, as after all casts)."""

import ml_dtypes
import numpy as np
import pytest

from tests.conformance.support import DTYPES, FP8, Batch
from tests.support.device import device

ARITHMETIC = {
    "x + y": np.add, "x - y": np.subtract, "x * y": np.multiply, "x / y": np.divide,
    "x % y": np.fmod, "tl.fdiv(x, y)": np.divide, "tl.minimum(x, y)": np.fmin,
    "tl.maximum(x, y)": np.fmax, "tl.fma(x, y, x)": lambda x, y: x * y + x,
    "tl.clamp(x, -y, y)": lambda x, y: np.clip(x, -y, y), "-x": lambda x, y: -x,
    "tl.abs(x)": lambda x, y: np.abs(x), "x + 1": lambda x, y: x + 1,
    "2.5 * x": lambda x, y: 2.5 * x,
}  # fmt: skip
COMPARISONS = {
    "x < y": np.less, "x <= y": np.less_equal, "x > y": np.greater, "x >= y": np.greater_equal,
    "x == y": np.equal, "x != y": np.not_equal,
}  # fmt: skip


def numbers(name):
    """Two blocks: numbers of all magnitudes of a type, and positive ones."""
    rng = np.random.default_rng(0)
    every = np.arange(256, dtype=np.uint8).view(DTYPES[name])
    finite = every[np.isfinite(every)]
    x = rng.permutation(np.resize(finite, 256))
    y = (rng.integers(1, 16, 256) / 4).astype(DTYPES[name])
    y[:8] = x[:8]
    y[:8] = np.where(y[:8].astype(np.float32) > 0, y[:8], DTYPES[name].type(1))
    return x, y


def rounded(values, name):
    """To nearest even, no larger than the largest finite number."""
    largest = float(ml_dtypes.finfo(DTYPES[name]).max)
    return np.clip(values, -largest, largest).astype(DTYPES[name])


@pytest.mark.parametrize("name", FP8)
def test_arithmetic(name):
    x, y = numbers(name)
    a, b = x.astype(np.float32), y.astype(np.float32)
    batch = Batch({"x": x, "y": y})
    for text, function in ARITHMETIC.items():
        if function in (np.divide, np.fmod):  # which widen
            batch.add(text, "float32", function(a, b), 3e-7 if device == "cuda" else 0.0)
        else:
            batch.add(text, name, rounded(function(a, b), name))
    batch.run()


@pytest.mark.every(2)
@pytest.mark.parametrize("name", FP8)
def test_comparisons(name):
    x, y = numbers(name)
    a, b = x.astype(np.float32), y.astype(np.float32)
    batch = Batch({"x": x, "y": y})
    for text, function in COMPARISONS.items():
        batch.add(text, "int1", function(a, b))
    batch.add("tl.argmax(x.reshape(16, 16), 1)", "int32", a.reshape(16, 16).argmax(1))
    batch.add("tl.argmin(x.reshape(16, 16), 0)", "int32", a.reshape(16, 16).argmin(0))
    top = -np.sort(-a.reshape(16, 16), axis=1)[:, :4]
    batch.add("tl.topk(x.reshape(16, 16), 4)", "float32", top)
    batch.run()


@pytest.mark.parametrize("name", FP8)
def test_sums(name):
    x = np.resize(np.array([1, 0, 0.5, -0.25, 0, 0.25, 0, 0]), 32).astype(DTYPES[name])
    batch = Batch({"x": x})
    batch.add("tl.sum(x)", name, np.full((), 6, DTYPES[name]))
    batch.add("tl.cumsum(x.reshape(4, 8), 1)", name,
              np.cumsum(x.astype(np.float32).reshape(4, 8), 1).astype(DTYPES[name]))  # fmt: skip
    batch.run()
