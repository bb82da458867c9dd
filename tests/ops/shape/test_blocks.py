"""Moves that need no gather: transposed blocks, interleaving, every second element, flips; sums."""

import ml_dtypes
import numpy as np
import pytest

from tests.support.agreement import run_all
from tests.support.launching import tl
from tritium.runtime.jit import JITFunction

pytestmark = pytest.mark.cpu

DTYPES = (np.int8, np.float16, ml_dtypes.bfloat16, np.float32, np.float64)


def transpose(x, out, m, n, M: tl.constexpr, N: tl.constexpr):
    r, c = tl.program_id(0) * M + tl.arange(0, M), tl.arange(0, N)
    tile = tl.load(x + r[:, None] * N + c[None, :], (r[:, None] < m) & (c[None, :] < n), other=3)
    tl.store(out + c[:, None] * m + r[None, :], tl.trans(tile), (r[None, :] < m))


def transpose_by_addresses(x, out, m, n, M: tl.constexpr, N: tl.constexpr):
    r, c = tl.program_id(0) * M + tl.arange(0, M), tl.arange(0, N)
    tile = tl.load(x + r[:, None] * N + c[None, :], (r[:, None] < m) & (c[None, :] < n), other=3)
    tl.store(out + c[None, :] * m + r[:, None], tile, (r[:, None] < m))


def add_transposed(x, out, N: tl.constexpr):
    """A square plus its transposition, in place; the sum of rows keeps the tile in a buffer."""
    at = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    tile = tl.load(x + at)
    centred = tile - tl.sum(tile, 1)[:, None]
    tl.store(x + at, tile + tl.trans(tile))
    tl.store(out + at, centred * tl.trans(centred))


def numbers(dtype, size):
    return np.random.default_rng(size).integers(-50, 50, size).astype(dtype)


def text(fn, **args):
    """The kernel's LLVM IR."""
    return JITFunction(fn)[(1,)](**args).asm["llir"]


@pytest.mark.covering(1)
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("kernel", [transpose, transpose_by_addresses])
@pytest.mark.parametrize("m, n, tile", [(64, 64, (64, 64)), (50, 27, (16, 32)), (20, 3, (64, 4))])
def test_transposed(kernel, dtype, m, n, tile):
    x, programs = numbers(dtype, 64 * tile[1]), -(-m // tile[0])
    out = np.zeros(tile[1] * m, dtype)
    got = run_all(kernel, (programs,), x=x, out=out, m=m, n=n, M=tile[0], N=tile[1])["out"]
    want = np.full((tile[1], m), 3, dtype)
    want[:n] = x.reshape(64, -1)[:m, :n].T
    np.testing.assert_array_equal(got.reshape(want.shape), want)


@pytest.mark.parametrize("kernel", [transpose, transpose_by_addresses])
def test_whole_blocks_need_no_gather(kernel):
    x = numbers(np.float32, 64 * 64)
    llir = text(kernel, x=x, out=np.zeros_like(x), m=64, n=64, M=64, N=64)
    # The way for addresses that are equal is allowed to.
    usual = llir.split("\nsplit")[0].split("define", 1)[1]
    assert "gather" not in usual and "scatter" not in usual


@pytest.mark.parametrize("n", [4, 16, 32, 128])
def test_in_place_and_from_a_buffer(n):
    x = numbers(np.float32, n * n)
    run_all(add_transposed, x=x, out=np.zeros_like(x), N=n)


def mix(x, y, out, N: tl.constexpr):
    at = tl.arange(0, N)
    both = tl.interleave(-tl.load(x + at), tl.load(y + at))
    tl.store(out + tl.arange(0, 2 * N), both)


def apart(x, out, N: tl.constexpr, ROWS: tl.constexpr):
    r, c = tl.arange(0, ROWS), tl.arange(0, N)
    tile = tl.load(x + r[:, None] * N + c[None, :])
    even, odd = tl.split(tl.reshape(tile, [ROWS, N // 2, 2]))
    half = r[:, None] * (N // 2) + tl.arange(0, N // 2)[None, :]
    tl.store(out + half, even - odd)
    tl.store(out + ROWS * N // 2 + half, odd)


def flips(x, out, N: tl.constexpr, ROWS: tl.constexpr):
    at = tl.arange(0, ROWS)[:, None] * N + tl.arange(0, N)[None, :]
    tile = tl.load(x + at)
    tl.store(out + at, tl.flip(tile, 1) - tl.flip(tile, 0))


@pytest.mark.covering(1)
@pytest.mark.parametrize("n", [1, 2, 8, 16, 32, 64, 512])
@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.float64], ids=lambda d: np.dtype(d).name)
def test_interleaved_split_and_flipped(n, dtype):
    x, y = numbers(dtype, 4 * n), numbers(dtype, 4 * n + 1)
    run_all(mix, x=x, y=y, out=np.zeros(2 * n, np.float64), N=n)
    run_all(flips, x=x, out=np.zeros(4 * n, dtype), N=n, ROWS=4)
    if n > 1:
        run_all(apart, x=x, out=np.zeros(4 * n, dtype), N=n, ROWS=4)


@pytest.mark.parametrize("kernel, more", [(mix, {}), (apart, {"ROWS": 4}), (flips, {"ROWS": 4})])
def test_these_need_no_gather(kernel, more):
    x = numbers(np.float32, 4 * 512)
    y = {"y": x} if kernel is mix else {}
    llir = text(kernel, x=x, **y, out=np.zeros(4 * 512, np.float32), N=512, **more)
    # The way for arguments that overlap is allowed to.
    assert "@llvm.masked.gather" not in llir.split("\nsplit")[0].split("define", 1)[1]


def indexed(x, index, out, N: tl.constexpr):
    """Indices that fall, but from within the axis to below its start: taken modulo its size."""
    at = tl.arange(0, N)
    tl.store(out + at, tl.gather(tl.load(x + at), N // 2 - at, 0) + tl.load(index + at))


def test_falling_indices_may_wrap():
    x = numbers(np.int32, 64)
    out = np.zeros_like(x)
    JITFunction(indexed)[(1,)](x, np.zeros_like(x), out, 64)
    np.testing.assert_array_equal(out, x[(32 - np.arange(64)) % 64])


def total(x, out, N: tl.constexpr):
    tl.store(out, tl.sum(tl.load(x + tl.arange(0, N)), 0))


def test_sums_of_halves_are_rounded_once():
    x = np.random.default_rng(3).random(4096).astype(np.float16)
    out = np.zeros(1, np.float16)
    JITFunction(total)[(1,)](x, out, 4096)
    assert out[0] == np.float16(x.astype(np.float64).sum())
