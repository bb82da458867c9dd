"""The functions whose results are exact or correctly rounded: natively, each bit as defined."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tests.libdevice import exact
from tests.libdevice.support import (
    OVERLOADS,
    STORED,
    Array,
    arguments,
    defined,
    each_function_once,
    label,
    native,
)
from tritium.language.extra.signatures import Overload, signatures

# fdim and the like round like a plain operation, pow by an integer like pow.
CASES = [(n, o) for n, o in OVERLOADS if n not in exact.FUNCTIONS]
BITS: Any = {4: np.int32, 8: np.int64}


def same(a: Array, b: Array) -> Array:
    """Equal in each bit, or both NaN."""
    if a.dtype.kind == "f":
        kind = BITS[a.dtype.itemsize]
        return (a.view(kind) == b.view(kind)) | (np.isnan(a) & np.isnan(b))
    return a == b


def check(overload: Overload, arrays: list[Array], actual: Array, wanted: Array) -> None:
    wrong = np.flatnonzero(~same(actual, wanted))
    if wrong.size:
        at = ", ".join(repr(a[wrong[0]]) for a in arrays)
        raise AssertionError(
            f"{overload.symbol}({at}) = {actual[wrong[0]]!r}, not {wanted[wrong[0]]!r} "
            f"({wrong.size} of {actual.size} differ)"
        )


@pytest.mark.parametrize("name, overload", each_function_once(CASES), ids=label)
@pytest.mark.every(3)
def test_native_is_as_defined(name: str, overload: Overload) -> None:
    arrays = arguments(name, overload, 150)
    wanted = defined(overload, *arrays)
    for level, width in (("host", 8), ("sse", 4), ("host", 1)):
        check(overload, arrays, native(overload, *arrays, level=level, width=width), wanted)


@pytest.mark.parametrize("name, overload", CASES, ids=label)
@pytest.mark.every(3)
def test_one_number(name: str, overload: Overload) -> None:
    """Scalars give a scalar: what they give in an array."""
    arrays = arguments(name, overload, 2)
    found = defined(overload, *(a[0] for a in arrays))
    assert found.shape == ()
    np.testing.assert_array_equal(found, defined(overload, *arrays)[0])


@pytest.mark.slow
@pytest.mark.parametrize("name, overload", CASES, ids=label)
def test_many(name: str, overload: Overload) -> None:
    arrays = arguments(name, overload, 20_000, seed=5)
    wanted = defined(overload, *arrays)
    for level in ("host", "avx2", "sse"):
        check(overload, arrays, native(overload, *arrays, level=level), wanted)


OPERATIONS = {
    "add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_directions_enclose_the_exact_result(operation: str, dtype: str) -> None:
    """By rational arithmetic here, independently of the definitions."""
    overloads = {
        d: next(o for o in signatures()[f"{operation}_{d}"].overloads if o.result == dtype)
        for d in ("rd", "ru", "rz", "rn")
    }
    x, y = (a[np.isfinite(a) & (a != 0)] for a in arguments("add_rd", overloads["rd"], 120))
    x, y = x[: min(x.size, y.size)], y[: min(x.size, y.size)]
    found = {d: native(o, x, y) for d, o in overloads.items()}
    for i in range(x.size):
        value = OPERATIONS[operation](Fraction(float(x[i])), Fraction(float(y[i])))
        low, high = found["rd"][i], found["ru"][i]
        assert _at_most(low, value) and not _below(high, value)
        with np.errstate(over="ignore"):
            assert low == high or np.nextafter(low, STORED[dtype](np.inf)) == high
        assert found["rz"][i] == (low if value > 0 else high)
        assert found["rn"][i] in (low, high)


def _at_most(c: Any, value: Fraction) -> bool:
    return c == -math.inf or (c != math.inf and Fraction(float(c)) <= value)


def _below(c: Any, value: Fraction) -> bool:
    return c != math.inf and (c == -math.inf or Fraction(float(c)) < value)


I32, I64 = -(2**31), -(2**63)
SPOTS: list[tuple[str, tuple[Any, ...], Any]] = [
    ("clz", (np.int32(0),), 32), ("clz", (np.int64(1),), 63), ("ffs", (np.int32(0),), 0),
    ("ffs", (np.int32(8),), 4), ("ffs", (np.int64(I64),), 64), ("popc", (np.int32(-1),), 32),
    ("popc", (np.int64(-1),), 64), ("brev", (np.int32(1),), I32), ("brev", (np.int64(2),), 1 << 62),
    ("byte_perm", (np.int32(0x03020100), np.int32(0x07060504), np.int32(0x7531)), 0x07050301),
    # The selectors' upper bits do not count.
    ("byte_perm", (np.int32(0x030201F0), np.int32(0x07060504), np.int32(0x8888)), I32 + 0x70F0F0F0),
    ("mul24", (np.int32(0x01800000), np.int32(2)), -(1 << 24)),
    ("mulhi", (np.int32(-2), np.int32(3)), -1), ("mulhi", (np.int64(1 << 62), np.int64(8)), 2),
    ("hadd", (np.int32(2**31 - 1), np.int32(2**31 - 1)), 2**31 - 1),
    ("hadd", (np.int32(-3), np.int32(0)), -2), ("rhadd", (np.int32(-3), np.int32(0)), -1),
    ("sad", (np.int32(-5), np.int32(7), np.int32(1)), 13),
    ("float2int_rd", (np.float32(-1.5),), -2), ("float2int_rz", (np.float32(-1.5),), -1),
    ("float2int_rn", (np.float32(2.5),), 2), ("float2int_ru", (np.float32(np.inf),), 2**31 - 1),
    ("float2int_rn", (np.float32(np.nan),), 0), ("float2uint_rn", (np.float32(np.nan),), 0),
    ("float2uint_rz", (np.float32(-3),), 0), ("float2uint_rz", (np.float32(3e9),),
    3_000_000_000 - 2**32),
    ("double2int_rn", (np.float64(np.nan),), I32), ("double2uint_rn", (np.float64(np.nan),), I32),
    ("float2ll_rn", (np.float32(np.nan),), I64), ("double2ull_rz", (np.float64(1e19),),
    10**19 - 2**64),
    ("double2ull_rz", (np.float64(1e30),), -1), ("llrint", (np.float64(0.5),), 0),
    ("llround", (np.float32(0.5),), 1), ("llround", (np.float64(-2.5),), -3),
    ("int2float_rz", (np.int32(2**24 + 1),), 2.0**24), ("int2float_ru", (np.int32(2**24 + 1),),
    2.0**24 + 2),
    ("uint2float_rn", (np.int32(-1),), 2.0**32), ("ull2double_rd", (np.int64(-1),),
    2.0**64 - 2**11),
    ("double2float_ru", (np.float64(1e-300),), 2.0**-149), ("double2float_rd",
    (np.float64(1e300),), 3.4028234663852886e38),
    ("float_as_int", (np.float32(1),), 0x3F800000), ("int_as_float", (np.int32(0x40000000),), 2.0),
    ("hiloint2double", (np.int32(0x3FF00000), np.int32(1)), 1 + 2.0**-52),
    ("double2hiint", (np.float64(-1),), 0xBFF00000 - 2**32), ("double2loint",
    (np.float64(1 + 2.0**-52),), 1),
    ("ilogb", (np.float32(0),), I32), ("ilogb", (np.float64(np.nan),), I32),
    ("ilogb", (np.float32(-np.inf),), 2**31 - 1), ("ilogb", (np.float64(5e-324),), -1074),
    ("logb", (np.float32(1e-45),), -149.0), ("logb", (np.float64(0),), -math.inf),
    ("ldexp", (np.float32(1), np.int32(-149)), 2.0**-149), ("scalbn", (np.float64(3),
    np.int32(-1075)), 1e-323),
    ("ldexp", (np.float64(5e-324), np.int32(2097)), 2.0**1023), ("ldexp", (np.float64(1),
    np.int32(I32)), 0.0),
    ("nextafter", (np.float32(0), np.float32(-1)), -(2.0**-149)), ("nextafter", (np.float64(1),
    np.float64(1)), 1.0),
    ("remainder", (np.float64(5), np.float64(3)), -1.0), ("remainder", (np.float32(3),
    np.float32(2)), -1.0),
    ("remainder", (np.float32(1), np.float32(2)), 1.0), ("fdim", (np.float32(3), np.float32(5)),
    0.0),
    ("round", (np.float32(-2.5),), -3.0), ("rint", (np.float32(-2.5),), -2.0), ("saturatef",
    (np.float32(np.nan),), 0.0),
    ("saturatef", (np.float32(7),), 1.0), ("signbit", (np.float32(-0.0),), 1), ("isinf",
    (np.float64(-np.inf),), 1),
    ("isnan", (np.float32(1),), 0), ("finitef", (np.float32(1),), 1), ("isfinited",
    (np.float64(np.nan),), 0),
    ("add_ru", (np.float32(1), np.float32(1e-30)), 1 + 2.0**-23), ("add_rd", (np.float64(1),
    np.float64(-1)), -0.0),
    ("fma_rz", (np.float64(1 + 2.0**-52), np.float64(1 + 2.0**-52), np.float64(-1)),
    2.0**-51 + 0.0),
    ("fma", (np.float32(1 + 2.0**-12), np.float32(1 + 2.0**-12), np.float32(-1 - 2.0**-11)),
    2.0**-24),
    ("fma", (np.float32(1e30), np.float32(-1e30), np.float32(np.inf)), math.inf),
    ("div_ru", (np.float32(1), np.float32(3)), 0.3333333432674408), ("sqrt_rd", (np.float64(2),),
    1.414213562373095),
    ("rcp_rz", (np.float64(3),), 0.3333333333333333), ("pow", (np.float64(-2), np.int32(3)), -8.0),
]  # fmt: skip


@pytest.mark.parametrize("name, values, wanted", SPOTS, ids=lambda v: str(v))
@pytest.mark.every(3)
def test_values(name: str, values: tuple[Any, ...], wanted: Any) -> None:
    overload = next(
        o for o in signatures()[name].overloads
        if [STORED[a] for a in o.arguments] == [type(v) for v in values]
    )  # fmt: skip
    arrays = [np.array([v]) for v in values]
    expected = np.array([wanted], STORED[overload.result])
    for actual in (native(overload, *arrays, width=1), defined(overload, *arrays)):
        check(overload, arrays, actual, expected)
