"""The error bounds that NVIDIA documents, in ulp: the CUDA C++ Programming Guide (13.0),
Mathematical Functions, tables of maximum ULP errors; there the error of a result is its distance
from the correctly rounded one. What is not listed here is exact or correctly rounded (0).
"""

from __future__ import annotations

import math

ULP: dict[str, tuple[float, float]] = {
    "rsqrt": (2, 1), "cbrt": (1, 1), "rcbrt": (1, 1), "hypot": (3, 2), "rhypot": (2, 1),
    "norm3d": (3, 2), "rnorm3d": (2, 1), "norm4d": (3, 2), "rnorm4d": (2, 1), "exp": (2, 1),
    "exp2": (2, 1), "exp10": (2, 1), "expm1": (1, 1), "log": (1, 1), "log2": (1, 1),
    "log10": (2, 1), "log1p": (1, 1), "sin": (2, 2), "cos": (2, 2), "tan": (4, 2),
    "sinpi": (1, 2), "cospi": (1, 2), "asin": (2, 2), "acos": (2, 2), "atan": (2, 2),
    "atan2": (3, 2), "sinh": (3, 2), "cosh": (2, 1), "tanh": (2, 1), "asinh": (3, 3),
    "acosh": (4, 3), "atanh": (3, 2), "pow": (4, 2), "erf": (2, 2), "erfc": (4, 5),
    "erfinv": (2, 5), "erfcinv": (4, 6), "erfcx": (4, 4), "normcdf": (5, 5), "normcdfinv": (5, 8),
    "lgamma": (6, 4), "tgamma": (5, 10), "j0": (9, 7), "j1": (9, 7), "y0": (9, 7), "y1": (9, 7),
    "jn": (math.inf, math.inf), "yn": (math.inf, math.inf), "cyl_bessel_i0": (6, 6),
    "cyl_bessel_i1": (6, 6),
    # Table of intrinsics; 2 + floor(|1.173 x|) for exp, 2 + floor(|2.97 x|) for exp10.
    "fast_expf": (2, 0), "fast_exp10f": (2, 0), "fast_dividef": (2, 0), "fast_logf": (3, 0),
    "fast_log2f": (2, 0), "fast_log10f": (3, 0),
    # Bounds that are absolute, or follow from those of other functions, for the following: here
    # they are computed as those without `fast`.
    "fast_sinf": (2, 0), "fast_cosf": (2, 0), "fast_tanf": (4, 0), "fast_powf": (4, 0),
    "fast_tanhf": (2, 0),
    # Not in the tables: the upper half of 1/x, some 2^-20.
    "rcp64h": (0, math.inf),
}  # fmt: skip

ABSOLUTE = {"float32": 2.2e-6, "float64": 5e-12}
"""Errors of j0, j1, y0, y1 for |x| >= 8, and of jn and yn."""

LGAMMA_ZEROS = {"float32": (-10.001, -2.264), "float64": (-23.0001, -2.2637)}
"""Between these lgamma has zeros, and no bound."""


def ulp(name: str, dtype: str) -> float:
    """The bound of a function for a dtype ("float32" or "float64")."""
    return ULP.get(name, (0, 0))[dtype == "float64"]
