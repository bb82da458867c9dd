"""Statements on elements of all types: narrow and unsigned integers, 8- and 16-bit floats, float64.

Each result has a cast to the type of its tile, because reductions and constants widen narrow types.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tools.tile_programs.arithmetic import COMPARISONS, OPERATIONS, divided, pair_of
from tools.tile_programs.program import (
    ALL_KINDS,
    BFLOAT16,
    E4M3,
    E5M2,
    INTEGERS,
    LANGUAGE,
    Program,
    Tile,
    is_float,
)

_CONSTANTS = (1, 2, 3, 5, 7, 10, 16, 100, 127, 255, 1000, 32767, 65535, -1, -2, -7, -128)
_FLOATS = (np.dtype(np.float16), BFLOAT16, np.dtype(np.float64), np.dtype(np.float32), E4M3, E5M2)


def _typed(p: Program, text: str, data: Any, dtype: np.dtype) -> bool:
    """A tile of an expression, cast to a type; False where floats would be rounded."""
    data = np.asarray(data)
    if is_float(dtype) and not p.exact(data.astype(np.float64)):
        return False
    held = data.astype(dtype)
    if not p.exact(held):
        return False
    p.new(f"({text}).to({LANGUAGE[dtype]})", held)
    return True


def two(p: Program) -> bool:
    """An operation on two tiles of a type, or on one and a constant."""
    s, pair = p.source, pair_of(p, "nnh")
    if pair is None:
        return False
    a, b = pair
    dtype = a.data.dtype
    names = list(OPERATIONS) if a.kind == "n" else [n for n in OPERATIONS if n[3] not in "&|^"]
    name = s.choice(names)
    if a.kind == "n" and s.random() < 0.4:
        return _with_constant(p, a)
    x, y = a.data, b.data
    if a.kind == "h":
        x, y = x.astype(np.float64), y.astype(np.float64)
    return _typed(p, name.format(a.name, b.name), OPERATIONS[name](x, y), dtype)


def _with_constant(p: Program, a: Tile) -> bool:
    s, dtype = p.source, a.data.dtype
    limits = np.iinfo(dtype)
    number = s.choice([n for n in _CONSTANTS if limits.min <= n <= limits.max])
    held, value = f"({number})", dtype.type(number)
    if s.random() < 0.3 and number > 0:
        quotient = divided(a.data, number)
        if s.random() < 0.5:
            return _typed(p, f"{a.name} // {held}", quotient, dtype)
        return _typed(p, f"{a.name} % {held}", a.data - quotient * value, dtype)
    if s.random() < 0.3:
        by = s.randrange(8 * dtype.itemsize)
        left = s.random() < 0.5
        shift = np.left_shift if left else np.right_shift
        return _typed(p, f"{a.name} {'<<' if left else '>>'} {by}", shift(a.data, dtype.type(by)),
                      dtype)  # fmt: skip
    name = s.choice(list(OPERATIONS))
    return _typed(p, name.format(a.name, held), OPERATIONS[name](a.data, value), dtype)


def compared(p: Program) -> bool:
    """A mask from two tiles of a type."""
    pair = pair_of(p, "nh")
    if pair is None:
        return False
    a, b = pair
    name = p.source.choice(list(COMPARISONS))
    p.new(name.format(a.name, b.name), np.asarray(COMPARISONS[name](a.data, b.data), bool), "m")
    return True


def cast(p: Program) -> bool:
    """From any type to any other that holds the numbers; integers of equal size as such."""
    s, a = p.source, p.pick(ALL_KINDS)
    if a is None:
        return False
    dtype = a.data.dtype
    if is_float(dtype):
        to = s.choice((*_FLOATS, np.dtype(np.int32), np.dtype(np.int64)))
        if to == dtype:
            return False
        return _typed(p, a.name, a.data.astype(np.float64), to)
    if s.random() < 0.3 and a.kind != "b":
        to = s.choice([t for t in INTEGERS if t.itemsize == dtype.itemsize])
        p.new(f"{a.name}.to({LANGUAGE[to]}, bitcast=True)", np.ascontiguousarray(a.data).view(to))
        return True
    if s.random() < 0.6:
        to = s.choice(INTEGERS)
        p.new(f"{a.name}.to({LANGUAGE[to]})", a.data.astype(to))
        return True
    if a.kind == "b":
        return _typed(p, a.name, a.data, s.choice(_FLOATS[:4]))
    return _typed(p, f"{a.name} & 7", a.data & dtype.type(7), s.choice(_FLOATS[:4]))


def combined(p: Program) -> bool:
    """Reductions, scans and sorts of narrow and unsigned integers and 16-bit floats."""
    s, a = p.source, p.pick("nnh", 1)
    if a is None:
        return False
    dtype, axis = a.data.dtype, s.randrange(len(a.shape))
    data = a.data.astype(np.float64) if a.kind == "h" else a.data
    name = s.choice(("sum", "max", "min", "argmax", "argmin", "cumsum", "sort", "xor_sum"))
    if name in ("argmax", "argmin"):
        found = getattr(np, name)(data, axis + 1).astype(np.int32)
        p.new(f"tl.{name}({a.name}, axis={axis})", found)
        return True
    if name == "sort":
        if a.shape[-1] > 256:
            return False
        down = s.random() < 0.4
        data = np.sort(data, -1)
        text = f"tl.sort({a.name}, descending={down})"
        return _typed(p, text, np.flip(data, -1) if down else data, dtype)
    if name == "cumsum":
        back = s.random() < 0.3
        turned = np.flip(data, axis + 1) if back else data
        sums = np.cumsum(turned, axis + 1, dtype=data.dtype)
        text = f"tl.cumsum({a.name}, {axis}, reverse={back})"
        return _typed(p, text, np.flip(sums, axis + 1) if back else sums, dtype)
    if name == "xor_sum":
        if a.kind == "h":
            return False
        return _typed(p, f"tl.xor_sum({a.name}, axis={axis})",
                      np.bitwise_xor.reduce(data, axis + 1), dtype)  # fmt: skip
    found = data.sum(axis + 1, dtype=data.dtype) if name == "sum" else getattr(data, name)(axis + 1)
    return _typed(p, f"tl.{name}({a.name}, axis={axis})", found, dtype)
