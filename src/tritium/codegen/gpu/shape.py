"""Constants, program ids, and ops that move registers around without computing."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from tritium.codegen.gpu.context import UNUSED, Context, layout_of, register_count
from tritium.codegen.gpu.types import GPU, value_type
from tritium.codegen.llvm.writer import Value, const
from tritium.codegen.registry import lowers
from tritium.ir import types as ir
from tritium.ir.layouts import gf2
from tritium.ir.layouts.encodings import BLOCK, LANE, REGISTER, WARP, dim
from tritium.ir.layouts.linear import LinearLayout
from tritium.ir.layouts.moves import flat
from tritium.ir.layouts.pieces import register_coordinates
from tritium.ops import ttgir, ttir, ub
from tritium.ops.arith import ConstantOp, attr_value
from tritium.ops.llvm import AssumeOp

_FP8_BITS = frozenset({ir.f8e5m2, ir.f8e4m3fn, ir.f8e4m3fnuz, ir.f8e5m2fnuz})


def axis_layout(layout: LinearLayout, axis: int) -> LinearLayout:
    """The layout's map to the coordinate along one axis alone."""
    return layout.restrict(layout.in_names, [dim(axis)])


def constant_of(number: Any, type: ir.Type) -> Value:
    """One element as an LLVM constant."""
    if ir.element_type(type) in _FP8_BITS:
        return const("i8", int(np.asarray(number).view(np.uint8)))
    held = value_type(type)
    if held[0] == "i":
        return const(held, int(number))
    return const(held, float(number))


@lowers(GPU, ConstantOp)
def constant(c: Context, op: ConstantOp) -> None:
    type, value = op.results[0].type, np.asarray(attr_value(op.value))
    if value.ndim == 0:
        c.set(op.results[0], constant_of(value[()], type))
        return
    first = value.reshape(-1)[0]
    # By their bits, because 0.0 == -0.0 and NaN != NaN; but any bits that are not 0 are true.
    same = bool((value == first).all()) if value.dtype == np.bool_ else \
        value.tobytes() == np.full_like(value, first).tobytes()  # fmt: skip
    if not same:
        raise c.unsupported(op, "a tile of different numbers")
    c.set(op.results[0], [constant_of(first, type)] * register_count(type))


@lowers(GPU, ub.PoisonOp)
def poison(c: Context, op: Any) -> None:
    type = op.results[0].type
    count = register_count(type) if ir.shape_of(type) else 1
    c.set(op.results[0], [Value(value_type(type), "poison")] * count)


@lowers(GPU, AssumeOp)
def assume(c: Context, op: Any) -> None:
    c.f.module.declare("llvm.assume", "void", ["i1"])
    c.f.line(f"call void @llvm.assume({c.scalar(op.condition)})")


@lowers(GPU, ttir.GetProgramIdOp)
def program_id(c: Context, op: Any) -> None:
    c.set(op.results[0], c.hardware.grid.program_id(c, op.axis))


@lowers(GPU, ttir.GetNumProgramsOp)
def num_programs(c: Context, op: Any) -> None:
    c.set(op.results[0], c.hardware.grid.num_programs(c, op.axis))


@lowers(GPU, ttir.MakeRangeOp)
def make_range(c: Context, op: ttir.MakeRangeOp) -> None:
    layout, used = layout_of(op.results[0].type), c.demand(op.results[0])
    indices = [UNUSED] * layout.in_size(REGISTER)
    registers = [r for r in range(len(indices)) if used >> r & 1]
    for register, index in zip(registers, c.positions(layout, registers), strict=True):
        indices[register] = c.f.op("add", index, c.i32(op.start), "nsw") if op.start else index
    c.set(op.results[0], indices)


@lowers(GPU, ttir.SplatOp)
def splat(c: Context, op: ttir.SplatOp) -> None:
    c.set(op.results[0], [c.scalar(op.src)] * register_count(op.results[0].type))


@lowers(GPU, ttir.UnsplatOp)
def unsplat(c: Context, op: ttir.UnsplatOp) -> None:
    c.set(op.results[0], c.tile(op.src)[0])


@lru_cache(maxsize=1024)
def source_registers(
    source: LinearLayout, result: LinearLayout, moved: tuple[int, ...] | None = None
) -> Sequence[int] | None:
    """For each register of `result` the register of the same thread that holds the same element
    in `source`; None if some element is in another thread. Axis `i` of the result is axis
    `moved[i]` of the source (the same one by default). Sizes of 1 in the source are broadcast.
    """
    names = source.out_names
    order = list(range(len(names))) if moved is None else list(moved)
    renamed = result.rename_outs({dim(i): f"to{a}" for i, a in enumerate(order)})
    renamed = renamed.rename_outs({f"to{a}": dim(a) for a in order}).transpose_outs(names)
    cut = _cut(renamed, dict(source.out_dims))
    try:
        map_ = cut.invert_and_compose(source)
    except ValueError:
        return None
    offset = 0
    places: dict[str, int] = {}
    for name, bits in map_.out_dims:
        places[name] = offset
        offset += bits
    registers = source.in_bits(REGISTER)
    mask = ((1 << registers) - 1) << places.get(REGISTER, 0)
    for name in (LANE, WARP, BLOCK):
        for bit, column in enumerate(map_.columns_of(name)):
            own = 1 << places[name] + bit if bit < source.in_bits(name) else 0
            if column not in (0, own) or (column == 0 and _matters(source, name, bit)):
                return None
    columns = map_.columns_of(REGISTER)
    if any(column & ~mask for column in columns):
        return None
    first = places.get(REGISTER, 0)
    return [gf2.apply(columns, register) >> first for register in range(1 << len(columns))]


