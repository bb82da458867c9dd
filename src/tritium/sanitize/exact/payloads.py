"""Code on payloads (`ring`): from floats to them and back, and what stands for each operation."""

from __future__ import annotations

from math import e, log2

from xdsl.ir import SSAValue

from tritium.ir import types as ir
from tritium.ops.arith import (
    AddIOp,
    AndIOp,
    CmpIOp,
    CmpIPredicate,
    ExtSIOp,
    MulIOp,
    OrIOp,
    ShRUIOp,
    SubIOp,
    TruncIOp,
    XOrIOp,
)
from tritium.ops.ttir.numeric import BitcastOp
from tritium.passes.rewriting import Builder
from tritium.sanitize.exact.ring import GENERATOR, Ring, fingerprint, payload_of, ring_of

INTEGERS = {8: ir.i8, 16: ir.i16, 32: ir.i32, 64: ir.i64}


class Payloads:
    """Writes code on payloads of one floating-point type, before an op.

    Args:
        at: makes the ops.
        type: of the floats, with any shape.
    """

    def __init__(self, at: Builder, type: ir.Type):
        self.at, self.ring, self.element = at, ring_of(ir.element_type(type)), ir.element_type(type)

    # Floats and payloads

    def embed(self, value: SSAValue) -> SSAValue:
        """The payloads of floats."""
        ring = self.ring
        bits = self.at.value(BitcastOp, value, result=self.payloads(value.type))
        first, *others = ring.factors
        low = self._and(self.mul(self._and(bits, ring.magnitudes), first), ring.magnitudes)
        for shift, factor in zip(ring.shifts, others, strict=True):
            low = self.xor(low, self._right(low, shift))
            low = self._and(self.mul(low, factor), ring.magnitudes)
        low = self._exchanged(low)
        negative = self.at.value(OrIOp, self.negative(low), self.like(-ring.magnitudes - 1, low))
        return self.select(self.compare("slt", bits, 0), negative, low)

    def unembed(self, payload: SSAValue) -> SSAValue:
        """The floats of payloads."""
        ring, modulus = self.ring, self.ring.magnitudes + 1
        below = self.compare("slt", payload, 0)
        low = self.select(below, self.negative(payload), payload)
        low = self._exchanged(self._and(low, ring.magnitudes))
        first, *others = ring.factors
        for shift, factor in zip(reversed(ring.shifts), reversed(others), strict=True):
            low = self._and(self.mul(low, pow(factor, -1, modulus)), ring.magnitudes)
            mixed = low
            for by in range(shift, ring.bits - 1, shift):  # undoes the step
                low = self.xor(low, self._right(mixed, by))
        low = self._and(self.mul(low, pow(first, -1, modulus)), ring.magnitudes)
        sign = self.like(-modulus, low)
        bits = self.select(below, self.at.value(OrIOp, low, sign), low)
        result = ir.with_element(payload.type, self.element)
        return self.at.value(BitcastOp, bits, result=result)

    def payloads(self, type: ir.Type) -> ir.Type:
        """The type of payloads in place of floats."""
        return ir.with_element(type, INTEGERS[self.ring.bits])

    def constant(self, number: float, like: SSAValue) -> SSAValue:
        """The payload of a number."""
        return self.like(payload_of(number, self.element), like)

    def _exchanged(self, low: SSAValue) -> SSAValue:
        ring = self.ring
        if ring.image is None:
            return low
        image, largest = self.like(ring.image, low), self.like(ring.magnitudes, low)
        other = self.select(self.compare("eq", low, ring.magnitudes), image, low)
        return self.select(self.compare("eq", low, ring.image), largest, other)

    # The ring

    def add(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """`a + b`; minus infinity where one is."""
        return self._absorbed(self.at.value(AddIOp, a, b), a, b)

    def sub(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """`a - b`; minus infinity where `a` is."""
        return self._absorbed(self.at.value(SubIOp, a, b), a)

    def product(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """`a * b`; minus infinity where one is."""
        return self._absorbed(self.mul(a, b), a, b)

    def negative(self, a: SSAValue) -> SSAValue:
        """`-a`."""
        return self.at.value(SubIOp, self.like(0, a), a)

    def inverse(self, a: SSAValue) -> SSAValue:
        """The inverse of an odd payload. Of an even one, that of the next less 1: what is inverted
        twice is what it was."""
        even = self.compare("eq", self._and(a, 1), 0)
        odd = self.at.value(OrIOp, a, self.like(1, a))
        found = odd  # right in the three lowest bits
        correct = 3
        while correct < self.ring.bits:
            rest = self.at.value(SubIOp, self.like(2, a), self.mul(odd, found))
            found, correct = self.mul(found, rest), 2 * correct
        return self.select(even, self.at.value(SubIOp, found, self.like(1, a)), found)

    def power(self, a: SSAValue) -> SSAValue:
        """The stand-in for 2 to the power of a: sums become products, 0 becomes 1; minus infinity
        becomes 0."""
        modulus, factor = 1 << self.ring.bits, GENERATOR
        found, one = self.like(1, a), self.like(1, a)
        for bit in range(self.ring.bits):
            if factor == 1:
                break
            chosen = self.select(self._bit(a, bit), self.like(factor, a), one)
            found, factor = self.mul(found, chosen), factor * factor % modulus
        if self.ring.lowest is not None:
            gone = self.compare("eq", a, self.ring.lowest)
            found = self.select(gone, self.like(0, a), found)
        return found

    def exponential(self, a: SSAValue) -> SSAValue:
        """The stand-in for e to the power of a: `power(a * log2(e))`."""
        return self.power(self.product(a, self.constant(log2(e), a)))

    def cosine_and_sine(self, a: SSAValue) -> tuple[SSAValue, SSAValue]:
        """The stand-ins for the cosine and the sine: the parts of the power of a complex unit whose
        norm is 1, so that the identities of angles hold."""
        modulus = 1 << self.ring.bits
        scale = pow(5, -1, modulus)  # (1 + 2i) / (1 - 2i) = (-3 + 4i) / 5
        step = -3 * scale % modulus, 4 * scale % modulus
        cosine, sine = self.like(1, a), self.like(0, a)
        one, zero = cosine, sine
        for bit in range(self.ring.bits):
            chosen = self._bit(a, bit)
            x = self.select(chosen, self.like(step[0], a), one)
            y = self.select(chosen, self.like(step[1], a), zero)
            cosine, sine = (
                self.at.value(SubIOp, self.mul(cosine, x), self.mul(sine, y)),
                self.at.value(AddIOp, self.mul(cosine, y), self.mul(sine, x)),
            )
            x, y = step
            step = (x * x - y * y) % modulus, 2 * x * y % modulus
        return cosine, sine

    def tagged(self, name: str, operands: list[SSAValue]) -> SSAValue:
        """A mixture of a function's operands with its name, for one of which no more is known."""
        bits = self.ring.bits
        found = self.like(fingerprint(name, bits), operands[0])
        for operand in operands:
            found = self.mul(self.xor(found, operand), fingerprint(f"{name} *", bits) | 1)
            found = self.xor(found, self._right(found, bits // 2))
        return self.mul(found, fingerprint(f"{name} **", bits) | 1)

    def resized(self, payload: SSAValue, ring: Ring) -> SSAValue:
        """Payloads of another ring in this one: its multiples of 1 stay what they are."""
        target = self.payloads(payload.type)
        if ring.bits == self.ring.bits:
            return payload
        return self.at.value(ExtSIOp if ring.bits < self.ring.bits else TruncIOp, payload,
                             result=target)  # fmt: skip

    # Integers

    def mul(self, a: SSAValue, b: SSAValue | int) -> SSAValue:
        """The product of integers."""
        return self.at.value(MulIOp, a, self.like(b, a))

    def xor(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """The sum of bits."""
        return self.at.value(XOrIOp, a, b)

    def select(self, condition: SSAValue, a: SSAValue, b: SSAValue) -> SSAValue:
        """`a` where the condition holds, else `b`."""
        mask = self.at.value(ExtSIOp, condition, result=a.type)
        return self.xor(b, self.at.value(AndIOp, self.xor(a, b), mask))

    def compare(self, word: str, a: SSAValue, b: SSAValue | int) -> SSAValue:
        """The comparison of integers."""
        predicate = CmpIPredicate[word.upper()]
        return self.at.value(CmpIOp, a, self.like(b, a), predicate=predicate)

    def like(self, number: SSAValue | int, like: SSAValue) -> SSAValue:
        """An integer as a constant of the type of a value."""
        if not isinstance(number, int):
            return number
        bits = self.ring.bits
        number &= (1 << bits) - 1
        return self.at.constant(number - (number >> bits - 1 << bits), like)

    def _and(self, a: SSAValue, mask: int) -> SSAValue:
        return self.at.value(AndIOp, a, self.like(mask, a))

    def _right(self, a: SSAValue, by: int) -> SSAValue:
        return self.at.value(ShRUIOp, a, self.like(by, a))

    def _bit(self, a: SSAValue, number: int) -> SSAValue:
        return self.compare("ne", self._and(a, 1 << number), 0)

    def _absorbed(self, found: SSAValue, *operands: SSAValue) -> SSAValue:
        lowest = self.ring.lowest
        if lowest is None:
            return found
        for operand in operands:
            infinite = self.compare("eq", operand, lowest)
            found = self.select(infinite, self.like(lowest, found), found)
        return found
