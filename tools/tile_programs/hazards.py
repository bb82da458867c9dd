"""Statements whose accesses to one array overlap: shifted aliases, rearrangements in place, atomics
with results, block pointers and descriptors.

Each program has a region of its own in a few small arrays, the pool, so that only the order of
the accesses within a program matters.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tools.tile_programs.arithmetic import OPERATIONS
from tools.tile_programs.program import (
    BFLOAT16,
    LANGUAGE,
    Pointer,
    Program,
    Tile,
    axes_text,
    is_float,
    row_major,
)

_SHAPES = ((64,), (64,), (128,), (16,), (32,), (8, 8), (16, 16), (4, 16), (16, 8), (2, 4, 8))
_TYPES = (
    np.dtype(np.int32), np.dtype(np.int32), np.dtype(np.float32), np.dtype(np.float32),
    np.dtype(np.int64), np.dtype(np.int8), np.dtype(np.int16), np.dtype(np.uint32), BFLOAT16,
)  # fmt: skip
_REGIONS = (64, 80, 128, 160, 256, 300)


@dataclass(frozen=True)
class _Place:
    """A tile of one program's region: its text after the pointer, and its places in memory."""

    pointer: Pointer
    text: str
    at: np.ndarray
    shape: tuple[int, ...]
    masks: tuple[str, ...]
    active: np.ndarray

    @property
    def masked(self) -> str:
        return f", mask={' & '.join(self.masks)}" if self.masks else ""


def _region(p: Program, dtype: np.dtype | None = None) -> tuple[Pointer, int]:
    """A pointer into the pool, and the size of a program's region there."""
    s = p.source
    fit = [held for held in p.pool if dtype is None or held[0].base.data.dtype == dtype]
    if fit and s.random() < 0.85:
        pointer, size = s.choice(fit)
        if s.random() < 0.3:
            pointer = p.alias(pointer, s.choice((0, 0, 1, 3, 8, 16, 64)))
            if pointer.length <= 0:
                return fit[0]
            p.pool.append((pointer, size))
        return pointer, size
    size = s.choice(_REGIONS)
    made = p.pointer(s.choice(_TYPES) if dtype is None else dtype, p.programs * size)
    p.pool.append((made, size))
    return made, size