def _cut(layout: LinearLayout, bits: dict[str, int]) -> LinearLayout:
    """The layout with coordinates beyond these sizes folded to 0 (for broadcasts)."""
    bases = {
        name: [
            [x if x < 1 << bits[o] else 0 for x, o in zip(basis, layout.out_names, strict=False)]
            for basis in layout.bases(name)
        ]
        for name in layout.in_names
    }
    return LinearLayout.of(bases, {o: 1 << bits[o] for o in layout.out_names})


def _matters(layout: LinearLayout, name: str, bit: int) -> bool:
    """True if a thread bit changes what the source holds."""
    columns = layout.columns_of(name)
    return bit < len(columns) and columns[bit] != 0


def _holders(layout: LinearLayout) -> dict[str, list[bool]] | None:
    """For each bit of thread and register whether it chooses between different elements; None for
    a layout in which several do that together."""
    found = {name: [column != 0 for column in layout.columns_of(name)] for name in layout.in_names}
    return found if sum(map(sum, found.values())) == layout.rank else None


def moved_registers(op: Any) -> Sequence[int] | None:
    """For an op that moves elements and computes nothing, each result register's source register,
    where both are in the same thread; None for other ops, and where they are not."""
    if not isinstance(op, (*_RENUMBERING, ttgir.ConvertLayoutOp)):
        return None
    if isinstance(op, ttgir.ExtractSliceOp):
        return op.registers()
    source, result = layout_of(op.src.type), layout_of(op.results[0].type)
    if isinstance(op, ttir.TransOp):
        return source_registers(source, result, tuple(op.order))
    if isinstance(op, ttir.ReshapeOp):
        found = source_registers(flat(source), flat(result))
        if found is None and op.allow_reorder and None is not _holders(source) == _holders(result):
            return range(source.in_size(REGISTER))  # any order of the elements will do
        return found
    if isinstance(op, ttir.ExpandDimsOp):
        axes = [i for i in range(len(result.out_names)) if i != op.axis]
        narrow = result.restrict(result.in_names, [dim(i) for i in axes])
        narrow = narrow.rename_outs({dim(a): f"to{i}" for i, a in enumerate(axes)})
        narrow = narrow.rename_outs({f"to{i}": dim(i) for i in range(len(axes))})
        return source_registers(source, narrow)
    return source_registers(source, result)


_RENUMBERING = (
    ttir.BroadcastOp, ttir.TransOp, ttir.ExpandDimsOp, ttir.ReshapeOp, ttgir.ExtractSliceOp,
)  # fmt: skip


def in_thread(c: Context, op: Any) -> bool:
    """Lower an op that renumbers registers, if that is all it takes."""
    registers = moved_registers(op)
    if registers is None:
        return False
    values = c.tile(op.src)
    c.set(op.results[0], [values[r] for r in registers])
    return True


@lowers(GPU, *_RENUMBERING)
def renumber(c: Context, op: Any) -> None:
    if not in_thread(c, op):
        raise c.unsupported(op, "elements would move between threads")


@lowers(GPU, ttir.JoinOp)
def join(c: Context, op: ttir.JoinOp) -> None:
    """The new last axis is in registers of the same thread."""
    layout = layout_of(op.results[0].type)
    rank = len(layout.out_names)
    source = layout_of(op.lhs.type)
    outer = layout.restrict(layout.in_names, [dim(i) for i in range(rank - 1)])
    registers, last = source_registers(source, outer), axis_layout(layout, rank - 1)
    if registers is None or any(last.columns_of(LANE)) or any(last.columns_of(WARP)):
        raise c.unsupported(op, "elements would move between threads")
    sides = c.tile(op.lhs), c.tile(op.rhs)
    which = [side for side, in register_coordinates(last)]
    c.set(op.results[0], [sides[w][r] for w, r in zip(which, registers, strict=False)])


@lowers(GPU, ttir.SplitOp)
def split(c: Context, op: ttir.SplitOp) -> None:
    """The last axis is in registers of the same thread."""
    layout, values = layout_of(op.src.type), c.tile(op.src)
    rank = len(layout.out_names)
    last = [x for x, in register_coordinates(axis_layout(layout, rank - 1))]
    outer = layout.restrict(layout.in_names, [dim(i) for i in range(rank - 1)])
    for side, result in enumerate(op.results):
        mine = [i for i, x in enumerate(last) if x == side]
        wanted = source_registers(outer, layout_of(result.type))
        if wanted is None or len(mine) * 2 != len(values):
            raise c.unsupported(op, "elements would move between threads")
        kept = register_coordinates(outer)
        spread = {kept[i]: values[i] for i in mine}
        places = register_coordinates(layout_of(result.type))
        c.set(result, [spread[p] for p in places])


@lowers(GPU, ttir.CatOp)
def concatenate(c: Context, op: ttir.CatOp) -> None:
    """The second tile is in the registers above those of the first."""
    c.set(op.results[0], [*c.tile(op.lhs), *c.tile(op.rhs)])


@lowers(GPU, ttgir.ConcatOp)
def whole(c: Context, op: ttgir.ConcatOp) -> None:
    parts = [c.tile(source) for source in op.sources]
    c.set(op.results[0], [parts[number][register] for number, register in op.registers()])
