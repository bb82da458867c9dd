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


LARGE = 2**60
EQUAL = [
    (np.array([LARGE, 1]), np.array([LARGE, 1])),
    (np.array([-(2**63), 0]), np.array([-(2**63), 0])),
    (np.array([2**64 - 1], np.uint64), 2**64 - 1),
    (np.array([True, False]), np.array([1, 0])),
    (np.array([np.inf, -np.inf, np.nan]), np.array([np.inf, -np.inf, np.nan])),
    (np.array([complex(np.nan, 1), 2 + 1j]), np.array([complex(np.nan, 1), 2.001 + 1j])),
    (np.array([1, 2.5], object), np.array([1, 2.5])),
    (2**70, 2**70),
    (np.zeros((0, 3)), np.zeros((0, 3))),
    (np.zeros(0), 5.0),
    (np.float32([1, 2]), np.array([1, 2])),
]
DIFFERENT = [
    (np.array([LARGE, 1]), np.array([LARGE + 1, 1]), r"1 of 2 .* first at \[0\]: 1152921504606"),
    (np.array([LARGE]), np.array([LARGE + 1]), "76 is not close to .*77"),
    (np.array([2**64 - 1, 1], np.uint64), np.array([2**64 - 2, 1], np.uint64), "1 of 2 elements"),
    (np.array([2**64 - 1, 1], np.uint64), np.array([-1, 1]), "1 of 2 elements"),
    (LARGE, LARGE + 1, "is not close to"),
    (np.array([-(2**63), 0]), np.array([2**63 - 1, 0]), "1 of 2 elements"),
    (np.array([[LARGE, 1]]), np.array([[LARGE], [1]]), r"shapes \(1, 2\) and \(2, 1\) differ"),
    (np.array([LARGE, 1]), np.array([LARGE, 1, 1]), r"shapes \(2,\) and \(3,\) differ"),
    (np.array([True, False]), np.array([True, True]), "Mismatched"),
    (np.array([np.inf]), np.array([-np.inf]), "not close"),
    (np.array([np.inf, 1]), np.array([1.0, 1]), "inf"),
    (np.array([1 + 2j, 0]), np.array([1 + 2.5j, 0]), "Mismatched"),
    (np.zeros(0), np.ones(1), r"shapes \(0,\) and \(1,\): one has no elements"),
    (np.zeros((0, 3)), np.zeros((0, 2)), r"shapes \(0, 3\) and \(0, 2\) differ"),
]


@pytest.mark.parametrize(("x", "y"), EQUAL, ids=str)
def test_equal(x, y):
    assert_close(x, y)
    assert_close(y, x)


@pytest.mark.parametrize(("x", "y", "message"), DIFFERENT, ids=str)
def test_different(x, y, message):
    with pytest.raises(AssertionError, match=f"^here .*{message}|{message}"):
        assert_close(x, y, err_msg="here")


def test_tolerances_of_large_integers():
    assert_close(np.array([LARGE, 1]), np.array([LARGE + 2, 1]), atol=2)
    assert_close(np.array([LARGE, 1]), np.array([LARGE + 2, 1]), atol=0, rtol=1e-15)
    with pytest.raises(AssertionError):
        assert_close(np.array([LARGE, 1]), np.array([LARGE + 3, 1]), atol=2)


def test_tolerances_are_not_rounded_to_the_type():
    x, y = np.array([1000, 0], np.float16), np.array([1000, 3e-7], np.float16)
    with pytest.raises(AssertionError):
        assert_close(x, y, atol=1e-9)


@pytest.mark.parametrize("value", [np.array(["a"]), "a", None, np.array([1, None], object),
                                   np.array(["2020-01-01"], "M8[D]")], ids=str)  # fmt: skip
def test_what_are_no_numbers(value):
    with pytest.raises(TypeError, match=r"x holds values of type .*; numbers are required"):
        assert_close(value, value)


@pytest.mark.parametrize("wrong", [-1, float("nan"), "x", lambda dtype: None])
def test_bad_tolerances(wrong):
    for name in ("atol", "rtol"):
        with pytest.raises(ValueError, match=f"assert_close: {name} is .*; a number that is not"):
            assert_close(1.0, 1.0, **{name: wrong})


@needs_torch
def test_conjugated_tensors():
    import torch

    assert_close(torch.tensor([1 + 1j, 2]).conj(), np.array([1 - 1j, 2]))
