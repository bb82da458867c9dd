"""Fit the polynomials of `tritium.codegen.llvm.vmath.special` (gamma, Bessel and inverse error
functions), all for doubles, and write them to `special/coefficients.py`.

The method is that of `fit_polynomials.py`. Near a zero z of a Bessel function the fit is of
f(z + u) / u, so that the result keeps its relative accuracy there; z is stored as a sum of doubles.

    python tools/fit_special.py [NAME...]      # rewrite the file (or only these entries of it)
    python tools/fit_special.py --check        # print the error of each stored polynomial
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpmath as mp

sys.path.insert(0, str(Path(__file__).parent))
from fit_polynomials import DIGITS, TARGET, Fit, error_of, load, parts, remez, rounded, to_text

Real = Any
Real_function = Callable[[Real], Real]
SPECIAL = TARGET.with_name("special") / "coefficients.py"
LIMIT = -52.0  # of the logarithm of the relative error (the coefficients are rounded)

mp.mp.dps = DIGITS
ASYMPTOTIC = mp.mpf(12)  # from here on the expansions for large arguments are used
_COLUMNS = {"j": mp.besseljzero, "y": mp.besselyzero}
_VALUES = {"j": mp.besselj, "y": mp.bessely}
ZEROS: dict[str, Real] = {
    f"{kind.upper()}{n}_ZERO{k}": _COLUMNS[kind](n, k)
    for kind in "jy" for n in (0, 1) for k in (1, 2, 3, 4) if (kind, n, k) != ("j", 1, 4)
}  # fmt: skip
"""The zeros up to `ASYMPTOTIC`."""


def _off(function: Real_function, point: Real = 0) -> Real_function:
    """The function with its argument kept off a removable singularity."""
    nearest = mp.mpf("1e-18")
    return lambda x: function(x if abs(x - point) > nearest else point + nearest)


def _at_zero(kind: str, n: int, k: int) -> Real_function:
    """f(z + u) / u at the k-th zero z of J_n or Y_n."""
    z, value = ZEROS[f"{kind.upper()}{n}_ZERO{k}"], _VALUES[kind]
    return _off(lambda u: value(n, z + u) / u)


def _amplitudes(n: int, part: str) -> Real_function:
    """P and x Q of Hankel's expansion J = sqrt(2/(pi x)) (P cos X - Q sin X), with
    X = x - (2n + 1) pi/4, in (ASYMPTOTIC / x)^2."""

    def value(y: Real) -> Real:
        x = ASYMPTOTIC / mp.sqrt(y)
        angle, scale = x - (2 * n + 1) * mp.pi / 4, mp.sqrt(mp.pi * x / 2)
        j, y_value = mp.besselj(n, x), mp.bessely(n, x)
        if part == "P":
            return scale * (j * mp.cos(angle) + y_value * mp.sin(angle))
        return scale * (y_value * mp.cos(angle) - j * mp.sin(angle)) * x

    return _off(value)


def _regular_y(n: int) -> Real_function:
    """The part of Y_n besides 2/pi log(x/z) J_n, over x^2 - z^2 (and times x for n = 1), in x^2, at
    its first zero z."""
    zero = ZEROS[f"Y{n}_ZERO1"]

    def value(square: Real) -> Real:
        x = mp.sqrt(square)
        rest = mp.bessely(n, x) - 2 / mp.pi * mp.log(x / zero) * mp.besselj(n, x)
        return rest * x**n / (square - zero * zero)

    return _off(_off(value, zero * zero))


def _inverse_erfc(log_y: Real) -> Real:
    """x with erfc(x) = e^log_y, for e^log_y up to 1/2, by Newton's method on log(erfc)."""
    x = mp.sqrt(-log_y) if log_y < -2 else mp.mpf("0.6")
    for _ in range(60):
        value = mp.erfc(x)
        step = (mp.log(value) - log_y) * value * mp.sqrt(mp.pi) / 2 * mp.exp(x * x)
        x += step
        if abs(step) < mp.mpf(10) ** (8 - DIGITS) * x:
            return x
    raise ArithmeticError(f"erfc^-1(exp({log_y})) did not converge")


