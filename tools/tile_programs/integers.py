"""Statements on integers of two types or with two tiles that other statements have not: quotients,
shifts, upper halves, promotions, and reductions to other types, of all axes, with places.
"""

from __future__ import annotations

import numpy as np

from tools.tile_programs.arithmetic import COMPARISONS, OPERATIONS, pair_of
from tools.tile_programs.program import INTEGERS, LANGUAGE, Program, Tile

MIXED = ("{} + {}", "{} - {}", "{} * {}", "tl.minimum({}, {})", "tl.maximum({}, {})")


def promoted(a: np.dtype, b: np.dtype) -> np.dtype:
    """The type of an operation on two types: the longer one's; of equal ones the unsigned."""
    if a.itemsize != b.itemsize:
        return a if a.itemsize > b.itemsize else b
    return a if a.kind == "u" else b


def mixed(p: Program) -> bool:
    """An operation or a comparison of tiles of two types of integers."""
    s, a = p.source, p.pick("in")
    if a is None:
        return False
    fit = [t for t in p.tiles if t.kind in "in" and t.shape == a.shape]
    b = s.choice(fit)
    dtype = promoted(a.data.dtype, b.data.dtype)
    x, y = a.data.astype(dtype), b.data.astype(dtype)
    if s.random() < 0.3:
        name = s.choice(list(COMPARISONS))
        p.new(name.format(a.name, b.name), np.asarray(COMPARISONS[name](x, y), bool), "m")
        return True
    name = s.choice([name for name in OPERATIONS if name in MIXED or name[3] in "&|^"])
    p.new(f"({name.format(a.name, b.name)}).to({LANGUAGE[dtype]})",
          OPERATIONS[name](x, y).astype(dtype))  # fmt: skip
    return True


def _quotient(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Quotients rounded to zero, which wrap around."""
    exact = [abs(int(x)) // abs(int(y)) * (1 if (int(x) < 0) == (int(y) < 0) else -1)
             for x, y in zip(a.ravel(), b.ravel(), strict=True)]  # fmt: skip
    mask = (1 << 8 * a.dtype.itemsize) - 1
    bits = np.array([x & mask for x in exact], np.uint64).reshape(a.shape)
    return bits.astype(f"u{a.dtype.itemsize}").view(a.dtype)


def quotients(p: Program) -> bool:
    """Quotients, remainders, shifts and upper halves of two tiles."""
    s, pair = p.source, pair_of(p, "in")
    if pair is None or pair[0].shape != pair[1].shape or pair[0].data[0].size > 256:
        return False
    a, b = pair
    dtype, bits = a.data.dtype, 8 * a.data.dtype.itemsize
    kind = s.choice(("//", "%", "<<", ">>", "umulhi", "~", "abs", "clamp"))
    to = LANGUAGE[dtype]
    if kind in ("//", "%"):
        by = np.where(b.data == 0, dtype.type(3), b.data)
        quotient = _quotient(a.data, by)
        data = quotient if kind == "//" else a.data - quotient * by
        text = f"{a.name} {kind} tl.where({b.name} == 0, 3, {b.name}).to({to})"
    elif kind in ("<<", ">>"):
        by = b.data & dtype.type(bits - 1)
        data = (np.left_shift if kind == "<<" else np.right_shift)(a.data, by)
        text = f"{a.name} {kind} ({b.name} & {bits - 1}).to({to})"
    elif kind == "umulhi":
        if bits < 32:
            return False
        mask = (1 << bits) - 1
        halves = [(int(x) & mask) * (int(y) & mask) >> bits
                  for x, y in zip(a.data.ravel(), b.data.ravel(), strict=True)]  # fmt: skip
        data = np.array(halves, np.uint64).reshape(a.data.shape).astype(f"u{bits // 8}").view(dtype)
        text = f"tl.umulhi({a.name}, {b.name})"
    elif kind == "clamp":
        low, high = (-100, 100) if dtype.kind == "i" else (3, 200)
        data = np.clip(a.data, dtype.type(low), dtype.type(high))
        text = f"tl.minimum(tl.maximum({a.name}, {low}), {high})"
    else:
        data = ~a.data if kind == "~" else np.abs(a.data)
        text = f"~{a.name}" if kind == "~" else f"tl.abs({a.name})"
    p.new(f"({text}).to({to})", data)
    return True


def reduced(p: Program) -> bool:
    """Reductions of all axes, to another type, of masks, with places, and running products."""
    s, a = p.source, p.pick("bin", 1)
    if a is None:
        return False
    axis, dtype = s.randrange(len(a.shape)), a.data.dtype
    kind = s.choice(("all", "wide", "places", "products", "or", "none"))
    every = tuple(range(1, a.data.ndim))
    if kind == "wide" or a.kind == "b":
        to = s.choice(INTEGERS[2:4] + INTEGERS[6:])
        keeps = s.random() < 0.5
        p.new(f"tl.sum({a.name}, {axis}, keep_dims={keeps}, dtype={LANGUAGE[to]})",
              a.data.astype(to).sum(axis + 1, dtype=to, keepdims=keeps))  # fmt: skip
    elif kind == "all":
        name = s.choice(("max", "min", "sum"))
        data = getattr(a.data, name)(every)
        p.new(f"tl.{name}({a.name}).to({LANGUAGE[dtype]})", data.astype(dtype))
    elif kind == "places":
        name = s.choice(("max", "min"))
        keeps = s.random() < 0.4
        best = Tile(p.name("v"), getattr(a.data, name)(axis + 1, keepdims=keeps))
        at = getattr(np, f"arg{name}")(a.data, axis + 1, keepdims=keeps).astype(np.int32)
        place = Tile(p.name("v"), at)
        p.line(f"{best.name}, {place.name} = tl.{name}({a.name}, {axis}, return_indices=True, "
               f"keep_dims={keeps})")  # fmt: skip
        p.tiles += [best, place]
    elif kind == "products":
        back = s.random() < 0.3
        turned = np.flip(a.data, axis + 1) if back else a.data
        data = np.cumprod(turned, axis + 1, dtype=dtype)
        p.new(f"tl.cumprod({a.name}, {axis}, reverse={back}).to({LANGUAGE[dtype]})",
              np.flip(data, axis + 1) if back else data)  # fmt: skip
    elif kind == "or":
        p.new(f"tl.reduce_or({a.name}, {axis}).to({LANGUAGE[dtype]})",
              np.bitwise_or.reduce(a.data, axis + 1))  # fmt: skip
    else:
        shape = a.data.shape
        p.new(f"tl.ravel({a.name})", a.data.reshape(len(a.data), -1))
        if len(shape) < 4:
            p.new(f"tl.squeeze(tl.unsqueeze({a.name}, {axis}), {axis})", a.data)
    return True
