"""Statements on tiles: arithmetic, other layouts, other shapes, reductions and scans."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from tools.gluon_programs.program import GluonProgram, index, named, offsets, places, strides_of
from tools.tile_programs.accesses import ELEMENTS, widened
from tools.tile_programs.program import ALL_KINDS, E4M3, LARGEST, Tile, row_major
from tritium.experimental.gluon import language as gl

SIZES = (1, 2, 4, 8, 16, 32, 64)


def shape_of(p: GluonProgram, most: int = LARGEST) -> tuple[int, ...]:
    """The shape of a new tile."""
    s = p.source
    while True:
        rank = s.choice((1, 2, 2, 2, 3))
        shape = (
            tuple(s.choice(SIZES) for _ in range(rank))
            if rank > 1
            else (s.choice((*SIZES, 128, 256, 512)),)
        )
        if int(np.prod(shape)) <= most:
            return shape


def ranges(p: GluonProgram) -> bool:
    """Numbers that rise along each axis, from one that each program has."""
    s, shape = p.source, shape_of(p)
    factors = [s.choice((1, 2, 3, 5, size)) for size in shape]
    step = s.choice((0, 1, 7))
    data = places(shape, factors) + np.arange(p.programs).reshape(-1, *(1,) * len(shape)) * step
    p.new(f"pid * {step} + {offsets(shape, factors, p.any_layout(shape))}", data.astype(np.int32))
    return True


def filled(p: GluonProgram) -> bool:
    """A constant."""
    s, shape = p.source, shape_of(p)
    dtype = np.dtype(s.choice((np.int32, np.int64, np.float32, np.int8, np.float16)))
    data = np.full((p.programs, *shape), s.choice((0, 1, -3, 7)), dtype)
    value = data.flat[0].item()
    p.new(f"gl.full({list(shape)}, {value}, {named(dtype)}, {p.any_layout(shape)})", data)
    return True


def loaded(p: GluonProgram) -> bool:
    """A load from a new array, sometimes cast to a common type."""
    shape, dtype = shape_of(p), p.source.choice(ELEMENTS)
    tile = p.load(shape, dtype, p.any_layout(shape))
    if len(shape) == 1 and p.source.random() < 0.3:
        tile = p.load(shape, dtype, "gl.CoalescedLayout()")
        p.tiles.remove(tile)
        tile = p.new(f"gl.convert_layout({tile.name}, {p.any_layout(shape)})", tile.data)
    wide = widened(dtype)
    if wide != dtype and p.source.random() < 0.5:
        p.new(f"{tile.name}.to({named(wide)})", tile.data.astype(wide))
    return True


def masked(p: GluonProgram) -> bool:
    """A load of which the end, or what a mask says, is left out."""
    s, shape = p.source, shape_of(p)
    numel, dtype = int(np.prod(shape)), s.choice(ELEMENTS)
    missing = s.randrange(numel)
    pointer = p.pointer(dtype, p.programs * numel - missing)
    at = row_major(shape) + p.first(len(shape), numel)
    active = at < pointer.length
    data = pointer.base.read(at, p.among_active(active))
    assert data is not None
    name, other = p.name("at"), s.choice((0, 1, -3))
    held = p.scalar(pointer.length) if s.random() < 0.5 else str(pointer.length)
    p.line(f"{name} = pid * {numel} + {offsets(shape, strides_of(shape), p.any_layout(shape))}")
    p.new(f"gl.load({pointer.name} + {name}, mask={name} < {held}, other={other})",
          np.where(active, data, np.asarray(other).astype(dtype)))  # fmt: skip
    return True


def automatic(p: GluonProgram) -> bool:
    """Tiles that take the layout of what is computed from them."""
    s, shape = p.source, (p.source.choice(SIZES), p.source.choice(SIZES))
    numel = shape[0] * shape[1]
    pointer = p.pointer(np.int32, p.programs * numel)
    at = row_major(shape) + p.first(2, numel)
    data = pointer.base.read(at, np.ones(at.shape, bool))
    assert data is not None
    x, i, j = p.name("x"), p.name("i"), p.name("j")
    p.line(f"{i}, {j} = gl.arange(0, {shape[0]})[:, None], gl.arange(0, {shape[1]})[None, :]")
    p.line(f"{x} = gl.load({pointer.name} + pid * {numel} + {i} * {shape[1]} + {j})")
    for _ in range(s.randrange(3)):
        kind = s.choice(("add", "rows", "permute", "reshape", "loop"))
        if kind == "add":
            p.line(f"{x} = {x} + {i} * 3")
            data = data + np.int32(3) * np.arange(shape[0], dtype=np.int32)[:, None]
        elif kind == "rows":
            p.line(f"{x} = {x} - gl.sum({x}, 1)[:, None]")
            data = data - data.sum(2, keepdims=True, dtype=np.int32)
        elif kind == "permute":
            p.line(f"{x} = gl.permute({x}, (1, 0)).permute((1, 0))")
        elif kind == "loop":
            total, k = p.name("t"), p.name("k")
            p.line(f"{total} = gl.zeros([{shape[0]}], gl.int32)")
            p.line(f"for {k} in range({p.scalar(2)}):")
            p.line(f"    {total} += gl.sum({x}, 1)")
            p.line(f"    {x} += {i} * 3")
            p.line(f"{x} = {x} + {total}[:, None]")
            step = np.int32(3) * np.arange(shape[0], dtype=np.int32)[:, None]
            sums = (2 * data + step).sum(2, keepdims=True, dtype=np.int32)
            data = data + 2 * step + sums
        else:
            p.line(f"{x} = gl.reshape(gl.reshape({x}, ({numel},)) * 2, {shape})")
            data = data * np.int32(2)
    layout = p.layouts.any(shape)
    if s.random() < 0.4:
        axis = s.randrange(2)
        layout = gl.SliceLayout(axis, layout)
        p.line(f"{x} = gl.sum({x}, {axis})")
        data = data.sum(axis + 1, dtype=np.int32)
    p.new(f"gl.set_auto_layout({x}, {p.layout(layout)})", data)
    return True


def cast(p: GluonProgram) -> bool:
    """To another type that holds all the numbers."""
    a = p.pick("ifnh")
    if a is None:
        return False
    to = p.source.choice(ELEMENTS)
    if to == E4M3 and "no_e4m3" in p.abilities:
        return False
    with np.errstate(all="ignore"):
        held = a.data.astype(to)
        if (held.astype(np.float64) != a.data.astype(np.float64)).any() or not p.exact(held):
            return False
        if not p.exact(a.data):
            return False
    p.new(f"{a.name}.to({named(to)})", held)
    return True


def converted(p: GluonProgram) -> bool:
    """Other layouts, one after the other."""
    s, a = p.source, p.pick(ALL_KINDS, 1)
    if a is None:
        return False
    text = a.name
    for _ in range(s.choice((1, 1, 2, 3))):
        text = f"gl.convert_layout({text}, {p.any_layout(a.shape)})"
    p.new(text, a.data)
    return True


def turned_tile(p: GluonProgram, a: Tile) -> Tile | None:
    """The elements of a tile in other places of a tile of the same shape, or sums of them."""
    s, rank = p.source, len(a.shape)
    if not rank or a.kind in "bq":
        return None
    axis = s.randrange(rank)
    kind = s.choice(("permute", "gather", "sums", "layout"))
    if kind == "permute" and rank == 2 and a.shape[0] == a.shape[1]:
        return p.new(f"gl.permute({a.name}, (1, 0))", a.data.transpose(0, 2, 1))
    if kind == "gather":
        n, by = a.shape[axis], s.choice((1, 3, 5))
        where = f"({index(axis, a.shape, f'{a.name}.type.layout')} + {by}) % {n}"
        zeros = f"gl.zeros({list(a.shape)}, gl.int32, {a.name}.type.layout)"
        return p.new(f"gl.gather({a.name}, {where} + {zeros}, {axis})",
                     np.take(a.data, (np.arange(n) + by) % n, axis + 1))  # fmt: skip
    if kind == "sums" and a.kind == "i":
        return p.new(f"gl.cumsum({a.name}, {axis})",
                     np.cumsum(a.data, axis + 1, dtype=a.data.dtype))  # fmt: skip
    return p.new(f"gl.convert_layout({a.name}, {p.any_layout(a.shape)})", a.data)


def turned(p: GluonProgram) -> bool:
    """A rearrangement that keeps the shape."""
    a = p.pick("ifnh", 1)
    return a is not None and turned_tile(p, a) is not None


def reshaped(p: GluonProgram) -> bool:
    """The elements in a tile of another shape."""
    s, a = p.source, p.pick(ALL_KINDS, 1)
    if a is None:
        return False
    rank = len(a.shape)
    kind = s.choice(("reshape", "reshape", "permute", "permute", "expand", "ravel"))
    if kind == "reshape":
        numel = int(np.prod(a.shape))
        powers = [2**i for i in range(12)]
        shape = s.choice([
            shape for rank in (1, 2, 2, 3) for shape in itertools.product(powers, repeat=rank)
            if int(np.prod(shape)) == numel
        ])  # fmt: skip
        p.new(f"gl.reshape({a.name}, {shape})", a.data.reshape(p.programs, *shape))
    elif kind == "permute" and rank > 1:
        order = list(range(rank))
        s.shuffle(order)
        p.new(f"gl.permute({a.name}, {tuple(order)})", a.data.transpose(0, *(x + 1 for x in order)))
    elif kind == "expand" and rank < 3:
        axis = s.randrange(rank + 1)
        parent = p.any_layout((*a.shape[:axis], 1, *a.shape[axis:]))
        part = f"gl.convert_layout({a.name}, gl.SliceLayout({axis}, {parent}))"
        p.new(f"gl.expand_dims({part}, {axis})",
              np.expand_dims(a.data, axis + 1))  # fmt: skip
    elif kind == "ravel":
        p.new(f"gl.ravel({a.name})", a.data.reshape(p.programs, -1))
    else:
        return False
    return True


def counted(p: GluonProgram) -> bool:
    """`histogram`."""
    fit = [t for t in p.tiles if len(t.shape) == 1 and t.data.dtype == np.int32]
    if not fit:
        return False
    a, bins = p.source.choice(fit), p.source.choice((2, 8, 64, 256))
    held = a.data & np.int32(bins - 1)
    counts = np.stack([np.bincount(row, minlength=bins) for row in held]).astype(np.int32)
    layout = p.any_layout((bins,))
    p.new(f"gl.histogram({a.name} & {bins - 1}, {bins}, layout={layout})", counts)
    return True


def added(p: GluonProgram) -> bool:
    """Atomic additions to places of memory that many elements and programs share."""
    a = p.pick("i", 1)
    if a is None:
        return False
    size = p.source.choice((1, 8, 64, 1024))
    pointer = p.pointer(a.data.dtype, size)
    at = (a.data & a.data.dtype.type(size - 1)).astype(np.int64)
    np.add.at(pointer.base.data, at[p.active].ravel(), a.data[p.active].ravel())
    pointer.shared = True
    p.line(f"gl.atomic_add({pointer.name} + ({a.name} & {size - 1}), {a.name})")
    return True


def results(p: GluonProgram, least: int) -> None:
    """Stores of tiles, in their own layouts or others, to arrays that end with the last element."""
    s = p.source
    changed = [t for t in p.tiles if t.name.startswith("c")]
    chosen: Sequence[Tile] = (
        p.tiles[-least:] + s.sample(p.tiles, min(2, len(p.tiles))) + changed[-3:]
    )
    for tile in dict.fromkeys(chosen):
        shape, numel = tile.shape, int(np.prod(tile.shape))
        dtype = np.dtype(np.int8) if tile.kind == "b" else tile.data.dtype
        pointer = p.pointer(dtype, p.programs * numel, np.zeros(p.programs * numel, dtype))
        where = row_major(shape) + p.first(len(shape), numel)
        done = pointer.base.write(where, np.ones(where.shape, bool), tile.data.astype(dtype))
        assert done
        name, layout = tile.name, f"{tile.name}.type.layout"
        if shape and s.random() < 0.5:
            layout = p.any_layout(shape)
            name = f"gl.convert_layout({name}, {layout})"
        at = offsets(shape, strides_of(shape), layout) if shape else "0"
        p.line(f"gl.store({pointer.name} + pid * {numel} + {at}, {name})")
