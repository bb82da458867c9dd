"""Statements on shared memory: allocation, views, stores and loads in any layouts, atomics.

The compiler puts barriers between accesses of different threads, so that statements need none.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tools.gluon_programs.layouts import shared
from tools.gluon_programs.program import GluonProgram, Memory, index, named
from tools.tile_programs.accesses import ELEMENTS
from tools.tile_programs.program import Tile
from tritium.experimental.gluon import language as gl

LARGEST = 1024
"""Elements of an allocation at most."""


def allocated(p: GluonProgram) -> bool:
    """Memory that a tile fills, sometimes several buffers of which it fills each."""
    s = p.source
    fit = [t for t in p.tiles if t.shape and t.kind != "b" and t.data[0].size <= LARGEST]
    if not fit:
        return False
    tile = s.choice(fit)
    count = s.choice((0, 0, 2, 3))
    nbytes = tile.data[0].nbytes * max(count, 1)
    if 2 * nbytes > p.room:
        return False
    p.room -= 2 * nbytes  # paddings
    cluster = p.layouts.cluster(tile.shape)
    layout = shared(s, tile.shape, 8 * tile.data.dtype.itemsize, cluster)
    parted = frozenset(a + bool(count) for basis in cluster for a, x in enumerate(basis) if x)
    shape = (count, *tile.shape) if count else tile.shape
    held = np.zeros((p.programs, *shape), tile.data.dtype)
    copies = not all(any(basis) for basis in cluster)
    memory = Memory(p.name("s"), held, layout, bool(count), parted, copies)
    at_once = not count and s.random() < 0.5
    value = f", {tile.name}" if at_once else ""
    p.meet()
    p.line(f"{memory.name} = gl.allocate_shared_memory({named(held.dtype)}, {list(shape)}, "
           f"{p.layout(layout)}{value})")  # fmt: skip
    for number in range(count):
        p.line(f"{memory.name}.index({number}).store({tile.name})")
        p.update(held[:, number], tile.data)
    if not count:
        if not at_once:
            p.line(f"{memory.name}.store({tile.name})")
        p.update(held, tile.data)
    p.meet()
    p.memories.append(memory)
    return True


def _pick(p: GluonProgram, buffers: bool = False) -> Memory | None:
    """Some memory; late ones more often."""
    fit = [m for m in p.memories if buffers or not m.buffers]
    if not fit:
        return None
    return fit[max(p.source.randrange(len(fit)) for _ in range(2))]


def viewed(p: GluonProgram) -> bool:
    """A part of memory, or the same with other axes."""
    s, m = p.source, _pick(p, buffers=True)
    if m is None:
        return False
    if m.buffers:
        return _buffer(p, m)
    rank = len(m.shape)
    kind = s.choice(("slice", "permute", "reshape", "reinterpret"))
    if kind == "slice":
        axis = s.randrange(rank)
        if m.shape[axis] == 1 or axis in m.parted:
            return False
        length = s.choice([1 << i for i in range(m.shape[axis].bit_length() - 1)])
        start = length * s.randrange(m.shape[axis] // length)
        at = (slice(None),) * (axis + 1) + (slice(start, start + length),)
        _view(p, m, f"slice({start}, {length}, dim={axis})", m.data[at], m.parted)
    elif kind == "permute" and rank > 1:
        order = list(range(rank))
        s.shuffle(order)
        parted = frozenset(i for i, a in enumerate(order) if a in m.parted)
        data = m.data.transpose(0, *(a + 1 for a in order))
        _view(p, m, f"permute({tuple(order)})", data, parted)
    elif (
        kind == "reshape"
        and m.layout is not None
        and not m.parted
        and not isinstance(m.layout, gl.PaddedSharedLayout)
    ):
        numel = int(np.prod(m.shape))
        first = s.choice([1 << i for i in range(numel.bit_length())])
        shape = s.choice(((numel,), (first, numel // first)))
        if isinstance(m.layout, gl.NVMMASharedLayout):
            return False
        _view(p, m, f"reshape({shape})", m.data.reshape(p.programs, *shape), m.parted)
    elif kind == "reinterpret" and m.layout is not None:
        others = [d for d in ELEMENTS if d.itemsize == m.data.dtype.itemsize and d.kind in "iu"]
        to = s.choice(others)
        _view(p, m, f"reinterpret({named(to)}, {list(m.shape)}, {p.layout(m.layout)})",
              m.data.view(to), m.parted)  # fmt: skip
    else:
        return False
    return True


def _view(
    p: GluonProgram, of: Memory, text: str, data: np.ndarray, parted: frozenset[int]
) -> None:
    name = p.name("s")
    p.line(f"{name} = {of.name}.{text}")
    p.memories.append(Memory(name, data, None, parted=parted, copies=of.copies))


def _buffer(p: GluonProgram, m: Memory) -> bool:
    """One of several buffers, by a constant or an argument; or some of them, or a part of each."""
    s = p.source
    if s.random() < 0.4:
        axis = s.choice((0, s.randrange(1, len(m.shape))))
        if axis in m.parted:
            return False
        size = m.shape[axis]
        if axis:
            length = s.choice([1 << i for i in range(size.bit_length())])
            start = length * s.randrange(size // length)
        else:
            length = s.randint(1, size)
            start = s.randint(0, size - length)
        name, at = p.name("s"), (slice(None),) * (axis + 1) + (slice(start, start + length),)
        p.line(f"{name} = {m.name}.slice({start}, {length}, dim={axis})")
        p.memories.append(Memory(name, m.data[at], None, True, m.parted, m.copies))
        return True
    number = p.source.randrange(m.shape[0])
    text = p.scalar(number) if p.source.random() < 0.5 else str(number)
    name = p.name("s")
    p.line(f"{name} = {m.name}.index({text})")
    parted = frozenset(a - 1 for a in m.parted)
    p.memories.append(Memory(name, m.data[:, number], None, False, parted, m.copies))
    return True


def stored(p: GluonProgram) -> bool:
    """A store of a tile, which may be in any layout."""
    m = _pick(p)
    if m is None:
        return False
    tile = p.tile_of(m.shape, m.data.dtype)
    text = tile.name
    if p.source.random() < 0.5:
        text = f"gl.convert_layout({text}, {p.any_layout(m.shape)})"
    p.meet()
    p.line(f"{m.name}.store({text})")
    p.meet()
    p.update(m.data, tile.data)
    return True


def read(p: GluonProgram) -> bool:
    """A load in any layout."""
    m = _pick(p)
    if m is None:
        return False
    p.meet()
    p.new(f"{m.name}.load({p.any_layout(m.shape)})", m.data.copy())
    p.meet()
    return True


def _indices(p: GluonProgram, m: Memory, axis: int, shape: tuple[int, ...]) -> tuple[str, Any]:
    """The text of places along an axis, different ones for each element along it, in a block of
    this shape, and the places."""
    s, size = p.source, m.shape[axis]
    layout = p.any_layout(shape)
    factor, first = s.choice((1, 3, 5)), s.choice((0, 1, 7))
    name = p.name("at")
    p.line(f"{name} = ({index(axis, shape, layout)} * {factor} + {first}) % {size} "
           f"+ gl.zeros({list(shape)}, gl.int32, {layout})")  # fmt: skip
    along = (np.arange(shape[axis]) * factor + first) % size
    along = along.reshape([-1 if a == axis else 1 for a in range(len(shape))])
    return name, np.broadcast_to(along, (p.programs, *shape))


def _part(p: GluonProgram, m: Memory, axis: int) -> tuple[int, ...]:
    """The shape of indices along an axis: as long as the memory, or shorter."""
    size = m.shape[axis]
    shape = list(m.shape)
    shape[axis] = p.source.choice([size, size, max(size // 2, 1)])
    return tuple(shape)


def gathered(p: GluonProgram) -> bool:
    """`gather` from memory."""
    m = _pick(p)
    if m is None or not m.shape:
        return False
    axis = p.source.randrange(len(m.shape))
    name, at = _indices(p, m, axis, _part(p, m, axis))
    p.meet()
    p.new(f"{m.name}.gather({name}, {axis})", np.take_along_axis(m.data, at, axis + 1))
    p.meet()
    return True


def scattered(p: GluonProgram) -> bool:
    """`scatter`, and atomics of which no two meet, to memory."""
    s, m = p.source, _pick(p)
    if m is None or not m.shape:
        return False
    axis = s.randrange(len(m.shape))
    name, at = _indices(p, m, axis, _part(p, m, axis))
    tile: Tile = p.tile_of(at.shape[1:], m.data.dtype)
    values = f"gl.convert_layout({tile.name}, {name}.type.layout)"
    kinds = ["scatter"] * 2
    whole_words = m.data.dtype in map(np.dtype, (np.int32, np.uint32, np.int64))
    if whole_words and not m.copies:
        kinds += ["add", "max", "min", "and", "or", "xor"]
    kind = s.choice(kinds)
    before = np.take_along_axis(m.data, at, axis + 1)
    new = m.data.copy()
    p.meet()
    if kind == "scatter":
        np.put_along_axis(new, at, tile.data, axis + 1)
        p.line(f"{m.name}.scatter({values}, {name}, {axis})")
    else:
        do = {"add": np.add, "max": np.maximum, "min": np.minimum, "and": np.bitwise_and,
              "or": np.bitwise_or, "xor": np.bitwise_xor}[kind]  # fmt: skip
        np.put_along_axis(new, at, do(before, tile.data), axis + 1)
        text = f"{m.name}.atomic_scatter_{kind}({values}, {name}, {axis})"
        if s.random() < 0.5:
            p.new(text, before)
        else:
            p.line(text)
    p.meet()
    p.update(m.data, new)
    return True


def counted(p: GluonProgram) -> bool:
    """Atomic additions to places of memory that many elements share."""
    s = p.source
    fit = [
        m for m in p.memories
        if len(m.shape) == 1 and m.data.dtype == np.int32 and not (m.buffers or m.copies)
    ]  # fmt: skip
    tiles = [t for t in p.tiles if len(t.shape) == 1 and t.data.dtype == np.int32]
    if not fit or not tiles:
        return False
    m, tile = s.choice(fit), s.choice(tiles)
    last = m.shape[0] - 1
    at = tile.data & np.int32(last)
    new = m.data.copy()
    for number in range(p.programs):
        np.add.at(new[number], at[number], tile.data[number])
    p.meet()
    p.line(f"{m.name}.atomic_scatter_add({tile.name}, {tile.name} & {last}, 0)")
    p.meet()
    p.update(m.data, new)
    return True
