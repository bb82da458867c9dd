"""The rings that stand for floating-point types in exact comparisons.

A float of `w` bits has a *payload*, an integer modulo 2**w. Its bits and its payload determine each
other: the payload is `mix(magnitude)`, negated under the sign bit. `mix` permutes the magnitudes of
`w - 1` bits without structure, but for three: 0, 1 and infinity become 0, 1 and the largest. So
`x + 0`, `x * 1`, `-x` and `max(x, -inf)` are what they are for numbers, and a wrong factor does not
come out right by chance.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from tritium.ir import types as ir

GENERATOR = 5
"""The unit whose powers stand for those of 2; its order is a quarter of the number of payloads."""


@dataclass(frozen=True)
class Ring:
    """The payloads of a type, as constants for code and as functions of Python's integers.

    Attributes:
        bits: of a number.
        factors: of `mix`, odd, one more than there are `shifts`, the steps between them.
        image: of the magnitude of infinity before it is exchanged with the largest one; None where
            the type has no infinity.
    """

    bits: int
    factors: tuple[int, ...]
    shifts: tuple[int, ...]
    image: int | None

    @property
    def magnitudes(self) -> int:
        """The largest magnitude, a mask."""
        return (1 << self.bits - 1) - 1

    @property
    def lowest(self) -> int | None:
        """The payload of minus infinity that absorbs what is added to it; None where the type is
        too narrow: sums would meet it by chance."""
        return None if self.image is None or self.bits < 32 else -self.magnitudes

    def mix(self, magnitude: int) -> int:
        """The magnitude of a payload."""
        first, *others = self.factors
        mixed = magnitude * first & self.magnitudes
        for shift, factor in zip(self.shifts, others, strict=True):
            mixed = (mixed ^ mixed >> shift) * factor & self.magnitudes
        return self._exchanged(mixed)

    def embed(self, bits: int) -> int:
        """The payload of a float's bits, from 0 on."""
        mixed = self.mix(bits & self.magnitudes)
        if bits >> self.bits - 1:
            return -mixed & (1 << self.bits) - 1 | 1 << self.bits - 1
        return mixed

    def _exchanged(self, mixed: int) -> int:
        if self.image is None:
            return mixed
        return {self.image: self.magnitudes, self.magnitudes: self.image}.get(mixed, mixed)


@cache
def ring_of(type: ir.Type) -> Ring:
    """The ring of a floating-point type's elements."""
    dtype = ir.numpy_dtype(ir.element_type(type))
    bits, one = 8 * dtype.itemsize, _bits(1.0, dtype)
    mask = (1 << bits - 1) - 1
    # The first step brings the lowest bit of 1 that is set to the end: only an odd number can
    # become 1 by a factor. The second one may undo that, for some factors.
    shifts = (one & -one).bit_length() - 1, bits // 2
    for number in range(64):
        words = (fingerprint(f"{dtype.name} {number} {i}", bits) for i in range(2))
        first, second = (word & mask | 1 for word in words)
        plain = Ring(bits, (first, second, 1), shifts, None)
        if plain.mix(one) & 1:
            break
    else:
        raise AssertionError(f"no factors make 1 of {dtype.name} odd")
    factors = first, second, pow(plain.mix(one), -1, mask + 1)
    plain = Ring(bits, factors, shifts, None)
    if not np.isinf(np.asarray(np.inf).astype(dtype).astype(np.float64)):
        return plain
    return Ring(bits, factors, shifts, plain.mix(_bits(np.inf, dtype)))


def payload_of(number: float, type: ir.Type) -> int:
    """The payload of a number, rounded to the type."""
    dtype = ir.numpy_dtype(ir.element_type(type))
    return ring_of(ir.element_type(type)).embed(_bits(number, dtype))


def fingerprint(text: str, bits: int) -> int:
    """A number that stands for a text."""
    digest = hashlib.sha256(text.encode()).digest()
    return int.from_bytes(digest[:8], "little") & (1 << bits) - 1


def _bits(number: float, dtype: np.dtype[Any]) -> int:
    raw = np.asarray(number).astype(dtype).tobytes()
    return int.from_bytes(raw, "little")
