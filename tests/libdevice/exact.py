"""The real functions of libdevice to many digits, by mpmath, correctly rounded to a dtype."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import mpmath as mp
import numpy as np

Array = np.ndarray[Any, Any]
Real = Any


def _norm(*parts: Real) -> Real:
    return mp.sqrt(sum(p * p for p in parts))


def _inverse_erfc(y: Real) -> Real:
    """By Newton's method on log(erfc), from the asymptotic value."""
    if not 0 < y < 2:
        return {0: mp.inf, 2: -mp.inf}.get(y, mp.nan)
    if y > 1:
        return -_inverse_erfc(2 - y)
    if y > mp.mpf("0.1"):
        return mp.erfinv(1 - y)
    x = mp.sqrt(-mp.log(y * mp.sqrt(-mp.pi * mp.log(y))))
    for _ in range(40):
        value = mp.erfc(x)
        step = (mp.log(value) - mp.log(y)) * value * mp.sqrt(mp.pi) / 2 * mp.exp(x * x)
        x += step
        if abs(step) < x * mp.mpf(2) ** -100:
            break
    return x


def _lgamma(x: Real) -> Real:
    if x > 0 or mp.isint(x):
        return mp.loggamma(x) if x > 0 else mp.inf
    return mp.log(mp.pi / abs(x * mp.sinpi(x))) - mp.loggamma(-x)


def _bessel_y(n: Real, x: Real) -> Real:
    if x < mp.mpf("1e-12") and n < 2:
        return 2 / mp.pi * (mp.log(x / 2) + mp.euler) if n == 0 else -2 / (mp.pi * x)
    return mp.bessely(n, x)


def _domain_y(function: Callable[..., Real]) -> Callable[..., Real]:
    return lambda *args: (
        mp.nan if args[-1] < 0 or (len(args) > 1 and args[0] < 0) else function(*args)
    )


FUNCTIONS: dict[str, Callable[..., Real]] = {
    "acos": mp.acos, "acosh": mp.acosh, "asin": mp.asin, "asinh": mp.asinh, "atan": mp.atan,
    "atan2": mp.atan2, "atanh": mp.atanh, "cbrt": lambda x: mp.sign(x) * mp.cbrt(abs(x)),
    "cos": mp.cos, "cosh": mp.cosh, "cospi": mp.cospi, "cyl_bessel_i0": lambda x: mp.besseli(0, x),
    "cyl_bessel_i1": lambda x: mp.besseli(1, x), "erf": mp.erf, "erfc": mp.erfc,
    "erfcinv": _inverse_erfc,
    "erfinv": lambda x: mp.sign(x) * _inverse_erfc(1 - abs(x)), "exp": mp.exp,
    "exp10": lambda x: mp.mpf(10) ** x, "exp2": lambda x: mp.mpf(2) ** x, "expm1": mp.expm1,
    "hypot": _norm, "j0": lambda x: mp.besselj(0, x), "j1": lambda x: mp.besselj(1, x),
    "jn": lambda n, x: mp.nan if n < 0 else mp.besselj(n, x),
    "log": mp.log, "log10": mp.log10, "log1p": mp.log1p, "log2": lambda x: mp.log(x, 2),
    "norm3d": _norm, "norm4d": _norm, "normcdf": mp.ncdf,
    "normcdfinv": lambda p: -mp.sqrt(2) * _inverse_erfc(2 * p),
    "pow": lambda x, y: mp.power(x, y), "rcbrt": lambda x: mp.sign(x) / mp.cbrt(abs(x)),
    "rhypot": lambda *p: 1 / _norm(*p), "rnorm3d": lambda *p: 1 / _norm(*p),
    "rnorm4d": lambda *p: 1 / _norm(*p), "rsqrt": lambda x: 1 / mp.sqrt(x),
    "rsqrt_rn": lambda x: 1 / mp.sqrt(x), "sin": mp.sin, "sinh": mp.sinh, "sinpi": mp.sinpi,
    "sqrt": mp.sqrt, "tan": mp.tan, "tanh": mp.tanh, "tgamma": mp.gamma,
    "y0": _domain_y(lambda x: _bessel_y(0, x)), "y1": _domain_y(lambda x: _bessel_y(1, x)),
    "yn": _domain_y(_bessel_y),
    "fast_dividef": lambda x, y: x / y, "rcp64h": lambda x: 1 / x,
}  # fmt: skip
FUNCTIONS |= {
    f"fast_{name}f": FUNCTIONS[name]
    for name in ("cos", "exp10", "exp", "log10", "log2", "log", "pow", "sin", "tan", "tanh")
}


def _erfcx(x: Real) -> Real:
    if x > 1000:
        return (1 - 1 / (2 * x * x) + 3 / (4 * x**4)) / (x * mp.sqrt(mp.pi))
    return mp.exp(x * x) * mp.erfc(x)