def _erfinv_centre(w: Real) -> Real:
    """erfinv(x) / x for 1 - x^2 = e^-w."""
    x = mp.sqrt(-mp.expm1(-w))
    return mp.erfinv(x) / x


def _erfinv_tail(s: Real) -> Real:
    """The z with y = erfc(z) where y (2 - y) = e^(-s^2)."""
    root = mp.exp(-s * s)
    return _inverse_erfc(mp.log(root / (1 + mp.sqrt(1 - root))))


def _stirling(v: Real) -> Real:
    """x (log Gamma(x) - (x - 1/2) log x + x - log(2 pi)/2), in 1/x^2."""
    x = 1 / mp.sqrt(v)
    return x * (mp.loggamma(x) - ((x - 0.5) * mp.log(x) - x + mp.log(2 * mp.pi) / 2))


def _fits() -> dict[str, Fit]:
    fits: dict[str, Fit] = {}

    def add(name: str, f: Real_function, low: Any, high: Any, degree: int, note: str,
            weight: Real_function | None = None) -> None:  # fmt: skip
        relative = weight or (lambda x: 1 / f(x))
        fits[name] = Fit(f, relative, float(low), float(high), degree, 53, LIMIT, note)

    def at(kind: str, n: int, k: int, low: float, high: float, degree: int) -> None:
        zero = ZEROS[f"{kind}{n}_ZERO{k}"]
        add(f"{kind}{n}_AT{k}", _at_zero(kind.lower(), n, k), low - zero, high - zero, degree,
            f"{kind}{n}(z + u) / u at the zero z = {mp.nstr(zero, 5)}")  # fmt: skip

    add("J0_NEAR", _off(lambda z: (mp.besselj(0, mp.sqrt(z)) - 1) / z), 0, 0.9**2, 6,
        "(J0(x) - 1) / x^2 in x^2", lambda z: z + mp.mpf(2) ** -8)  # fmt: skip
    at("J", 0, 1, 0.9, 4.0, 19)
    at("J", 0, 2, 4.0, 7.1, 17)
    at("J", 0, 3, 7.1, 10.2, 19)
    at("J", 0, 4, 10.2, 12, 14)
    add("J1_NEAR", _off(lambda z: (mp.besselj(1, mp.sqrt(z)) / mp.sqrt(z) - 0.5) / z), 0, 4.0, 9,
        "(J1(x) / x - 1/2) / x^2 in x^2", lambda z: (z + mp.mpf(2) ** -8) * 2)  # fmt: skip
    at("J", 1, 1, 2.0, 5.45, 18)
    at("J", 1, 2, 5.45, 8.6, 19)
    at("J", 1, 3, 8.6, 12, 18)
    add("Y0_NEAR", _regular_y(0), 0, 2.4**2, 12,
        "(Y0(x) - 2/pi log(x/z) J0(x)) / (x^2 - z^2) in x^2")  # fmt: skip
    at("Y", 0, 2, 2.4, 5.5, 23)
    at("Y", 0, 3, 5.5, 8.6, 20)
    at("Y", 0, 4, 8.6, 12, 20)
    add("Y1_NEAR", _regular_y(1), 0, 3.8**2, 14,
        "(Y1(x) - 2/pi log(x/z) J1(x)) x / (x^2 - z^2) in x^2")  # fmt: skip
    at("Y", 1, 2, 3.8, 7.0, 23)
    at("Y", 1, 3, 7.0, 10.2, 20)
    at("Y", 1, 4, 10.2, 12, 14)
    for n in (0, 1):
        for part in "PQ":
            add(
                f"HANKEL_{part}{n}",
                _amplitudes(n, part),
                0,
                1,
                11,
                f"{part} of J{n} and Y{n}{' times x' if part == 'Q' else ''} in ({ASYMPTOTIC}/x)^2",
            )
        add(f"I{n}_NEAR", _off(lambda t, n=n: mp.besseli(n,
            8 * mp.sqrt(t)) / (8 * mp.sqrt(t)) ** n),
            0, 1, 19, f"I{n}(x){' / x' if n else ''} in x^2/64")  # fmt: skip
        add(f"I{n}_FAR",
            _off(lambda t, n=n: mp.besseli(n, 16 / (1 + t)) * mp.exp(-16 / (1 + t))
                 * mp.sqrt(16 / (1 + t)), mp.mpf(-1)),
            -1, 1, 24, f"I{n}(x) e^-x sqrt(x) in 16/x - 1")  # fmt: skip
    add("ERFINV_CENTRE", lambda w: _erfinv_centre(w + mp.mpf("3.125")), mp.mpf("-3.12499"), 3.125,
        23,
        "erfinv(x)/x in w - 3.125, 1 - x^2 = e^-w")  # fmt: skip
    for name, low, high, degree in (
        ("A", 2.5, 5.0, 22), ("B", 5.0, 10.0, 22), ("C", 10.0, 27.5, 24),
    ):  # fmt: skip
        middle = mp.mpf(low + high) / 2
        add(f"ERFINV_TAIL_{name}", lambda u, m=middle: _erfinv_tail(u + m), low - middle,
            high - middle,
            degree, f"erfc^-1(y) in s - {mp.nstr(middle, 6)}, y (2 - y) = e^(-s^2)")  # fmt: skip
    add("LGAMMA_TWO", _off(lambda t: mp.loggamma(2 + t) / t), -0.75, 0.5, 23,
        "log Gamma(2 + t) / t")  # fmt: skip
    add("GAMMA_TWO", lambda t: mp.gamma(2 + t), -0.75, 0.5, 23, "Gamma(2 + t)")
    add("STIRLING", _off(_stirling), 0, 1 / 64, 8,
        "x (log Gamma(x) - (x - 1/2) log x + x - log(2 pi)/2) in 1/x^2",
        lambda v: mp.mpf(1) / 8)  # fmt: skip
    add("ERFCX_FAR", _off(lambda v: mp.exp(1 / v) * mp.erfc(1 / mp.sqrt(v)) / mp.sqrt(v)), 1e-9,
        1 / 26**2, 5,
        "x erfcx(x) in 1/x^2")  # fmt: skip
    return fits


