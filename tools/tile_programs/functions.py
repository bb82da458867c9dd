"""Statements with functions of several results, loops that data end, functions of single elements,
masks as elements, random numbers, rearrangements by way of many axes."""

from __future__ import annotations

import itertools

import numpy as np

from tools.tile_programs.arithmetic import numbers_of, pair_of
from tools.tile_programs.program import (
    BFLOAT16,
    LANGUAGE,
    LARGEST,
    Program,
    Tile,
    is_float,
    row_major,
)

_JIT = "@tritium.jit\n"
_BOTH = _JIT + "def both(a, b):\n    return tl.minimum(a, b), tl.maximum(a, b)\n\n\n"
_NESTED = _JIT + (
    "def nested(pair, more):\n"
    "    low, high = both(pair[0], pair[1])\n"
    "    return (low + more, (high - more, high ^ low))\n\n\n"
)  # fmt: skip
_EARLY = _JIT + (
    "def early(a, b, flag, by: tl.constexpr = 3):\n"
    "    if flag:\n"
    "        return a * by, b\n"
    "    c = a - b\n"
    "    return c, a\n\n\n"
)  # fmt: skip
_APART = "@tritium.jit(noinline=True)\n" + (
    "def apart(pointer, at, length, trips):\n"
    "    total = at * 0\n"
    "    most = total\n"
    "    for k in range(trips):\n"
    "        found = tl.load(pointer + at, mask=(at >= 0) & (at < length), other=0)\n"
    "        total += found\n"
    "        least, most = both(most, found)\n"
    "        at += 3\n"
    "    return total, most\n\n\n"
)  # fmt: skip
_THREE = _JIT + (
    "def three(a, b, c, x, y, z):\n"
    "    return a + x, tl.maximum(b, y), c | z\n\n\n"
)  # fmt: skip
_SEGMENTS = _JIT + (
    "def segments(starts, sum, begins, more):\n"
    "    return starts | begins, tl.where(begins, more, sum + more)\n\n\n"
)  # fmt: skip
_ELEMENT = _JIT + (
    "def element(x, y):\n"
    "    steps = 0\n"
    "    while (x != 0) & (steps < 6):\n"
    "        x = x >> 3\n"
    "        steps += 1\n"
    "    if steps > 3:\n"
    "        return y * steps\n"
    "    else:\n"
    "        return y - x\n\n\n"
)  # fmt: skip
_NEIGHBOURS = _JIT + (
    "def neighbours(x, y, a, b):\n"
    "    if x > a:\n"
    "        return y, x, b, a\n"
    "    else:\n"
    "        return x, y, a, b\n\n\n"
)  # fmt: skip


def called(p: Program) -> bool:
    """Functions with several results: tuples in tuples, early returns, loops around loads."""
    s, pair = p.source, pair_of(p, "i")
    if pair is None or pair[0].shape != pair[1].shape:
        return False
    a, b = pair
    x, y = p.together(a, b)
    kind = s.choice(("nested", "early", "apart"))
    names = [p.name("v") for _ in range(3)]
    if kind == "nested":
        p.function(_BOTH, _NESTED)
        more = s.choice((1, -5, 100))
        low, high = np.minimum(a.data, b.data), np.maximum(a.data, b.data)
        p.line(f"{names[0]}, {names[1]} = nested(({x}, {y}), {p.scalar(more)})")
        p.line(f"{names[1]}, {names[2]} = {names[1]}")
        by = a.data.dtype.type(more)
        data = [low + by, high - by, high ^ low]
    elif kind == "early":
        p.function(_EARLY)
        flag = s.choice((0, 1))
        known = s.random() < 0.4
        text = str(bool(flag)) if known else f"pid % 2 == {flag}"
        holds = np.full(p.programs, bool(flag)) if known else np.arange(p.programs) % 2 == flag
        holds = holds.reshape(-1, *(1,) * len(a.shape))
        by = s.choice((3, 3, 7))
        p.line(f"{names[0]}, {names[1]} = early({x}, {y}, {text}{'' if by == 3 else f', by={by}'})")
        data = [np.where(holds, a.data * a.data.dtype.type(by), a.data - b.data),
                np.where(holds, b.data, a.data)]  # fmt: skip
    else:
        if a.data.dtype != np.int32:
            return False
        p.function(_BOTH, _APART)
        trips, length = s.choice((0, 1, 3)), s.choice((7, 64, 300))
        pointer = p.pointer(np.int32, length)
        total = np.zeros_like(a.data)
        most, at = total, a.data
        for _ in range(trips):
            held = pointer.base.read(at, p.among_active((at >= 0) & (at < length)))
            if held is None:
                return False
            total, most, at = total + held, np.maximum(most, held), at + np.int32(3)
        p.line(f"{names[0]}, {names[1]} = apart({pointer.name}, {x}, {p.scalar(length)}, "
               f"{p.scalar(trips)})")  # fmt: skip
        data = [total, most]
    p.tiles += [Tile(name, held) for name, held in zip(names, data, strict=False)]
    return True


