"""Axis facts: what is known of a tile of integers or pointers along each axis, and their algebra.

    contiguity[d]    in each aligned group of this many elements along axis d, every element is the
                     previous one plus one (for pointers: the next element)
    divisibility[d]  the first element of each such group is a multiple of this (pointers: bytes)
    constancy[d]     in each aligned group of this many elements along axis d, all are equal

All are powers of two. The functions here say what follows for a sum, a product, a quotient ...; an
op's `axis_info` calls the one that it computes. Sums are taken not to overflow, as in all reasoning
about addresses; `analysis/axis_info.py` weakens facts where integers may wrap around.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import NamedTuple

from xdsl.ir import Attribute

from tritium.ir import types as ir

MOST = 1 << 62
"""Divisibility of zero."""


class AxisInfo(NamedTuple):
    """Facts about one value; see the module. Scalars have one axis of size 1.

    `known` is the number that all elements are known to be; `non_negative`: no element is negative.
    """

    contiguity: tuple[int, ...]
    divisibility: tuple[int, ...]
    constancy: tuple[int, ...]
    known: int | None = None
    non_negative: bool = False

    def aligned(self, axis: int, group: int) -> int:
        """A divisor of the first elements of aligned groups of `group` elements along an axis."""
        if group >= self.contiguity[axis]:
            return self.divisibility[axis]
        return gcd(self.divisibility[axis], group)

    def every(self, axis: int) -> int:
        """A divisor of all elements, by what is known along one axis."""
        return self.aligned(axis, 1)


def power_of_two_in(number: int) -> int:
    """The largest power of two that divides a number."""
    return MOST if number == 0 else min(number & -number, MOST)


def shape_of(type: Attribute) -> tuple[int, ...]:
    """The axes of the facts about values of a type."""
    return ir.shape_of(type) or (1,)


def unknown(type: Attribute) -> AxisInfo:
    """The facts of a value of which nothing is known."""
    ones = (1,) * len(shape_of(type))
    return AxisInfo(ones, ones, ones)


def repeated(type: Attribute, number: int) -> AxisInfo:
    """The facts of a tile whose elements are all one number."""
    shape = shape_of(type)
    ones = (1,) * len(shape)
    divisor = power_of_two_in(number)
    return AxisInfo(ones, (divisor,) * len(shape), shape, number, number >= 0)


def join(a: AxisInfo, b: AxisInfo) -> AxisInfo:
    """The facts that hold for both of two values."""
    contiguity = tuple(map(gcd, a.contiguity, b.contiguity))
    return AxisInfo(
        contiguity,
        tuple(gcd(a.aligned(d, c), b.aligned(d, c)) for d, c in enumerate(contiguity)),
        tuple(map(gcd, a.constancy, b.constancy)),
        a.known if a.known == b.known else None,
        a.non_negative and b.non_negative,
    )


def uniform(type: Attribute, operands: Sequence[AxisInfo]) -> AxisInfo:
    """The result of an elementwise op: equal operands give equal results."""
    base = unknown(type)
    rank = len(base.constancy)
    if not operands or any(len(o.constancy) != rank for o in operands):
        return base
    constancy = operands[0].constancy
    for other in operands[1:]:
        constancy = tuple(map(gcd, constancy, other.constancy))
    return base._replace(constancy=constancy)


def splat(type: Attribute, a: AxisInfo) -> AxisInfo:
    """A scalar repeated in a tile."""
    shape = shape_of(type)
    ones = (1,) * len(shape)
    return AxisInfo(ones, a.divisibility * len(shape), shape, a.known, a.non_negative)


def expand_dims(a: AxisInfo, axis: int) -> AxisInfo:
    """A tile with a new axis of size 1."""
    every = max(a.every(d) for d in range(len(a.contiguity)))

    def insert(values: tuple[int, ...], value: int) -> tuple[int, ...]:
        return (*values[:axis], value, *values[axis:])

    return AxisInfo(
        insert(a.contiguity, 1), insert(a.divisibility, every), insert(a.constancy, 1), a.known,
        a.non_negative,
    )  # fmt: skip


def broadcast(a: AxisInfo, before: tuple[int, ...], after: tuple[int, ...]) -> AxisInfo:
    """A tile repeated along axes of size 1."""
    constancy = tuple(
        s if b != s else c for b, s, c in zip(before, after, a.constancy, strict=True)
    )
    return a._replace(constancy=constancy)


def permute(a: AxisInfo, order: Sequence[int]) -> AxisInfo:
    """A transposed tile."""
    contiguity, divisibility, constancy = (
        tuple(values[i] for i in order) for values in (a.contiguity, a.divisibility, a.constancy)
    )
    return AxisInfo(contiguity, divisibility, constancy, a.known, a.non_negative)


def scale(a: AxisInfo, size: int) -> AxisInfo:
    """Numbers of elements of `size` bytes, as an offset in bytes whose runs count elements."""
    return a._replace(divisibility=tuple(min(d * size, MOST) for d in a.divisibility), known=None)


def add(a: AxisInfo, b: AxisInfo) -> AxisInfo:
    """`a + b`"""
    rank = range(len(a.contiguity))
    contiguity = tuple(
        max(gcd(a.contiguity[d], b.constancy[d]), gcd(a.constancy[d], b.contiguity[d]))
        for d in rank
    )
    return AxisInfo(
        contiguity,
        tuple(gcd(a.aligned(d, contiguity[d]), b.aligned(d, contiguity[d])) for d in rank),
        tuple(map(gcd, a.constancy, b.constancy)),
        a.known + b.known if a.known is not None and b.known is not None else None,
        a.non_negative and b.non_negative,
    )


def subtract(a: AxisInfo, b: AxisInfo) -> AxisInfo:
    """`a - b`"""
    rank = range(len(a.contiguity))
    contiguity = tuple(gcd(a.contiguity[d], b.constancy[d]) for d in rank)
    known = a.known - b.known if a.known is not None and b.known is not None else None
    return AxisInfo(
        contiguity,
        tuple(gcd(a.aligned(d, contiguity[d]), b.aligned(d, contiguity[d])) for d in rank),
        tuple(map(gcd, a.constancy, b.constancy)),
        known,
        known is not None and known >= 0,
    )


def multiply(a: AxisInfo, b: AxisInfo) -> AxisInfo:
    """`a * b`"""
    if a.known == 1:
        a, b = b, a
    if b.known == 1:
        return a
    return AxisInfo(
        (1,) * len(a.contiguity),
        tuple(min(a.every(d) * b.every(d), MOST) for d in range(len(a.contiguity))),
        tuple(map(gcd, a.constancy, b.constancy)),
        a.known * b.known if a.known is not None and b.known is not None else None,
        a.non_negative and b.non_negative,
    )


def _same_in_group(a: AxisInfo, b: AxisInfo, axis: int) -> int:
    """The number of neighbours that have one quotient by b and consecutive remainders: groups that
    start at multiples of a number that divides b."""
    group = min(a.contiguity[axis], b.constancy[axis])
    return gcd(group, gcd(a.aligned(axis, group), b.divisibility[axis]))


def divide(type: Attribute, a: AxisInfo, b: AxisInfo) -> AxisInfo:
    """The quotient of non-negative numbers, or rounded down."""
    if b.known == 1:
        return a
    base = uniform(type, (a, b))
    constancy = tuple(max(c, _same_in_group(a, b, d)) for d, c in enumerate(base.constancy))
    divisibility = base.divisibility
    if b.known is not None and b.known > 0 and b.known & (b.known - 1) == 0:
        divisibility = tuple(
            max(a.aligned(d, constancy[d]) // b.known, 1) for d in range(len(constancy))
        )
        # What is divisible in groups of the quotient must be so for all its elements.
        divisibility = tuple(
            q if constancy[d] >= a.contiguity[d] or a.contiguity[d] == 1 else 1
            for d, q in enumerate(divisibility)
        )
    return base._replace(
        constancy=constancy, divisibility=divisibility,
        non_negative=a.non_negative and b.non_negative,
    )  # fmt: skip


def remainder(type: Attribute, a: AxisInfo, b: AxisInfo, continues: bool) -> AxisInfo:
    """The remainder of `a / b`. `continues`: it grows with a, which is true of numbers that are
    not negative."""
    base = uniform(type, (a, b))
    rank = range(len(a.contiguity))
    contiguity = tuple(_same_in_group(a, b, d) for d in rank) if continues else base.contiguity
    divisibility = tuple(gcd(a.aligned(d, contiguity[d]), b.divisibility[d]) for d in rank)
    return base._replace(
        contiguity=contiguity, divisibility=divisibility, non_negative=a.non_negative
    )


def shift_left(type: Attribute, a: AxisInfo, b: AxisInfo) -> AxisInfo:
    """`a << b`"""
    if b.known is None or not 0 <= b.known < 62:
        return uniform(type, (a, b))
    power = 1 << b.known
    return multiply(a, b._replace(known=power, divisibility=(power,) * len(b.divisibility)))


def shift_right(type: Attribute, a: AxisInfo, b: AxisInfo) -> AxisInfo:
    """`a >> b`"""
    base = uniform(type, (a, b))
    if b.known is None or not 0 <= b.known < 62:
        return base
    divisor = b._replace(divisibility=(1 << b.known,) * len(b.divisibility))
    constancy = tuple(max(c, _same_in_group(a, divisor, d)) for d, c in enumerate(base.constancy))
    return base._replace(constancy=constancy, non_negative=a.non_negative)


def bit_and(type: Attribute, a: AxisInfo, b: AxisInfo) -> AxisInfo:
    """`a & b`: low bits are a remainder, high ones a multiple."""
    if a.known is not None:
        a, b = b, a
    base = uniform(type, (a, b))
    if b.known is None or ir.element_type(type) == ir.i1:
        return base
    rank = range(len(a.contiguity))
    if b.known & (b.known + 1) or b.known < 0:
        every = (power_of_two_in(b.known),) * len(rank)
        return base._replace(divisibility=every, non_negative=b.known >= 0 or a.non_negative)
    divisor = b._replace(divisibility=(b.known + 1,) * len(rank))
    contiguity = tuple(_same_in_group(a, divisor, d) for d in rank)
    return base._replace(
        contiguity=contiguity, non_negative=True,
        divisibility=tuple(gcd(a.aligned(d, contiguity[d]), b.known + 1) for d in rank),
    )  # fmt: skip


def compare(type: Attribute, a: AxisInfo, b: AxisInfo, less: bool, greater: bool) -> AxisInfo:
    """A comparison: `a < b` or `a >= b` if `less`, `a > b` or `a <= b` if `greater`."""
    base = uniform(type, (a, b))
    constancy = list(base.constancy)
    for d in range(len(constancy)):
        # 16 m + r < 16 k does not depend on 0 <= r < 16; nor does >=, nor either of the others
        # seen from the right.
        if less:
            constancy[d] = max(constancy[d], _same_in_group(a, b, d))
        if greater:
            constancy[d] = max(constancy[d], _same_in_group(b, a, d))
    return base._replace(constancy=tuple(constancy))


def select(type: Attribute, condition: AxisInfo, a: AxisInfo, b: AxisInfo) -> AxisInfo:
    """`a` where the condition holds, else `b`; a scalar condition holds of the whole tile."""
    held = condition.constancy
    if len(held) != len(a.contiguity):
        held = shape_of(type)
    both = join(a, b)
    contiguity = tuple(map(gcd, both.contiguity, held))
    return AxisInfo(
        contiguity,
        tuple(both.aligned(d, c) for d, c in enumerate(contiguity)),
        tuple(map(gcd, both.constancy, held)),
        both.known,
        both.non_negative,
    )


def extreme(type: Attribute, a: AxisInfo, b: AxisInfo, non_negative: bool) -> AxisInfo:
    """The smaller or the larger of two numbers."""
    every = tuple(gcd(a.every(d), b.every(d)) for d in range(len(a.contiguity)))
    return uniform(type, (a, b))._replace(divisibility=every, non_negative=non_negative)


def widen(a: AxisInfo) -> AxisInfo:
    """A number in a wider type; a negative one may become another number."""
    return a._replace(known=a.known if a.known is None or a.known >= 0 else None)


def narrow(a: AxisInfo) -> AxisInfo:
    """The low bits of a number."""
    return a._replace(known=None, non_negative=False)
