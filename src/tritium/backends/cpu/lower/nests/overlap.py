"""Nests whose loads and stores go through different kernel arguments that may overlap.

A nest loads and stores chunk by chunk, which is what the program says as long as the tiles of
memory are apart, or are the same element by element. Before such a nest that is tested, once for
each pair of tiles (of many tiles by a loop), by first and last addresses; if it does not hold, the
nest's parts are done one whole after the other, in the order of the program.

A tile of memory that is accessed twice must also have no element twice: where its rows overlap, or
all of it is one element, a chunk would read or undo what another one has written. The same goes for
one that is stored to in another order than the row-major one, the last element of which wins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from tritium.backends.cpu.dot.operand import Step, as_value, static
from tritium.backends.cpu.lower.analysis.strides import Strides
from tritium.backends.cpu.lower.context import Context
from tritium.backends.cpu.lower.dot import number_at
from tritium.backends.cpu.tiles.alias import base_of
from tritium.backends.cpu.tiles.slices import Slice
from tritium.codegen.llvm.writer import Function, Value, const, vector
from tritium.ir import types as ir

_PAIRS = 4
"""Pairs for each of 16 or more tiles that are tested without a loop."""
_AT_ONCE = 4
"""Pairs that one iteration of it tests."""


@dataclass(frozen=True)
class Extent:
    """A tile of addresses: its first element's, the lowest, the end of the highest (i64), and for
    each dimension longer than one the distance between neighbours (elements) and its length."""

    first: Value
    low: Value
    end: Value
    steps: tuple[Step, ...]
    counts: tuple[int, ...]
    size: int


def apart(c: Context, part: Slice) -> Value | None:
    """True if a nest can be done chunk by chunk: an i1, or None if that needs no test. Code goes to
    the current position."""
    steps, extents = Strides(c), dict[SSAValue, Extent | None]()
    moved = {load.ptr for load in part.loads if load.results[0] in part.moved}
    result: Value | None = None

    def extent(pointer: SSAValue) -> Extent | None:
        if pointer not in extents:
            extents[pointer] = _extent(c, steps, pointer)
        return extents[pointer]

    pairs = [(access.ptr, store.ptr) for access, store in part.overlaps]
    many = len(pairs) > _PAIRS * max(len({pointer for pair in pairs for pointer in pair}), 16)
    for first, second in pairs:
        a, b = extent(first), extent(second)
        if first is second:
            result = _both(c.f, result, _distinct(c.f, b))
        elif not many:
            result = _both(c.f, result, _pair(c.f, a, b, first not in moved))
    if many:
        stored = {store for _, store in pairs}
        order = sorted(extents, key=stored.__contains__)
        tiles = [(pointer, extents[pointer], pointer not in moved) for pointer in order]
        result = _both(c.f, result, _all_pairs(c, tiles, len(order) - len(stored)))
    return result


def _all_pairs(
    c: Context, tiles: Sequence[tuple[SSAValue, Extent | None, bool]], loaded: int
) -> Value:
    """True if each two tiles of different arguments, of which one is stored to, are apart or the
    same element by element: `_pair` of all, by a loop, so that the text is linear in their number.
    The first `loaded` are only loaded. Tiles that are the same must have the same steps as text.
    """
    f, zero, one = c.f, const("i64", 0), const("i64", 1)
    rows, forms, bases = list[tuple[Value, ...]](), dict[object, int](), dict[object, int]()
    for pointer, tile, keeps in tiles:
        if tile is None:
            return const("i1", False)
        own = const("i64", -1 - len(rows))
        form = own
        if keeps:
            shared = forms.setdefault((tile.size, tile.steps, tile.counts), len(forms))
            form = const("i64", shared)
            if (distinct := _distinct(f, tile)) is not None:
                form = own if distinct.ref == "false" else f.select(distinct, form, own)
        base = const("i64", bases.setdefault(base_of(pointer), len(bases)))
        rows.append((tile.low, tile.end, tile.first, form, base))
    rows += [rows[-1]] * (-len(rows) % _AT_ONCE)
    with c.temporary() as allocate:
        columns = [allocate(8 * len(rows)) for _ in rows[0]]
        for number, row in enumerate(rows):
            for column, value in zip(columns, row, strict=True):
                f.store(value, f.offset(column, 8 * number), 8)

        def read(type_: str, index: Value) -> list[Value]:
            return [f.load(type_, f.gep("i64", column, index), 8) for column in columns]

        count, step = const("i64", len(tiles)), const("i64", _AT_ONCE)
        holds = f.splat(const("i1", True), _AT_ONCE)
        with f.loop(const("i64", loaded), count, one, [holds], at_least_once=True) as stores:
            mine = [f.splat(value, _AT_ONCE) for value in read("i64", stores.index)]
            # It goes past the store to a whole vector: what comes there is to be apart as well.
            with f.loop(zero, stores.index, step, stores.carried) as others:
                low, end, first, form, base = read(vector("i64", _AT_ONCE), others.index)
                good = f.op("or", f.icmp("ule", end, mine[0]), f.icmp("ule", mine[1], low))
                same = f.op("and", f.icmp("eq", first, mine[2]), f.icmp("eq", form, mine[3]))
                good = f.op("or", good, f.op("or", same, f.icmp("eq", base, mine[4])))
                others.next = [f.op("and", others.carried[0], good)]
            stores.next = others.results
    return f.call("i1", f"llvm.vector.reduce.and.v{_AT_ONCE}i1", stores.results[0])


def _extent(c: Context, steps: Strides, pointer: SSAValue) -> Extent | None:
    f, shape, size = c.f, ir.shape_of(pointer.type), c.pointee_bytes(pointer.type)
    distances: list[Step] = []
    for dim, count in enumerate(shape):
        if count == 1:
            continue
        step = steps.along(pointer, dim)
        if step is None:
            return None
        distances.append(step)
    zero = const("i64", 0)
    first = f.cast("ptrtoint", number_at(c, pointer, (zero,) * len(shape)), "i64")
    below, above = 0, size
    low, end = first, first
    for step, count in zip(distances, (n for n in shape if n > 1), strict=True):
        known = static(step)
        if known is not None:
            reach = known * size * (count - 1)
            below, above = below + min(reach, 0), above + max(reach, 0)
            continue
        span = f.op("mul", as_value(step), const("i64", size * (count - 1)))
        low = f.op("add", low, f.intrinsic("smin", span, zero))
        end = f.op("add", end, f.intrinsic("smax", span, zero))
    if below:
        low = f.op("add", low, const("i64", below))
    end = f.op("add", end, const("i64", above))
    return Extent(first, low, end, tuple(distances), tuple(n for n in shape if n > 1), size)


def _pair(f: Function, a: Extent | None, b: Extent | None, keeps: bool) -> Value:
    """True if two tiles are apart, or the same element by element, which will do where each is read
    when the same one is written (`keeps` its place)."""
    if a is None or b is None:
        return const("i1", False)
    holds = f.op("or", f.icmp("ule", a.end, b.low), f.icmp("ule", b.end, a.low))
    if not keeps or a.size != b.size or len(a.steps) != len(b.steps):
        return holds
    same = f.icmp("eq", a.first, b.first)
    if (distinct := _distinct(f, a)) is not None:
        same = f.op("and", same, distinct)
    for left, right in zip(a.steps, b.steps, strict=True):
        known, other = static(left), static(right)
        if known is not None and other is not None:
            if known != other:
                return holds
        elif left != right:
            same = f.op("and", same, f.icmp("eq", as_value(left), as_value(right)))
    return f.op("or", holds, same)


def _distinct(f: Function, tile: Extent | None) -> Value | None:
    """True if no element is there twice; None if that is certain. Along each dimension, neighbours
    must be further apart than what all those together reach that have smaller distances."""
    if tile is None:
        return const("i1", False)
    known = [static(step) for step in tile.steps]
    if None not in known:
        far = sorted(zip((abs(k or 0) for k in known), tile.counts, strict=True))
        reach = 0
        for distance, count in far:
            if distance <= reach:
                return const("i1", False)
            reach += distance * (count - 1)
        return None
    result: Value | None = None
    zero, false = const("i64", 0), const("i1", False)
    far = [f.call("i64", "llvm.abs.i64", as_value(step), false) for step in tile.steps]
    reaches = [f.op("mul", d, const("i64", n - 1)) for d, n in zip(far, tile.counts, strict=True)]
    for dim, distance in enumerate(far):
        reach = zero
        for other, span in enumerate(reaches):
            if other != dim:
                counts = f.icmp("sle", far[other], distance)
                reach = f.op("add", reach, f.select(counts, span, zero))
        result = _both(f, result, f.icmp("sgt", distance, reach))
    return result


def _both(f: Function, a: Value | None, b: Value | None) -> Value | None:
    """The conjunction of two conditions; None is a condition that always holds."""
    if a is None or b is None:
        return a or b
    for known in (a, b):
        if known.ref == "false":
            return known
    return f.op("and", a, b)
