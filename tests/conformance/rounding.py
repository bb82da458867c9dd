"""Rounding to any floating-point format, written as a search in the table of its values."""

from __future__ import annotations

import functools
from typing import Any

import ml_dtypes
import numpy as np

from tests.conformance.support import DTYPES


@functools.cache
def table(name: str) -> np.ndarray:
    """The finite, non-negative values of a format of 8 or 16 bits, ascending, in float64."""
    dtype = DTYPES[name]
    codes = np.arange(2 ** (8 * dtype.itemsize), dtype=f"u{dtype.itemsize}").view(dtype)
    values = codes.astype(np.float64)
    return np.unique(np.abs(values[np.isfinite(values)]))


def largest(name: str) -> float:
    """The largest finite value."""
    return float(ml_dtypes.finfo(DTYPES[name]).max)


def round_to(values: Any, name: str, toward_zero: bool = False) -> np.ndarray:
    """Float64 numbers in the format `name`: to nearest even, or toward zero.

    What is beyond the largest finite value saturates in 8 bits; in more it becomes infinite
    (toward zero: only infinities do).
    """
    x = np.asarray(values, np.float64)
    dtype = DTYPES[name]
    if name == "float64":
        return x
    with np.errstate(all="ignore"):
        if name == "float32":
            rounded = x.astype(np.float32)
            if toward_zero:
                above = np.abs(rounded.astype(np.float64)) > np.abs(x)
                rounded = np.where(above, np.nextafter(rounded, np.float32(0)), rounded)
            return rounded
        values_of, top = table(name), largest(name)
        magnitude = np.abs(np.nan_to_num(x, nan=0.0, posinf=np.inf, neginf=-np.inf))
        below = np.clip(np.searchsorted(values_of, magnitude, side="right") - 1, 0, None)
        above = np.minimum(below + 1, len(values_of) - 1)
        low, high = values_of[below], values_of[above]
        up = magnitude - low > high - magnitude
        # The index in the table is the code, and an even code has an even mantissa.
        up |= (magnitude - low == high - magnitude) & (below % 2 == 1)
        result = np.where(up & (not toward_zero), high, low)
        if dtype.itemsize == 1:
            result = np.where(magnitude > top, top, result)
        else:
            step = values_of[-1] - values_of[-2]
            beyond = np.isinf(magnitude) if toward_zero else magnitude >= top + step / 2
            result = np.where(beyond, np.inf, result)
        result = np.copysign(result, x)
        return np.where(np.isnan(x), np.nan, result).astype(dtype)


def odd_float(value: int) -> float:
    """An integer in float64, inexact ones with an odd last bit: rounding that to fewer than 52
    bits is then the same as rounding the integer (Boldo and Melquiond, "When double rounding is
    odd", 2005)."""
    sign, magnitude = (-1, -value) if value < 0 else (1, value)
    excess = max(magnitude.bit_length() - 53, 0)
    kept = magnitude >> excess
    if kept << excess != magnitude:
        kept |= 1
    return sign * float(kept) * 2.0**excess