def until(p: Program) -> bool:
    """A loop that the numbers of a tile, or of memory, end."""
    s, a = p.source, p.pick("i", 1)
    if a is None:
        return False
    kind, rank = s.choice(("halves", "hailstone", "chain", "search")), len(a.shape)
    if kind == "chain":
        return _chain(p)
    if kind == "search":
        return _search(p, a)
    name, count = p.name("v"), p.name("v")
    dtype, every = a.data.dtype, tuple(range(1, rank + 1))
    steps = np.zeros(p.programs, np.int32)
    mask = s.choice((0xFF, 0xFFF, 0x7FFFFFFF)) if kind == "halves" else 31
    data = a.data & dtype.type(mask)
    runs = np.ones(p.programs, bool)
    while runs.any():
        if kind == "halves":
            runs = data.max(every) > 0
            changed = data >> dtype.type(3)
        else:
            runs = ((data > 1).sum(every) > 0) & (steps < 9)
            changed = np.where(data % 2 == 0, data // 2, 3 * data + 1).astype(dtype)
        data = np.where(runs.reshape(-1, *(1,) * rank), changed, data)
        steps += runs
    p.line(f"{name} = {a.name} & {mask}")
    p.line(f"{count} = pid * 0")
    if kind == "halves":
        p.line(f"while tl.max({name}) > 0:")
        p.line(f"    {name} = {name} >> 3")
    else:
        p.line(f"while (tl.sum(({name} > 1).to(tl.int32)) > 0) & ({count} < {p.scalar(9)}):")
        p.line(f"    {name} = tl.where({name} % 2 == 0, {name} // 2, 3 * {name} + 1)")
    p.line(f"    {count} += 1")
    p.tiles += [Tile(name, data), Tile(count, steps)]
    return True


def _chain(p: Program) -> bool:
    """The places along a list in memory, whose elements are the next ones', until one is -1."""
    s = p.source
    length = s.choice((4, 9, 33))
    numbers = np.random.default_rng(s.getrandbits(32))
    order, following = numbers.permutation(length), np.full(length, -1, np.int32)
    following[order[:-1]] = order[1:]
    pointer = p.pointer(np.int32, length, following)
    pointer.base.read(np.broadcast_to(np.arange(length), (p.programs, length)),
                      np.ones((p.programs, length), bool))  # fmt: skip
    places = np.arange(p.programs) % length
    ends = np.zeros((2, p.programs), np.int32)
    for number, place in enumerate(places):
        while place >= 0:
            ends[0, number] += 1
            ends[1, number] += place * ends[0, number]
            place = following[place]
    at, count, total = p.name("w"), p.name("v"), p.name("v")
    for line in (
        f"{at} = pid % {p.scalar(length)}", f"{count} = pid * 0", f"{total} = {count}",
        f"while {at} >= 0:", f"    {count} += 1", f"    {total} += {at} * {count}",
        f"    {at} = tl.load({pointer.name} + {at})",
    ):  # fmt: skip
        p.line(line)
    p.tiles += [Tile(count, ends[0]), Tile(total, ends[1])]
    return True


def _search(p: Program, a: Tile) -> bool:
    """The places of the elements of a tile in a sorted array, found by halves."""
    length = p.source.choice((1, 5, 64, 100))
    numbers = np.random.default_rng(p.source.getrandbits(32))
    values = np.sort(numbers.integers(-200, 2000, length)).astype(a.data.dtype)
    pointer = p.pointer(values.dtype, length, values)
    pointer.base.read(np.broadcast_to(np.arange(length), (p.programs, length)),
                      np.ones((p.programs, length), bool))  # fmt: skip
    low, high, middle, below = p.name("v"), p.name("w"), p.name("w"), p.name("w")
    shape = list(a.shape)
    for line in (
        f"{low} = tl.zeros({shape}, tl.int32)",
        f"{high} = tl.full({shape}, {p.scalar(length)}, tl.int32)",
        f"while tl.max(({low} < {high}).to(tl.int32)) > 0:",
        f"    {middle} = ({low} + {high}) // 2",
        f"    {below} = (tl.load({pointer.name} + {middle}, mask={low} < {high}, other=0) "
        f"< {a.name}) & ({low} < {high})",
        f"    {high} = tl.where({below}, {high}, tl.where({low} < {high}, {middle}, {high}))",
        f"    {low} = tl.where({below}, {middle} + 1, {low})",
    ):
        p.line(line)
    p.tiles.append(Tile(low, np.searchsorted(values, a.data).astype(np.int32)))
    return True


def several(p: Program) -> bool:
    """Reductions and scans of three operands of different types, and of masks with sums."""
    s, a = p.source, p.pick("i", 1)
    if a is None:
        return False
    axis, names = s.randrange(len(a.shape)), [p.name("v") for _ in range(3)]
    text, mask = s.choice((
        (f"({a.name} > 3)", a.data > 3),
        (f"(({a.name} & 1) == 0)", (a.data & a.data.dtype.type(1)) == 0),
    ))  # fmt: skip
    if s.random() < 0.5:
        p.function(_SEGMENTS)
        back = s.random() < 0.4
        data, begins = a.data, mask
        if back:
            data, begins = np.flip(data, axis + 1), np.flip(begins, axis + 1)
        sums = np.moveaxis(data, axis + 1, 0).copy()
        starts = np.moveaxis(begins, axis + 1, 0)
        for i in range(1, len(sums)):
            sums[i] = np.where(starts[i], sums[i], sums[i - 1] + sums[i])
        sums = np.moveaxis(sums, 0, axis + 1)
        p.line(f"{names[0]}, {names[1]} = tl.associative_scan(({text}, {a.name}), {axis}, "
               f"segments, reverse={back})")  # fmt: skip
        p.tiles.append(Tile(names[1], np.flip(sums, axis + 1) if back else sums))
        if s.random() < 0.3:
            any_before = np.logical_or.accumulate(begins, axis + 1)
            p.tiles.append(Tile(names[0], np.flip(any_before, axis + 1) if back else any_before))
        return True
    p.function(_THREE)
    small = (a.data & a.data.dtype.type(15)).astype(np.float32)
    operands = f"(({a.name} & 15).to(tl.float32), {a.name}, {text})"
    if s.random() < 0.5:
        p.line(f"{', '.join(names)} = tl.reduce({operands}, {axis}, three)")
        data = small.sum(axis + 1), a.data.max(axis + 1), mask.any(axis + 1)
    else:
        p.line(f"{', '.join(names)} = tl.associative_scan({operands}, {axis}, three)")
        data = (np.cumsum(small, axis + 1, dtype=np.float32),
                np.maximum.accumulate(a.data, axis + 1),
                np.logical_or.accumulate(mask, axis + 1))  # fmt: skip
    p.tiles += [Tile(name, held) for name, held in zip(names, data, strict=True)]
    return True


def elements(p: Program) -> bool:
    """`tl.map_elementwise` of functions that loop and branch, of one element or of neighbours."""
    pair = pair_of(p, "i")
    if pair is None or pair[0].data.dtype != np.int32 or pair[0].shape != pair[1].shape:
        return False
    a, b = pair
    if not a.shape or a.data[0].size > 512:
        return False
    x, y = a.data, b.data
    if p.source.random() < 0.5:
        p.function(_ELEMENT)
        steps = np.zeros_like(x)
        for _ in range(6):
            runs = x != 0
            x, steps = np.where(runs, x >> 3, x), steps + runs
        data = np.where(steps > 3, y * steps, y - x).astype(np.int32)
        p.new(f"tl.map_elementwise(element, {a.name}, {b.name})", data)
        return True
    if a.shape[-1] < 2:
        return False
    p.function(_NEIGHBOURS)
    first, second = x[..., ::2], x[..., 1::2]
    u, v = y[..., ::2], y[..., 1::2]
    # The function gets two of the first tile, then two of the second; it compares x with a.
    swaps = first > u
    results = []
    for even, odd, swapped_even, swapped_odd in (
        (first, second, second, first), (u, v, v, u)
    ):
        data = np.empty_like(x)
        data[..., ::2] = np.where(swaps, swapped_even, even)
        data[..., 1::2] = np.where(swaps, swapped_odd, odd)
        results.append(Tile(p.name("v"), data))
    p.line(f"{results[0].name}, {results[1].name} = "
           f"tl.map_elementwise(neighbours, {a.name}, {b.name}, pack=2)")  # fmt: skip
    p.tiles += results
    return True


def masks(p: Program) -> bool:
    """Masks as elements: chosen, joined, gathered, counted, in memory."""
    s, a = p.source, p.pick("b", 1)
    if a is None:
        return False
    same = [t for t in p.tiles if t.kind == "b" and t.shape == a.shape]
    b, axis = s.choice(same), s.randrange(len(a.shape))
    kind = s.choice(("where", "not", "join", "gather", "memory", "any", "count", "xor"))
    if kind == "where":
        first = s.choice(same)
        p.new(f"tl.where({first.name}, {a.name}, {b.name})",
              np.where(first.data, a.data, b.data), "m")  # fmt: skip
    elif kind == "not":
        p.new(f"~{a.name} | ({b.name} == {a.name})", ~a.data | (b.data == a.data), "m")
    elif kind == "join":
        if 2 * a.data[0].size > LARGEST or len(a.shape) > 2:
            return False
        p.new(f"tl.join({a.name}, {b.name})", np.stack([a.data, b.data], -1), "m")
    elif kind == "gather":
        fit = [t for t in p.tiles if t.data.dtype == np.int32 and t.shape == a.shape]
        if not fit:
            return False
        index, last = s.choice(fit), a.shape[axis] - 1
        p.new(f"tl.gather({a.name}, {index.name} & {last}, {axis})",
              np.take_along_axis(a.data, index.data & np.int32(last), axis + 1), "m")  # fmt: skip
    elif kind == "memory":
        return _in_memory(p, a, b)
    elif kind == "any":
        p.new(f"tl.reduce_or({a.name}, {axis})", a.data.any(axis + 1), "m")
    elif kind == "count":
        p.new(f"tl.cumsum({a.name}.to(tl.int32), {axis}) * {b.name}",
              (np.cumsum(a.data, axis + 1) * b.data).astype(np.int32))  # fmt: skip
    else:
        p.new(f"tl.xor_sum({a.name}.to(tl.int32), {axis}) > 0",
              np.bitwise_xor.reduce(a.data, axis + 1), "m")  # fmt: skip
    return True


def _in_memory(p: Program, a: Tile, mask: Tile) -> bool:
    """A mask loaded from memory, and another one that is stored there behind a mask."""
    numel, programs = a.data[0].size, np.arange(p.programs).reshape(-1, *(1,) * len(a.shape))
    pointer = p.pointer(np.bool_, p.programs * numel)
    places = row_major(a.shape) + programs * numel
    old = pointer.base.read(places, p.among_active(np.ones(places.shape, bool)))
    if old is None:
        return False
    text = f"{pointer.name} + pid * {numel} + ({numbers_of(a.shape)})"
    changed = pointer.base.write(places, p.among_active(mask.data), a.data)
    p.new(f"tl.load({text})", old, "m")
    if changed:
        p.line(f"tl.store({text}, {a.name}, mask={mask.name})")
    return True


_PHILOX = 0xD2511F53, 0xCD9E8D57, 0x9E3779B9, 0xBB67AE85
"""Multipliers and key increments of Philox 4x32 (Salmon et al., "Parallel random numbers: as easy
as 1, 2, 3", 2011)."""


def philox(seed: int, counters: np.ndarray, rounds: int) -> list[np.ndarray]:
    """Philox 4x32 of a seed of 64 bits and counters of 32, the other three of which are 0."""
    ones = np.uint64(0xFFFFFFFF)
    c = [counters.astype(np.uint32).astype(np.uint64)] + [np.zeros(counters.shape, np.uint64)] * 3
    k = [seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF]
    for _ in range(rounds):
        products = c[0] * np.uint64(_PHILOX[0]), c[2] * np.uint64(_PHILOX[1])
        high, low = [x >> np.uint64(32) for x in products], [x & ones for x in products]
        c = [high[1] ^ c[1] ^ np.uint64(k[0]), low[1], high[0] ^ c[3] ^ np.uint64(k[1]), low[0]]
        k = [(word + more) & 0xFFFFFFFF for word, more in zip(k, _PHILOX[2:], strict=True)]
    return [x.astype(np.uint32) for x in c]


def random_numbers(p: Program) -> bool:
    """`tl.randint` and `tl.randint4x` of a tile of offsets."""
    s, a = p.source, p.pick("i", 1)
    if a is None or a.data.dtype != np.int32:
        return False
    seed, rounds = s.choice((0, 7, 2**31 - 1)), s.choice((10, 10, 3))
    words = philox(seed, a.data, rounds)
    held = p.scalar(seed) if s.random() < 0.7 else str(seed)
    if s.random() < 0.5:
        p.new(f"tl.randint({held}, {a.name}, {rounds})", words[0])
        return True
    tiles = [Tile(p.name("v"), word) for word in words]
    p.line(f"{', '.join(t.name for t in tiles)} = tl.randint4x({held}, {a.name}, {rounds})")
    p.tiles.append(s.choice(tiles))
    return True


def rearranged(p: Program) -> bool:
    """Elements in other places by way of four to six axes; two tiles one after the other."""
    s, a = p.source, p.pick("bifnhq", 1)
    if a is None:
        return False
    numel = a.data[0].size
    if s.random() < 0.2 and a.kind in "ifnh":
        fit = [t for t in p.tiles if t.shape == a.shape and t.data.dtype == a.data.dtype]
        b, axis = s.choice(fit), s.randrange(len(a.shape))
        if 2 * numel <= LARGEST:
            p.new(f"tl.cat({a.name}, {b.name}, dim={axis})",
                  np.concatenate([a.data, b.data], axis + 1))  # fmt: skip
            return True
    if numel < 16:
        return False
    rank, bits = s.choice((4, 5, 6)), numel.bit_length() - 1
    cuts = sorted(s.randrange(bits + 1) for _ in range(rank - 1))
    shape = tuple(1 << (high - low) for low, high in itertools.pairwise((0, *cuts, bits)))
    order = list(range(rank))
    s.shuffle(order)
    left = s.randrange(bits + 1)
    last = s.choice(((numel,), (1 << left, numel >> left)))
    data = a.data.reshape(-1, *shape).transpose(0, *(d + 1 for d in order)).reshape(-1, *last)
    p.new(f"tl.reshape(tl.permute(tl.reshape({a.name}, {shape}), {tuple(order)}), {last})", data)
    return True


_ADDED = tuple(map(np.dtype, (
    np.int32, np.int64, np.uint32, np.uint64, np.float32, np.float64, np.float16, BFLOAT16
)))  # fmt: skip


def masked_sums(p: Program) -> bool:
    """Atomic additions behind masks to places that data say; histograms behind masks; the old
    elements of a counter, in order."""
    s, a = p.source, p.pick("i", 1)
    if a is None or a.data.dtype != np.int32:
        return False
    fit = [t for t in p.tiles if t.kind == "b" and t.shape == a.shape]
    if fit and s.random() < 0.6:
        mask, active = (of := s.choice(fit)).name, of.data
    else:
        mask, active = f"{a.name} % 3 != 1", np.fmod(a.data, 3) != 1
    kind, size = s.choice(("added", "added", "histogram", "counter")), s.choice((1, 4, 64, 512))
    if kind == "histogram" and len(a.shape) == 1 and size > 1:
        held = a.data & np.int32(size - 1)
        counts = np.stack([np.bincount(row[on], minlength=size)
                           for row, on in zip(held, active, strict=True)])  # fmt: skip
        p.new(f"tl.histogram({a.name} & {size - 1}, {size}, mask={mask})", counts.astype(np.int32))
        return True
    if kind == "counter":
        if len(a.shape) != 1 or a.shape[0] > 256:
            return False
        pointer = p.pointer(np.int32, p.programs, np.zeros(p.programs, np.int32))
        count = active.sum(1)
        at = np.arange(p.programs)
        old = pointer.base.read(at, p.active)
        if old is None or not pointer.base.write(at, p.active, (old + count).astype(np.int32)):
            return False
        places = np.sort(np.where(active, np.cumsum(active, 1) - 1 + old[:, None], -1), 1)
        name = p.name("w")
        p.line(f"{name} = tl.atomic_add({pointer.name} + pid + {a.name} * 0, 1, mask={mask})")
        p.new(f"tl.sort(tl.where({mask}, {name}, -1))", places.astype(np.int32))
        return True
    dtype = s.choice(_ADDED)
    values = a.data & np.int32(3)
    active = p.among_active(np.broadcast_to(active, a.data.shape))
    places = ((a.data >> np.int32(2)) & np.int32(size - 1)).astype(np.int64)
    pointer = p.pointer(dtype, size)
    sums = pointer.base.data.astype(np.float64) if is_float(dtype) else pointer.base.data.copy()
    np.add.at(sums, places[active], values[active].astype(sums.dtype))
    if is_float(dtype):
        most = np.abs(pointer.base.data.astype(np.float64))
        np.add.at(most, places[active], values[active].astype(np.float64))
        if not p.exact(most.astype(dtype)) or (most.astype(dtype).astype(np.float64) != most).any():
            return False
    pointer.base.data[:] = sums.astype(dtype)
    pointer.shared = True
    scope = s.choice(("", "", ", sem='relaxed'", ", scope='sys'"))
    p.line(f"tl.atomic_add({pointer.name} + (({a.name} >> 2) & {size - 1}), "
           f"({a.name} & 3).to({LANGUAGE[dtype]}), mask={mask}{scope})")  # fmt: skip
    return True
