"""erf and erfc. The fits are our own (`tools/fit_polynomials.py`).

erf: an odd polynomial up to 1, beyond it 1 - 2^h(x) with h a polynomial for log2(erfc(x)).
erfc: exp(-x^2) g(t) / (1 + 2x) with t = (x - 4) / (x + 4), the form of Schonfelder (1978).
"""

from __future__ import annotations

from tritium.codegen.llvm.vmath import coefficients as c
from tritium.codegen.llvm.vmath.exp import exp_pair
from tritium.codegen.llvm.vmath.lanes import (
    FLOAT,
    Lanes,
    nearest,
    polynomial,
    power_of_two,
    select,
    two_product,
)
from tritium.codegen.llvm.vmath.registry import function


@function("erf", float=2.0, double=2.0)
def erf(x: Lanes) -> Lanes:
    single = x.format is FLOAT
    a = x.abs().at_most(4.0 if single else 6.0)  # beyond, the result is 1
    z = a * a
    near = a.fma(polynomial(z, c.ERF_F32 if single else c.ERF_F64), a)
    h = polynomial(a, c.ERFL_F32 if single else c.ERFL_F64)
    n, integer = nearest(h)
    r = h - n
    p = r.fma(polynomial(r, c.EXP2_F32 if single else c.EXP2_F64), 1.0)
    far = 1.0 - p * power_of_two(integer, x.format)
    return select(a < 1.0, near, select(a.is_nan(), a, far)).with_sign_of(x)


def erfcx_near(a: Lanes) -> Lanes:
    """e^(a^2) erfc(a) for a from 0 to 10.2 (27.5)."""
    g = polynomial((a - 4.0) / (a + 4.0), c.ERFCX_F32 if a.format is FLOAT else c.ERFCX_F64)
    return g / a.fma(2.0, 1.0)


@function("erfc", float=5.0, double=4.0)
def erfc(x: Lanes) -> Lanes:
    single = x.format is FLOAT
    a = x.abs().at_most(10.2 if single else 27.5)
    high, low = two_product(a, a)
    # Dividing first keeps a subnormal result at one rounding.
    value = exp_pair(-high, -low, erfcx_near(a))
    value = select(x < 0.0, 2.0 - value, value)
    # Near 0 the result is close to 1, where 1 - erf(x) is better by far.
    z = x * x
    near = 1.0 - x.fma(polynomial(z, c.ERF_F32 if single else c.ERF_F64), x)
    return select(a < 0.5, near, value)
