"""Statements on the elements of tiles, and on their places."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np

from tools.tile_programs.program import ALL_KINDS, LARGEST, Program, Tile, axes_text, wrapped

POWERS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
NUMBERS = (
    0, 1, 2, 3, 5, 7, 16, 31, 100, 255, -1, -3, -100, 65537, 1 << 20, 1000000007, 2**31 - 3,
    2**31 - 1, -(2**31),
)  # fmt: skip


def ranges(p: Program) -> bool:
    """Numbers in a row: an `arange`, widened, scaled, moved by constants, arguments, the pid; or
    one that does not begin at 0."""
    size = p.source.choice(POWERS)
    if p.source.random() < 0.2:
        first = p.source.choice((size, 1, 3, 100))
        data = np.broadcast_to(np.arange(first, first + size, dtype=np.int32), (p.programs, size))
        p.new(f"tl.arange({first}, {first + size})", data)
        return True
    p.new(*numbers(p, size))
    return True


def numbers(p: Program, size: int) -> tuple[str, np.ndarray]:
    """The text and the value of such a tile of a size."""
    s = p.source
    text, data = f"tl.arange(0, {size})", np.arange(size, dtype=np.int32)
    data = np.broadcast_to(data, (p.programs, size))
    if s.random() < 0.3:
        text, data = f"{text}.to(tl.int64)", data.astype(np.int64)
    if s.random() < 0.4:
        factor = s.choice(NUMBERS)
        held = p.scalar(factor) if s.random() < 0.5 else str(factor)
        text, data = f"{text} * {held}", wrapped(data * np.int64(factor), data.dtype)
    if s.random() < 0.5:
        step = s.choice((size, 1, size + 3))
        data = wrapped(data + p.pid.data[:, None] * step, data.dtype)
        text = f"pid * {step} + {text}"
    if s.random() < 0.4:
        start = s.choice(NUMBERS)
        held = p.scalar(start) if s.random() < 0.5 else str(start)
        text, data = f"{held} + ({text})", wrapped(data + np.int64(start), data.dtype)
    return text, data


def condition(p: Program, shape: tuple[int, ...]) -> tuple[str, np.ndarray]:
    """Numbers in a row along an axis of a shape, compared with one that some of them reach."""
    s = p.source
    axis = s.randrange(len(shape))
    text, data = numbers(p, shape[axis])
    bound = int(data.flat[s.randrange(data.size)]) + s.choice((0, 0, 1))
    bound = max(-(2**31), min(bound, 2**31 - 1))
    name = s.choice(list(COMPARISONS))
    value = COMPARISONS[name](data, data.dtype.type(bound))
    value = value.reshape(-1, *(size if d == axis else 1 for d, size in enumerate(shape)))
    held = p.scalar(bound) if s.random() < 0.7 else str(bound)
    named = p.name("v")
    p.line(f"{named} = {text}")
    value = np.broadcast_to(value, (p.programs, *shape))
    return f"({name.format(axes_text(named, axis, len(shape)), held)})", value


def places(p: Program) -> bool:
    """Where a tile of one to three axes is in a matrix that programs divide."""
    s = p.source
    rank = s.choice((1, 1, 2, 2, 3))
    shape = tuple(s.choice((1, 2, 4, 8, 16, 32, 64)) for _ in range(rank))
    if rank == 1:
        shape = (s.choice(POWERS),)
    numel = int(np.prod(shape))
    if numel > LARGEST:
        return False
    order = list(range(rank))
    s.shuffle(order)
    strides, stride = [0] * rank, 1
    for axis in reversed(order):
        strides[axis] = stride
        stride *= shape[axis] + s.choice((0, 0, 0, 1, 3))
    terms = []
    data = np.zeros(shape, np.int64)
    for axis in range(rank):
        index = f"tl.arange(0, {shape[axis]})"
        held = p.scalar(strides[axis]) if s.random() < 0.4 else str(strides[axis])
        terms.append(f"{axes_text(index, axis, rank)} * {held}")
        along = np.arange(shape[axis]).reshape([-1 if a == axis else 1 for a in range(rank)])
        data = data + along * strides[axis]
    s.shuffle(terms)
    held = p.scalar(stride) if s.random() < 0.5 else str(stride)
    whole = data + p.pid.data.reshape(-1, *(1,) * rank).astype(np.int64) * stride
    p.new(f"pid * {held} + {' + '.join(terms)}", wrapped(whole, np.int32), "at")
    return True


def divided(a: np.ndarray, by: int) -> np.ndarray:
    """Quotients rounded to zero."""
    down = a // a.dtype.type(by)
    return np.where((a < 0) & (down * a.dtype.type(by) != a), down + a.dtype.type(1), down)


def pair_of(p: Program, kinds: str) -> tuple[Tile, Tile] | None:
    """Two tiles of one type whose shapes broadcast."""
    a = p.pick(kinds)
    if a is None:
        return None
    fit = [
        t for t in p.tiles
        if t.data.dtype == a.data.dtype and len(t.shape) == len(a.shape)
        and all(x == y or 1 in (x, y) for x, y in zip(t.shape, a.shape, strict=True))
        and np.prod(np.maximum(t.shape, a.shape)) <= LARGEST
    ]  # fmt: skip
    return (a, p.source.choice(fit)) if fit else None


OPERATIONS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "{} + {}": np.add, "{} - {}": np.subtract, "{} * {}": np.multiply, "{} & {}": np.bitwise_and,
    "{} | {}": np.bitwise_or, "{} ^ {}": np.bitwise_xor, "tl.minimum({}, {})": np.minimum,
    "tl.maximum({}, {})": np.maximum,
}  # fmt: skip
COMPARISONS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "{} < {}": np.less, "{} <= {}": np.less_equal, "{} == {}": np.equal, "{} != {}": np.not_equal,
    "{} > {}": np.greater, "{} >= {}": np.greater_equal,
}  # fmt: skip


def two(p: Program) -> bool:
    """An operation on two tiles."""
    pair = pair_of(p, "if")
    if pair is None:
        return False
    a, b = pair
    names = list(OPERATIONS) if a.kind == "i" else [n for n in OPERATIONS if n[3] not in "&|^"]
    name = p.source.choice(names)
    data = OPERATIONS[name](a.data, b.data)
    if not p.exact(data):
        return False
    p.new(name.format(*p.together(a, b)), data)
    return True


def with_number(p: Program) -> bool:
    """An operation on a tile of integers and a constant or argument."""
    s, a = p.source, p.pick("i")
    if a is None:
        return False
    type = a.data.dtype.type
    if s.random() < 0.3:
        by = abs(s.choice([n for n in NUMBERS if n not in (0, -(2**31))]))
        divides = s.random() < 0.5
        quotient = divided(a.data, by)
        held = p.scalar(by) if s.random() < 0.5 else str(by)
        data = quotient if divides else a.data - quotient * type(by)
        p.new(f"{a.name} {'//' if divides else '%'} {held}", data)
        return True
    if s.random() < 0.25:
        by = s.randrange(8 * a.data.dtype.itemsize)
        left = s.random() < 0.5
        p.new(f"{a.name} {'<<' if left else '>>'} {by}",
              (np.left_shift if left else np.right_shift)(a.data, type(by)))  # fmt: skip
        return True
    number = s.choice(NUMBERS)
    name = s.choice(list(OPERATIONS))
    held = p.scalar(number) if s.random() < 0.5 else str(number)
    p.new(name.format(a.name, held), OPERATIONS[name](a.data, type(number)))
    return True


def compared(p: Program) -> bool:
    """A mask: two tiles compared, or a tile and a number; or masks combined."""
    s = p.source
    if s.random() < 0.3:
        pair = pair_of(p, "b")
        if pair is None:
            return False
        a, b = pair
        sign, do = s.choice((("&", np.logical_and), ("|", np.logical_or), ("^", np.logical_xor)))
        p.new(f"{{}} {sign} {{}}".format(*p.together(a, b)), do(a.data, b.data), "m")
        return True
    name = s.choice(list(COMPARISONS))
    pair = pair_of(p, "if")
    if pair is None:
        return False
    a, b = pair
    if s.random() < 0.6 and a.kind == "i":
        number = s.choice((*NUMBERS, int(a.data.flat[s.randrange(a.data.size)]) % 2**31))
        held = p.scalar(number) if s.random() < 0.6 else str(number)
        p.new(name.format(a.name, held), COMPARISONS[name](a.data, a.data.dtype.type(number)), "m")
    else:
        p.new(name.format(*p.together(a, b)), COMPARISONS[name](a.data, b.data), "m")
    return True


def chosen(p: Program) -> bool:
    """`where`."""
    mask, pair = p.pick("b"), pair_of(p, "ifnh")
    if mask is None or pair is None or len(mask.shape) != len(pair[0].shape):
        return False
    shapes = (mask.shape, pair[0].shape, pair[1].shape)
    try:
        whole = np.broadcast_shapes(*shapes)
    except ValueError:
        return False
    if np.prod(whole) > LARGEST:
        return False
    a, b = pair
    text = "tl.where({}, {}, {})".format(*p.together(mask, a, b))
    p.new(text, np.where(mask.data, a.data, b.data))
    return True


def cast(p: Program) -> bool:
    """To the other integers, to floats where these are exact, and back."""
    a = p.pick("bif")
    if a is None:
        return False
    if a.kind == "i" and p.source.random() < 0.5 and p.exact(a.data.astype(np.float64)):
        p.new(f"{a.name}.to(tl.float32)", a.data.astype(np.float32))
    elif a.kind == "i":
        to = np.int32 if a.data.dtype == np.int64 else np.int64
        p.new(f"{a.name}.to(tl.{np.dtype(to).name})", a.data.astype(to))
    else:
        p.new(f"{a.name}.to(tl.int32)", a.data.astype(np.int32))
    return True


def reshaped(p: Program) -> bool:
    """Elements in other places: reshape, trans, permute, an axis more, flip."""
    s, a = p.source, p.pick(ALL_KINDS, 1)
    if a is None:
        return False
    kind = s.choice(("reshape", "permute", "expand", "flip"))
    if kind == "reshape":
        numel = int(np.prod(a.shape))
        shapes = [
            shape for rank in (1, 2, 3) for shape in itertools.product(POWERS, repeat=rank)
            if int(np.prod(shape)) == numel
        ]  # fmt: skip
        shape = s.choice(shapes)
        p.new(f"tl.reshape({a.name}, {shape})", a.data.reshape(p.programs, *shape))
    elif kind == "permute" and len(a.shape) > 1:
        order = list(range(len(a.shape)))
        s.shuffle(order)
        text = f"tl.trans({a.name})" if order == [1, 0] else f"tl.permute({a.name}, {tuple(order)})"
        p.new(text, a.data.transpose(0, *(axis + 1 for axis in order)))
    elif kind == "expand" and len(a.shape) < 3:
        axis = s.randrange(len(a.shape) + 1)
        places = ", ".join("None" if d == axis else ":" for d in range(len(a.shape) + 1))
        p.new(f"{a.name}[{places}]", np.expand_dims(a.data, axis + 1))
    elif kind == "flip" and a.kind not in "bq":
        axis = s.randrange(len(a.shape))
        p.new(f"tl.flip({a.name}, {axis})", np.flip(a.data, axis + 1))
    else:
        return False
    return True


def joined(p: Program) -> bool:
    """join, split."""
    s = p.source
    halves = [t for t in p.tiles if len(t.shape) > 1 and t.shape[-1] == 2]
    if halves and s.random() < 0.5:
        a = s.choice(halves)
        first, second = Tile(p.name("v"), a.data[..., 0]), Tile(p.name("v"), a.data[..., 1])
        p.line(f"{first.name}, {second.name} = tl.split({p.splittable(a)})")
        p.tiles += [first, second]
        return True
    pair = _joinable(p)
    if pair is not None:
        a, b = pair
        p.new("tl.join({}, {})".format(*p.together(a, b)), np.stack([a.data, b.data], -1))
    return pair is not None


def interleaved(p: Program) -> bool:
    """interleave."""
    pair = _joinable(p)
    if pair is not None:
        a, b = pair
        data = np.stack([a.data, b.data], -1).reshape(*a.data.shape[:-1], 2 * a.shape[-1])
        p.new(f"tl.interleave({a.name}, {b.name})", data)
    return pair is not None


def _joinable(p: Program) -> tuple[Tile, Tile] | None:
    """Two tiles of one shape that can be joined to a tile that is not too large."""
    pair = pair_of(p, "ifnhq")
    if pair is None or pair[0].shape != pair[1].shape:
        return None
    shape = pair[0].shape
    return pair if 1 <= len(shape) <= 2 and 2 * np.prod(shape) <= LARGEST else None


def gather_of(p: Program) -> tuple[Tile, int, Tile] | None:
    """A tile, one of its axes, and an int32 tile that agrees with it along all others."""
    s, a = p.source, p.pick("ifnh", 1)
    if a is None:
        return None
    axis = s.randrange(len(a.shape))
    fit = [
        t for t in p.tiles
        if t.data.dtype == np.int32 and len(t.shape) == len(a.shape)
        and all(x == y for d, (x, y) in enumerate(zip(t.shape, a.shape, strict=True)) if d != axis)
    ]  # fmt: skip
    return (a, axis, s.choice(fit)) if fit else None


def gathered(p: Program) -> bool:
    """`gather` along an axis, with indices from a tile."""
    found = gather_of(p)
    if found is None:
        return False
    a, axis, index = found
    last = a.shape[axis] - 1
    p.new(f"tl.gather({a.name}, {index.name} & {last}, {axis})",
          np.take_along_axis(a.data, index.data & np.int32(last), axis + 1))  # fmt: skip
    return True


def combined(
    p: Program,
    names: Sequence[str] = ("sum", "max", "min", "argmax", "xor_sum", "cumsum", "sort", "kept"),
) -> bool:
    """Reductions, scans and sorts."""
    s, a = p.source, p.pick("if", 1)
    if a is None:
        return False
    axis, name = s.randrange(len(a.shape)), s.choice(names)
    text = f"tl.{name}({a.name}, axis={axis})"
    if name in ("sum", "max", "min"):
        data = getattr(np, name)(a.data, axis + 1)
        data = data if a.kind == "f" else wrapped(data, a.data.dtype)
    elif name == "argmax":
        data = np.argmax(a.data, axis + 1).astype(np.int32)
    elif name == "xor_sum" and a.kind == "i":
        data = np.bitwise_xor.reduce(a.data, axis + 1)
    elif name == "cumsum":
        back = s.random() < 0.3
        turned = np.flip(a.data, axis + 1) if back else a.data
        data = np.cumsum(turned, axis + 1, dtype=a.data.dtype)
        data = np.flip(data, axis + 1) if back else data
        text = f"tl.cumsum({a.name}, {axis}, reverse={back})"
    elif name == "sort" and a.shape[-1] <= 256:
        down = s.random() < 0.4
        data = np.sort(a.data, -1)
        data = np.flip(data, -1) if down else data
        text = f"tl.sort({a.name}, descending={down})"
    elif name == "kept" and len(a.shape) > 1:
        data = a.data.max(axis + 1, keepdims=True)
        text = f"tl.max({a.name}, {axis}, keep_dims=True)"
    else:
        return False
    if p.exact(data):
        p.new(text, data)
    return p.exact(data)


def numbers_of(shape: tuple[int, ...]) -> str:
    """The text of `row_major`."""
    rank = len(shape)
    if not rank:
        return "0"
    strides = [int(np.prod(shape[axis + 1 :])) for axis in range(rank)]
    return " + ".join(
        f"{axes_text(f'tl.arange(0, {size})', axis, rank)} * {stride}"
        for axis, (size, stride) in enumerate(zip(shape, strides, strict=True))
    )
