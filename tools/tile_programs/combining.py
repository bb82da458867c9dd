"""Statements with functions of the kernel's own, on whole tiles, and products of tiles."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from tools.tile_programs.arithmetic import pair_of
from tools.tile_programs.program import (
    BFLOAT16,
    E4M3,
    E5M2,
    LANGUAGE,
    LARGEST,
    Program,
    Tile,
    axes_text,
    is_float,
)

E2M1 = np.dtype(ml_dtypes.float4_e2m1fn)
_FORMATS = {"e4m3": E4M3, "e5m2": E5M2, "bf16": BFLOAT16, "e2m1": E2M1}


def custom(p: Program) -> bool:
    """`tl.reduce` and `tl.associative_scan` with functions of the kernel, on one tile or two."""
    s, pair = p.source, pair_of(p, "i")
    if pair is None or not pair[0].shape or pair[0].shape != pair[1].shape:
        return False
    a, b = pair
    axis = s.randrange(len(a.shape))
    kind = s.choice(("product", "maxima", "recurrence", "argmax", "call"))
    if kind == "product":
        data = np.multiply.reduce(a.data, axis + 1, dtype=a.data.dtype)
        p.new(f"tl.reduce({a.name}, {axis}, times)", data)
    elif kind == "maxima":
        back = s.random() < 0.3
        turned = np.flip(a.data, axis + 1) if back else a.data
        data = np.maximum.accumulate(turned, axis + 1)
        p.new(f"tl.associative_scan({a.name}, {axis}, larger, reverse={back})",
              np.flip(data, axis + 1) if back else data)  # fmt: skip
    elif kind == "call":
        data = np.where(a.data > b.data, a.data * a.data.dtype.type(3), b.data ^ a.data)
        p.new("called({}, {})".format(*p.together(a, b)), data)
    elif kind == "argmax":
        at = p.coordinates(a, axis)
        largest = Tile(p.name("v"), a.data.max(axis + 1))
        place = Tile(p.name("v"), np.argmax(a.data, axis + 1).astype(np.int32))
        p.line(f"{largest.name}, {place.name} = "
               f"tl.reduce(({a.name}, {at}), {axis}, first_largest)")  # fmt: skip
        p.tiles += [largest, place]
    else:
        moved = (np.moveaxis(x.data, axis + 1, 0) for x in (a, b))
        tiles = [Tile(p.name("v"), np.moveaxis(x, 0, axis + 1)) for x in recurrence(*moved)]
        texts = ", ".join(p.together(a, b))
        p.line(f"{tiles[0].name}, {tiles[1].name} = "
               f"tl.associative_scan(({texts}), {axis}, recurrence)")  # fmt: skip
        p.tiles += tiles
    return True


def recurrence(a: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Running products, and x[i] + a[i] * (what was before it)."""
    products, values = [a[0]], [x[0]]
    for i in range(1, len(a)):
        values.append(values[-1] * a[i] + x[i])
        products.append(products[-1] * a[i])
    return np.stack(products), np.stack(values)


def whole_tile(p: Program) -> bool:
    """`tl.histogram` and `tl.topk`."""
    s, a = p.source, p.pick("i", 1, 2)
    if a is None:
        return False
    if s.random() < 0.5:
        if a.data.dtype != np.int32 or len(a.shape) != 1:
            return False
        bins = s.choice((2, 8, 64, 256))
        held = a.data & np.int32(bins - 1)
        counts = np.stack([np.bincount(row, minlength=bins) for row in held]).astype(np.int32)
        p.new(f"tl.histogram({a.name} & {bins - 1}, {bins})", counts)
        return True
    fit = [k for k in (1, 2, 4, 8, 16) if k <= a.shape[-1]]
    if not 2 <= a.shape[-1] <= 128:
        return False
    k = s.choice(fit)
    p.new(f"tl.topk({a.name}, {k})", np.flip(np.sort(a.data, -1), -1)[..., :k])
    return True


def _operand(p: Program, dtype: np.dtype, shape: tuple[int, ...]) -> tuple[str, np.ndarray]:
    """The name of a loaded tile, which may be turned in memory, and its numbers."""
    s, numel = p.source, int(np.prod(shape))
    pointer = p.pointer(dtype, p.programs * numel)
    order = list(range(len(shape)))
    if s.random() < 0.5:
        order[-1], order[-2] = order[-2], order[-1]
    strides, stride = [0] * len(shape), 1
    for axis in reversed(order):
        strides[axis], stride = stride, stride * shape[axis]
    terms = [
        f"{axes_text(f'tl.arange(0, {size})', axis, len(shape))} * {strides[axis]}"
        for axis, size in enumerate(shape)
    ]
    places = sum(
        np.arange(size).reshape([-1 if d == axis else 1 for d in range(len(shape))]) * strides[axis]
        for axis, size in enumerate(shape)
    ) + np.arange(p.programs).reshape(-1, *(1,) * len(shape)) * numel  # fmt: skip
    data = pointer.base.read(places, np.ones(places.shape, bool))
    assert data is not None
    name = p.name("a")
    p.line(f"{name} = tl.load({pointer.name} + pid * {numel} + {' + '.join(terms)})")
    return name, data


