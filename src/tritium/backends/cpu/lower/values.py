"""Positions in a tile and values in lanes, as the emitter of a nest represents them.

A nest runs over its domain in chunks of W neighbouring elements along one dimension, its lanes.
The value that a chunk has of a tile is

    Uniform   the same in all lanes: one scalar
    Linear    an arithmetic progression: base + stride * (index + shift + lane), never computed
              lane by lane unless someone asks (addresses, index arithmetic)
    Vec       anything else: a vector

The level of a value is the depth of the loop inside of which it can be computed: 0 before all
loops of the nest. Code is emitted at its level, so that what does not depend on an inner loop is
computed outside of it.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

from xdsl.ir import SSAValue

from tritium.codegen.llvm.writer import Value
from tritium.ir import types as ir


class Kind(IntEnum):
    """The kind of position that an index is."""

    SCALAR = 0
    LANES = 1
    VECTOR = 2


class Index(NamedTuple):
    """A position along a dimension: `value + shift` (and, for LANES, plus the lane).

    `value` is an i64 (None: zero) or, for VECTOR, a vector of i64.
    """

    kind: Kind
    value: Value | None
    shift: int
    level: int


ZERO = Index(Kind.SCALAR, None, 0, 0)


At = tuple[Index, ...]
"""The position of an element or of a chunk: an index for each dimension of a tile."""


def differs_by_lane(at: At) -> bool:
    """True if a position has a number of its own for each lane: no other chunk's will do."""
    return any(index.kind == Kind.VECTOR for index in at)


def result_axes(op: Any) -> tuple[int | None, ...]:
    """For each axis of the operand that an op repeats or permutes, the axis of the result that
    runs along it; None for an axis that grows."""
    inner: list[int | None] = [None] * len(ir.shape_of(op.operands[0].type))
    for number, axis in enumerate(op.source_axes()):
        if axis is not None:
            inner[axis] = number
    return tuple(inner)


class Uniform(NamedTuple):
    """A scalar, equal in all lanes. `pinned`: valid for the current chunk only (see `Linear`)."""

    value: Value
    level: int
    pinned: bool = False


class Linear(NamedTuple):
    """`base + stride * (index + shift + lane)`, an integer or a pointer (stride in bytes).

    `stride` is an int, or a scalar (of the base's type; i64 for a pointer). It wraps around
    in the base's type as the numbers do; one is only widened if it does not
    (`assume_no_wrap`). `pinned`: holds for this chunk only, not for all chunks along the dimension.
    """

    base: Value
    stride: Value | int
    index: Value | None  # pyright: ignore[reportIncompatibleMethodOverride]
    shift: int
    level: int
    index_level: int
    pinned: bool = False


class Origin(NamedTuple):
    """The parts of a vector of addresses `base + size * offset`, whose offsets are i32."""

    base: Value
    offsets: Value
    size: int


class Vec(NamedTuple):
    """A vector with a value for each lane."""

    value: Value
    level: int
    pinned: bool = False
    origin: Origin | None = None


Lanes = Uniform | Linear | Vec


class Facts(NamedTuple):
    """The values known to be true where a version of a nest runs: masks."""

    true: frozenset[SSAValue]


NOTHING = Facts(frozenset())
