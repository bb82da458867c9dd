"""Lengths of vectors and their reciprocals: hypot, norm3d, norm4d, rhypot, rnorm3d, rnorm4d.

The sum of squares is kept as a pair of doubles, so that only the last operations round. A float's
square is exact in double, where it neither over- nor underflows; doubles are scaled first.
"""

from __future__ import annotations

import math

from tritium.codegen.llvm.vmath.lanes import (
    FLOAT,
    Lanes,
    fast_two_sum,
    select,
    two_product,
    two_sum,
)
from tritium.codegen.llvm.vmath.registry import TABLE, VectorFunction

_HUGE, _TINY, _SCALE = 2.0**400, 2.0**-450, 2.0**600


def _scaled_sum(parts: tuple[Lanes, ...]) -> tuple[Lanes, Lanes, Lanes, Lanes]:
    """The sum of squares as a pair, scaled; the power of two that the parts were multiplied by;
    the largest magnitude."""
    largest = parts[0].abs()
    for part in parts[1:]:
        largest = largest.intrinsic("maximum", part.abs())
    huge, tiny = largest > _HUGE, largest < _TINY
    scale = select(huge, 1 / _SCALE, select(tiny, largest.constant(_SCALE), 1.0))
    high, low = largest.constant(0.0), largest.constant(0.0)
    for part in parts:
        square, lost = two_product(part * scale, part * scale)
        high, more = two_sum(high, square)
        low = low + (lost + more)
    high, low = fast_two_sum(high, low)
    return high, low, scale, largest


def _any_infinite(parts: tuple[Lanes, ...]) -> Lanes:
    found = parts[0].abs().equals(math.inf)
    for part in parts[1:]:
        found = found | part.abs().equals(math.inf)
    return found


def _in_double(parts: tuple[Lanes, ...]) -> Lanes:
    """sqrt of the sum of squares of floats, as a double: exact but for some 2^-53."""
    wide = [part.cast("fpext", "double") for part in parts]
    total = wide[0] * wide[0]
    for part in wide[1:]:
        total = part.fma(part, total)
    return total.sqrt()


def norm(*parts: Lanes) -> Lanes:
    """sqrt of the sum of squares; infinite where a part is, even beside a NaN."""
    if parts[0].format is FLOAT:
        value = _in_double(parts).cast("fptrunc", "float")
        return select(_any_infinite(parts), math.inf, value)
    high, low, scale, largest = _scaled_sum(parts)
    root = high.sqrt()
    square, lost = two_product(root, root)
    # One Newton step with the exact residual.
    refined = root + ((high - square) - lost + low) / (root + root)
    value = select(largest > 0.0, refined, root) * (1.0 / scale)
    return select(_any_infinite(parts), math.inf, value)


def reciprocal_norm(*parts: Lanes) -> Lanes:
    """1 over `norm`; infinite where all parts are 0."""
    if parts[0].format is FLOAT:
        value = (1.0 / _in_double(parts)).cast("fptrunc", "float")
        return select(_any_infinite(parts), 0.0, value)
    high, low, scale, _ = _scaled_sum(parts)
    guess = 1.0 / high.sqrt()
    square, lost = two_product(guess, guess)
    product, product_low = two_product(high, square)
    residual = ((1.0 - product) - product_low) - (high * lost + low * square)
    value = (guess + guess * residual * 0.5) * scale
    value = select(high.equals(0.0), math.inf, value)
    return select(_any_infinite(parts), 0.0, value)


_BOUNDS = {"float": 0.51, "double": 1.0}
for _name, _inverse, _arity in (
    ("hypot", "rhypot", 2), ("norm3d", "rnorm3d", 3), ("norm4d", "rnorm4d", 4),
):  # fmt: skip
    TABLE[_name] = VectorFunction(_name, _arity, _BOUNDS, norm)
    TABLE[_inverse] = VectorFunction(_inverse, _arity, _BOUNDS, reciprocal_norm)