def _place(p: Program, pointer: Pointer, size: int, shape: tuple[int, ...]) -> _Place:
    """Where a tile of a shape is in a region: any order of axes and strides, any start."""
    s, rank = p.source, len(shape)
    order = list(range(rank))
    if s.random() < 0.4:
        s.shuffle(order)
    strides, stride = [0] * rank, s.choice((1, 1, 1, 1, 2))
    for axis in reversed(order):
        strides[axis] = stride
        stride *= shape[axis]
        stride += s.choice((0, 0, 0, 1))
    down = [s.random() < 0.15 for _ in range(rank)]
    at, terms = np.zeros(shape, np.int64), []
    for axis in range(rank):
        numbers, text = np.arange(shape[axis]), f"tl.arange(0, {shape[axis]})"
        if down[axis]:
            numbers, text = numbers[::-1], f"({shape[axis] - 1} - {text})"
        at = at + (numbers * strides[axis]).reshape([-1 if d == axis else 1 for d in range(rank)])
        held = p.scalar(strides[axis]) if s.random() < 0.2 else str(strides[axis])
        terms.append(axes_text(text, axis, rank) + (f" * {held}" if held != "1" else ""))
    spare = size - 1 - int(at.max())
    start = s.choice((0, 0, 1, 2, 7, 8, 16, -1, -5)) if spare >= 16 else s.choice((0, 0, 1, -3))
    at, masks = at + start, []
    if start < 0 or start > spare:
        name = p.name("at")
        p.line(f"{name} = {' + '.join(terms)} + {start}")
        terms, masks = [name], [f"({name} >= 0)", f"({name} < {size})"]
    elif start:
        held = p.scalar(start) if s.random() < 0.4 else str(start)
        terms.append(held)
    active = (at >= 0) & (at < size)
    if s.random() < 0.2:
        axis = s.randrange(rank)
        limit = s.choice((shape[axis] // 2, shape[axis] - 1, shape[axis]))
        held = p.scalar(limit) if s.random() < 0.5 else str(limit)
        index = axes_text(f"tl.arange(0, {shape[axis]})", axis, rank)
        masks.append(f"tl.broadcast_to({index} < {held}, {list(shape)})")
        active &= (np.arange(shape[axis]) < limit).reshape(
            [-1 if d == axis else 1 for d in range(rank)]
        )
    # The pointer is to an element further on than the region's first.
    moved = f" - {pointer.start}" if pointer.start else ""
    programs = np.arange(p.programs).reshape(-1, *(1,) * rank) * size
    text = f"{pointer.name} + (pid * {size}{moved} + ({' + '.join(terms)}))"
    every = np.broadcast_to(active, (p.programs, *shape))
    return _Place(pointer, text, at + programs, shape, tuple(masks), p.among_active(every))


def _load(p: Program, place: _Place) -> Tile | None:
    data = place.pointer.base.read(place.at, place.active)
    if data is None:
        return None
    other = ", other=0" if place.masks else ""
    return p.new(f"tl.load({place.text}{place.masked}{other})", data)


def _store(p: Program, place: _Place, value: Tile) -> bool:
    if not place.pointer.base.write(place.at, place.active, value.data):
        return False
    p.line(f"tl.store({place.text}, {value.name}{place.masked})")
    return True


def _changed(p: Program, a: Tile, others: list[Tile]) -> Tile:
    """A tile of the same shape and type: of the elements at their places, or of others."""
    s = p.source
    for _ in range(s.choice((0, 0, 1, 1, 2))):
        kind = s.choice(("combine", "combine", "turn"))
        found = turned_tile(p, a) if kind == "turn" else None
        if kind == "combine":
            b = s.choice([t for t in (*others, a) if t.data.dtype == a.data.dtype
                          and t.shape == a.shape])  # fmt: skip
            name = s.choice(("{} + {}", "{} - {}", "tl.maximum({}, {})"))
            data = OPERATIONS[name](a.data, b.data)
            if p.exact(data):
                text = f"({name.format(a.name, b.name)}).to({LANGUAGE[a.data.dtype]})"
                found = p.new(text, data)
        a = found or a
    return a


def turned_tile(p: Program, a: Tile) -> Tile | None:
    """The elements of a tile in other places of a tile of the same shape, or sums of them."""
    s, rank = p.source, len(a.shape)
    if not rank or a.kind in "bq":
        return None
    axis = s.randrange(rank)
    kind = s.choice(("flip", "trans", "halves", "pairs", "gather", "sums"))
    if kind == "trans" and rank == 2 and a.shape[0] == a.shape[1]:
        return p.new(f"tl.trans({a.name})", a.data.transpose(0, 2, 1))
    if kind in ("halves", "pairs") and rank == 1 and a.shape[0] >= 4:
        n = a.shape[0]
        rows, columns = (2, n // 2) if kind == "halves" else (n // 2, 2)
        data = a.data.reshape(-1, rows, columns).transpose(0, 2, 1).reshape(-1, n)
        return p.new(
            f"tl.reshape(tl.trans(tl.reshape({a.name}, ({rows}, {columns}))), ({n},))", data
        )
    if kind == "gather":
        n, by = a.shape[axis], s.choice((1, 3, 5))
        index = axes_text(f"((tl.arange(0, {n}) + {by}) % {n})", axis, rank)
        places = (np.arange(n) + by) % n
        text = f"tl.gather({a.name}, tl.broadcast_to({index}, {list(a.shape)}), {axis})"
        return p.new(text, np.take(a.data, places, axis + 1))
    if kind == "sums" and a.kind == "i":
        data = np.cumsum(a.data, axis + 1, dtype=a.data.dtype)
        return p.new(f"tl.cumsum({a.name}, {axis})", data)
    return p.new(f"tl.flip({a.name}, {axis})", np.flip(a.data, axis + 1))


def turned(p: Program) -> bool:
    """A rearrangement that keeps the shape."""
    a = p.pick("ifnh", 1)
    return a is not None and turned_tile(p, a) is not None


def moved(p: Program) -> bool:
    """Loads and stores of one array that overlap, at shifted or rearranged places."""
    s = p.source
    pointer, size = _region(p)
    dtype = pointer.base.data.dtype
    shape = s.choice([shape for shape in _SHAPES if int(np.prod(shape)) <= size])
    same = [t for t in p.tiles if t.shape == shape and t.data.dtype == dtype]
    tiles = s.sample(same, min(2, len(same)))
    first = _place(p, pointer, size, shape)
    accessed = 0
    for step in range(s.choice((2, 2, 3, 4, 5))):
        held, held_size = (pointer, size) if s.random() < 0.6 else _region(p, dtype)
        if int(np.prod(shape)) > held_size:
            continue
        again = s.random() < 0.25 and held is pointer
        place = first if again else _place(p, held, held_size, shape)
        if step == 0 or not tiles or s.random() < 0.4:
            loaded = _load(p, place)
            tiles += [] if loaded is None else [loaded]
            accessed += loaded is not None
        else:
            value = _changed(p, s.choice(tiles[-3:]), tiles)
            tiles.append(value)
            accessed += _store(p, place, value)
    return accessed > 1


_ATOMICS = {
    "add": np.add, "max": np.maximum, "min": np.minimum, "and": np.bitwise_and,
    "or": np.bitwise_or, "xor": np.bitwise_xor, "xchg": lambda old, new: new,
}  # fmt: skip


def atomic(p: Program) -> bool:
    """An atomic operation on distinct elements, whose result, the old elements, may be used."""
    s = p.source
    fit = [t for t in p.tiles if t.kind in "inf" and t.data.dtype.itemsize >= 4
           and t.data[0].size <= 256]  # fmt: skip
    if not fit:
        return False
    value = s.choice(fit)
    dtype = value.data.dtype
    pointer, size = _region(p, dtype)
    if value.data[0].size > size:
        return False
    name = s.choice([*_ATOMICS, "cas"] if not is_float(dtype) else ("add", "xchg", "max", "min"))
    if not value.shape:
        at = np.arange(p.programs) * size
        place = _Place(pointer, f"{pointer.name} + (pid * {size} - {pointer.start})", at, (), (),
                       p.active)  # fmt: skip
    else:
        place = _place(p, pointer, size, value.shape)
    same = [t for t in fit if t.shape == value.shape and t.data.dtype == dtype]
    expected = s.choice(same)
    if (name == "cas" and place.masks) or pointer.shared:
        return False
    old = pointer.base.read(place.at, place.active)
    if old is None:
        return False
    if name == "cas":
        new = np.where(old == expected.data, value.data, old)
        text = f"tl.atomic_cas({place.text}, {expected.name}, {value.name})"
    else:
        new = np.asarray(_ATOMICS[name](old, value.data))
        text = f"tl.atomic_{name}({place.text}, {value.name}{place.masked})"
    if not p.exact(new) or not pointer.base.write(place.at, place.active, new):
        return False
    if s.random() < 0.4:
        p.line(text)
        return True
    if place.masks:  # a result behind a mask is undefined
        zeros = f"tl.zeros({list(place.shape)}, {LANGUAGE[dtype]})"
        text = f"tl.where({' & '.join(place.masks)}, {text}, {zeros})"
    p.new(text, old)
    return True


def shared_atomic(p: Program) -> bool:
    """Atomic operations without results on elements that programs share, in any order."""
    s, value = p.source, p.pick("in", 1)
    if value is None or value.data.dtype.itemsize < 4:
        return False
    name = s.choice([n for n in _ATOMICS if n != "xchg"])
    size = s.choice((1, 8, 64))
    pointer = p.pointer(value.data.dtype, size)
    pointer.shared = True
    numel = value.data[0].size
    places = (row_major(value.shape) & (size - 1)) if numel else row_major(value.shape)
    whole = np.broadcast_to(places, value.data.shape)
    _ATOMICS[name].at(
        pointer.base.data, whole[p.active].ravel(), value.data[p.active].ravel()
    )
    strides = [int(np.prod(value.shape[axis + 1 :])) for axis in range(len(value.shape))]
    index = " + ".join(
        f"{axes_text(f'tl.arange(0, {n})', axis, len(value.shape))} * {strides[axis]}"
        for axis, n in enumerate(value.shape)
    )
    p.line(f"tl.atomic_{name}({pointer.name} + (({index}) & {size - 1}), {value.name})")
    return True


def block(p: Program) -> bool:
    """A load or a store through a block pointer or a descriptor, with ragged ends."""
    s = p.source
    pointer, size = _region(p)
    dtype = pointer.base.data.dtype
    through = s.choice(("pointer", "pointer", "descriptor"))
    least = 16 // dtype.itemsize if through == "descriptor" else 1
    shape = s.choice((1, 4, 8, 16)), max(least, s.choice((1, 4, 8, 16, 32)))
    rows = s.choice((4, 7, 8, 16, 20))
    columns = size // rows
    if through == "descriptor":
        columns = columns * dtype.itemsize // 16 * 16 // dtype.itemsize
        if pointer.start or size * dtype.itemsize % 16:
            return False
    if columns < 1:
        return False
    strides = (1, rows) if through == "pointer" and s.random() < 0.3 else (columns, 1)
    start = s.randrange(-2, rows), s.randrange(-2, columns)
    r = np.arange(shape[0])[:, None] + start[0]
    c = np.arange(shape[1])[None, :] + start[1]
    inside = (r >= 0) & (r < rows) & (c >= 0) & (c < columns)
    at = r * strides[0] + c * strides[1] + np.arange(p.programs).reshape(-1, 1, 1) * size
    active = p.among_active(np.broadcast_to(inside, at.shape))
    texts = [p.scalar(n) if s.random() < 0.3 else str(n) for n in (rows, columns, *start)]
    name = p.name("b")
    base = f"{pointer.name} + pid * {size} - {pointer.start}"
    if through == "pointer":
        made = (f"tl.make_block_ptr({base}, ({texts[0]}, {texts[1]}), {strides}, "
                f"({texts[2]}, {texts[3]}), {shape}, (1, 0))")  # fmt: skip
    else:
        made = (f"tl.make_tensor_descriptor({base}, [{texts[0]}, {texts[1]}], [{columns}, 1], "
                f"{list(shape)})")  # fmt: skip
    fit = [t for t in p.tiles if t.shape == shape and t.data.dtype == dtype]
    if fit and s.random() < 0.6:
        value = s.choice(fit)
        if not pointer.base.write(at, active, value.data):
            return False
        p.line(f"{name} = {made}")
        p.line(f"tl.store({name}, {value.name}, boundary_check=(0, 1))" if through == "pointer"
               else f"{name}.store([{texts[2]}, {texts[3]}], {value.name})")  # fmt: skip
        return True
    data = pointer.base.read(at, active)
    if data is None:
        return False
    p.line(f"{name} = {made}")
    p.new(f"tl.load({name}, boundary_check=(0, 1), padding_option='zero')" if through == "pointer"
          else f"{name}.load([{texts[2]}, {texts[3]}])", data)  # fmt: skip
    return True
