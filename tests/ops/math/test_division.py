"""Division of a tile by one number: rounded as a division rounds, special values included."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import tritium as triton
import tritium.language as tl

BLOCK = 1024
SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 3.0, 1e-38, 1e38, -7e-39, 1e-45]


@triton.jit
def divide_kernel(
    x_ptr, d_ptr, out_ptr, BLOCK: tl.constexpr, FUNCTION: tl.constexpr = "operator"
):
    offsets = tl.arange(0, BLOCK)
    row = tl.program_id(0)
    x = tl.load(x_ptr + row * BLOCK + offsets)
    d = tl.load(d_ptr + row)
    if FUNCTION == "operator":
        quotient = x / d
    elif FUNCTION == "fdiv":
        quotient = tl.fdiv(x, d, ieee_rounding=True)
    else:
        quotient = tl.div_rn(x, d)
    tl.store(out_ptr + row * BLOCK + offsets, quotient)


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
    assert same(got, expected)


def nearest(exact: Fraction, dtype: type[np.floating[Any]]) -> float:
    """The number of `dtype` that is nearest to a fraction, ties to even, in exact arithmetic."""
    info = np.finfo(dtype)
    if not exact:
        return 0.0
    exponent = exact.numerator.bit_length() - exact.denominator.bit_length()
    exponent -= abs(exact) < Fraction(2) ** exponent
    unit = Fraction(2) ** (max(exponent, int(info.minexp)) - info.nmant)
    rounded = round(abs(exact) / unit) * unit
    size = float(rounded) if rounded <= Fraction(float(info.max)) else np.inf
    return size if exact > 0 else -size


@pytest.mark.parametrize(
    ("dtype", "function"),
    [(t, f) for t in (np.float32, np.float64) for f in ("operator", "fdiv", "div_rn")][:-1],
)
def test_tiny_and_huge_dividends(dtype, function):
    """Quotients and remainders that underflow, and quotients that overflow."""
    rng, info = np.random.default_rng(2), np.finfo(dtype)
    low, high = int(info.minexp) - info.nmant, int(info.maxexp)
    d = np.array([0.1257302165031433, 3.0, -0.64042264, 7e5, 1.5e-3], dtype)
    exponents = rng.integers(low, high, (len(d), BLOCK))
    exponents[:, : BLOCK // 2] = rng.integers(low, low + 40, (len(d), BLOCK // 2))
    x = np.ldexp(rng.uniform(-1, 1, exponents.shape), exponents).astype(dtype)
    out = np.empty_like(x)
    divide_kernel[(len(d),)](x, d, out, BLOCK=BLOCK, FUNCTION=function)
    exact = [
        [nearest(Fraction(float(n)) / Fraction(float(by)), dtype) for n in row]
        for row, by in zip(x, d, strict=True)
    ]
    np.testing.assert_array_equal(out, np.array(exact, dtype))


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
