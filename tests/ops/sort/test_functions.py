"""Sorting evaluated, against NumPy; its messages."""

import numpy as np
import pytest

import tritium.language as tl
from tests.language.support import NUMPY, block, eager
from tritium.errors import CompileTimeAssertionFailure

RNG = np.random.default_rng(0)


@pytest.mark.covering(1)
@pytest.mark.parametrize("dtype", [tl.int32, tl.float16, tl.float32, tl.bfloat16], ids=str)
@pytest.mark.parametrize("shape", [(1,), (2,), (16,), (4, 8), (2, 2, 16)])
def test_sorting(dtype, shape):
    values = RNG.permutation(np.arange(np.prod(shape)) - 5).reshape(shape).astype(NUMPY[dtype])
    if dtype == tl.float32 and values.size > 4:
        values.flat[1], values.flat[2] = np.inf, -np.inf
    ordered = np.sort(values.astype(np.float64), -1)
    with eager():
        x = block(values, dtype)
        for found, expected in (
            (tl.sort(x), ordered),
            (x.sort(descending=True), ordered[..., ::-1]),
            (tl.sort(x, -1), ordered),
            (tl.flip(x), values[..., ::-1]),
            (x.flip(0), np.flip(values, 0)),
        ):
            assert found.dtype == dtype
            np.testing.assert_array_equal(
                found.value.astype(np.float64), expected.astype(np.float64)
            )
        k = 1
        while k <= shape[-1]:
            found = tl.topk(x, k).value.astype(np.float64)
            np.testing.assert_array_equal(found, ordered[..., ::-1][..., :k])
            k *= 2


def test_bitonic_merge():
    with eager():
        x = block([1, 4, 6, 9, 8, 5, 2, 0])
        assert tl.bitonic_merge(x).value.tolist() == sorted(x.value)
        assert tl.bitonic_merge(x, descending=True).value.tolist() == sorted(x.value)[::-1]


def test_sort_messages():
    with eager():
        x = block([[1, 2], [3, 4]])
        for call in (lambda: tl.sort(x, 0), lambda: tl.topk(x, 2, 0)):
            with pytest.raises(CompileTimeAssertionFailure, match="only minor dimension"):
                call()
        with pytest.raises(CompileTimeAssertionFailure, match="k must not be larger"):
            tl.topk(x, 4)
        with pytest.raises(ValueError, match="invalid axis 2"):
            tl.flip(x, 2)
