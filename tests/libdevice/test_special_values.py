"""Zeros, infinities and the ends of domains, as C and the CUDA Math API have them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.libdevice.support import STORED, Array, defined, native, signatures

INF, NAN = math.inf, math.nan
PI = math.pi

# function -> (arguments, result); -0.0 is told from 0.0
VALUES: dict[str, list[tuple[tuple[float, ...], float]]] = {
    "acos": [((1,), 0), ((1.5,), NAN), ((INF,), NAN), ((0,), PI / 2)],
    "acosh": [((1,), 0), ((INF,), INF), ((0.5,), NAN), ((-INF,), NAN), ((0,), NAN)],
    "asin": [((0,), 0), ((-0.0,), -0.0), ((2,), NAN)],
    "asinh": [((0,), 0), ((-0.0,), -0.0), ((INF,), INF), ((-INF,), -INF)],
    "atan": [((0,), 0), ((-0.0,), -0.0), ((INF,), PI / 2), ((-INF,), -PI / 2)],
    "atan2": [((0, 0), 0), ((-0.0, -1), -PI), ((0, -1), PI), ((1, 0), PI / 2), ((0, -0.0), PI),
              ((INF, INF), PI / 4), ((1, -INF), PI), ((-1, INF), -0.0)],
    "atanh": [((0,), 0), ((-0.0,), -0.0), ((1,), INF), ((-1,), -INF), ((1.5,), NAN), ((INF,), NAN)],
    "cbrt": [((0,), 0), ((-0.0,), -0.0), ((INF,), INF), ((-INF,), -INF), ((-8,), -2)],
    "cos": [((0,), 1), ((INF,), NAN)], "cosh": [((0,), 1), ((INF,), INF), ((-INF,), INF)],
    "cospi": [((0,), 1), ((0.5,), 0), ((1.5,), 0), ((1,), -1), ((2.0**60,), 1), ((INF,), NAN)],
    "cyl_bessel_i0": [((0,), 1), ((INF,), INF), ((-INF,), INF)],
    "cyl_bessel_i1": [((0,), 0), ((-0.0,), -0.0), ((INF,), INF), ((-INF,), -INF)],
    "erf": [((0,), 0), ((-0.0,), -0.0), ((INF,), 1), ((-INF,), -1)],
    "erfc": [((0,), 1), ((INF,), 0), ((-INF,), 2)],
    "erfcinv": [((0,), INF), ((2,), -INF), ((1,), 0), ((-1,), NAN), ((2.5,), NAN), ((INF,), NAN)],
    "erfcx": [((0,), 1), ((INF,), 0), ((-INF,), INF)],
    "erfinv": [((0,), 0), ((-0.0,), -0.0), ((1,), INF), ((-1,), -INF), ((1.5,), NAN), ((INF,),
    NAN)],
    "exp": [((0,), 1), ((INF,), INF), ((-INF,), 0)], "exp2": [((0,), 1), ((INF,), INF), ((-INF,),
    0)],
    "exp10": [((0,), 1), ((2,), 100), ((INF,), INF), ((-INF,), 0)],
    "expm1": [((0,), 0), ((-0.0,), -0.0), ((INF,), INF), ((-INF,), -1)],
    "hypot": [((0, 0), 0), ((INF, NAN), INF), ((NAN, -INF), INF), ((3, 4), 5), ((-0.0, 2), 2)],
    "j0": [((0,), 1), ((INF,), 0), ((-INF,), 0)], "j1": [((0,), 0), ((-0.0,), -0.0), ((INF,), 0)],
    "lgamma": [((1,), 0), ((2,), 0), ((0,), INF), ((-0.0,), INF), ((-3,), INF), ((INF,), INF),
               ((-INF,), INF)],
    "log": [((1,), 0), ((0,), -INF), ((-0.0,), -INF), ((-1,), NAN), ((INF,), INF), ((-INF,), NAN)],
    "log2": [((8,), 3), ((0,), -INF), ((-1,), NAN), ((INF,), INF)],
    "log10": [((1000,), 3), ((0,), -INF), ((-1,), NAN), ((INF,), INF)],
    "log1p": [((0,), 0), ((-0.0,), -0.0), ((-1,), -INF), ((-2,), NAN), ((INF,), INF)],
    "norm3d": [((0, 0, 0), 0), ((NAN, INF, 1), INF), ((2, 3, 6), 7), ((NAN, 1, 1), NAN)],
    "norm4d": [((0, 0, 0, 0), 0), ((NAN, 1, 1, -INF), INF), ((1, 1, 1, 1), 2)],
    "normcdf": [((0,), 0.5), ((INF,), 1), ((-INF,), 0)],
    "normcdfinv": [((0,), -INF), ((1,), INF), ((0.5,), 0), ((-1,), NAN), ((2,), NAN)],
    "pow": [((0, 0), 1), ((NAN, 0), 1), ((1, NAN), 1), ((-1, INF), 1), ((-0.0, -3), -INF),
            ((-2, 0.5), NAN), ((INF, -1), 0), ((-INF, 3), -INF), ((0.5, -INF), INF)],
    "rcbrt": [((0,), INF), ((-0.0,), -INF), ((INF,), 0), ((-INF,), -0.0), ((-8,), -0.5)],
    "rhypot": [((0, 0), INF), ((INF, NAN), 0), ((3, 4), 0.2)],
    "rnorm3d": [((0, 0, 0), INF), ((NAN, 1, INF), 0)],
    "rnorm4d": [((0, 0, 0, 0), INF), ((1, 1, 1, 1), 0.5), ((NAN, 1, INF, 1), 0)],
    "rsqrt": [((0,), INF), ((-0.0,), -INF), ((INF,), 0), ((-1,), NAN), ((4,), 0.5)],
    "sin": [((0,), 0), ((-0.0,), -0.0), ((INF,), NAN)],
    "sinh": [((0,), 0), ((-0.0,), -0.0), ((INF,), INF), ((-INF,), -INF)],
    "sinpi": [((0,), 0), ((-0.0,), -0.0), ((1,), 0), ((-2,), -0.0), ((0.5,), 1), ((1.5,), -1),
    ((INF,), NAN)],
    "sqrt": [((0,), 0), ((-0.0,), -0.0), ((-1,), NAN), ((INF,), INF)],
    "tan": [((0,), 0), ((-0.0,), -0.0), ((INF,), NAN)],
    "tanh": [((0,), 0), ((-0.0,), -0.0), ((INF,), 1), ((-INF,), -1)],
    "tgamma": [((1,), 1), ((5,), 24), ((0,), INF), ((-0.0,), -INF), ((-2,), NAN), ((-INF,), NAN),
    ((INF,), INF)],
    "y0": [((0,), -INF), ((-1,), NAN), ((INF,), 0), ((-INF,), NAN)],
    "y1": [((0,), -INF), ((-0.0,), -INF), ((-1,), NAN), ((INF,), 0)],
    "fmod": [((5, 0), NAN), ((INF, 1), NAN), ((-0.0, 3), -0.0), ((3, INF), 3), ((-6, 3), -0.0)],
    "remainder": [((5, 0), NAN), ((INF, 1), NAN), ((-0.0, 3), -0.0), ((3, INF), 3), ((-6, 3),
    -0.0)],
}  # fmt: skip
ORDERS = [(0, 0, 1), (1, 0, 0), (5, 0, 0), (-1, 1, NAN), (3, INF, 0), (3, NAN, NAN)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", VALUES)
@pytest.mark.every(3)
def test_values(name: str, dtype: str) -> None:
    overload = next(o for o in signatures()[name].overloads if set(o.arguments) == {dtype})
    rows = VALUES[name] + [((NAN,) * len(overload.arguments), NAN)]
    if name == "pow":
        rows[-1] = ((NAN, 2.0), NAN)
    arrays = [np.array(column, STORED[dtype]) for column in zip(*(r[0] for r in rows), strict=True)]
    wanted = np.array([r[1] for r in rows], STORED[dtype])
    for actual in (native(overload, *arrays), defined(overload, *arrays)):
        assert_same(actual, wanted, name)


def assert_same(actual: Array, wanted: Array, name: str) -> None:
    with np.errstate(all="ignore"):
        # Numbers, where they are not exact, within a few ulp; signs of zeros count.
        close = np.abs(actual - wanted) <= 4 * np.spacing(np.abs(wanted))
    same = (actual == wanted) | close | (np.isnan(actual) & np.isnan(wanted))
    same &= (np.signbit(actual) == np.signbit(wanted)) | np.isnan(wanted)
    assert same.all(), (name, actual, wanted)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", ["jn", "yn"])
def test_orders(kind: str, dtype: str) -> None:
    overload = next(o for o in signatures()[kind].overloads if o.result == dtype)
    rows = ORDERS if kind == "jn" else [(0, 0, -INF), (4, 0, -INF), (2, -1, NAN), (-1, 1, NAN),
                                        (3, INF, 0), (1000, 1e-3, -INF)]  # fmt: skip
    n, x, wanted = (np.array(column) for column in zip(*rows, strict=True))
    arrays = [n.astype(np.int32), x.astype(STORED[dtype])]
    for actual in (native(overload, *arrays), defined(overload, *arrays)):
        assert_same(actual, wanted.astype(STORED[dtype]), kind)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_overflow_and_underflow(dtype: str) -> None:
    """Intermediate results do neither where the result does not."""
    info = np.finfo(STORED[dtype])
    huge, tiny = float(info.max) / 4, float(info.smallest_normal)
    for name, values, wanted in (
        ("hypot", (huge, huge), huge * math.sqrt(2)), ("hypot", (3 * tiny, 4 * tiny), 5 * tiny),
        ("norm3d", (huge, huge, huge), huge * math.sqrt(3)), ("rhypot", (huge, 0), 1 / huge),
        ("norm4d", (tiny, tiny, tiny, tiny), 2 * tiny), ("asinh", (huge,),
        math.log(huge) + math.log(2)),
        ("acosh", (huge,), math.log(huge) + math.log(2)), ("lgamma", (tiny,), -math.log(tiny)),
    ):  # fmt: skip
        overload = next(o for o in signatures()[name].overloads if o.result == dtype)
        arrays = [np.array([v], STORED[dtype]) for v in values]
        for actual in (native(overload, *arrays), defined(overload, *arrays)):
            np.testing.assert_allclose(actual, wanted, rtol=4 * float(info.eps))
