"""AMD's mathematical functions, by the names that programs import: those of `extra.libdevice`."""

from __future__ import annotations

from functools import partial

from tritium.language.extra import libdevice
from tritium.language.extra.hip.utils import only_on_hip

_ARITIES = {
    1: """abs acos acosh asin asinh atan atanh ceil clz cos cosh cyl_bessel_i0 cyl_bessel_i1 erf
        erfc erfcx erfinv exp exp2 expm1 fast_expf fast_tanhf finitef floor ilogb isfinited isinf
        isnan j0 j1 lgamma llrint log log10 log1p log2 nearbyint popc rint round rsqrt signbit sin
        sinh sqrt tan tanh trunc y0 y1""",
    2: "atan2 copysign fast_dividef fmod hypot ldexp nextafter pow",
    3: "fma",
}
NAMES = tuple(sorted(name for names in _ARITIES.values() for name in names.split()))

for _arity, _names in _ARITIES.items():
    for _name in _names.split():
        globals()[_name] = only_on_hip(
            f"hip.libdevice.{_name}", f"extra.libdevice.{_name} is for all others", _arity,
            built=partial(getattr, libdevice, _name), interpreted=True,
        )
