"""Statements on tiles: arithmetic, other layouts, other shapes, reductions and scans."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from tools.gluon_programs.program import GluonProgram, index, named, offsets, places, strides_of
from tools.tile_programs.accesses import ELEMENTS, widened
from tools.tile_programs.arithmetic import (
    COMPARISONS,
    NUMBERS,
    OPERATIONS,
    divided,
    gather_of,
    pair_of,
)
from tools.tile_programs.combining import recurrence
from tools.tile_programs.program import ALL_KINDS, E4M3, LARGEST, Tile, row_major, wrapped
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


def converted_text(p: GluonProgram, tile: Tile, layout: str) -> str:
    """A tile in a layout; a scalar has none."""
    return f"gl.convert_layout({tile.name}, {layout})" if tile.shape else tile.name


def together(p: GluonProgram, *tiles: Tile) -> list[str]:
    """The texts of tiles in one layout, that of the first or another."""
    first = tiles[0]
    alike = all(t.shape == first.shape for t in tiles)
    if alike and p.source.random() < 0.5:
        return [first.name, *(converted_text(p, t, f"{first.name}.type.layout") for t in tiles[1:])]
    rank = max(len(t.shape) for t in tiles)
    layout = (
        p.any_layout(first.shape) if alike and rank else p.layout(p.layouts.blocked(max(rank, 1)))
    )
    return [converted_text(p, t, layout) for t in tiles]


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


def two(p: GluonProgram) -> bool:
    """An operation on two tiles, or a comparison."""
    s, pair = p.source, pair_of(p, "if")
    if pair is None:
        return False
    a, b = pair
    names = list(OPERATIONS) if a.kind == "i" else [n for n in OPERATIONS if n[3] not in "&|^"]
    compares = s.random() < 0.2
    name = s.choice(list(COMPARISONS) if compares else names)
    data = (COMPARISONS if compares else OPERATIONS)[name](a.data, b.data)
    if not p.exact(data):
        return False
    p.new(name.format(*together(p, a, b)), data, "m" if compares else "v")
    return True


def with_number(p: GluonProgram) -> bool:
    """An operation on a tile of integers and a number."""
    s, a = p.source, p.pick("i")
    if a is None:
        return False
    number, name = s.choice(NUMBERS), s.choice([*OPERATIONS, "{} // {}"])
    held = p.scalar(number) if s.random() < 0.5 else str(number)
    if name == "{} // {}":
        if number in (0, -1, -(2**31)):
            return False
        data = divided(a.data, abs(number))
        held = str(abs(number))
    else:
        data = OPERATIONS[name](a.data, a.data.dtype.type(number))
    p.new(name.format(a.name, held), data)
    return True


def chosen(p: GluonProgram) -> bool:
    """`where`."""
    masks = [t for t in p.tiles if t.kind == "b" and t.shape]
    if not masks:
        return False
    mask = p.source.choice(masks)
    fit = [t for t in p.tiles if t.shape == mask.shape and t.kind in "if"]
    if not fit:
        return False
    a = p.source.choice(fit)
    b = p.source.choice([t for t in fit if t.data.dtype == a.data.dtype])
    p.new(
        "gl.where({}, {}, {})".format(*together(p, mask, a, b)), np.where(mask.data, a.data, b.data)
    )
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


def _splittable(p: GluonProgram, rank: int) -> Any:
    """A layout in which each thread has both elements along the last axis."""
    layout = p.layouts.blocked(rank)
    size, threads, warps = (list(x) for x in (
        layout.size_per_thread, layout.threads_per_warp, layout.warps_per_cta))  # fmt: skip
    for factors in (threads, warps):
        factors[0], factors[-1] = factors[0] * factors[-1], 1
    size[-1] = 2
    order = [rank - 1, *(a for a in layout.order if a != rank - 1)]
    return gl.BlockedLayout(size, threads, warps, order)


def joined(p: GluonProgram) -> bool:
    """join, split."""
    s = p.source
    halves = [t for t in p.tiles if len(t.shape) > 1 and t.shape[-1] == 2]
    if halves and s.random() < 0.5:
        a = s.choice(halves)
        first, second = Tile(p.name("v"), a.data[..., 0]), Tile(p.name("v"), a.data[..., 1])
        layout = p.layout(_splittable(p, len(a.shape)))
        p.line(f"{first.name}, {second.name} = gl.split(gl.convert_layout({a.name}, {layout}))")
        p.tiles += [first, second]
        return True
    pair = pair_of(p, "ifnhq")
    if pair is None or pair[0].shape != pair[1].shape:
        return False
    a, b = pair
    if not 1 <= len(a.shape) <= 2 or 2 * np.prod(a.shape) > LARGEST:
        return False
    p.new("gl.join({}, {})".format(*together(p, a, b)), np.stack([a.data, b.data], -1))
    return True


def gathered(p: GluonProgram) -> bool:
    """`gather` along an axis, with indices from a tile in any layout."""
    found = gather_of(p)
    if found is None:
        return False
    a, axis, at = found
    last = a.shape[axis] - 1
    p.new(f"gl.gather({a.name}, {at.name} & {last}, {axis})",
          np.take_along_axis(a.data, at.data & np.int32(last), axis + 1))  # fmt: skip
    return True


def combined(p: GluonProgram) -> bool:
    """Reductions and scans along any axis."""
    s, a = p.source, p.pick("if", 1)
    if a is None:
        return False
    axis = s.randrange(len(a.shape))
    name = s.choice(("sum", "max", "min", "xor_sum", "cumsum", "kept"))
    if name in ("sum", "max", "min"):
        data = getattr(np, name)(a.data, axis + 1)
        data = data if a.kind == "f" else wrapped(data, a.data.dtype)
    elif name == "xor_sum" and a.kind == "i":
        data = np.bitwise_xor.reduce(a.data, axis + 1)
    elif name == "cumsum":
        back = s.random() < 0.3
        turned = np.flip(a.data, axis + 1) if back else a.data
        data = np.cumsum(turned, axis + 1, dtype=a.data.dtype)
        data = np.flip(data, axis + 1) if back else data
        if p.exact(data):
            p.new(f"gl.cumsum({a.name}, {axis}, reverse={back})", data)
        return p.exact(data)
    elif name == "kept" and len(a.shape) > 1:
        data = a.data.max(axis + 1, keepdims=True)
        p.new(f"gl.max({a.name}, {axis}, keep_dims=True)", data)
        return True
    else:
        return False
    if p.exact(data):
        p.new(f"gl.{name}({a.name}, {axis})", data)
    return p.exact(data)


def custom(p: GluonProgram) -> bool:
    """`reduce` and `associative_scan` with functions of the kernel, on one tile or two."""
    s, pair = p.source, pair_of(p, "i")
    if pair is None or not pair[0].shape or pair[0].shape != pair[1].shape:
        return False
    a, b = pair
    axis = s.randrange(len(a.shape))
    kind = s.choice(("product", "maxima", "recurrence", "argmax", "call"))
    if kind == "product":
        data = np.multiply.reduce(a.data, axis + 1, dtype=a.data.dtype)
        p.new(f"gl.reduce({a.name}, {axis}, times)", data)
    elif kind == "maxima":
        back = s.random() < 0.3
        data = np.maximum.accumulate(np.flip(a.data, axis + 1) if back else a.data, axis + 1)
        p.new(f"gl.associative_scan({a.name}, {axis}, larger, reverse={back})",
              np.flip(data, axis + 1) if back else data)  # fmt: skip
    elif kind == "call":
        data = np.where(a.data > b.data, a.data * a.data.dtype.type(3), b.data ^ a.data)
        p.new("called({}, {})".format(*together(p, a, b)), data)
    elif kind == "argmax":
        zeros = f"gl.zeros({list(a.shape)}, gl.int32, {a.name}.type.layout)"
        at = f"{index(axis, a.shape, f'{a.name}.type.layout')} + {zeros}"
        largest = Tile(p.name("v"), a.data.max(axis + 1))
        place = Tile(p.name("v"), np.argmax(a.data, axis + 1).astype(np.int32))
        p.line(f"{largest.name}, {place.name} = gl.reduce(({a.name}, {at}), {axis}, first_largest)")
        p.tiles += [largest, place]
    else:
        moved = (np.moveaxis(x.data, axis + 1, 0) for x in (a, b))
        tiles = [Tile(p.name("v"), np.moveaxis(x, 0, axis + 1)) for x in recurrence(*moved)]
        texts = together(p, a, b)
        p.line(f"{tiles[0].name}, {tiles[1].name} = "
               f"gl.associative_scan(({', '.join(texts)}), {axis}, recurrence)")  # fmt: skip
        p.tiles += tiles
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
