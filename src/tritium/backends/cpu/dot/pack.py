"""Copying an operand to scratch in the form that the kernel reads, converting on the way.

Two forms, both of cells of `group` elements along k:
    k-major      cell (k, outer) at k * outer_size + outer: vectors of neighbouring columns (B);
                 in panels of the columns of a register block where `panels` says so: lines of a
                 block that are apart by a power of two share few sets of the first cache
    outer-major  cell (outer, k) at outer * depth + k: rows (A)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tritium.backends.cpu.dot.convert import widen
from tritium.backends.cpu.dot.operand import (
    ELEMENT_BYTES,
    Operand,
    Step,
    add,
    as_value,
    count,
    dense,
    prefetch,
    scale,
    static,
)
from tritium.backends.cpu.dot.plan import Plan
from tritium.codegen.llvm.writer import Function, Value, const, lanes, scalar, vector

ScratchAlloc = Callable[[int], Value]
_ZERO = const("i64", 0)
_PIECE = 256
"""Bytes of a row that are copied before the next row is gone to: 64 columns of fp32."""
_ROWS_AHEAD = 16
"""Rows of B whose pieces are prefetched before they are copied (Zen 3, one thread, against those of
the next tile, 64 rows: bf16 1024 1.08 times as fast, fp32 of 16 rows 1.05, fp32 1024 the same)."""


@dataclass(frozen=True)
class Packing:
    """A copy to be made: `emit` writes it to `target`, whose reading form is `cells`.

    Args:
        plan: the dot it is for.
        source: the operand to copy.
        outer, depth: its shape in elements.
        k_major: the form, see the module.
        ahead: bytes to the tile that is copied next; 0: there is none, and nothing is prefetched.
        panel: 0, or elements along k of a panel, which many tiles have parts of: it is B, of which
            register blocks read some columns, for multiply-adds.
    """

    plan: Plan
    source: Operand
    outer: int
    depth: int
    k_major: bool
    ahead: Step = 0
    panel: int = 0

    @property
    def group(self) -> int:
        return self.plan.method.group

    @property
    def width(self) -> int:
        """The columns of a panel."""
        block = self.plan.lanes * self.plan.block_vectors
        return min(self.outer, block) if self.panel else self.outer

    @property
    def between(self) -> int:
        """Bytes from one tile to the next in memory that holds the copies of several."""
        return self.width * self.depth * ELEMENT_BYTES[self.plan.compute]

    def skip(self, outer: int) -> int:
        """Bytes from the cells of a column to those of one `outer` columns on, of k-major copies;
        the first is at the beginning of a panel, or both are in one."""
        across, within = divmod(outer, self.width)
        cells = across * self.width * (self.panel // self.group) + within
        return cells * self.group * ELEMENT_BYTES[self.plan.compute]

    @property
    def bytes(self) -> int:
        """Size of the copy."""
        return self.outer * self.depth * ELEMENT_BYTES[self.plan.compute]

    def cells(self, target: Value) -> Operand:
        """The copy as an operand of cells."""
        cells = self.depth // self.group
        if not self.k_major:
            return dense(self.plan.cell, target, cells, 1, cells)
        whole = dense(self.plan.cell, target, 1, self.width, self.width)

        def pointer(f: Function, place: Value, k: Value) -> Value:
            offset = f.op("add", self.cell_offset(f, place, _ZERO), scaled(f, k))
            return f.gep("i8", target, offset)

        def scaled(f: Function, k: Value) -> Value:
            return as_value(scale(f, k, self.width * ELEMENT_BYTES[self.plan.cell]))

        return whole if self.width == self.outer else replace(whole, pointer=pointer)

    def emit(self, f: Function, target: Value, offset: Value, extent: Value | None = None) -> None:
        """Copy the operand, all of its addresses moved on by `offset` bytes, to `target`; only the
        first `extent` elements along k if that is given."""
        if extent is not None:
            _elements(f, self, target, offset, extent)
        elif self.k_major:
            tile = min(self.plan.lanes, self.outer, self.depth // self.group)
            tile = min(tile, self.source.k_run // self.group)
            if self._interleaves:
                _interleave(f, self, target, offset)
            elif tile >= 4:
                _transpose_tiles(f, self, target, offset, tile)
            else:
                _elements(f, self, target, offset)
        elif self.source.k_run >= min(4, self.depth):
            _rows(f, self, target, offset)
        elif self.group > 1 and self._square >= 4:
            _transpose_cells(f, self, target, offset, self._square)
        else:
            _elements(f, self, target, offset)

    @property
    def _interleaves(self) -> bool:
        return self.k_major and min(self.source.outer_run, self.outer) >= min(4, self.outer)

    @property
    def address_run(self) -> int:
        """The addresses that `emit` asks for are those of multiples of this number of columns."""
        whole = max(self.plan.lanes, 16 // self.source.size)  # 128-bit registers of memory at least
        run = min(whole, self.outer, self.source.outer_run)
        return run if self._interleaves else 1

    @property
    def _square(self) -> int:
        """The number of cells, and of neighbours along the outer dimension, that fill vectors; 0:
        none."""
        within = min(self.outer, self.depth // self.group, self.source.outer_run)
        return min(self.plan.lanes, within) if self.source.k_step is not None else 0

    def prefetch(
        self, f: Function, places: Sequence[tuple[Value, int]], count: int, ahead: Step
    ) -> None:
        """Prefetch pieces of `count` elements, `ahead` bytes further, if a tile follows."""
        if static(self.ahead) != 0:
            prefetch(f, places, count * self.source.size, ahead)

    def load(self, f: Function, pointer: Value, count: int) -> Value:
        """`count` neighbouring elements from memory, in the type to compute in."""
        raw = f.load(vector(self.source.element, count), pointer, self.source.align)
        return widen(f, self.plan.host, self.source, raw, self.plan.compute)

    def cell_offset(self, f: Function, outer: Value, cell: Value) -> Value:
        """Byte offset of a cell in the copy."""
        if self.k_major and self.width < self.outer:
            within = f.op("and", outer, const("i64", self.width - 1))
            before = f.op("sub", outer, within)
            panel = as_value(scale(f, before, self.panel // self.group))
            index = f.op("add", panel, as_value(add(f, scale(f, cell, self.width), within)))
        elif self.k_major:
            index = add(f, scale(f, cell, self.outer), outer)
        else:
            index = add(f, scale(f, outer, self.depth // self.group), cell)
        return as_value(scale(f, index, self.group * ELEMENT_BYTES[self.plan.compute]))


def _move(f: Function, pointer: Value, offset: Value) -> Value:
    return pointer if static(offset) == 0 else f.gep("i8", pointer, offset)


def interleave(f: Function, rows: list[Value]) -> Value:
    """Vectors r0, r1, ... as (r0[0], r1[0], ..., r0[1], r1[1], ...); a power of two of them."""
    while len(rows) > 1:
        half = len(rows) // 2
        count = lanes(rows[0].type)
        order = [i // 2 + (i % 2) * count for i in range(2 * count)]
        rows = [f.shuffle(rows[i], rows[i + half], order) for i in range(half)]
    return rows[0]


def transpose(f: Function, rows: list[Value], lane: int) -> list[Value]:
    """The columns of n vectors of n lanes, in n * log2(n) shuffles (n a power of two).

    `lane`: how many lanes make 16 bytes. First whole 16-byte pieces are exchanged, then lanes
    within them, because x86 has short shuffles of just these two kinds.
    """
    count = len(rows)
    lane = min(lane, count)
    pieces = count // lane
    # After the exchange, group c holds piece c of all rows, rows r, r + lane, ... in one vector.
    result: list[Value] = [rows[0]] * count
    for r in range(lane):
        for c, row in enumerate(_butterfly(f, rows[r::lane], lane)):
            result[c * lane + r] = row
    columns: list[Value] = []
    for c in range(pieces):
        columns += _within(f, result[c * lane : (c + 1) * lane], lane)
    return columns


def _butterfly(f: Function, rows: list[Value], lane: int) -> list[Value]:
    """The transpose of n vectors of n pieces of `lane` lanes."""
    count = len(rows)
    distance = count // 2
    while distance:
        low = [j if not j & distance else j - distance + count for j in range(count)]
        high = [j + distance if not j & distance else j + count for j in range(count)]
        orders = [[j * lane + i for j in order for i in range(lane)] for order in (low, high)]
        for i in range(count):
            if not i & distance:
                pair = rows[i], rows[i + distance]
                rows[i], rows[i + distance] = (f.shuffle(*pair, order) for order in orders)
        distance //= 2
    return rows


def _within(f: Function, rows: list[Value], lane: int) -> list[Value]:
    """The transpose of each `lane` x `lane` piece of `lane` vectors, by interleaving."""
    count, half = lanes(rows[0].type), lane // 2
    for _ in range(lane.bit_length() - 1):
        orders = [
            [
                piece + start + i // 2 + (i % 2) * count
                for piece in range(0, count, lane)
                for i in range(lane)
            ]
            for start in (0, half)
        ]
        rows = [f.shuffle(rows[i], rows[i + half], o) for i in range(half) for o in orders]
    return rows


def _interleave(f: Function, p: Packing, target: Value, offset: Value) -> None:
    """k-major from neighbours along the outer dimension: `group` rows of k at a time."""
    chunk = p.address_run
    # Whole pieces of rows: every row that is gone to once more is a page to look up once more.
    block = min(8 * chunk, _PIECE // p.source.size, p.outer)
    chunks = range(0, block, chunk)
    with count(f, p.outer, block) as outer:
        step = p.source.k_step
        linear = step is not None
        ahead = scale(f, step, p.source.size * _ROWS_AHEAD) if linear else 0
        places = p.source.places(f, outer.index, list(chunks)) if linear else []
        with count(f, p.depth // p.group, 1) as cell:
            out = f.gep("i8", target, p.cell_offset(f, outer.index, cell.index))
            first = f.op("mul", cell.index, const("i64", p.group))
            ks = [as_value(add(f, first, g)) for g in range(p.group)]
            skips = [_skip(f, p.source, k, offset) for k in ks] if linear else []
            moved = {
                (place.ref, g): f.gep("i8", place, skip)
                for place in dict.fromkeys(place for place, _ in places)
                for g, skip in enumerate(skips)
            }
            for g in range(p.group if linear else 0):
                pieces = [(moved[place.ref, g], at) for place, at in places]
                p.prefetch(f, pieces, chunk, ahead)
            for c in range(len(chunks)):
                rows: list[Value] = []
                for g in range(p.group):
                    if linear:
                        pointer = f.offset(moved[places[c][0].ref, g], places[c][1])
                    else:
                        place = f.op("add", outer.index, const("i64", chunks[c]))
                        pointer = _move(f, p.source.pointer(f, place, ks[g]), offset)
                    rows.append(p.load(f, pointer, chunk))
                width = chunk * p.group * ELEMENT_BYTES[p.plan.compute]
                place = f.offset(out, p.skip(chunks[c]))
                f.store(interleave(f, rows), place, min(width, 64))


def _at(f: Function, source: Operand, place: tuple[Value, int], k: Value, offset: Value) -> Value:
    """The address of (place, k) for an operand with a step along k."""
    return f.offset(f.gep("i8", place[0], _skip(f, source, k, offset)), place[1])


def _skip(f: Function, source: Operand, k: Value, offset: Value) -> Value:
    """Bytes from (place, 0) to (place, k), and `offset`."""
    assert source.k_step is not None
    known = static(source.k_step)
    step = scale(f, k, known) if known is not None else f.op("mul", k, as_value(source.k_step))
    return as_value(add(f, scale(f, step, source.size), offset))


def _transpose_tiles(f: Function, p: Packing, target: Value, offset: Value, tile: int) -> None:
    """k-major from neighbours along k: transposes of tile x tile cells, in registers.

    Four times as fast as gathers (transposed B: .96 to .99 of MKL against .32).
    """
    cell_type = vector(p.plan.cell, tile)
    with count(f, p.outer, tile) as outer:
        places = p.source.places(f, outer.index, list(range(tile)))
        with count(f, p.depth // p.group, tile) as cell:
            k = f.op("mul", cell.index, const("i64", p.group))
            rows: list[Value] = []
            for place in places:
                pointer = _at(f, p.source, place, k, offset)
                p.prefetch(f, [(pointer, 0)], tile * p.group, p.ahead)
                row = p.load(f, pointer, tile * p.group)
                rows.append(row if row.type == cell_type else f.cast("bitcast", row, cell_type))
            out = f.gep("i8", target, p.cell_offset(f, outer.index, cell.index))
            size = ELEMENT_BYTES[p.plan.cell]
            for i, column in enumerate(transpose(f, rows, 16 // size)):
                f.store(column, f.offset(out, i * p.width * size), tile * size)


def _rows(f: Function, p: Packing, target: Value, offset: Value) -> None:
    """Outer-major from neighbours along k: copy or convert row by row."""
    size = ELEMENT_BYTES[p.plan.compute]
    chunk = min(p.plan.host.bits // (8 * size), p.depth, p.source.k_run)
    linear = p.source.k_step is not None
    with count(f, p.outer, 1) as outer:
        place = p.source.places(f, outer.index, [0])[0] if linear else None
        with count(f, p.depth, chunk) as k:
            if place is not None:
                pointer = _at(f, p.source, place, k.index, offset)
            else:
                pointer = _move(f, p.source.pointer(f, outer.index, k.index), offset)
            value = p.load(f, pointer, chunk)
            index = f.op("add", f.op("mul", outer.index, const("i64", p.depth)), k.index)
            out = f.gep(scalar(value.type), target, index)
            f.store(value, out, min(chunk * size, 64))


def _transpose_cells(f: Function, p: Packing, target: Value, offset: Value, tile: int) -> None:
    """Outer-major from neighbours along the outer dimension: cells of `tile` rows of k at a time,
    interleaved, then transposed in registers."""
    size = ELEMENT_BYTES[p.plan.cell]
    with count(f, p.outer, tile) as outer:
        place = p.source.places(f, outer.index, [0])[0]
        with count(f, p.depth // p.group, tile) as cell:
            first = f.op("mul", cell.index, const("i64", p.group))
            rows: list[Value] = []
            for j in range(tile):
                ks = [f.op("add", first, const("i64", j * p.group + g)) for g in range(p.group)]
                loaded = [p.load(f, _at(f, p.source, place, k, offset), tile) for k in ks]
                rows.append(f.cast("bitcast", interleave(f, loaded), vector(p.plan.cell, tile)))
            out = f.gep("i8", target, p.cell_offset(f, outer.index, cell.index))
            for i, column in enumerate(transpose(f, rows, 16 // size)):
                f.store(column, f.offset(out, i * p.depth // p.group * size), tile * size)


def _elements(
    f: Function, p: Packing, target: Value, offset: Value, extent: Value | None = None
) -> None:
    """Either form from anywhere, one element at a time."""
    shift, mask = const("i64", p.group.bit_length() - 1), const("i64", p.group - 1)
    size = ELEMENT_BYTES[p.plan.compute]
    zero, one = const("i64", 0), const("i64", 1)
    stop = extent or const("i64", p.depth)
    loop = f.loop(zero, stop, one, at_least_once=extent is None)
    with count(f, p.outer, 1) as outer, loop as k:
        value = p.load(f, _move(f, p.source.pointer(f, outer.index, k.index), offset), 1)
        at = p.cell_offset(f, outer.index, f.op("lshr", k.index, shift))
        within = f.op("mul", f.op("and", k.index, mask), const("i64", size))
        f.store(value, f.gep("i8", target, f.op("add", at, within)), size)
