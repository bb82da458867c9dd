"""Statements on floats of all bits: NaN, infinities, subnormal numbers, signed zeros, ties.

Each ends with the bits of its floats, as integers that other statements take; NaN and -0 become 0
there, since their bits and the sign of a zero that is a minimum are not defined.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from tools.tile_programs.arithmetic import COMPARISONS, numbers_of
from tools.tile_programs.program import BFLOAT16, E4M3, E5M2, LANGUAGE, Program, Tile, row_major

F16, F32, F64 = (np.dtype(t) for t in (np.float16, np.float32, np.float64))
_TYPES = (F32, F32, F32, F64, F16, BFLOAT16, E4M3, E5M2)
_ARITHMETIC = (F32, F64, F16, BFLOAT16)
_SHAPES = ((16,), (32,), (64,), (128,), (8, 8), (16, 4), (4, 32), (2, 4, 8))
_SPECIAL = (
    0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 3.0, 448.0, 449.0, 464.0, 465.0, 57344.0, 61440.0,
    65504.0, 65519.0, 65520.0, 2.0**-9, 2.0**-10, 1.5 * 2.0**-10, 2.0**-17, 2.0**-24, 2.0**-25,
    1.0 + 2.0**-8, 1.0 + 3 * 2.0**-8, 1.0 + 2.0**-11, 1.0 + 3 * 2.0**-11, 1.0 + 2.0**-24,
    2.0**-126, 2.0**-149, 2.0**-133, 3.4e38, 1e-300, 1.7e308, np.inf, -np.inf, np.nan,
)  # fmt: skip


def _unsigned(dtype: np.dtype) -> np.dtype:
    return np.dtype(f"uint{8 * dtype.itemsize}")


def _signed(dtype: np.dtype) -> np.dtype:
    return np.dtype(f"int{8 * dtype.itemsize}")


def rounded(data: np.ndarray, to: np.dtype) -> np.ndarray:
    """Floats in another type; those of 8 bits saturate, infinities included."""
    if to not in (E4M3, E5M2):
        return data.astype(to)
    limit = float(ml_dtypes.finfo(to).max)
    return np.clip(data.astype(np.float64), -limit, limit).astype(to)


def _patterns(p: Program, dtype: np.dtype, count: int) -> np.ndarray:
    """Floats of random bits, of few bits, and special ones."""
    numbers = np.random.default_rng(p.source.getrandbits(32))
    raw = numbers.integers(0, 256, count * dtype.itemsize, np.uint8)
    data = np.frombuffer(raw.tobytes(), dtype).copy()
    special = rounded(np.array(_SPECIAL), dtype)
    chosen = special[numbers.integers(0, len(special), count)]
    small = rounded(numbers.integers(-40, 41, count) / 8, dtype)
    kinds = numbers.integers(0, 3, count)
    return np.where(kinds == 0, data, np.where(kinds == 1, chosen, small))


def _of_integers(p: Program) -> Tile | None:
    """Integers of the program taken as the bits of floats."""
    fit = [t for t in p.tiles if t.kind in "in" and t.data.dtype.itemsize <= 8 and t.shape
           and t.data[0].size <= 512]  # fmt: skip
    if not fit:
        return None
    a = p.source.choice(fit)
    types = [t for t in _TYPES if t.itemsize == a.data.dtype.itemsize]
    dtype = p.source.choice(types)
    return _hidden(p, f"{a.name}.to({LANGUAGE[dtype]}, bitcast=True)",
                   np.ascontiguousarray(a.data).view(dtype))  # fmt: skip


def _hidden(p: Program, text: str, data: np.ndarray) -> Tile:
    """A tile that only this statement uses."""
    tile = Tile(p.name("w"), data)
    p.line(f"{tile.name} = {text}")
    return tile


def _loaded(p: Program, dtype: np.dtype, shape: tuple[int, ...]) -> Tile:
    numel = int(np.prod(shape))
    count = p.programs * numel
    pointer = p.pointer(dtype, count, _patterns(p, dtype, count))
    places = row_major(shape) + np.arange(p.programs).reshape(-1, *(1,) * len(shape)) * numel
    data = pointer.base.read(places, np.ones(places.shape, bool))
    assert data is not None
    return _hidden(p, f"tl.load({pointer.name} + pid * {numel} + ({numbers_of(shape)}))", data)


def _ends(p: Program, a: Tile) -> None:
    """The bits of a tile of floats, as integers."""
    to = p.source.choice((_signed, _unsigned))(a.data.dtype)
    wide = a.data.astype(np.float64)
    plain = np.ascontiguousarray(a.data).view(to)
    p.new(
        f"tl.where(({a.name} == {a.name}) & ({a.name} != 0), "
        f"{a.name}.to({LANGUAGE[to]}, bitcast=True), 0).to({LANGUAGE[to]})",
        np.where((wide == wide) & (wide != 0), plain, to.type(0)),
    )


_Step = Callable[[Program, Tile, Tile], Tile | None]


def _wide(a: Tile) -> np.ndarray:
    """Numbers in the type that operations on them are computed in. No NaN is signaling: `np.fmax`
    of one and a number would be NaN."""
    wide = a.data if a.data.dtype == F64 else a.data.astype(np.float32)
    return np.where(wide == wide, wide, wide.dtype.type(np.nan))


def _arithmetic(p: Program, a: Tile, b: Tile) -> Tile | None:
    """A sum, product or quotient, rounded once."""
    s, dtype = p.source, a.data.dtype
    name, do = s.choice((("+", np.add), ("-", np.subtract), ("*", np.multiply), ("/", np.divide)))
    x, y, to = _wide(a), _wide(b), LANGUAGE[dtype]
    data = rounded(do(x, y), dtype)
    if name == "/" and dtype != F64:
        return _hidden(p, f"tl.div_rn({a.name}.to(tl.float32), {b.name}.to(tl.float32)).to({to})",
                       data)  # fmt: skip
    if name == "*":  # minima keep a sum that follows from becoming one operation with it
        return _hidden(p, f"tl.abs({a.name} * {b.name}).to({to})", rounded(abs(do(x, y)), dtype))
    return _hidden(p, f"({a.name} {name} {b.name}).to({to})", data)


def _limited(p: Program, a: Tile, b: Tile) -> Tile | None:
    """A minimum, maximum or clamp, which leaves NaN out or keeps it; zeros become positive."""
    s, to = p.source, LANGUAGE[a.data.dtype]
    keeps = s.random() < 0.4
    nan = ", propagate_nan=tl.PropagateNan.ALL" if keeps else ""
    least, most = (np.minimum, np.maximum) if keeps else (np.fmin, np.fmax)
    x, y = _wide(a), _wide(b)
    kind = s.choice(("minimum", "maximum", "clamp"))
    if kind == "clamp":
        low, high = -2.5, s.choice((1.0, 16.0))
        text = f"tl.clamp({a.name}, {low}, {high}{nan})"
        data = least(most(x, x.dtype.type(low)), x.dtype.type(high))
    else:
        text = f"tl.{kind}({a.name}, {b.name}{nan})"
        data = (least if kind == "minimum" else most)(x, y)
    return _hidden(p, f"({text} + 0.0).to({to})", (data + x.dtype.type(0)).astype(a.data.dtype))


def _changed(p: Program, a: Tile, b: Tile) -> Tile | None:
    """An operation on one tile."""
    s, dtype, x = p.source, a.data.dtype, _wide(a)
    to = LANGUAGE[dtype]
    kinds = ["negative", "abs"]
    kinds += ["floor", "ceil", "root"] if dtype in (F32, F64) else []
    kinds += ["fma"] if dtype in (F32, F64) else []
    kind = s.choice(kinds)
    if kind == "root":
        name = "sqrt_rn" if dtype == F32 else "sqrt"
        return _hidden(p, f"tl.{name}({a.name})", np.sqrt(a.data))
    if kind == "fma":  # of numbers whose product is exact
        x, y = (t.data.astype(np.float16).astype(dtype) for t in (a, b))
        wide = (x.astype(np.float64) * y + 1.0).astype(dtype)
        halves = (f"{t.name}.to(tl.float16).to({to})" for t in (a, b))
        return _hidden(p, f"tl.fma({', '.join(halves)}, 1.0)", wide) if dtype == F32 else None
    text = {"negative": f"-{a.name}", "abs": f"tl.abs({a.name})", "floor": f"tl.floor({a.name})",
            "ceil": f"tl.ceil({a.name})"}[kind]  # fmt: skip
    data = {"negative": np.negative, "abs": np.abs, "floor": np.floor, "ceil": np.ceil}[kind](x)
    return _hidden(p, f"({text}).to({to})", data.astype(dtype))


def _cast(p: Program, a: Tile, b: Tile) -> Tile | None:
    """To another type of floats, rounded once."""
    to = p.source.choice([t for t in _TYPES if t != a.data.dtype])
    return _hidden(p, f"{a.name}.to({LANGUAGE[to]})", rounded(a.data, to))


def _chosen(p: Program, a: Tile, b: Tile) -> Tile | None:
    """One of two, as a comparison says, which holds for no NaN but `!=`."""
    name = p.source.choice(list(COMPARISONS))
    mask = COMPARISONS[name](_wide(a), _wide(b))
    condition = name.format(a.name, b.name)
    if p.source.random() < 0.5:
        p.new(condition, np.asarray(mask, bool), "m")
    return _hidden(p, f"tl.where({condition}, {a.name}, {b.name})", np.where(mask, a.data, b.data))


def _combined(p: Program, a: Tile, b: Tile) -> Tile | None:
    """A largest or smallest number, which is no NaN, and its place; running ones; sorted ones."""
    s, dtype, rank = p.source, a.data.dtype, len(a.shape)
    axis = s.randrange(rank)
    kind = s.choice(("largest", "places", "running", "sorted"))
    is_max, x = s.random() < 0.5, _wide(a)
    name = "max" if is_max else "min"
    do: Any = np.fmax if is_max else np.fmin
    if kind == "places":
        bound = -np.inf if is_max else np.inf
        # NaN loses against every number; of equal ones, and where there is no number, the first.
        held = np.where(np.isnan(x), bound, x.astype(np.float64))
        best = do.reduce(held, axis + 1, keepdims=True)
        fits = (held == best) & ~np.isnan(x)
        found = np.where(fits.any(axis + 1), np.argmax(fits, axis + 1), 0).astype(np.int32)
        p.new(f"tl.arg{name}({a.name}, axis={axis})", found)
        return None
    if kind == "running":
        combine = "larger" if is_max else "smaller"
        wide = "tl.float32" if dtype.itemsize < 4 else LANGUAGE[dtype]
        text = f"tl.associative_scan({a.name}.to({wide}), {axis}, {combine}) + 0.0"
        return _hidden(p, text, do.accumulate(x, axis + 1) + x.dtype.type(0))
    if kind == "sorted" and a.shape[-1] <= 128:
        down = s.random() < 0.5
        plain = np.where(np.isnan(x) | (x == 0), x.dtype.type(0), x)
        data = np.sort(plain, -1)
        text = f"tl.where(({a.name} == {a.name}) & ({a.name} != 0), {a.name}, 0.0)"
        return _hidden(p, f"tl.sort({text}.to({LANGUAGE[dtype]}), descending={down})",
                       (np.flip(data, -1) if down else data).astype(dtype))  # fmt: skip
    if rank == 1:
        return None
    return _hidden(p, f"tl.{name}({a.name}, axis={axis}) + 0.0",
                   do.reduce(x, axis + 1) + x.dtype.type(0))  # fmt: skip


_STEPS: tuple[_Step, ...] = (
    _arithmetic, _arithmetic, _limited, _changed, _cast, _cast, _chosen, _combined
)  # fmt: skip


def floats(p: Program) -> bool:
    """Some operations on floats of all bits, and the bits of the result."""
    s = p.source
    made = _of_integers(p) if s.random() < 0.5 else None
    a = made or _loaded(p, s.choice(_TYPES), s.choice(_SHAPES))
    tiles = [a]
    if s.random() < 0.7:
        tiles.append(_loaded(p, a.data.dtype, a.shape))
    for _ in range(s.choice((1, 1, 2, 3, 4))):
        a = s.choice(tiles[-2:])
        if a.data.dtype not in _ARITHMETIC:
            found = _cast(p, a, a)
        else:
            b = s.choice([t for t in tiles if t.shape == a.shape
                          and t.data.dtype == a.data.dtype])  # fmt: skip
            found = s.choice(_STEPS)(p, a, b)
        tiles += [] if found is None else [found]
    _ends(p, tiles[-1])
    return True


def _odd(data: np.ndarray, to: np.dtype) -> np.ndarray:
    """Integers in float64, so that rounding once more to a type rounds the integers themselves."""
    exact = [[int(x) for x in row] for row in data.reshape(len(data), -1)]
    found = np.zeros((len(data), data[0].size), np.float64)
    for i, row in enumerate(exact):
        for j, number in enumerate(row):
            size = abs(number)
            shift = max(0, size.bit_length() - 40)
            sticky = int(size & ((1 << shift) - 1) != 0)
            held = ((size >> shift) | sticky) << shift
            found[i, j] = -float(held) if number < 0 else float(held)
    return found.reshape(data.shape).astype(to)


def converted(p: Program) -> bool:
    """Integers rounded to floats, and floats cut off to integers that hold them."""
    s, a = p.source, p.pick("in", 1)
    if a is None or a.data[0].size > 256:
        return False
    to = s.choice((F32, F32, F64))
    held = _hidden(p, f"{a.name}.to({LANGUAGE[to]})", _odd(a.data, to) if to == F32 else
                   a.data.astype(to))  # fmt: skip
    if s.random() < 0.5:
        _ends(p, held)
        return True
    dtype = s.choice([np.dtype(f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 32, 64)])
    factor = to.type(s.choice((0.375, 0.0078125)))
    data = held.data * factor
    info = np.iinfo(dtype)
    fits = (data >= float(info.min)) & (data < float(info.max) / 2)
    name = p.name("w")
    p.line(f"{name} = {held.name} * {float(factor)}")
    cut = np.where(fits, data, to.type(0)).astype(dtype)
    condition = f"({name} >= {float(info.min)}) & ({name} < {float(info.max) / 2})"
    p.new(f"tl.where({condition}, {name}, 0.0).to({LANGUAGE[dtype]})", cut)
    return True
