"""Statements that move pointers and block pointers along memory; rows of descriptors by number."""

from __future__ import annotations

import numpy as np

from tools.tile_programs.accesses import ELEMENTS, widened
from tools.tile_programs.arithmetic import numbers_of
from tools.tile_programs.program import (
    BFLOAT16,
    LANGUAGE,
    Pointer,
    Program,
    Tile,
    axes_text,
    row_major,
)

_ROW_TYPES = (
    np.dtype(np.int32), np.dtype(np.float32), np.dtype(np.int16), BFLOAT16, np.dtype(np.int8),
    np.dtype(np.int64),
)  # fmt: skip
_ADDED = (np.dtype(np.int32), np.dtype(np.uint32), np.dtype(np.uint64), np.dtype(np.float32))


def walked(p: Program) -> bool:
    """A loop that adds up what a pointer tile, or a block pointer, that it moves points to."""
    s, dtype = p.source, p.source.choice(ELEMENTS)
    shape = s.choice(((16,), (64,), (256,), (8, 8), (4, 32), (16, 2), (2, 4, 4)))
    numel, trips = int(np.prod(shape)), s.choice((0, 1, 2, 3, 5))
    step = s.choice((1, shape[-1], numel, numel + 1, -1, -numel))
    by_block = len(shape) == 1 and s.random() < 0.5
    start = max(0, -step * trips)
    size = numel + abs(step) * trips - s.choice((0, 0, 1, 3))
    pointer = p.pointer(dtype, p.programs * size)
    wide, total = widened(dtype), np.zeros((p.programs, *shape), widened(dtype))
    programs = np.arange(p.programs).reshape(-1, *(1,) * len(shape)) * size
    for trip in range(trips):
        places = row_major(shape) + start + trip * step
        inside = np.broadcast_to((places >= 0) & (places < size), (p.programs, *shape))
        data = pointer.base.read(places + programs, p.among_active(inside))
        if data is None:
            return False
        total = total + data.astype(wide)
    if not p.exact(total):
        return False
    total_name, at, moving = p.name("v"), p.name("at"), p.name("w")
    held, moved = p.scalar(size), p.scalar(step) if s.random() < 0.5 else str(step)
    p.line(f"{total_name} = tl.zeros({list(shape)}, {LANGUAGE[wide]})")
    p.line(f"{at} = {start} + ({numbers_of(shape)})")
    base = f"{pointer.name} + pid * {held}"
    p.line(f"{moving} = tl.make_block_ptr({base}, ({held},), (1,), ({start},), {shape}, (0,))"
           if by_block else f"{moving} = {base} + {at}")  # fmt: skip
    p.line(f"for k in range({p.scalar(trips) if s.random() < 0.6 else trips}):")
    if by_block:
        load = f"tl.load({moving}, boundary_check=(0,), padding_option='zero')"
    else:
        load = f"tl.load({moving}, mask=({at} >= 0) & ({at} < {held}), other=0)"
    p.line(f"    {total_name} += {load}.to({LANGUAGE[wide]})")
    p.line(f"    {at} += {moved}")
    p.line(f"    {moving} = tl.advance({moving}, ({moved},))" if by_block else
           f"    {moving} += {moved}")  # fmt: skip
    p.tiles.append(Tile(total_name, total))
    return True


def _descriptor(
    p: Program, dtype: np.dtype, rows: int, block: tuple[int, int]
) -> tuple[Pointer, str, int]:
    """A new array, the name of a descriptor of each program's part of it, and its columns."""
    align = 16 // dtype.itemsize
    columns = block[1] + p.source.choice((-1, 0, 1, 2)) * align
    columns = max(align, columns)
    pointer = p.pointer(dtype, p.programs * rows * columns)
    name = p.name("d")
    p.line(f"{name} = tl.make_tensor_descriptor({pointer.name} + pid * {rows * columns}, "
           f"[{p.scalar(rows)}, {p.scalar(columns)}], [{columns}, 1], {list(block)})")  # fmt: skip
    return pointer, name, columns


def rows_by_number(p: Program) -> bool:
    """Rows of a descriptor gathered or scattered by their numbers, some of which are outside."""
    s, dtype = p.source, p.source.choice(_ROW_TYPES)
    count, width = s.choice((8, 16, 32)), max(32 // dtype.itemsize, s.choice((16, 32, 64)))
    rows = s.choice((5, 16, 40))
    pointer, name, columns = _descriptor(p, dtype, rows, (1, width))
    first = s.choice((0, 0, 8, 16))
    by, start = s.choice((1, 3, -1)), s.choice((0, 2, rows - 1))
    text = f"(tl.arange(0, {count}) * {by} + {start})"
    row = (np.arange(count) * by + start)[:, None]
    column = np.arange(width)[None, :] + first
    inside = (row >= 0) & (row < rows) & (column < columns)
    places = row * columns + column + np.arange(p.programs).reshape(-1, 1, 1) * rows * columns
    active = p.among_active(np.broadcast_to(inside, places.shape))
    fit = [t for t in p.tiles if t.shape == (count, width) and t.data.dtype == dtype]
    if fit and s.random() < 0.6:
        value = s.choice(fit)
        if not pointer.base.write(places, active, value.data):
            return False
        p.line(f"{name}.scatter({value.name}, {text}, {first})")
        return True
    data = pointer.base.read(places, active)
    if data is None:
        return False
    tile = p.new(f"{name}.gather({text}, {first})", data)
    if s.random() < 0.5:  # and back, to other rows
        turned = np.flip(places, 1)
        if pointer.base.write(turned, np.flip(active, 1), tile.data):
            p.line(f"{name}.scatter({tile.name}, tl.flip({text}, 0), {first})")
    return True


_UPDATES = {
    "add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and,
    "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip


def updated(p: Program) -> bool:
    """An atomic operation on a block of a descriptor, partly outside."""
    s, dtype = p.source, p.source.choice(_ADDED)
    fit = [t for t in p.tiles if t.data.dtype == dtype and len(t.shape) == 2
           and t.shape[1] * dtype.itemsize >= 16 and t.data[0].size <= 512]  # fmt: skip
    shape = s.choice(fit).shape if fit else (8, 16)
    rows = shape[0] + s.choice((-1, 0, 2)) if shape[0] > 1 else 1
    pointer, name, columns = _descriptor(p, dtype, rows, (shape[0], shape[1]))
    if fit:
        value = s.choice([t for t in fit if t.shape == shape])
    else:
        text = f"(tl.arange(0, 8)[:, None] * 16 + {axes_text('tl.arange(0, 16)', 1, 2)})"
        whole = np.broadcast_to(row_major(shape), (p.programs, *shape)).astype(dtype)
        value = p.new(f"{text}.to({LANGUAGE[dtype]})", whole)
    start = s.choice((0, 0, 1)), s.choice((0, 0, 4))
    row = np.arange(shape[0])[:, None] + start[0]
    column = np.arange(shape[1])[None, :] + start[1]
    places = row * columns + column + np.arange(p.programs).reshape(-1, 1, 1) * rows * columns
    inside = np.broadcast_to((row < rows) & (column < columns), places.shape)
    active = p.among_active(inside)
    kind = "add" if dtype.kind in "if" else s.choice(list(_UPDATES))
    old = pointer.base.read(places, active)
    if old is None:
        return False
    new = _UPDATES[kind](old, value.data).astype(dtype)
    if not p.exact(new) or not pointer.base.write(places, active, new):
        return False
    p.line(f"{name}.atomic_{kind}([{start[0]}, {start[1]}], {value.name})")
    return True
