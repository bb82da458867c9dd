"""Division of a tile by one number: rounded as a division rounds, special values included."""

from __future__ import annotations

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl

BLOCK = 1024
SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 3.0, 1e-38, 1e38, -7e-39, 1e-45]


@triton.jit
def divide_kernel(x_ptr, d_ptr, out_ptr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    row = tl.program_id(0)
    x = tl.load(x_ptr + row * BLOCK + offsets)
    tl.store(out_ptr + row * BLOCK + offsets, x / tl.load(d_ptr + row))


def quotients(x: np.ndarray, d: np.ndarray) -> np.ndarray:
    """x / d[:, None] by the kernel."""
    out = np.empty_like(x)
    divide_kernel[(len(d),)](x, d, out, BLOCK=x.shape[1])
    return out


def same(left: np.ndarray, right: np.ndarray) -> bool:
    """Bit by bit, but for which NaN it is."""
    with np.errstate(invalid="ignore"):
        nan = np.isnan(left) & np.isnan(right)
    number = f"u{left.dtype.itemsize}"
    return bool(np.all(nan | (left.view(number) == right.view(number))))


def test_the_rule_applies():
    array = np.ones(BLOCK, np.float32)
    kernel = divide_kernel.warmup(array, array, array, BLOCK=BLOCK, grid=(1,))
    text = kernel.asm["llir"]
    assert "fdiv float" in text and "fdiv <" not in text


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_random_numbers(dtype):
    rng = np.random.default_rng(0)
    reach = 4 if dtype == np.float16 else 30

    def numbers(*shape: int) -> np.ndarray:
        scales = 2.0 ** rng.integers(-reach, reach, shape)
        return (rng.standard_normal(shape) * scales).astype(dtype)

    x, d = numbers(300, BLOCK), numbers(300)
    with np.errstate(all="ignore"):
        assert same(quotients(x, d), x / d[:, None])


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_special_values(dtype):
    """Zeros and their signs, infinities, NaN; divisors whose reciprocal overflows or underflows."""
    with np.errstate(all="ignore"):
        x = np.resize(np.array([*SPECIAL, 2.0**-100, 2.0**100, 0.1], dtype), (1, BLOCK))
        d = np.array([*SPECIAL, np.finfo(dtype).max, np.finfo(dtype).smallest_subnormal], dtype)
        x = np.repeat(x, len(d), axis=0)
        expected = x / d[:, None]
        got = quotients(x, d)
    # A result that is subnormal may be off by one unit in the last place.
    tiny = np.isfinite(expected) & (np.abs(expected) < np.finfo(dtype).smallest_normal)
    step = np.finfo(dtype).smallest_subnormal
    assert np.all(np.abs(got[tiny] - expected[tiny]) <= step)
    assert same(np.where(tiny, expected, got), expected)


def closest_to_midpoints(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Dividends (count, 16) and divisors, as float32, whose quotients are closest to the middle
    between two float32: x * 2^24 = odd * d + e with e in ±1 … ±4."""
    rng = np.random.default_rng(1)
    d = (rng.integers(1 << 23, 1 << 24, count) | 1).astype(np.int64)
    inverse = np.ones_like(d)
    for _ in range(24):  # of 2^24 modulo d
        inverse = np.where(inverse & 1, (inverse + d) >> 1, inverse >> 1)
    errors = np.array([-4, -3, -2, -1, 1, 2, 3, 4])
    x = d[:, None] + (inverse[:, None] * errors - d[:, None]) % d[:, None]
    x = np.where(x < (1 << 24), x, d[:, None])
    return np.tile(x, (1, 2)).astype(np.float32), d.astype(np.float32)


def test_quotients_closest_to_where_rounding_changes():
    x, d = closest_to_midpoints(20_000)
    assert same(quotients(x, d), x / d[:, None])