FUNCTIONS["erfcx"] = _erfcx
FUNCTIONS["lgamma"] = _lgamma

# Beyond these magnitudes results over- or underflow or no longer change; mpmath would take forever.
_CLAMPED: dict[str, float] = {
    **dict.fromkeys(("exp", "exp2", "exp10", "expm1", "sinh", "cosh", "tanh", "cyl_bessel_i0",
        "cyl_bessel_i1"), 2000),
    **dict.fromkeys(("erf", "erfc", "normcdf"), 60),
    "tgamma": 400,
}  # fmt: skip
_CLAMPED |= {f"fast_{name}f": limit for name, limit in _CLAMPED.items()}

_OSCILLATING = {"sin", "cos", "tan", "j0", "j1", "y0", "y1", "jn", "yn", "sinpi", "cospi"}


def rounded(value: Real, dtype: Any) -> Any:
    """An mpmath number rounded once to a dtype, to nearest, ties to even."""
    info = np.finfo(dtype)
    if mp.isnan(value) or mp.isinf(value) or value == 0:
        return dtype(float(value))
    _, exponent = mp.frexp(value)
    bits = min(info.nmant + 1, exponent + info.nmant - info.minexp)
    if bits <= 0:
        least = dtype(info.smallest_subnormal)
        return dtype(math.copysign(least if bits == 0 and abs(value) > least / 2 else 0, value))
    with mp.workprec(int(bits)):
        value = +value
    with np.errstate(over="ignore"):
        return dtype(float(value))


def evaluate(name: str, *values: float) -> Real:
    """The value to at least 90 bits, an mpmath number; NaN outside of the domain."""
    function = FUNCTIONS[name]
    if any(math.isnan(v) for v in values):
        return mp.nan
    if name == "tgamma" and values[0] < -400:
        return mp.nan if values[0].is_integer() else mp.mpf(0)
    limit = _CLAMPED.get(name)
    if limit is not None:
        values = tuple(max(-limit, min(limit, v)) for v in values)
    largest = max(abs(v) for v in values)
    plain = name.removeprefix("fast_")
    bits = 110 if not 0 < largest < math.inf else 110 + max(0, int(math.log2(largest)))
    bits = bits if plain.removesuffix("f") in _OSCILLATING else 110
    if plain in ("lgamma", "tgamma", "erfinv", "acosh", "log1p", "atanh", "asinh"):
        bits = max(bits, 2400 if largest < 1e-30 or largest > 1e30 else 260)
    with mp.workprec(bits):
        try:
            value = function(*(mp.mpf(v) for v in values))
        except (ValueError, ZeroDivisionError):
            return mp.nan
        return (
            value if isinstance(value, mp.mpf) else (mp.nan if mp.im(value) != 0 else mp.re(value))
        )


@cache
def _evaluated(name: str, values: tuple[float, ...]) -> Real:
    return evaluate(name, *values)


def expected(name: str, dtype: Any, *arrays: Array) -> Array:
    """The correctly rounded results."""
    rows = zip(*(a.tolist() for a in arrays), strict=True)
    return np.array([rounded(_evaluated(name, row), dtype) for row in rows], dtype)


def ulps(name: str, actual: Array, *arrays: Array) -> Array:
    """Errors in units of the last place of the exact results; 0 where one that is no number, or
    beyond all numbers once rounded, is so, and infinite where it is not."""
    info = np.finfo(actual.dtype)
    found: list[float] = []
    rows = zip(*(a.tolist() for a in arrays), strict=True)
    for number, row in zip(actual.tolist(), rows, strict=True):
        value = _evaluated(name, row)
        wanted = float(rounded(value, actual.dtype.type))
        if math.isfinite(number) and math.isfinite(wanted):
            exponent = mp.frexp(value)[1] - 1 if value else info.minexp
            unit = mp.ldexp(1, int(max(exponent, info.minexp) - info.nmant))
            found.append(float(abs(mp.mpf(number) - value) / unit))
        else:
            same = number == wanted or (math.isnan(number) and math.isnan(wanted))
            found.append(0 if same else math.inf)
    return np.array(found)


def distance(actual: Array, wanted: Array) -> Array:
    """How many numbers of the dtype lie between two; 0 for NaN twice, infinite for one."""
    kind: Any = np.int32 if actual.dtype == np.float32 else np.int64
    ordered = [v.view(kind).astype(object) for v in (actual, wanted)]
    half = 2 ** (31 if kind is np.int32 else 63)
    a, b = (np.where(v < 0, -half - v, v) for v in ordered)
    between = np.abs(a - b).astype(np.float64)
    nan = np.isnan(actual) | np.isnan(wanted)
    return np.where(nan, np.where(np.isnan(actual) & np.isnan(wanted), 0.0, np.inf), between)
