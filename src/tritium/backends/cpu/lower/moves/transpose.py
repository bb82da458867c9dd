"""Blocks transposed in registers, for accesses whose neighbours lie along another axis than the
nest's lanes.

A nest with a block dimension emits its chunks for `width` positions along that dimension in turn.
The first time one of them asks for a strided access, all the block is read, a vector along the
block dimension for each lane, and transposed; the others find their vectors ready.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tritium.backends.cpu.lower.emitter import Emitter
from tritium.backends.cpu.lower.values import At, Kind, Lanes, Vec, differs_by_lane
from tritium.codegen.llvm.writer import Function, Value


def blocked(e: Emitter, key: Any, at: At, read: Callable[[At], Lanes | None]) -> Lanes | None:
    """The elements at `at` from a transposed block, where the nest has a block dimension and
    `read(positions along that)` finds them consecutive; else None."""
    if e.block is None or differs_by_lane(at):
        return None
    lane = next((d for d, i in enumerate(at) if i.kind == Kind.LANES), None)
    axis = next((d for d, i in enumerate(at) if i.kind == Kind.SCALAR and i.value == e.block), None)
    if lane is None or axis is None:
        return None
    first = at[axis]._replace(shift=0)
    start = (*at[:axis], first, *at[axis + 1 :])
    known = e.known(("block", key, start))
    if known is None:
        rows: list[Value] = []
        for number in range(e.width):
            place = list(at)
            place[axis] = first._replace(kind=Kind.LANES)
            place[lane] = at[lane]._replace(kind=Kind.SCALAR, shift=at[lane].shift + number)
            row = read(tuple(place))
            if row is None:
                return None
            rows.append(e.vec(row))
        known = e.remember(("block", key, start), e.depth, transposed(e.f, rows))
    return Vec(known[at[axis].shift], e.depth, True)


def transposed(f: Function, rows: list[Value]) -> list[Value]:
    """The columns of a square of vectors: in each step, pairs of blocks across the diagonal are
    exchanged, from the largest to single elements."""
    rows, width = list(rows), len(rows)
    distance = width // 2
    while distance:
        high = [i - distance + width if i & distance else i for i in range(width)]
        low = [i + width if i & distance else i + distance for i in range(width)]
        for i in range(width):
            if not i & distance:
                a, b = rows[i], rows[i + distance]
                rows[i], rows[i + distance] = f.shuffle(a, b, high), f.shuffle(a, b, low)
        distance //= 2
    return rows
