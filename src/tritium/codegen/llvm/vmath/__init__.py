"""Vector math for the CPU: functions as straight-line LLVM IR on vectors of float or double.

`call` writes a function of given values into the current block. `ULP` states the error bound of
each function for each lane type, over the whole range of inputs, subnormal ones and subnormal
results included; infinities, NaNs and signed zeros come out as in C. Floating-point exceptions are
not kept apart, and rounding to nearest without flushing of subnormal numbers is assumed.
`convert.fp` writes conversions between float formats.
"""

from __future__ import annotations

from tritium.codegen.llvm.vmath import convert, erf, exp, log, power, rounding, trig
from tritium.codegen.llvm.vmath.registry import TABLE, VectorFunction, call

__all__ = ["TABLE", "ULP", "VectorFunction", "call", "convert", "supported"]

# The families register their functions in TABLE by being imported.
_FAMILIES = (erf, exp, log, power, rounding, trig)

ULP: dict[str, dict[str, float]] = {name: entry.ulp for name, entry in TABLE.items()}


def supported() -> frozenset[str]:
    """The names that `call` accepts."""
    return frozenset(TABLE)
