"""Additions of long tiles at addresses that are data: summed by address before they go to memory,
where many are the same."""

import ml_dtypes
import numpy as np
import pytest

from tests.support.agreement import run_all
from tests.support.launching import tl
from tritium.runtime.jit import JITFunction

pytestmark = pytest.mark.cpu

DTYPES = (np.int32, np.uint32, np.int64, np.float16, ml_dtypes.bfloat16, np.float32, np.float64)
SIZE, BINS = 1024, 2048


def scatter(x, index, out, OP: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    where = tl.load(index + at)
    keep = where >= 0
    OP(out + where + tl.where(keep, 0, 1 << 24), tl.load(x + at), mask=keep)


def places(kind: str, size: int) -> np.ndarray:
    rng = np.random.default_rng(3)
    if kind == "sorted":
        return np.sort(rng.integers(0, 40, size)).astype(np.int32)
    if kind == "skewed":
        return (np.minimum(rng.zipf(1.3, size), BINS) - 1).astype(np.int32)
    if kind == "far":  # of one slot each
        return (rng.integers(0, 8, size) * 256 + rng.integers(0, 2, size)).astype(np.int32)
    return rng.integers(0, int(kind), size).astype(np.int32)


KINDS = ("1", "2", "64", "500", str(BINS), "sorted", "skewed", "far")


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
def test_sums(dtype):
    """However often addresses are repeated; some elements masked, and without an address then."""
    rng = np.random.default_rng(4)
    for kind in KINDS:
        index = places(kind, SIZE)
        index[rng.integers(0, SIZE, 40)] = -1
        x, out = rng.integers(0, 2, SIZE).astype(dtype), np.zeros(BINS, dtype)
        if kind in ("1", "2"):
            x[200:] = 0  # sixteen-bit floats count no further than 256
        JITFunction(scatter)[(1,)](x, index, out, tl.atomic_add, 1, SIZE)
        expected = np.zeros(BINS)
        np.add.at(expected, index[index >= 0], x[index >= 0].astype(float))
        assert expected.max() <= 256
        np.testing.assert_array_equal(out.astype(float), expected, err_msg=kind)


def test_all_ways_agree():
    """Several rows, another operation, memory that is not zero."""
    rng = np.random.default_rng(5)
    for op in (tl.atomic_add, tl.atomic_xor):
        for kind in ("64", str(BINS), "sorted"):
            out = rng.integers(-(2**31), 2**31, BINS).astype(np.int32)
            x = rng.integers(-(2**31), 2**31, 2 * SIZE).astype(np.int32)
            index = places(kind, 2 * SIZE)
            run_all(scatter, (1,), x=x, index=index, out=out, OP=op, M=2, N=SIZE)


def test_signs_of_zeros():
    """A number is increased by a sum of the elements, and of nothing else."""
    x, out = np.full(SIZE, -0.0, np.float32), np.full(BINS, -0.0, np.float32)
    JITFunction(scatter)[(1,)](x, places("64", SIZE), out, tl.atomic_add, 1, SIZE)
    assert np.signbit(out).all()


def in_a_loop(index, out, times, N: tl.constexpr):
    i = tl.arange(0, N)
    for turn in range(times):
        tl.atomic_add(out + tl.load(index + (tl.program_id(0) * times + turn) * N + i), 1)
        tl.atomic_add(out + turn, 1)


@pytest.mark.parametrize("kind", ["64", "300", "skewed", "sorted"])
def test_contention(kind):
    """No addition is lost between threads, nor where others add without a table."""
    programs, times = 64, 4
    index, out = places(kind, programs * times * SIZE), np.zeros(BINS, np.int32)
    JITFunction(in_a_loop)[(programs,)](index, out, times, SIZE)
    expected = np.bincount(index, minlength=BINS)
    expected[:times] += programs
    np.testing.assert_array_equal(out, expected)


def old_values(index, out, old, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(old + i, tl.atomic_add(out + tl.load(index + i), 1))


def test_old_values_are_handed_out_one_by_one():
    index, out, old = places("64", SIZE), np.zeros(64, np.int32), np.zeros(SIZE, np.int32)
    JITFunction(old_values)[(1,)](index, out, old, SIZE)
    for place in range(64):
        tickets = old[index == place]
        np.testing.assert_array_equal(tickets, np.arange(len(tickets)))