FITS = _fits()


def generate(names: list[str]) -> str:
    """The text of `special/coefficients.py`; only the fits named are computed again, if any are."""
    known = load(SPECIAL) if names else None
    lines = [
        '"""Polynomial coefficients (lowest power first) and constants. Written by',
        "`tools/fit_special.py`, which states what each one approximates; do not edit.",
        '"""',
        "",
        "# fmt: off",
        "# The zeros of Bessel functions as sums of doubles.",
    ]
    lines += [f"{name} = {to_text(parts(zero, 53, 2))}" for name, zero in ZEROS.items()]
    for name, fit in FITS.items():
        if known is not None and name not in names:
            found = getattr(known, name)
        else:
            found = rounded(remez(fit), fit.bits)
        error = error_of(fit, found)
        print(f"{name:16} degree {fit.degree:2}  2^{error:.1f}", file=sys.stderr, flush=True)
        lines.append(f"# {fit.note}; {fit.low:.5g} .. {fit.high:.5g}; error 2^{error:.1f}")
        lines.append(f"{name} = {to_text(found)}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    if "--check" in sys.argv:
        module = load(SPECIAL)
        for name, fit in FITS.items():
            print(f"{name:16} 2^{error_of(fit, getattr(module, name)):.1f}")
    else:
        SPECIAL.write_text(generate(sys.argv[1:]))
