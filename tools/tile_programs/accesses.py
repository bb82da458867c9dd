"""Statements on memory: loads, stores, atomics, loops around them, products."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tools.tile_programs.arithmetic import condition, numbers_of
from tools.tile_programs.program import (
    BFLOAT16,
    E4M3,
    E5M2,
    INTEGERS,
    LANGUAGE,
    Pointer,
    Program,
    Tile,
    is_float,
    row_major,
)

ELEMENTS = (
    *INTEGERS, np.dtype(np.int32), np.dtype(np.float16), BFLOAT16, np.dtype(np.float32),
    np.dtype(np.float32), np.dtype(np.float64), E4M3, E5M2, np.dtype(bool),
)  # fmt: skip


def widened(dtype: np.dtype) -> np.dtype:
    """The type, of those that most statements take, that holds all numbers of another."""
    if is_float(dtype):
        return np.dtype(np.float32)
    return np.dtype(np.int32 if dtype.itemsize < 4 or dtype == np.int32 else np.int64)


def _value(dtype: np.dtype, text: str, data: np.ndarray) -> tuple[str, np.ndarray]:
    """The loaded value, in a type that the other statements take."""
    wide = widened(dtype)
    return (text if wide == dtype else f"{text}.to({LANGUAGE[wide]})"), data.astype(wide)


def _pointer(p: Program, at: np.ndarray) -> Pointer:
    """Some array: one there is, an alias of one, or a new one that often just suffices."""
    s = p.source
    known = [pointer for pointer in p.pointers if not pointer.shared]
    if known and s.random() < 0.5:
        of = s.choice(known)
        if s.random() < 0.3 and of.length > 4:
            return p.alias(of, s.randrange(of.length // 2))
        return of
    needed = int(at.max()) + 1 if at.size else 1
    length = needed if 1 <= needed <= 1 << 16 else s.choice((1, 7, 64, 1000))
    return p.pointer(s.choice(ELEMENTS), max(1, length - s.choice((0, 0, 0, 1, 5))))


def _mask(p: Program, pointer: Pointer, at: Tile) -> tuple[str, np.ndarray] | None:
    """The text of a mask ("" for none) for which no access is out of bounds, and its value."""
    s, data = p.source, at.data
    inside = (data >= 0) & (data < pointer.length)
    if inside.all() and s.random() < 0.6:
        text, value = "", inside
    else:
        bound = p.scalar(pointer.length) if s.random() < 0.7 else str(pointer.length)
        text, value = f"({at.name} < {bound})", data < pointer.length
        if not (data >= 0).all():
            text, value = f"({at.name} >= 0) & {text}", inside
    masks = [t for t in p.tiles if t.kind == "b" and t.shape == at.shape]
    if at.shape and s.random() < 0.3:
        another, also = condition(p, at.shape)
        text, value = f"{text} & {another}" if text else another, value & also
        # A mask has the tile's shape, whatever is compared.
        text = f"tl.broadcast_to({text}, {list(at.shape)})"
    elif masks and s.random() < 0.4:
        other = s.choice(masks)
        text = f"{text} & {other.name}" if text else other.name
        value = value & other.data
    return text, value


def _read(p: Program, pointer: Pointer, at: np.ndarray, active: np.ndarray) -> np.ndarray | None:
    places = at.astype(np.int64) + pointer.start
    return pointer.base.read(places, p.among_active(active))


def loaded(p: Program) -> bool:
    """A load."""
    at = p.pick("i")
    if at is None:
        return False
    pointer = _pointer(p, at.data)
    found = _mask(p, pointer, at)
    assert found is not None
    mask, active = found
    data = _read(p, pointer, at.data, active)
    if data is None:
        return False
    text = f"tl.load({pointer.name} + {at.name}"
    if mask:
        other = p.source.choice((0, 0, 1, -3))
        text += f", mask={mask}, other={other}"
        data = np.where(active, data, np.asarray(other).astype(data.dtype))
    as_it_is = p.source.random() < 0.5
    p.new(*((f"{text})", data) if as_it_is else _value(data.dtype, f"{text})", data)))
    return True


def _stored(values: np.ndarray, dtype: np.dtype) -> np.ndarray | None:
    """Values as they are in memory; None where that would not be exact."""
    if values.dtype.kind == "b":
        return values.astype(dtype)
    if dtype.kind == "b":  # whether 256 is true depends on the bits that are kept
        return None
    if is_float(values.dtype) != is_float(dtype):
        return None
    held = values.astype(dtype)
    if is_float(dtype) and not (held.astype(np.float64) == values.astype(np.float64)).all():
        return None
    return held


def stored(p: Program) -> bool:
    """A store, where programs do not meet."""
    s, at = p.source, p.pick("i")
    if at is None:
        return False
    fit = [t for t in p.tiles if t.shape == at.shape and t.kind != "b"]
    value = s.choice(fit)
    pointer = _pointer(p, at.data)
    held = _stored(value.data, pointer.base.data.dtype)
    found = _mask(p, pointer, at)
    if held is None or found is None:
        return False
    mask, active = found
    places = at.data.astype(np.int64) + pointer.start
    if not pointer.base.write(places, p.among_active(active), held):
        return False
    masked = f", mask={mask}" if mask else ""
    p.line(f"tl.store({pointer.name} + {at.name}, {value.name}{masked})")
    return True


def added(p: Program) -> bool:
    """Atomic additions to places that many elements and programs share."""
    at = p.pick("i", 1)
    if at is None:
        return False
    value = p.source.choice([t for t in p.tiles if t.shape == at.shape and t.kind == "i"])
    size = p.source.choice((1, 8, 64, 1024))
    dtype = value.data.dtype
    pointer = p.pointer(dtype, size)
    places = (at.data & at.data.dtype.type(size - 1)).astype(np.int64)
    np.add.at(pointer.base.data, places[p.active].ravel(), value.data[p.active].ravel())
    pointer.shared = True
    p.line(f"tl.atomic_add({pointer.name} + ({at.name} & {size - 1}), {value.name})")
    return True


def loop(p: Program) -> bool:
    """A loop that adds up tiles of an array further and further on."""
    s, at = p.source, p.pick("i", 1)
    if at is None or at.data.dtype != np.int32:
        return False
    trips, step = s.choice((0, 1, 3, 4)), s.choice((1, 8, int(np.prod(at.shape)), -1))
    pointer = _pointer(p, at.data)
    total = None
    for trip in range(trips):
        places = at.data + np.int32(trip * step)
        active = (places >= 0) & (places < pointer.length)
        data = _read(p, pointer, places, active)
        if data is None:
            return False
        _, wide = _value(data.dtype, "", data)
        total = wide if total is None else total + wide
    dtype = widened(pointer.base.data.dtype)
    total = np.zeros(at.data.shape, dtype) if total is None else total
    if not p.exact(total):
        return False
    name, index, length = p.name("v"), p.name("at"), p.scalar(pointer.length)
    p.line(f"{name} = tl.zeros({at.shape}, {LANGUAGE[dtype]})")
    p.line(f"for k in range({p.scalar(trips) if s.random() < 0.6 else trips}):")
    p.line(f"    {index} = {at.name} + k * {step}")
    load = f"tl.load({pointer.name} + {index}, mask=({index} >= 0) & ({index} < {length}), other=0)"
    p.line(f"    {name} += {_value(pointer.base.data.dtype, load, total)[0]}")
    p.tiles.append(Tile(name, total))
    return True


@dataclass(frozen=True)
class _Operand:
    """An operand of a product in a loop: its load, its text there, its numbers in all iterations
    (programs, K, the other axis)."""

    name: str
    load: str
    text: str
    data: np.ndarray


def _operand(p: Program, is_b: bool, dtype: np.dtype, size: int, k: int, depth: int) -> _Operand:
    """An operand in any order of axes, with masks along K and along the other axis."""
    s = p.source
    trips = -(-depth // k)
    pointer = p.pointer(dtype, p.programs * depth * size)
    places = np.arange(pointer.length).reshape(p.programs, -1)
    held = pointer.base.read(places, np.ones(places.shape, bool))
    assert held is not None
    turned = s.random() < 0.5  # K is the last axis in memory
    held = (held.reshape(p.programs, size, depth).transpose(0, 2, 1) if turned
            else held.reshape(p.programs, depth, size))  # fmt: skip
    step = [p.scalar(x) if s.random() < 0.4 else str(x) for x in ((1, depth) if turned
                                                                  else (size, 1))]  # fmt: skip
    along, other = f"(t * {k} + tl.arange(0, {k}))", f"tl.arange(0, {size})"
    swapped = s.random() < 0.4  # as it is loaded
    down, across = (":, None", "None, :") if is_b != swapped else ("None, :", ":, None")
    limit = depth - (s.choice((1, 5)) if s.random() < 0.15 else 0)
    most = size - (s.choice((1, 3, size)) if s.random() < 0.3 else 0)
    masks, fill = list[str](), s.choice((0, 0, 0, 2))
    if limit < trips * k or s.random() < 0.3:
        masks.append(f"({along}[{down}] < {p.scalar(limit)})")
    if most < size or s.random() < 0.1:
        masks.append(f"({other}[{across}] < {p.scalar(most)})")
    data = np.full((p.programs, trips * k, size), fill, dtype)
    data[:, :limit, :most] = held[:, :limit, :most]
    masked = f", mask={' & '.join(masks)}, other={fill}" if masks else ""
    name = p.name("b" if is_b else "a")
    load = (f"{name} = tl.load({pointer.name} + pid * {depth * size} + ({along}[{down}] * {step[0]}"
            f" + {other}[{across}] * {step[1]}){masked})")  # fmt: skip
    return _Operand(name, load, f"tl.trans({name})" if swapped else name, data)


def product(p: Program) -> bool:
    """A loop of products of loaded tiles, in any order of axes, with masks, and used again."""
    s = p.source
    m, n, k = (s.choice((16, 16, 32, 64)) for _ in range(3))
    types = (np.float32, np.float32, np.float16, BFLOAT16, np.int8, np.float64, E4M3, E5M2)
    dtype = np.dtype(s.choice(types))
    trips = s.choice((1, 1, 2, 3))
    depth = trips * k - s.choice((0, 0, 1, 5))
    result = np.dtype(np.int32 if dtype.kind == "i" else np.float32)
    result = dtype if dtype == np.float64 else result
    operands = [_operand(p, is_b, dtype, n if is_b else m, k, depth) for is_b in (False, True)]
    total, extra = p.name("v"), p.name("v")
    p.line(f"{total} = tl.zeros(({m}, {n}), {LANGUAGE[result]})")
    p.line(f"{extra} = tl.zeros((1,), {LANGUAGE[result]})")
    p.line(f"for t in range({p.scalar(trips) if s.random() < 0.5 else trips}):")
    for operand in operands:
        p.line(f"    {operand.load}")
    p.line(f"    {total} = tl.dot({operands[0].text}, {operands[1].text}, {total}, "
           f"out_dtype={LANGUAGE[result]}, input_precision='ieee')")  # fmt: skip
    a, b = (o.data.astype(np.int64 if dtype.kind == "i" else np.float64) for o in operands)
    p.tiles.append(Tile(total, (a.transpose(0, 2, 1) @ b).astype(result)))
    if s.random() < 0.4:
        again, wide = s.choice(list(zip(operands, (a, b), strict=True)))
        p.line(f"    {extra} += tl.sum({again.name}.to({LANGUAGE[result]}))")
        p.tiles.append(Tile(extra, wide.sum((1, 2))[:, None].astype(result)))
    return True


def results(p: Program, least: int) -> None:
    """Stores of tiles to arrays of their own, which end with the last element."""
    changed = [t for t in p.tiles if t.name.startswith("c")]
    chosen = p.tiles[-least:] + p.source.sample(p.tiles, min(2, len(p.tiles))) + changed[-3:]
    for tile in dict.fromkeys(chosen):
        numel = int(np.prod(tile.shape))
        dtype = np.dtype(np.int8) if tile.kind == "b" else tile.data.dtype
        pointer = p.pointer(dtype, p.programs * numel, np.zeros(p.programs * numel, dtype))
        at, text = row_major(tile.shape), numbers_of(tile.shape)
        if len(tile.shape) == 2 and p.source.random() < 0.3:  # turned
            rows, columns = tile.shape
            at = np.arange(rows)[:, None] + np.arange(columns)[None, :] * rows
            text = f"tl.arange(0, {rows})[:, None] + tl.arange(0, {columns})[None, :] * {rows}"
        where = at + np.arange(p.programs).reshape(-1, *(1,) * len(tile.shape)) * numel
        every = p.among_active(np.ones(where.shape, bool))
        done = pointer.base.write(where, every, tile.data.astype(dtype))
        assert done
        p.line(f"tl.store({pointer.name} + pid * {numel} + ({text}), {tile.name})")
