"""Fit the polynomials of `tritium.codegen.llvm.vmath` and write them to `coefficients.py`.

Every polynomial is a minimax fit by the Remez exchange algorithm (Remez 1934; the formulation with
a weight function is in Muller, "Elementary Functions", chapter 3), computed with mpmath at 60
digits and rounded to the nearest float or double. `FITS` states the function, interval, weight and
degree of each; a test evaluates the rounded coefficients against the same statement.

    python tools/fit_polynomials.py            # rewrite coefficients.py
    python tools/fit_polynomials.py --check    # print the error of each stored polynomial
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np

Real = Any  # mpmath has no type stubs
DIGITS = 60
TARGET = Path(__file__).parents[1] / "src/tritium/codegen/llvm/vmath/coefficients.py"


@dataclass(frozen=True)
class Fit:
    """Minimise max |weight(x) * (p(x) - function(x))| over [low, high] for p of `degree`.

    `bits` is the rounding of the coefficients (24 or 53); `limit` is log2 of the weighted error
    that the rounded polynomial must stay under.
    """

    function: Callable[[Real], Real]
    weight: Callable[[Real], Real]
    low: float
    high: float
    degree: int
    bits: int
    limit: float
    note: str


def _quotient(
    numerator: Callable[[Real], Real], power: int, series: Sequence[Real]
) -> Callable[[Real], Real]:
    """`numerator(x) / x**power`, by its Taylor `series` where cancellation would bite."""

    def value(x: Real) -> Real:
        if abs(x) < mp.mpf("1e-6"):
            return mp.polyval(list(reversed(series)), x)
        return numerator(x) / x**power

    return value


def _factorials(start: int, count: int, signs: int = 1, step: int = 1) -> list[Real]:
    """Taylor coefficients signs^k / (start + k*step)!"""
    return [mp.mpf(signs) ** k / mp.factorial(start + k * step) for k in range(count)]


def _over_root(function: Callable[[Real], Real]) -> Callable[[Real], Real]:
    """function(sqrt(z)) as a function of z, with z kept off 0 (a removable singularity)."""
    return lambda z: function(mp.sqrt(z if z > mp.mpf("1e-24") else mp.mpf("1e-24")))


def _erfcx(x: Real) -> Real:
    return mp.exp(x * x) * mp.erfc(x)


def _fits() -> dict[str, Fit]:
    half_ln2 = 0.34668  # ln(2)/2, and a little for the rounding of the reduction
    quarter_pi2 = 0.61688 + 1e-4  # (pi/4)^2 likewise
    exp = _quotient(lambda r: mp.exp(r) - 1 - r, 2, _factorials(2, 8))
    exp2 = _quotient(
        lambda r: mp.mpf(2) ** r - 1,
        1,
        [mp.log(2) ** (k + 1) / mp.factorial(k + 1) for k in range(8)],
    )
    log = _quotient(
        lambda f: mp.log1p(f) - f + f * f / 2, 3, [mp.mpf(-1) ** k / (k + 3) for k in range(8)]
    )
    atanh = _over_root(lambda s: (mp.atanh(s) - s) * 2 / s**3)
    sin = _over_root(lambda r: (mp.sin(r) - r) / r**3)
    cos = _over_root(lambda r: (mp.cos(r) - 1 + r * r / 2) / r**4)
    erf = _over_root(lambda x: mp.erf(x) / x - 1)
    atan = _over_root(lambda t: (mp.atan(t) - t) / t**3)
    asin = _over_root(lambda x: (mp.asin(x) - x) / x**3)
    log2_erfc = lambda x: mp.log(mp.erfc(x), 2)  # noqa: E731
    erfcx = lambda t: _erfcx((1 + t) * 4 / (1 - t)) * (1 + 2 * (1 + t) * 4 / (1 - t))  # noqa: E731

    def root(weight: Callable[[Real], Real]) -> Callable[[Real], Real]:
        return _over_root(weight)

    exp_w = lambda r: r * r / mp.exp(r)  # noqa: E731
    exp2_w = lambda r: r / mp.mpf(2) ** r  # noqa: E731
    log_w = lambda f: f * f if f != 0 else mp.mpf(0)  # noqa: E731  (relative to log ~ f)
    tan8, last32, last64 = 0.17158, 4.0, 6.0
    atanh_end = 0.04001  # s = f / (2 + f) is at most 1/5
    fits: dict[str, Fit] = {}

    def add(
        name: str, f: Any, w: Any, low: float, high: float, d32: Any, d64: Any, note: str
    ) -> None:
        for suffix, degree, bits in (("F32", d32, 24), ("F64", d64, 53)):
            if degree is not None:
                limit = -25.5 if bits == 24 else -54.5
                fits[f"{name}_{suffix}"] = Fit(f, w, low, high, degree, bits, limit, note)

    add("EXP", exp, exp_w, -half_ln2, half_ln2, 4, 9, "(e^r - 1 - r) / r^2")
    small = half_ln2 / 16
    fits["EXP_SIXTEENTH_F32"] = Fit(exp, exp_w, -small, small, 1, 24, -25.5,
                                    "(e^r - 1 - r) / r^2")  # fmt: skip
    small = half_ln2 / 4
    fits["EXP_QUARTER_F32"] = Fit(exp, exp_w, -small, small, 2, 24, -27.4,
                                  "(e^r - 1 - r) / r^2")  # fmt: skip
    add("EXP2", exp2, exp2_w, -0.5001, 0.5001, 5, 10, "(2^r - 1) / r")
    add("LOG", log, log_w, -0.25, 0.5, 8, None, "(log1p(f) - f + f^2/2) / f^3")
    add("ATANH", atanh, root(lambda s: s * s / 2), 0, atanh_end, None, 7,
        "(2 atanh(s) - 2 s) / s^3 in s^2")  # fmt: skip
    add(
        "SIN",
        sin,
        root(lambda r: r**3 / mp.sin(r)),
        0,
        quarter_pi2,
        3,
        6,
        "(sin(r) - r) / r^3 in r^2",
    )
    add("COS", cos, root(lambda r: r**4), 0, quarter_pi2, 2, 6,
        "(cos(r) - 1 + r^2/2) / r^4 in r^2")  # fmt: skip
    add("ERF", erf, root(lambda x: x / mp.erf(x)), 0, 1.0, 6, 12, "erf(x)/x - 1 in x^2")
    fits["ERFL_F32"] = Fit(log2_erfc, lambda x: mp.erfc(x) / mp.erf(x), 1.0, last32, 8, 24, -27.0,
                           "log2(erfc(x))")  # fmt: skip
    fits["ERFL_F64"] = Fit(log2_erfc, lambda x: mp.erfc(x) / mp.erf(x), 1.0, last64, 19, 53, -55.0,
                           "log2(erfc(x))")  # fmt: skip
    add("ATAN", atan, root(lambda t: t**2), 0, tan8, 4, 12, "(atan(t) - t) / t^3 in t^2")
    add("ASIN", asin, root(lambda x: x**2), 0, 0.25, 5, 13, "(asin(x) - x) / x^3 in x^2")
    tail = _over_root(lambda s: (mp.atanh(s) / s - 1 - s * s / 3) / s**4)
    fits["ATANH_TAIL_F64"] = Fit(tail, root(lambda s: s**4), 0, atanh_end, 8, 53, -66.0,
                                 "(atanh(s)/s - 1 - s^2/3) / s^4 in s^2")  # fmt: skip
    fits["ERFCX_F32"] = Fit(erfcx, lambda t: 1 / erfcx(t), -1.0, 0.45, 10, 24, -24.5,
                            "erfcx(x) (1 + 2x), x = 4 (1+t)/(1-t)")  # fmt: skip
    fits["ERFCX_F64"] = Fit(erfcx, lambda t: 1 / erfcx(t), -1.0, 0.78, 22, 53, -54.0,
                            "erfcx(x) (1 + 2x), x = 4 (1+t)/(1-t)")  # fmt: skip
    return fits


def remez(fit: Fit, rounds: int = 12) -> list[Real]:
    """The minimax coefficients, lowest power first, unrounded."""
    low, high, n = mp.mpf(fit.low), mp.mpf(fit.high), fit.degree + 1
    middle, radius = (low + high) / 2, (high - low) / 2
    grid_size = 24 * (n + 1)
    grid = [middle - radius * mp.cos(mp.pi * i / grid_size) for i in range(grid_size + 1)]
    values = [fit.function(x) for x in grid]
    weights = [fit.weight(x) for x in grid]
    # Points where the weight vanishes cannot be in the reference.
    usable = [i for i, w in enumerate(weights) if abs(w) > mp.mpf("1e-15")]
    picks = [usable[round(k * (len(usable) - 1) / n)] for k in range(n + 1)]
    best: list[Real] = []
    for _ in range(rounds):
        rows = [
            [grid[i] ** k for k in range(n)] + [mp.mpf(-1) ** j / abs(weights[i])]
            for j, i in enumerate(picks)
        ]
        solution = mp.lu_solve(mp.matrix(rows), mp.matrix([values[i] for i in picks]))
        best, level = [solution[k] for k in range(n)], abs(solution[n])
        backwards = list(reversed(best))
        errors = [
            abs(weight) * (mp.polyval(backwards, x) - value)
            for x, value, weight in zip(grid, values, weights, strict=True)
        ]
        if max(abs(e) for e in errors) < level * mp.mpf("1.005"):
            break
        picks = _alternation(errors, n + 1)
    return best


def _alternation(errors: Sequence[Real], count: int) -> list[int]:
    """The indices of `count` consecutive extrema of alternating sign, the largest ones kept."""
    extrema: list[int] = []
    for i, error in enumerate(errors):
        if error == 0:
            continue
        if extrema and (error > 0) == (errors[extrema[-1]] > 0):
            if abs(error) > abs(errors[extrema[-1]]):
                extrema[-1] = i
        else:
            extrema.append(i)
    while len(extrema) > count:
        extrema.pop(0 if abs(errors[extrema[0]]) < abs(errors[extrema[-1]]) else -1)
    if len(extrema) < count:
        raise ArithmeticError(f"the exchange lost its alternation: {len(extrema)} of {count}")
    return extrema


def rounded(coefficients: Sequence[Real], bits: int) -> tuple[float, ...]:
    """The coefficients as floats that are exact in the target precision."""
    to = np.float32 if bits == 24 else np.float64
    return tuple(float(to(float(c))) for c in coefficients)


def error_of(fit: Fit, coefficients: Sequence[float], points: int = 400) -> float:
    """log2 of the largest weighted error of the given coefficients over the interval."""
    backwards = [mp.mpf(c) for c in reversed(coefficients)]
    middle, radius = mp.mpf(fit.low + fit.high) / 2, mp.mpf(fit.high - fit.low) / 2
    worst = mp.mpf(0)
    for i in range(points + 1):
        x = middle - radius * mp.cos(mp.pi * i / points)
        worst = max(worst, abs(fit.weight(x) * (mp.polyval(backwards, x) - fit.function(x))))
    return float(mp.log(worst, 2))


def two_over_pi_words(count: int) -> list[int]:
    """The first 64*count fraction bits of 2/pi, as words, most significant first."""
    with mp.workprec(64 * count + 64):
        bits = int(mp.floor(mp.ldexp(2 / mp.pi, 64 * count)))
    return [(bits >> (64 * (count - 1 - i))) & (2**64 - 1) for i in range(count)]


def parts(value: Real, bits: int, count: int) -> tuple[float, ...]:
    """`value` as a sum of floats (or doubles), each the nearest to what is left."""
    result: list[float] = []
    for _ in range(count):
        result += rounded([value], bits)
        value -= mp.mpf(result[-1])
    return tuple(result)


_DOUBLE_ONLY = frozenset({"THIRD", "SQRT_HALF", "HALF_LOG_2PI", "INVERSE_PI"})
"""Constants that no function of float32 uses."""


def _constants() -> dict[str, tuple[float, ...]]:
    named = {
        "LN2": mp.log(2), "LOG2E": 1 / mp.log(2), "LOG10E": 1 / mp.log(10),
        "PI": mp.pi, "PIO2": mp.pi / 2, "PIO4": mp.pi / 4,
        "TWO_OVER_PI": 2 / mp.pi, "THIRD": mp.mpf(1) / 3, "LN10": mp.log(10),
        "LOG2_10": mp.log(10) / mp.log(2), "SQRT_HALF": mp.sqrt(mp.mpf(1) / 2),
        "HALF_LOG_2PI": mp.log(2 * mp.pi) / 2, "INVERSE_PI": 1 / mp.pi,
    }  # fmt: skip
    result: dict[str, tuple[float, ...]] = {}
    for name, value in named.items():
        if name not in _DOUBLE_ONLY:
            result[f"{name}_F32"] = parts(value, 24, 3)
        result[f"{name}_F64"] = parts(value, 53, 3)
    # ln2 and log10(2) with trailing zeros, so that their product with an exponent is exact.
    for name, value in (("LN2", mp.log(2)), ("LOG10_2", mp.log(2) / mp.log(10))):
        for suffix, bits, keep in (("F32", 24, 14), ("F64", 53, 40)):
            exponent = keep - int(mp.floor(mp.log(value, 2))) - 1
            high = mp.floor(mp.ldexp(value, exponent)) / mp.mpf(2) ** exponent
            result[f"{name}_SPLIT_{suffix}"] = (float(high), *parts(value - high, bits, 1))
    sixteenths = [mp.mpf(2) ** (mp.mpf(k) / 16) for k in range(16)]
    # The bits of 2^(k/4) less those of 1, to which the bits of a power of two are added.
    quarters = [parts(mp.mpf(2) ** (mp.mpf(k) / 4), 24, 1)[0] for k in range(8)]
    held = np.array([*quarters, 1], np.float32).view(np.int32)
    result["EXP2_QUARTERS_F32"] = tuple(map(int, held[:-1] - held[-1]))
    result["EXP2_SIXTEENTHS_F32"] = tuple(parts(value, 24, 1)[0] for value in sixteenths)
    return result


def generate() -> str:
    """The text of coefficients.py."""
    lines = [
        '"""Polynomial coefficients (lowest power first) and constants. Written by',
        "`tools/fit_polynomials.py`, which states what each one approximates; do not edit.",
        '"""',
        "",
        "# fmt: off",
    ]
    for name, value in _constants().items():
        lines.append(f"{name} = {to_text(value)}")
    for name, fit in _fits().items():
        found = rounded(remez(fit), fit.bits)
        error = error_of(fit, found)
        print(f"{name:12} degree {fit.degree:2}  2^{error:.1f}", file=sys.stderr)
        lines.append(f"# {fit.note}; {fit.low:.5g} .. {fit.high:.5g}; error 2^{error:.1f}")
        lines.append(f"{name} = {to_text(found)}")
    words = ",\n".join(f"    0x{w:016X}" for w in two_over_pi_words(20))
    lines.append("# The fraction bits of 2/pi, most significant word first.")
    lines.append(f"TWO_OVER_PI_BITS = (\n{words},\n)")
    return "\n".join(lines) + "\n"


def to_text(values: Sequence[float]) -> str:
    """The tuple, one number a line."""
    return "(\n" + "".join(f"    {v!r},\n" for v in values) + ")"


def load(path: Path = TARGET) -> Any:
    """The module of coefficients as it is on disk."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


mp.mp.dps = DIGITS
FITS = _fits()

if __name__ == "__main__":
    if "--check" in sys.argv:
        module = load()
        for name, fit in FITS.items():
            print(f"{name:12} 2^{error_of(fit, getattr(module, name)):.1f}")
    else:
        TARGET.write_text(generate())
