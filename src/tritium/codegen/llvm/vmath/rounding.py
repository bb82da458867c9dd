"""Functions that are one instruction, or exact, or correctly rounded by IEEE arithmetic."""

from __future__ import annotations

from tritium.codegen.llvm.vmath.lanes import DOUBLE, FLOAT, Lanes, has_fma, select, two_product
from tritium.codegen.llvm.vmath.registry import TABLE, VectorFunction, any_lane, function

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


@function("fmod", float=0.5, double=0.5, arity=2, outlined=4)
def fmod(x: Lanes, y: Lanes) -> Lanes:
    """Subtract quotients rounded to 53 bits until less than y is left. Each such remainder is a
    double (Markstein 1990), so that nothing is ever rounded."""
    if x.format is DOUBLE and not has_fma(x.features):
        # LLVM makes this a call of the C library's fmod for each lane.
        return x.make(x.function.op("frem", x.value, y.value))
    a, b = x.abs(), y.abs()
    if x.format is FLOAT:
        a, b = a.cast("fpext", "double"), b.cast("fpext", "double")
    rest = _remainder(a, b)
    rest = select(rest < 0.0, rest + b, rest)  # a quotient had been rounded up
    if x.format is FLOAT:
        rest = rest.cast("fptrunc", "float")
    return select(x.is_nan() | y.is_nan(), x + y, rest.with_sign_of(x))


def _remainder(a: Lanes, b: Lanes) -> Lanes:
    """a less a whole multiple of b, above -b and below b; NaN if a is infinite or b is 0."""
    f = a.function
    before, body, done = f.block, f.new_label("reduce"), f.new_label("done")
    f.branch_if(any_lane(a >= b), body, done)
    f.label(body)
    phi = f.phi(a.value.type, [(a.value, before)])
    left = a.make(phi.value)
    step = b
    for _ in range(2):  # so that the quotient does not overflow
        step = select(left.abs() * 2.0**-600 > step, step * 2.0**600, step)
    quotient = (left / step).intrinsic("trunc")
    if has_fma(a.features):
        reduced = quotient.fma(-step, left)
    else:
        high, low = two_product(quotient, step)
        reduced = (left - high) - low
    reduced = select(left.abs() >= step, reduced, left)
    again, last = any_lane(reduced.abs() >= b), f.block
    phi.add(reduced.value, last)
    f.branch_if(again, body, done)
    f.label(done)
    return a.make(f.phi(a.value.type, [(a.value, before), (reduced.value, last)]).value)
