"""Functions that are one instruction, or exact, or correctly rounded by IEEE arithmetic."""

from __future__ import annotations

from tritium.lowering.vmath.lanes import Lanes
from tritium.lowering.vmath.registry import TABLE, VectorFunction, function

# name -> (LLVM intrinsic, number of arguments). All are exact or correctly rounded.
_INTRINSICS = {
    "floor": ("floor", 1),
    "ceil": ("ceil", 1),
    "trunc": ("trunc", 1),
    "rint": ("roundeven", 1),  # the rounding mode is never changed
    "fabs": ("fabs", 1),
    "sqrt": ("sqrt", 1),
    "copysign": ("copysign", 2),
    "fma": ("fma", 3),
}


def _intrinsic(name: str, arity: int, intrinsic: str) -> VectorFunction:
    def emit(x: Lanes, *others: Lanes) -> Lanes:
        return x.intrinsic(intrinsic, *others)

    return VectorFunction(name, arity, {"float": 0.5, "double": 0.5}, emit)


TABLE.update({name: _intrinsic(name, arity, llvm) for name, (llvm, arity) in _INTRINSICS.items()})


@function("rsqrt", float=1.5, double=1.5)
def rsqrt(x: Lanes) -> Lanes:
    return 1.0 / x.sqrt()


@function("fmod", float=0.5, double=0.5, arity=2)
def fmod(x: Lanes, y: Lanes) -> Lanes:
    # LLVM expands frem to calls of the C library's fmod lane by lane: exact, but not fast.
    return x.make(x.function.op("frem", x.value, y.value))
