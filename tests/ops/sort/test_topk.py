"""`topk` in both orders."""

from __future__ import annotations

import numpy as np
import pytest

import tritium.language as tl
from tests.language.support import block, eager
from tests.support.agreement import run_all

RNG = np.random.default_rng(5)


def first(x, out, K: tl.constexpr, DESCENDING: tl.constexpr):
    i, j = tl.arange(0, 4)[:, None], tl.arange(0, 16)[None, :]
    top = tl.topk(tl.load(x + i * 16 + j), K, descending=DESCENDING)
    tl.store(out + i * K + tl.arange(0, K)[None, :], top)


@pytest.mark.covering(1)
@pytest.mark.parametrize("k", [1, 2, 8, 16])
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", [np.int8, np.uint32, np.float32])
def test_topk_in_both_orders(k, descending, dtype):
    x = (RNG.standard_normal((4, 16)) * 40).astype(np.int32).astype(dtype)
    want = np.sort(x, 1)
    want = (want[:, ::-1] if descending else want)[:, :k]
    out = np.zeros((4, k), np.int32 if dtype == np.int8 else dtype)
    found = run_all(first, x=x, out=out, K=k, DESCENDING=descending)["out"]
    np.testing.assert_array_equal(found, want)
    with eager(sorts=False):  # as a network of exchanges
        kind = {np.int8: tl.int8, np.uint32: tl.uint32, np.float32: tl.float32}[dtype]
        network = tl.topk(block(x, kind), k, descending=descending)
        np.testing.assert_array_equal(network.value.astype(want.dtype), want)
