"""Stores under masks that are known when a kernel is compiled write the elements that are on, and
no byte beside them."""

from typing import Any

import numpy as np
import pytest
from ml_dtypes import bfloat16, float8_e5m2

import tritium
import tritium.language as tl


@tritium.jit
def one_of_them(x, out, K: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out + at, tl.load(x + at).to(out.dtype.element_ty), at == K)


@tritium.jit
def first_of_them(x, out, K: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out + at, (tl.load(x + at) * 3).to(out.dtype.element_ty), at < K)


@tritium.jit
def one_in_a_branch(x, out, k, N: tl.constexpr):
    at = tl.arange(0, N)
    if k == 3:
        tl.store(out + at, tl.load(x + at).to(out.dtype.element_ty), at == k)


@pytest.mark.covering(1)
@pytest.mark.parametrize("size", [2, 4, 8, 16, 32, 64])
@pytest.mark.parametrize("wide", [np.int16, np.int32, np.int64])
@pytest.mark.parametrize("narrow", [np.int8, np.uint16, np.int32, np.bool_])
def test_a_store_of_one_lane_is_as_wide_as_its_element(size: int, wide: Any, narrow: Any) -> None:
    x = np.arange(1, size + 1, dtype=wide)
    ends = np.dtype(wide).itemsize == 4 or np.dtype(narrow).itemsize == 4
    for place in {0, size - 1} if ends else {1, size // 2}:
        for kernel, factor, chosen in (
            (one_of_them, 1, np.arange(size) == place), (first_of_them, 3, np.arange(size) < place)
        ):  # fmt: skip
            out = np.ones(size + 8, narrow)
            kernel[(1,)](x, out, place, size)
            expected = np.ones_like(out)
            expected[:size][chosen] = (x * factor).astype(narrow)[chosen]
            np.testing.assert_array_equal(out, expected)


@pytest.mark.covering(1)
@pytest.mark.parametrize("size", [4, 16, 64])
@pytest.mark.parametrize("wide", [np.float32, np.float64, bfloat16])
@pytest.mark.parametrize("narrow", [bfloat16, np.float16, float8_e5m2])
def test_a_store_of_one_rounded_lane(size: int, wide: Any, narrow: Any) -> None:
    x = (np.arange(size) % 4 + 1).astype(wide)
    for place in {0, 1, size - 1}:
        for kernel, factor, chosen in (
            (one_of_them, 1, np.arange(size) == place), (first_of_them, 3, np.arange(size) < place)
        ):  # fmt: skip
            out = np.ones(size + 8, narrow)
            kernel[(1,)](x, out, place, size)
            expected = np.ones_like(out)
            expected[:size][chosen] = (x.astype(np.float32) * factor).astype(narrow)[chosen]
            np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("size", [4, 16])
def test_a_mask_that_a_branch_makes_known(size: int) -> None:
    x, out = np.arange(1, size + 1, dtype=np.int64), np.full(size + 8, 77, np.int16)
    one_in_a_branch[(1,)](x, out, 3, size)
    expected = np.full_like(out, 77)
    expected[3] = 4
    np.testing.assert_array_equal(out, expected)