def batched(p: Program) -> bool:
    """A product of tiles of three axes, or of two, of any floats or of int8."""
    s = p.source
    m, n, k = (s.choice((16, 16, 32)) for _ in range(3))
    batch = s.choice(((), (1,), (2,), (4,)))
    dtype = s.choice((np.dtype(np.float32), np.dtype(np.float16), BFLOAT16, np.dtype(np.int8)))
    wide = np.float64 if is_float(dtype) else np.int64
    result = np.dtype(np.float32 if is_float(dtype) else np.int32)
    a, x = _operand(p, dtype, (*batch, m, k))
    b, y = _operand(p, dtype, (*batch, k, n))
    data = (x.astype(wide) @ y.astype(wide)).astype(result)
    added = [t for t in p.tiles if t.data.dtype == result and t.shape == data.shape[1:]]
    accumulator = ""
    if added and s.random() < 0.5:
        acc = s.choice(added)
        accumulator, data = f", {acc.name}", data + acc.data
    if not p.exact(data) or data[0].size > 2 * LARGEST:
        return False
    p.new(f"tl.dot({a}, {b}{accumulator}, out_dtype={LANGUAGE[result]}, input_precision='ieee')",
          data)  # fmt: skip
    return True


def _scaled(
    p: Program, format: str, rows: int, depth: int, is_b: bool
) -> tuple[str, str, np.ndarray]:
    """The names of an operand of `tl.dot_scaled` and of its scales, and its numbers (rows, K)."""
    s, dtype = p.source, _FORMATS[format]
    numbers = np.random.default_rng(s.getrandbits(32))
    if format == "e2m1":
        codes = numbers.integers(0, 16, (p.programs, rows, depth), np.uint8)
        held = codes[..., ::2] | codes[..., 1::2] << 4
        values = codes.view(E2M1).astype(np.float64)
    else:
        held = values = numbers.integers(-4, 5, (p.programs, rows, depth)).astype(dtype)
    scales = numbers.integers(126, 130, (p.programs, rows, depth // 32), np.uint8)
    memory = np.swapaxes(held, 1, 2) if is_b else held
    names = []
    for array in (memory, scales):
        pointer = p.pointer(array.dtype, array.size, np.ascontiguousarray(array).ravel())
        height, width = array.shape[1:]
        pointer.base.read(np.arange(array.size).reshape(p.programs, -1),
                          np.ones((p.programs, height * width), bool))  # fmt: skip
        names.append(p.name("a"))
        p.line(
            f"{names[-1]} = tl.load({pointer.name} + pid * {height * width} + "
            f"tl.arange(0, {height})[:, None] * {width} + tl.arange(0, {width})[None, :])"
        )
    factor = np.exp2(np.repeat(scales.astype(np.float64) - 127, 32, -1))
    if s.random() < 0.15:
        return names[0], "None", values.astype(np.float64)
    return names[0], names[1], values.astype(np.float64) * factor


def scaled(p: Program) -> bool:
    """A microscaled product, one operand of which may have no scales, and what it is added to; its
    numbers are multiples of 1/16, which float32 holds."""
    s = p.source
    m, n, k = s.choice((16, 32)), s.choice((16, 32)), s.choice((32, 64))
    formats = s.choice(list(_FORMATS)), s.choice(list(_FORMATS))
    a, a_scale, x = _scaled(p, formats[0], m, k, False)
    b, b_scale, y = _scaled(p, formats[1], n, k, True)
    data = 16 * (x @ np.swapaxes(y, 1, 2))
    fit = [t for t in p.tiles if t.data.dtype == np.float32 and t.shape == (m, n)]
    accumulator = ""
    if fit and s.random() < 0.7:
        of = s.choice(fit)
        accumulator, data = f", {of.name}", data + 16 * of.data.astype(np.float64)
    if not p.exact(data):
        return False
    p.new(f"16 * tl.dot_scaled({a}, {a_scale}, '{formats[0]}', {b}, {b_scale}, '{formats[1]}'"
          f"{accumulator})", data.astype(np.float32))  # fmt: skip
    return True
