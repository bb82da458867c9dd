"""`assert_close` on everything that holds numbers."""

from __future__ import annotations

import importlib.util

import ml_dtypes
import numpy as np
import pytest

from tritium.testing import assert_close

needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="torch is not installed"
)


def test_default_tolerance():
    assert_close(np.ones(4), np.ones(4) + 0.009)
    with pytest.raises(AssertionError):
        assert_close(np.ones(4), np.ones(4) + 0.011)


def test_tolerances_are_absolute_plus_relative_to_the_second():
    assert_close(np.array([100.0, 200.0]), np.array([101.0, 202.0]), atol=0, rtol=0.01)
    with pytest.raises(AssertionError):
        assert_close(np.array([100.0, 200.0]), np.array([102.0, 202.0]), atol=0, rtol=0.01)


def test_tolerance_by_dtype():
    asked = []

    def atol(dtype):
        asked.append(dtype)
        return 1.0

    assert_close(np.zeros(2, np.float16), np.ones(2), atol=atol)
    assert asked == [np.float16]


def test_nan_equals_nan_only():
    assert_close(np.array([1.0, np.nan]), np.array([1.0, np.nan]))
    with pytest.raises(AssertionError):
        assert_close(np.array([1.0, np.nan]), np.array([1.0, 2.0]))


def test_numbers_and_single_elements():
    assert_close(1.0, 1.005)
    assert_close(np.array([1.0]), 1.0)
    with pytest.raises(AssertionError, match=r"the sum .*2.0 is not close to 1.0"):
        assert_close(2.0, 1.0, err_msg="the sum")


def test_shapes_must_agree():
    with pytest.raises(AssertionError):
        assert_close(np.ones((2, 3)), np.ones((3, 2)))


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn])
def test_types_that_numpy_lacks(dtype):
    x = np.array([0.5, 1.0, -2.0]).astype(dtype)
    assert_close(x, np.array([0.5, 1.0, -2.0]), atol=0)
    with pytest.raises(AssertionError):
        assert_close(x, np.array([0.5, 1.0, 2.0]))


@needs_torch
@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16", "int32", "float8_e5m2", "bool"])
def test_torch_tensors(name):
    import torch

    x = torch.tensor([0.0, 1.0, 1.0], requires_grad=name == "float32").to(getattr(torch, name))
    assert_close(x, np.array([0, 1, 1]), atol=0)
    with pytest.raises(AssertionError):
        assert_close(x, np.array([1, 1, 1]))
