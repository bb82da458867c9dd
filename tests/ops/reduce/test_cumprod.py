"""`cumprod` in another dtype, from either end."""

from __future__ import annotations

import numpy as np
import pytest

import tritium.language as tl
from tests.language.support import block, eager
from tests.support.agreement import run_all

RNG = np.random.default_rng(5)


def products(x, out, WIDE: tl.constexpr, REVERSE: tl.constexpr):
    at = tl.arange(0, 16)
    found = tl.cumprod(tl.load(x + at), reverse=REVERSE, dtype=WIDE)
    tl.static_assert(found.dtype == WIDE)
    tl.store(out + at, found)


@pytest.mark.parametrize("reverse", [False, True])
def test_products_in_another_dtype(reverse):
    x = RNG.integers(-3, 9, 16).astype(np.int8)
    for dtype, kind in ((np.int64, tl.int64), (np.float64, tl.float64)):
        want = np.cumprod(x[::-1].astype(dtype))[::-1] if reverse else np.cumprod(x.astype(dtype))
        found = run_all(products, x=x, out=np.zeros(16, dtype), WIDE=kind, REVERSE=reverse)["out"]
        np.testing.assert_array_equal(found, want)


def test_products_of_narrow_integers_have_32_bits():
    with eager():
        for given, result in ((tl.int8, tl.int32), (tl.uint16, tl.uint32), (tl.int64, tl.int64)):
            assert tl.cumprod(block([3, 100], given)).dtype == result
