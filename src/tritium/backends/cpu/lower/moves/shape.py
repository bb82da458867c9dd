"""Ops that make tiles or move their elements: where the element at a position comes from."""

from __future__ import annotations

from typing import Any

import numpy as np

from tritium.backends.cpu.dot.operand import static
from tritium.backends.cpu.lower.access import load
from tritium.backends.cpu.lower.context import Context
from tritium.backends.cpu.lower.emitter import At, Emitter
from tritium.backends.cpu.lower.moves.transpose import blocked
from tritium.backends.cpu.lower.types import value_type
from tritium.backends.cpu.lower.values import (
    ZERO,
    Index,
    Kind,
    Lanes,
    Linear,
    Uniform,
    Vec,
    differs_by_lane,
    result_axes,
)
from tritium.codegen.llvm.types import memory_bytes
from tritium.codegen.llvm.writer import Value, const
from tritium.codegen.registry import lowers
from tritium.ir import types as ir
from tritium.ops.arith import ConstantOp, attr_value
from tritium.ops.base import Op
from tritium.ops.dialects import op_classes
from tritium.ops.ttir.memory import LoadOp
from tritium.ops.ttir.shape import AxesOp, MakeRangeOp, ReshapeOp, UnsplatOp


def scalar_constant(value: Any, type: ir.Type) -> Value:
    """A NumPy number as an LLVM constant."""
    held = value_type(type)
    if held.startswith("i") and not ir.is_integer(type):
        return const(held, int(np.asarray(value).view(np.int8)))
    if held.startswith("i") or held == "ptr":
        return const(held, int(value))
    return const(held, float(value))


