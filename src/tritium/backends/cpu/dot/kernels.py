"""The parts of a dot in order: packing, then a sweep; for blocks of a surrounding k-loop.

    for some hundreds of K:                      (emit_dot_loop only)
        pack A, B if the plan says so
        sweep over the register blocks           (`sweep`, `amx`)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from tritium.backends.cpu.dot.amx import TileSweep
from tritium.backends.cpu.dot.multiply import column_sums
from tritium.backends.cpu.dot.operand import (
    ELEMENT_BYTES,
    Chunks,
    Operand,
    Step,
    View,
    add,
    as_value,
    scale,
    static,
    tabulated,
)
from tritium.backends.cpu.dot.pack import Packing, ScratchAlloc
from tritium.backends.cpu.dot.plan import Method, Plan, extent_plan
from tritium.backends.cpu.dot.reuse import Kept, Panel, facts
from tritium.backends.cpu.dot.sweep import VectorSweep
from tritium.codegen.llvm.writer import Function, Value, const, vector

BatchOperands = Callable[[Function, Value], tuple[View | Chunks, View | Chunks]]

_ZERO, _ONE = const("i64", 0), const("i64", 1)


def _zero_fill(f: Function, plan: Plan, acc: Value, count: int) -> None:
    lanes = min(plan.host.bits // (8 * ELEMENT_BYTES[plan.result]), count)
    type = vector(plan.result, lanes)
    size = lanes * ELEMENT_BYTES[plan.result]
    with f.loop(_ZERO, const("i64", count), const("i64", lanes), at_least_once=True) as i:
        f.store(const(type, 0), f.gep(plan.result, acc, i.index), size)


@dataclass(frozen=True)
class _Repeats:
    """How often an operand is packed: `together` iterations of `trips` at a time, each `advance`
    bytes after the one before. `kept` is for the copy, if it may outlive the program."""

    trips: Value
    together: int
    advance: Step
    kept: Kept | None = None


@dataclass(frozen=True)
class _Source:
    """An operand as the kernel reads it, and the copy to make first (None: read in place)."""

    cells: Operand
    packing: Packing | None
    target: Value
    advance: Step
    panel: Panel | None = None

    @classmethod
    def prepare(
        cls, f: Function, plan: Plan, source: Operand, shape: tuple[int, int], is_b: bool,
        repeats: _Repeats, scratch_alloc: ScratchAlloc,
    ) -> _Source:  # fmt: skip
        """`shape` is (outer, depth)."""
        advance = repeats.advance
        packs = plan.pack_b if is_b else plan.pack_a
        by_outer = source.k_run < min(4, shape[1]) and source.outer_run >= min(4, shape[0])
        by_outer &= not plan.method.in_tiles
        packing = Packing(plan, source, *shape, k_major=is_b or by_outer)
        table = None
        repeated = static(repeats.trips) != 1 and source.k_step is not None
        if repeated and source.outer_step is None and (packs or not is_b):
            table = scratch_alloc(8 * shape[0])
            run = packing.address_run if packs else 1
            source = tabulated(f, source, shape[0], run, table)
            packing = replace(packing, source=source)
        if not packs:
            if plan.method is not Method.FMA and not plan.method.in_tiles:
                source = _as_words(source)
            return cls(source, None, const("ptr", 0), advance)
        kept, panel, size = repeats.kept, None, packing.bytes * repeats.together
        if kept is not None and kept.bytes >= 2 * size and source.k_step is not None:
            of = facts(source, advance)
            panel = Panel.find(f, kept, packing, table, of, repeats.trips)
        target = scratch_alloc(size) if panel is None else panel.target
        return cls(packing.cells(target), packing, target, advance, panel)

    def pack(
        self, f: Function, iteration: Value, slot: Value, extent: Value | None = None
    ) -> None:
        """Copy the tile of an iteration to a slot of the copy."""
        if self.packing is not None:
            target = _times(f, slot, self.packing.bytes)
            target = self.target if static(target) == 0 else f.gep("i8", self.target, target)
            self.packing.emit(f, target, _times(f, iteration, self.advance), extent)

    def pack_block(self, f: Function, first: Value, count: Value) -> None:
        """Copy the tiles of `count` iterations from `first` on, unless they are there."""
        missing, done = f.new_label("pack"), f.new_label("packed")
        if self.panel is not None:
            f.branch_if(self.panel.filled, done, missing)
            f.label(missing)
        start = self._first_slot(f, first)
        with f.loop(_ZERO, count, _ONE, at_least_once=True) as slot:
            iteration = f.op("add", first, slot.index)
            self.pack(f, iteration, as_value(add(f, start, slot.index)))
        if self.panel is not None:
            f.branch(done)
            f.label(done)

    def runs_on(self, cells: int) -> bool:
        """Whether the cells of an iteration follow those of the one before at the same step."""
        if self.packing is not None:
            return self.packing.k_major
        step, advance = static(self.cells.k_step or 0), static(self.advance)
        return bool(step) and advance == (step or 0) * self.cells.size * cells

    def _first_slot(self, f: Function, iteration: Value) -> Value:
        """The slot of the first iteration of a block."""
        return _ZERO if self.panel is None else f.select(self.panel.whole, iteration, _ZERO)

    def start(self, f: Function, first: Value) -> Value:
        """Bytes from the copy's beginning to the tile of a block's first iteration."""
        assert self.packing is not None
        return _times(f, self._first_slot(f, first), self.packing.bytes)

    def span(self, f: Function, first: Value) -> tuple[Value, Step]:
        """Bytes to skip before iteration `first`, and from one iteration to the next."""
        if self.packing is not None:
            return self.start(f, first), self.packing.bytes
        return _times(f, first, self.advance), self.advance


def _times(f: Function, value: Value, step: Step) -> Value:
    known, number = static(step), static(value)
    if number is not None:
        return as_value(scale(f, step, number))
    if known is not None:
        return as_value(scale(f, value, known))
    return f.op("mul", value, as_value(step))


def _as_words(source: Operand) -> Operand:
    """A matrix with neighbours along k adjacent, as one of 4-byte cells."""
    step = None if source.outer_step is None else static(source.outer_step)
    if step is not None and step * source.size % 4 == 0:
        return replace(source, element="i32", k_step=1, outer_step=step * source.size // 4)
    return replace(source, element="i32", k_step=1, outer_step=None, outer_run=1)


def _sweep(plan: Plan) -> type[VectorSweep] | type[TileSweep]:
    return TileSweep if plan.method.in_tiles else VectorSweep


def emit_dot(
    f: Function, plan: Plan, a: View | Chunks, b: View | Chunks, acc: Value,
    shape: tuple[int, int, int], *, scratch_alloc: ScratchAlloc,
    zero_init: bool = False, k_extent: Value | None = None,
) -> None:  # fmt: skip
    """Emit `acc += a @ b` (`acc = a @ b` with `zero_init`) at the current position of `f`.

    Args:
        plan: what `make_plan` chose for the same operands and shape.
        a, b: operands of (M, K) and (K, N).
        acc: the tile, dense, row-major, 64-byte-aligned, (M, N) of `plan.result`. It must not
            overlap the operands.
        shape: (M, N, K).
        scratch_alloc: gives a pointer to that many bytes of 64-byte-aligned scratch, valid during
            the dot only.
        k_extent: an i64 from 0 to K; only that many elements along k take part, and no others are
            read. Stands for a mask of A and B along k with other=0.
    """
    _emit_part(f, plan, a, b, acc, shape, scratch_alloc, zero_init, k_extent, (_ZERO, _ZERO))


def _emit_part(
    f: Function, plan: Plan, a: View | Chunks, b: View | Chunks, acc: Value,
    shape: tuple[int, int, int], scratch_alloc: ScratchAlloc, zero_init: bool,
    k_extent: Value | None, moved: tuple[Value, Value],
) -> None:  # fmt: skip
    """`emit_dot` with the addresses of A and B moved on by a number of bytes each."""
    if k_extent is not None:
        plan = extent_plan(plan, a, b, shape)
    rows, columns, depth = plan.orient(shape)
    repeats = [_Repeats(_ONE, 1, move) for move in moved]
    sources = _sources(f, plan, a, b, shape, repeats, scratch_alloc)
    for source in sources:
        source.pack(f, _ONE, _ZERO, k_extent)
    cells = const("i64", depth // plan.method.group)
    sums = _corrections(f, plan, sources[1], _ZERO, columns, cells, scratch_alloc)
    _sweep(plan)(
        plan, rows, columns, sources[0].cells, sources[1].cells,
        cells if k_extent is None else k_extent, k_extent is not None, None,
        sources[0].span(f, _ONE), sources[1].span(f, _ONE), acc, zero_init, sums,
    ).emit(f)  # fmt: skip


def emit_dot_loop(
    f: Function, plan: Plan, a: View | Chunks, b: View | Chunks, acc: Value,
    shape: tuple[int, int, int], *, trips: Value, a_advance: Step, b_advance: Step,
    scratch_alloc: ScratchAlloc, zero_init: bool = False, tail: Value | None = None,
    kept: tuple[Kept | None, Kept | None] = (None, None),
) -> None:  # fmt: skip
    """Emit `for i in range(trips): acc += a_i @ b_i` with the accumulators kept in registers.

    a_i is `a` with every address moved on by `i * a_advance` bytes, b_i likewise. The sum over k
    runs in the same order as that of the single dots, so that the result has the same bits unless
    `plan.result` is FLOAT16 (rounded less often here). Nothing may be stored to the operands
    meanwhile.

    Args:
        trips: how often, an i64 that may be zero or less.
        a_advance, b_advance: bytes, an int or an i64 value.
        tail: an i64 from 0 to K: after the loop, that many elements along k of iteration `trips`
            follow, and nothing beyond them is read. With `trips = size // K` and
            `tail = size % K` this is a loop whose loads are masked by `k < size` with other=0.
        kept: memory for packed A and B that the next program may use again.
        others: as in `emit_dot`, for one iteration; scratch for several iterations is asked for.
    """
    rows, columns, depth = plan.orient(shape)
    together = plan.iterations(columns, depth)
    known = static(trips)
    once = known is not None and 0 < known <= together
    advances = zip((a_advance, b_advance), kept, strict=True)
    repeats = [_Repeats(trips, together, advance, memory) for advance, memory in advances]
    sources = _sources(f, plan, a, b, shape, repeats, scratch_alloc)
    cells = const("i64", depth // plan.method.group)
    if zero_init and not once:
        _zero_fill(f, plan, acc, rows * columns)
    with f.loop(_ZERO, trips, const("i64", together), at_least_once=once) as sweep:
        left = f.op("sub", trips, sweep.index)
        count = f.intrinsic("smin", left, const("i64", together))
        for source in sources:
            if source.packing is not None:
                source.pack_block(f, sweep.index, count)
        sweep_cells, sweep_trips = cells, count
        runs_on = all(source.runs_on(depth // plan.method.group) for source in sources)
        if runs_on and not plan.method.in_tiles:
            sweep_cells, sweep_trips = f.op("mul", count, cells), None
        total = _times(f, count, depth // plan.method.group)
        sums = _corrections(f, plan, sources[1], sweep.index, columns, total, scratch_alloc)
        _sweep(plan)(
            plan, rows, columns, sources[0].cells, sources[1].cells, sweep_cells, False,
            sweep_trips, sources[0].span(f, sweep.index), sources[1].span(f, sweep.index),
            acc, zero_init and once, sums,
        ).emit(f)  # fmt: skip
    if tail is not None:
        rest, done = f.new_label("rest"), f.new_label("done")
        f.branch_if(f.icmp("sgt", tail, _ZERO), rest, done)
        f.label(rest)
        ran = f.intrinsic("smax", trips, _ZERO)
        moved = _times(f, ran, a_advance), _times(f, ran, b_advance)
        _emit_part(f, plan, a, b, acc, shape, scratch_alloc, False, tail, moved)
        f.branch(done)
        f.label(done)


def _sources(
    f: Function, plan: Plan, a: View | Chunks, b: View | Chunks, shape: tuple[int, int, int],
    repeats: list[_Repeats], scratch_alloc: ScratchAlloc,
) -> tuple[_Source, _Source]:  # fmt: skip
    rows, columns, depth = plan.orient(shape)
    sources = plan.operands(a, b, shape)
    if plan.swap:
        repeats = repeats[::-1]
    found = (
        _Source.prepare(f, plan, source, (outer, depth), is_b, often, scratch_alloc)
        for source, outer, is_b, often in zip(
            sources, (rows, columns), (False, True), repeats, strict=True
        )
    )
    return next(found), next(found)


def _corrections(
    f: Function, plan: Plan, b: _Source, first: Value, columns: int, cells: Value,
    scratch_alloc: ScratchAlloc,
) -> Value | None:  # fmt: skip
    if plan.method is not Method.VNNI:
        return None
    sums = scratch_alloc(4 * columns)
    start = b.start(f, first)
    packed = b.target if static(start) == 0 else f.gep("i8", b.target, start)
    column_sums(f, plan, packed, sums, columns, cells)
    return sums


def emit_batched_dot(
    f: Function, plan: Plan, operands: BatchOperands, acc: Value, batch: int,
    shape: tuple[int, int, int], *, scratch_alloc: ScratchAlloc, zero_init: bool = False,
) -> None:  # fmt: skip
    """Emit `acc[i] += a[i] @ b[i]` for the `batch` tiles of a 3-D dot.

    Args:
        operands: `operands(f, i)` gives a and b of tile i (an i64 value) inside the loop; of the
            same kind as those that the plan was made for.
        acc: (batch, M, N), dense.
        others: as in `emit_dot`.
    """
    size = shape[0] * shape[1] * ELEMENT_BYTES[plan.result]
    with f.loop(_ZERO, const("i64", batch), _ONE, at_least_once=True) as tile:
        a, b = operands(f, tile.index)
        place = f.gep("i8", acc, f.op("mul", tile.index, const("i64", size)))
        emit_dot(f, plan, a, b, place, shape, scratch_alloc=scratch_alloc, zero_init=zero_init)
