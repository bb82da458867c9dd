"""The errors that AMD documents for its functions, and ours, as the AMD backend has them, in the
same measures. HIP's, which are those of ocml (HIP documentation, HIP math API): "ULP difference of
maximum absolute error" over a range of numbers. Ocml's goals (amd/device-libs/doc/OCML.md of
llvm-project, "Supported functions"): the largest error in ulp, wherever it is.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from tests.libdevice import bounds, exact
from tests.libdevice.support import LLVM, STORED, Array, arguments, defined
from tests.ops.math.vector_code import Kernel
from tritium.codegen.gpu.functions import NO_FEATURES
from tritium.codegen.llvm.vmath.libdevice import call_symbol
from tritium.language.extra.hip.libdevice import NAMES
from tritium.language.extra.signatures import Overload, signatures


class Documented(NamedTuple):
    """The range of each argument, and the errors in fp32 and fp64."""

    ranges: tuple[tuple[float, float], ...]
    fp32: float
    fp64: float


def _of(low: float, high: float, fp32: float, fp64: float, count: int = 1) -> Documented:
    return Documented(((low, high),) * count, fp32, fp64)


ERRORS = {
    "acos": _of(-1, 1, 1, 1), "acosh": _of(1, 100, 1, 1), "asin": _of(-1, 1, 2, 1),
    "asinh": _of(-10, 10, 1, 1), "atan": _of(-10, 10, 2, 1), "atanh": _of(-0.9, 0.9, 1, 1),
    "atan2": Documented(((-4, 4), (-2, 2)), 1, 1), "cbrt": _of(-100, 100, 2, 1),
    "cos": _of(-math.pi, math.pi, 1, 1), "cosh": _of(-5, 5, 1, 1), "cospi": _of(-0.3, 0.3, 1, 2),
    "erf": _of(-4, 4, 4, 4), "erfc": _of(-4, 4, 2, 2), "erfcx": _of(-2, 2, 5, 5),
    "exp": _of(-10, 10, 1, 1), "exp10": _of(-4, 4, 1, 1), "exp2": _of(-10, 10, 1, 1),
    "expm1": _of(-10, 10, 1, 1), "hypot": Documented(((-10, 10), (0, 10)), 1, 1),
    "lgamma": _of(0.5, 20, 4, 2), "log": _of(1e-6, 1e6, 2, 1), "log10": _of(1e-6, 1e6, 2, 1),
    "log1p": _of(-0.9, 10, 1, 1), "log2": _of(1e-6, 1e6, 1, 1), "norm3d": _of(-10, 10, 1, 1, 3),
    "norm4d": _of(-10, 10, 2, 2, 4), "pow": Documented(((-4, 4), (-2, 2)), 1, 1),
    "rcbrt": _of(-100, 100, 1, 1), "rhypot": Documented(((-100, 100), (-10, 100)), 1, 1),
    "rnorm3d": _of(-10, 10, 1, 1, 3), "rnorm4d": _of(-10, 10, 2, 1, 4),
    "rsqrt": _of(0.01, 100, 1, 1), "sin": _of(-math.pi, math.pi, 1, 1), "sinh": _of(-5, 5, 1, 1),
    "sinpi": _of(-0.625, 0.625, 2, 2), "sqrt": _of(0, 100, 1, 1),
    "tan": _of(-1.47 * math.pi, 1.47 * math.pi, 1, 1), "tanh": _of(-5, 5, 2, 1),
    "tgamma": _of(0.5, 15, 6, 6),
}  # fmt: skip
CASES = [
    (name, overload) for name in ERRORS for overload in signatures()[name].overloads
    if all(a == overload.result for a in overload.arguments)
]  # fmt: skip


def documented(name: str, overload: Overload) -> float:
    found = ERRORS[name]
    return found.fp32 if overload.result == "float32" else found.fp64


def inputs(name: str, overload: Overload, count: int) -> list[Array]:
    """Numbers of the ranges, a third of them spread over their orders of magnitude."""
    rng, found = np.random.default_rng(5), list[Array]()
    for low, high in ERRORS[name].ranges:
        values = rng.uniform(low, high, count)
        small = slice(None, count // 3)
        if low > 0:
            values[small] = np.exp(rng.uniform(np.log(low), np.log(high), count // 3))
        else:
            values[small] *= np.exp2(rng.integers(-20, 1, count // 3))
        found.append(np.clip(values, low, high).astype(STORED[overload.result]))
    return found


def computed(overload: Overload, arrays: list[Array]) -> Array:
    """The results of the code for AMD GPUs, compiled for this CPU."""

    def body(f: Any, values: Any, features: Any) -> Any:
        return call_symbol(f, overload.symbol, *values, features=NO_FEATURES)

    kernel = Kernel(body, [LLVM[a] for a in overload.arguments], LLVM[overload.result], 1)
    return kernel(*arrays, out=np.empty(arrays[0].size, STORED[overload.result]))


def errors(name: str, overload: Overload, count: int) -> tuple[float, float]:
    """The error where the absolute one is largest, and the largest, in ulp from the correctly
    rounded result: of the code for AMD GPUs, compiled for this CPU."""

    arrays, dtype = inputs(name, overload, count), STORED[overload.result]
    actual = computed(overload, arrays)
    wanted = exact.expected(name, dtype, *arrays)
    found = exact.distance(actual, wanted)
    with np.errstate(all="ignore"):
        difference = np.abs(actual.astype(float) - wanted.astype(float))
    finite = np.where(np.isfinite(difference), difference, 0)
    return float(found[np.argmax(finite)]), float(np.max(found))


OCML = {
    "acos": (4, 4), "acosh": (4, 4), "asin": (4, 4), "asinh": (4, 4), "atan": (5, 5),
    "atan2": (6, 6), "atanh": (5, 5), "cos": (4, 4), "cosh": (4, 4), "erf": (16, 16),
    "erfc": (16, 16), "erfinv": (3, 8), "exp": (3, 3), "exp2": (3, 3), "expm1": (3, 3),
    "hypot": (4, 4), "j0": (2, 6), "j1": (2, 6), "lgamma": (6, 4), "log": (3, 3), "log10": (3, 3),
    "log1p": (2, 2), "log2": (3, 3), "pow": (16, 16), "rsqrt": (2, 2), "sin": (4, 4),
    "sinh": (4, 4), "sqrt": (3, 3), "tan": (5, 5), "tanh": (5, 5), "y0": (2, 6), "y1": (2, 6),
}  # fmt: skip
"""Bounds of ocml for errors in ulp, of floats and of doubles, by the name of a function that is
neither exact nor rounded correctly; those of `lgamma` hold for positive numbers, those of j0, j1,
y0 and y1 for magnitudes below 12."""
ALL = [(name, overload) for name in NAMES for overload in signatures()[name].overloads]


def goal(name: str, overload: Overload) -> tuple[float, str]:
    """The largest error in ulp, and who states it: ocml, CUDA where ocml does not; 0 for functions
    that are exact or rounded correctly."""
    if name not in exact.FUNCTIONS:
        return 0, "exact"
    if name in OCML:
        return OCML[name][overload.result == "float64"], "ocml"
    return bounds.ulp(name, overload.result), "CUDA"


def largest(name: str, overload: Overload, count: int) -> float:
    """The largest error in ulp of the code for AMD GPUs: from the exact result, or for functions
    that are exact or rounded correctly from the right one. Over numbers of all magnitudes."""
    arrays = arguments(name, overload, count, 7)
    if name not in exact.FUNCTIONS:
        actual, wanted = computed(overload, arrays), defined(overload, *arrays)
        if actual.dtype.kind == "f":
            return float(np.max(exact.distance(actual, wanted)))
        return float(np.max(np.abs(actual.astype(object) - wanted.astype(object))))
    x = arrays[-1]
    keep = np.all([np.isfinite(a) & ((a != 0) | (a.dtype.kind == "i")) for a in arrays], axis=0)
    if name in ("j0", "j1", "y0", "y1"):
        keep &= np.abs(x) < 12
    elif name == "lgamma":
        keep &= x > 0
    arrays = [np.ascontiguousarray(a[keep]) for a in arrays]
    return float(np.max(exact.ulps(name, computed(overload, arrays), *arrays)))