def uniform_constant(op: ConstantOp) -> Value | None:
    """The number in all elements of a constant, if there is one."""
    type = op.results[0].type
    values = attr_value(op.value)
    if ir.shape_of(type):
        data = op.value.data.data
        size = values.dtype.itemsize
        if data[:size] * (len(data) // size) != data:
            return None
        values = values.flat[0]
    return scalar_constant(values, type)


@lowers("cpu.scalar", ConstantOp)
def scalar(c: Context, op: ConstantOp) -> Value:
    return scalar_constant(attr_value(op.value), op.results[0].type)


@lowers("cpu.tile", ConstantOp)
def constant(e: Emitter, op: ConstantOp, number: int, at: At) -> Lanes:
    type = op.results[0].type
    uniform = uniform_constant(op)
    if uniform is not None:
        return Uniform(uniform, 0)
    values = attr_value(op.value)
    text = ", ".join(str(scalar_constant(v, type)) for v in values.flat)
    held = value_type(type)
    if held == "i1":
        raise e.context.unsupported(op, " (a table of i1)")
    table = e.f.module.constant(f"[{values.size} x {held}]", f"[{text}]", prefix="table")
    return load_table(e, table, values.shape, type, at)


def load_table(e: Emitter, table: Value, shape: tuple[int, ...], type: ir.Type, at: At) -> Lanes:
    """Elements of a constant tile in memory."""
    flat = flatten(e, at, shape)
    size = memory_bytes(type)
    if isinstance(flat, Linear):
        pointer: Lanes = Linear(
            e.moved(Linear(table, size, flat.base, 0, flat.level, flat.level)), size,
            flat.index, flat.shift, flat.level, flat.index_level,
        )  # fmt: skip
    elif isinstance(flat, Uniform):
        pointer = Uniform(e.moved(Linear(table, size, flat.value, 0, flat.level, flat.level)),
                          flat.level)  # fmt: skip
    else:
        pointer = Vec(e.f.gep(value_type(type), table, flat.value), e.depth)
    return load(e, pointer, type, None, None, size)


@lowers("cpu.tile", MakeRangeOp)
def make_range(e: Emitter, op: MakeRangeOp, number: int, at: At) -> Lanes:
    (index,) = at
    position = e.position(index, "i32")
    start = op.start
    if start == 0:
        return position
    if isinstance(position, Linear):
        return position._replace(base=const("i32", start))
    if isinstance(position, Uniform):
        return Uniform(e.add(position.value, const("i32", start), index.level), index.level)
    return Vec(e.f.op("add", position.value, const(position.value.type, start)), e.depth)


@lowers("cpu.tile", UnsplatOp)
def unsplat(e: Emitter, op: Any, number: int, at: At) -> Lanes:
    source = op.operands[0]
    return e.emit(source, (ZERO,) * len(ir.shape_of(source.type)))


@lowers("cpu.tile", *(cls for cls in op_classes("tt") if issubclass(cls, AxesOp)))
def along_axes(e: Emitter, op: Any, number: int, at: At) -> Lanes:
    axes = e.context.axes.get(op)
    if axes is None:
        axes = e.context.axes[op] = result_axes(op)
    return e.emit(op.operands[0], tuple([ZERO if a is None else at[a] for a in axes]))


@lowers("cpu.tile", ReshapeOp)
def reshape(e: Emitter, op: Any, number: int, at: At) -> Lanes:
    source = op.operands[0]
    shape, inner = ir.shape_of(op.results[0].type), ir.shape_of(source.type)
    quick = interleaved(e, source, at, shape, inner) or strided(e, source, at, shape, inner)
    if quick is not None:
        return quick
    found = e.emit(source, remap(e, at, shape, inner))
    # Where other sizes than 1 change, the positions that were computed hold for this chunk only.
    same = [s for s in shape if s > 1] == [s for s in inner if s > 1]
    return found if same else found._replace(pinned=True)


def interleaved(
    e: Emitter, source: Any, at: At, shape: tuple[int, ...], inner: tuple[int, ...]
) -> Vec | None:
    """A chunk of a join whose last two axes become one: half of a chunk of either operand, lanes
    alternating. Which half must not depend on the iteration of a loop."""
    width, index = e.width, at[-1] if at else ZERO
    if not (isinstance(source.owner, Op) and source.owner.interleaves):
        return None
    # What has a buffer is read from there: the operands' own may hold something else by now.
    if source in e.context.buffers and source not in e.inline:
        return None
    if index.kind != Kind.LANES or width < 2 or not e.aligned or differs_by_lane(at):
        return None
    merged = inner[:-2] == shape[:-1] and shape[-1] == 2 * inner[-2]
    aligned = index.value is None or (index.value == e.chunks[0] and e.chunks[1] % (2 * width) == 0)
    if not merged or not aligned or inner[-2] < width:
        return None
    value = index.value
    if value is not None:
        one = const("i64", 1)
        value = e.once(("lshr", value, one), index.level, e.f.op, "lshr", value, one)
    half = (index.shift // width) % 2 * (width // 2)
    place = (*at[:-1], index._replace(value=value, shift=index.shift // 2 - half))
    left, right = (e.vec(e.emit(v, place)) for v in source.owner.operands)
    lanes_of = [half + i // 2 + (width if i % 2 else 0) for i in range(width)]
    return Vec(e.f.shuffle(left, right, lanes_of), e.depth, True)


def strided(
    e: Emitter, source: Any, at: At, shape: tuple[int, ...], inner: tuple[int, ...]
) -> Vec | None:
    """Every second element: from two chunks that follow one another."""
    if len(at) < 2:
        return None
    index, width = at[-2], e.width
    if index.kind != Kind.LANES or shape[-1] != 2 or inner[-1] % (2 * width):
        return None
    last = e.position(at[-1])
    picked = static(last.value) if isinstance(last, Uniform) else None
    flat = flatten(e, at, shape)
    if picked is None or not isinstance(flat, Linear) or flat.stride != 2:
        return None
    level, value = max(flat.level, flat.index_level), flat.index
    if value is not None:
        one = const("i64", 1)
        value = e.once(("shl", value, one), flat.index_level, e.f.op, "shl", value, one)
    run = flat._replace(stride=1, index=value, shift=2 * flat.shift)
    start = static(run.base)
    if start is not None:
        run = run._replace(base=const("i64", start - picked))
    else:
        run = run._replace(base=e.add(run.base, const("i64", -picked), level))
    first, second = (
        e.vec(e.emit(source, unflatten(e, run._replace(shift=run.shift + j * width), inner)))
        for j in range(2)
    )
    picks = [2 * i + picked for i in range(width)]
    return Vec(e.f.shuffle(first, second, picks), e.depth, True)


def remap(e: Emitter, at: At, shape: tuple[int, ...], inner: tuple[int, ...]) -> At:
    """Positions in a tile of shape `inner` that holds the elements of one of `shape` in the same
    row-major order."""
    at = tuple(ZERO if s == 1 else i for s, i in zip(shape, at, strict=False))
    kept = [(s, i) for s, i in zip(shape, at, strict=False) if s > 1]
    wanted = [s for s in inner if s > 1]
    if [s for s, _ in kept] == wanted:
        positions = iter(kept)
        return tuple(ZERO if s == 1 else next(positions)[1] for s in inner)
    return unflatten(e, flatten(e, at, shape), inner)


def flatten(e: Emitter, at: At, shape: tuple[int, ...]) -> Lanes:
    """The row-major number of a position, i64."""
    total: Lanes = Uniform(const("i64", 0), 0)
    step = 1
    for index, size in zip(reversed(at), reversed(shape), strict=False):
        if size > 1:
            total = _add_scaled(e, total, e.position(index), step)
        step *= size
    return total


def _add_scaled(e: Emitter, total: Lanes, part: Lanes, step: int) -> Lanes:
    """total + part * step for positions, at most one of them a progression."""
    f = e.f
    if isinstance(part, Uniform):
        number = static(part.value)
        if number is not None:
            scaled = const("i64", number * step)
        else:
            scaled = e.moved(Linear(const("i64", 0), step, part.value, 0, 0, part.level))
        part = Uniform(scaled, part.level)
        if isinstance(total, Uniform):
            level = max(total.level, part.level)
            return Uniform(e.add(total.value, part.value, level), level)
        if isinstance(total, Linear):
            level = max(total.level, part.level)
            return total._replace(base=e.add(total.base, part.value, level), level=level)
        return Vec(e.f.op("add", total.value, e.vec(part)), e.depth)
    if isinstance(part, Linear) and isinstance(total, Uniform):
        assert isinstance(part.stride, int)
        return part._replace(base=total.value, stride=part.stride * step, level=total.level)
    wide = e.vec(part)
    scaled = wide if step == 1 else f.op("mul", wide, const(wide.type, step))
    if isinstance(total, Uniform) and static(total.value) == 0:
        return Vec(scaled, e.depth)
    return Vec(f.op("add", e.vec(total), scaled), e.depth)


def unflatten(e: Emitter, flat: Lanes, shape: tuple[int, ...]) -> At:
    """The position with a given row-major number in a tile of powers of two."""
    result: list[Index] = []
    width = e.width
    rows = e.aligned and shape[-1] % width == 0
    if isinstance(flat, Linear) and (flat.stride != 1 or not rows):
        flat = Vec(e.vec(flat), max(flat.level, flat.index_level))
    if isinstance(flat, Linear):
        # The chunk starts at a multiple of the width, and so lies within a row.
        level = max(flat.level, flat.index_level)
        start = e.moved(flat)
        *outer, last = _digits(e, start, shape, level)
        lane = Index(Kind.LANES, last.value, last.shift, last.level)
        return (*outer, lane)
    if isinstance(flat, Uniform):
        return tuple(_digits(e, flat.value, shape, flat.level))
    value, step = flat.value, 1
    for size in reversed(shape):
        if size == 1:
            result.append(ZERO)
            continue
        digit = value
        if step > 1:
            digit = e.f.op("lshr", digit, const(value.type, step.bit_length() - 1))
        digit = e.f.op("and", digit, const(value.type, size - 1))
        result.append(Index(Kind.VECTOR, digit, 0, e.depth))
        step *= size
    return tuple(reversed(result))


def _digits(e: Emitter, value: Value, shape: tuple[int, ...], level: int) -> list[Index]:
    number, step = static(value), 1
    result: list[Index] = []
    for size in reversed(shape):
        if size == 1:
            result.append(ZERO)
            continue
        if number is not None:
            result.append(Index(Kind.SCALAR, None, (number // step) % size, 0))
        else:
            shift, mask = const("i64", step.bit_length() - 1), const("i64", size - 1)
            digit = value
            if step > 1:
                digit = e.once(("lshr", value, shift), level, e.f.op, "lshr", value, shift)
            digit = e.once(("and", digit, mask), level, e.f.op, "and", digit, mask)
            result.append(Index(Kind.SCALAR, digit, 0, level))
        step *= size
    return list(reversed(result))


@lowers("cpu.tile", LoadOp)
def load_tile(e: Emitter, op: LoadOp, number: int, at: At) -> Lanes:
    type = op.results[0].type
    size = memory_bytes(type)

    def read(at: At, run: bool = True) -> Lanes | None:
        pointer = e.emit(op.ptr, at)
        if run and (not isinstance(pointer, Linear) or pointer.stride != size):
            return None
        mask = None if op.mask is None else e.emit(op.mask, at)
        other = None if op.other is None else e.emit(op.other, at)
        return load(e, pointer, type, mask, other, size, op.isVolatile)

    pointer = e.emit(op.ptr, at)
    along = isinstance(pointer, Linear) and pointer.stride in (0, size)
    if not along and not isinstance(pointer, Uniform):
        found = None if op.isVolatile else blocked(e, op, at, read)
        if found is not None:
            return found
    found = read(at, False)
    assert found is not None
    return found
