"""sin(pi x) and cos(pi x): x = q/2 + r exactly, then the polynomials of sin and cos at pi r."""

from __future__ import annotations

import math

from tritium.codegen.llvm.vmath import coefficients as c
from tritium.codegen.llvm.vmath.lanes import Lanes, select, two_product
from tritium.codegen.llvm.vmath.registry import function
from tritium.codegen.llvm.vmath.trig import cos_reduced, sin_reduced


def _reduced(x: Lanes) -> tuple[Lanes, Lanes, Lanes, Lanes]:
    """sin and cos of pi r, and whether q is odd, and whether bit 1 of q is set; for x >= 0."""
    x = select((x >= 2.0**54) & (x < math.inf), 0.0, x)  # all even
    q = (x + x).intrinsic("roundeven")
    r = x - q * 0.5
    angle, low = two_product(r, c.PI_F64[0])
    low = low + r * c.PI_F64[1]
    odd = q * 0.5 - (q * 0.5).intrinsic("trunc")
    half = q * 0.25 - (q * 0.25).intrinsic("floor")  # 0, 1/4, 1/2 or 3/4
    return sin_reduced(angle, low), cos_reduced(angle, low), odd.compare("une", 0.0), half >= 0.5


@function("sinpi", float=0.51, double=1.5, wide=True)
def sinpi(x: Lanes) -> Lanes:
    sine, cosine, odd, negate = _reduced(x.abs())
    value = select(odd, cosine, sine)
    return (select(negate, -value, value) + 0.0).flip_sign(x)  # of integers 0 with the sign of x


@function("cospi", float=0.51, double=1.5, wide=True)
def cospi(x: Lanes) -> Lanes:
    sine, cosine, odd, negate = _reduced(x.abs())
    # q = 1 and 2 are the quadrants where the cosine is negative; an exact zero is +0.
    value = select(odd, -sine, cosine)
    return select(negate, -value, value) + 0.0
