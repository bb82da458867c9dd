"""Atomic operations of whole tiles on one address."""

import re

import numpy as np
import pytest

from tests.support.agreement import run_all
from tests.support.launching import tl
from tritium.runtime.jit import JITFunction

pytestmark = pytest.mark.cpu


def one_address(x, out, n, OP: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    where = out + tl.zeros([M, N], tl.int32)
    OP(where, tl.load(x + at), mask=at < n)


OPS = (tl.atomic_add, tl.atomic_max, tl.atomic_min, tl.atomic_and, tl.atomic_or, tl.atomic_xor)
DTYPES = (np.int32, np.uint32, np.int64, np.uint64)


@pytest.mark.every(2)
@pytest.mark.covering(1)
@pytest.mark.parametrize("op", OPS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
def test_all_elements_count(op, dtype):
    x = np.random.default_rng(0).integers(0, 256, 64 * np.dtype(dtype).itemsize, np.uint8)
    x = x.view(dtype)
    most = np.iinfo(dtype).max
    for n, start in ((0, 77), (1, most), (37, 0), (37, most), (64, 77)):
        out = np.array([start, 5], dtype)
        got = run_all(one_address, (3,), x=x, out=out, n=n, OP=op, M=4, N=16)["out"]
        assert got[1] == 5


@pytest.mark.parametrize("op", [tl.atomic_add, tl.atomic_max, tl.atomic_min])
def test_floats(op):
    x = np.random.default_rng(1).standard_normal(64).astype(np.float32)
    run_all(one_address, (2,), x=x, out=np.float32([0.25]), n=50, OP=op, M=2, N=32)


def test_masked_off_memory_is_not_touched():
    """Nothing may be accessed where no element is wanted: the address is none."""
    x = np.zeros(64, np.int32)

    def nowhere(x, address, n, N: tl.constexpr):
        at = tl.arange(0, N)
        where = address.to(tl.pointer_type(tl.int32)) + tl.zeros([N], tl.int32)
        tl.atomic_add(where, tl.load(x + at), mask=at < n)

    JITFunction(nowhere)[(1,)](x, 4096, 0, 64)


def test_one_operation_a_tile():
    x = np.zeros(64, np.int32)
    kernel = JITFunction(one_address)[(1,)](x, x.copy(), 64, tl.atomic_add, 4, 16)
    tiles = kernel.asm["tile"]
    assert tiles.count("tt.atomic_rmw") == 1 and re.search(r"tt.atomic_rmw .*%out,", tiles)
