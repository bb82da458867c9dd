"""Integers divided by one number that is known when the program runs, beside Python's integers."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tritium
import tritium.language as tl

COUNT = 256


@tritium.jit
def by_a_loaded_number(x, quotients, remainders, divisor, COUNT: tl.constexpr):
    i = tl.arange(0, COUNT)
    a, b = tl.load(x + i), tl.load(divisor)
    tl.store(quotients + i, a // b)
    tl.store(remainders + i, a % b)


@tritium.jit
def ranges(quotients, remainders, divisor, start, COUNT: tl.constexpr):
    i = tl.arange(0, COUNT)
    tl.store(quotients + i, (i + start) // divisor)
    tl.store(remainders + i, (i + start) % divisor)


def wanted(values: list[int], divisor: int, dtype: Any) -> tuple[Any, Any]:
    """Quotients towards zero, wrapped around, and remainders."""
    bits, quotients, remainders = np.iinfo(dtype).bits, [], []
    for x in values:
        quotient = abs(x) // abs(divisor) * (1 if (x < 0) == (divisor < 0) else -1)
        remainders.append(x - quotient * divisor)
        quotient &= (1 << bits) - 1
        negative = np.iinfo(dtype).min < 0 and quotient >> (bits - 1)
        quotients.append(quotient - (1 << bits) if negative else quotient)
    return np.array(quotients, dtype), np.array(remainders, dtype)


@pytest.mark.parametrize(
    "name", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
)
def test_every_kind_of_divisor(name: str) -> None:
    dtype, info, rng = np.dtype(name), np.iinfo(name), np.random.default_rng(1)
    edges = [info.min, info.min + 1, info.max, info.max - 1, 0, 1, 2, 3]
    divisors = [1, 2, 3, 7, 10, 64, 127, info.max, info.max - 1, info.max // 2 + 1, info.max // 3]
    if info.min < 0:
        edges += [-1, -2, -3]
        divisors += [-1, -2, -3, -7, -64, info.min, info.min + 1, info.min // 2]
    divisors += rng.integers(1, info.max, 4, dtype=dtype).tolist()
    more = rng.integers(info.min, info.max, COUNT - len(edges), dtype=dtype, endpoint=True)
    x = np.concatenate([np.array(edges, dtype), more])
    for divisor in divisors:
        found = np.zeros(COUNT, dtype), np.zeros(COUNT, dtype)
        by_a_loaded_number[(1,)](x, *found, np.full(1, divisor, dtype), COUNT)
        for array, right in zip(found, wanted(x.tolist(), divisor, dtype), strict=True):
            np.testing.assert_array_equal(array, right, f"{divisor}")


@pytest.mark.parametrize("name", ["int8", "uint8", "int16", "uint16", "int32", "uint32"])
def test_quotients_are_converted_as_vectors(name: str) -> None:
    """To 32 bits, which all processors do; to 64 bits only those with AVX-512 do."""
    x = np.ones(COUNT, name)
    llir = by_a_loaded_number.warmup(x, x, x, x, COUNT, grid=(1,)).asm["llir"]
    assert re.search(r"fpto[su]i <\d+ x \w+> \S+ to <\d+ x i32>", llir)
    assert not re.search(r"fpto[su]i <\d+ x \w+> \S+ to <\d+ x i64>", llir)


@pytest.mark.parametrize("start", [0, 5, -64, 2147483600, -2147483648, -100000])
def test_ranges(start: int) -> None:
    with np.errstate(over="ignore"):
        x = (np.arange(COUNT) + start).astype(np.int32).tolist()
    for divisor in (2, 3, 10, -1, -2, -3, 64, -64, 1000003, -2147483648):
        found = np.zeros(COUNT, np.int32), np.zeros(COUNT, np.int32)
        ranges[(1,)](*found, divisor, start, COUNT)
        for array, right in zip(found, wanted(x, divisor, np.int32), strict=True):
            np.testing.assert_array_equal(array, right, f"{divisor}")
