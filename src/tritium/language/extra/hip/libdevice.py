"""AMD's mathematical functions, by the names that programs import."""

from __future__ import annotations

from tritium.language.extra.hip.utils import only_on_hip

NAMES = (
    "abs", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "ceil", "copysign", "cos", "cosh",
    "cyl_bessel_i0", "cyl_bessel_i1", "erf", "erfc", "erfcx", "erfinv", "exp", "exp2", "expm1",
    "fast_dividef", "fast_expf", "fast_tanhf", "floor", "fma", "fmod", "hypot", "ilogb", "isinf",
    "isnan", "j0", "j1", "ldexp", "lgamma", "llrint", "log", "log10", "log1p", "log2", "nearbyint",
    "nextafter", "pow", "round", "rsqrt", "signbit", "sin", "sinh", "sqrt", "tan", "tanh", "trunc",
    "y0", "y1",
)  # fmt: skip

for _name in NAMES:
    globals()[_name] = only_on_hip(
        f"hip.libdevice.{_name}",
        f"extra.libdevice.{_name} is for all others",
    )
