"""Ops that put tiles together or pick elements from them: join, split, cat, gather."""

from __future__ import annotations

from typing import Any

from tritium.backends.cpu.dot.operand import static
from tritium.backends.cpu.lower.access import mirrored
from tritium.backends.cpu.lower.emitter import At, Emitter
from tritium.backends.cpu.lower.moves.lookup import look_up, lookup_for
from tritium.backends.cpu.lower.values import (
    Index,
    Kind,
    Lanes,
    Linear,
    Uniform,
    Vec,
    differs_by_lane,
)
from tritium.codegen.llvm.writer import Value, const, lanes, vector
from tritium.codegen.registry import lowers
from tritium.ir import types as ir
from tritium.ops.ttir.shape import CatOp, GatherOp, JoinOp, SplitOp


@lowers("cpu.tile", SplitOp)
def split(e: Emitter, op: Any, number: int, at: At) -> Lanes:
    return e.emit(op.operands[0], (*at, Index(Kind.SCALAR, None, number, 0)))


@lowers("cpu.tile", JoinOp)
def join(e: Emitter, op: Any, number: int, at: At) -> Lanes:
    *inner, last = at
    which = e.position(last)
    if isinstance(which, Uniform):
        picked = static(which.value)
        if picked is not None:
            return e.emit(op.operands[picked], tuple(inner))
    left, right = (e.emit(v, tuple(inner)) for v in op.operands)
    wanted = Vec(e.vec(which), e.depth) if not isinstance(which, Uniform) else which
    second = e.f.icmp("ne", wanted.value, const(wanted.value.type, 0))
    return choose(e, second, right, left)


def choose(e: Emitter, condition: Value, then: Lanes, other: Lanes) -> Lanes:
    """A select; scalars stay scalars under a scalar condition."""
    if isinstance(then, Uniform) and isinstance(other, Uniform) and lanes(condition.type) == 1:
        return Uniform(e.f.select(condition, then.value, other.value), e.depth, True)
    return Vec(e.f.select(condition, e.vec(then), e.vec(other)), e.depth, True)


@lowers("cpu.tile", CatOp)
def cat(e: Emitter, op: Any, number: int, at: At) -> Lanes:
    (index,) = at
    f, size = e.f, ir.shape_of(op.lhs.type)[0]
    if index.kind == Kind.LANES and size % e.width:
        index = Index(Kind.VECTOR, e.vec(e.position(index)), 0, e.depth)
    if index.kind == Kind.VECTOR:
        place = e.position(index)
        assert isinstance(place, Vec)
        value = place.value
        last, first = size - 1, 0
    else:
        value = f.cast("bitcast", const("i64", index.shift), "i64") if index.value is None else (
            f.op("add", index.value, const("i64", index.shift))
        )  # fmt: skip
        last, first = size - (e.width if index.kind == Kind.LANES else 1), 0
    low = f.intrinsic("umin", value, const(value.type, last))
    high = f.intrinsic(
        "smax", f.op("sub", value, const(value.type, size)), const(value.type, first)
    )
    left = e.emit(op.lhs, (Index(index.kind, low, 0, e.depth),))
    right = e.emit(op.rhs, (Index(index.kind, high, 0, e.depth),))
    return choose(e, f.icmp("uge", value, const(value.type, size)), right, left)


@lowers("cpu.tile", GatherOp)
def gather(e: Emitter, op: Any, number: int, at: At) -> Lanes:
    """Indices are taken modulo the size of the axis, so that none leads out of the tile."""
    where = e.emit(op.indices, at)
    axis: int = op.axis
    size = ir.shape_of(op.src.type)[axis]
    shape = ir.shape_of(op.indices.type)
    reverse = None
    if at[axis].kind == Kind.LANES:
        reverse = _reversed(e, where, shape[axis], size)
    if reverse is not None:
        place = [_mirrored_position(e, index) for index in at]
        place[axis] = reverse
        return Vec(mirrored(e, e.vec(e.emit(op.src, tuple(place)))), e.depth, True)
    if at[axis].kind == Kind.LANES and not isinstance(where, Uniform) and not differs_by_lane(at):
        lookup = lookup_for(e, op.src.type, size)
        if lookup is not None:
            return Vec(look_up(e, lookup, op.src, e.vec(where), at, axis), e.depth, where.pinned)
    if isinstance(where, Uniform):
        value, kind = where.value, Kind.SCALAR
    else:
        value, kind = e.vec(where), Kind.VECTOR
    count = lanes(value.type)
    wide = vector("i64", count)
    value = e.f.cast("sext", value, wide) if value.type != wide else value
    value = e.f.op("and", value, const(wide, size - 1))
    place = Index(kind, value, 0, e.depth)
    found = e.emit(op.src, (*at[:axis], place, *at[axis + 1 :]))
    return found._replace(pinned=True) if where.pinned else found


def _mirrored_position(e: Emitter, index: Index) -> Index:
    """A position as seen by lanes in reverse order, unless it runs over the lanes."""
    if index.kind != Kind.VECTOR or index.value is None:
        return index
    return index._replace(value=mirrored(e, index.value), level=e.depth)


def _reversed(e: Emitter, where: Lanes, count: int, size: int) -> Index | None:
    """The rising positions that a chunk of indices covers which fall by one each; None for others.

    The first of all `count` indices and the last are known, and inside of the axis of `size`.
    """
    if not isinstance(where, Linear) or where.stride != -1 or e.width < 2:
        return None
    first = static(where.base)
    if first is None or not count - 1 <= first < size:
        return None
    level = max(where.level, where.index_level)
    lowest = e.moved(where._replace(shift=where.shift + e.width - 1))
    if lowest.type != "i64":
        key = ("sext", lowest, "i64")
        lowest = e.once(key, level, e.f.cast, "sext", lowest, "i64")
    return Index(Kind.LANES, lowest, 0, level)
