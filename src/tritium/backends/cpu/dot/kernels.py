"""The parts of a dot in order: packing, then a sweep; for blocks of a surrounding k-loop.

    for some hundreds of K:                      (emit_dot_loop only)
        pack A, B if the plan says so
        sweep over the register blocks           (`sweep`, `amx`)
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce

from tritium.backends.cpu.dot.amx import TileSweep
from tritium.backends.cpu.dot.operand import ELEMENT_BYTES, Chunks, Step, View, static
from tritium.backends.cpu.dot.pack import ScratchAlloc
from tritium.backends.cpu.dot.plan import Plan, extent_plan
from tritium.backends.cpu.dot.reuse import Kept
from tritium.backends.cpu.dot.source import Repeats, Source, times
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
    """`emit_dot` with the addresses of A and B moved on by a number of bytes each: as iteration 1
    of a loop whose steps they are."""
    if k_extent is not None:
        plan = extent_plan(plan, a, b, shape)
    rows, columns, depth = plan.orient(shape)
    repeats = [Repeats(_ONE, 1, move) for move in moved]
    sources = _sources(f, plan, a, b, shape, repeats, scratch_alloc)
    for source in sources:
        source.pack(f, _ONE, _ZERO, k_extent)
    cells = const("i64", depth // plan.method.group)
    sums = sources[1].sums
    a_span, b_span = (source.span(f, _ONE) for source in sources)
    _sweep(plan)(
        plan, rows, columns, sources[0].cells, sources[1].cells,
        cells if k_extent is None else k_extent, k_extent is not None, None,
        a_span, b_span, acc, zero_init, sums, a.rows,
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
    together = plan.together
    known = static(trips)
    once = known is not None and 0 < known <= together
    advances = zip((a_advance, b_advance), kept, strict=True)
    shared = rows > 2 * plan.block_rows
    repeats = [Repeats(trips, together, advance, memory, shared) for advance, memory in advances]
    sources = _sources(f, plan, a, b, shape, repeats, scratch_alloc)
    cells = const("i64", depth // plan.method.group)
    if zero_init and not once:
        _zero_fill(f, plan, acc, rows * columns)
    with f.loop(_ZERO, trips, const("i64", together), at_least_once=once) as sweep:
        count = _ONE
        if together > 1:
            left = f.op("sub", trips, sweep.index)
            count = f.intrinsic("smin", left, const("i64", together))
        for source in sources:
            source.pack_block(f, sweep.index, count)
        sweep_cells, sweep_trips = cells, count if together > 1 else None
        if together > 1 and not plan.method.in_tiles:
            runs_on = _and(f, [source.runs_on(f, depth // plan.method.group) for source in sources])
            sweep_cells, sweep_trips = _joined(f, runs_on, count, cells)
        sums = _corrections(f, plan, sources[1], (sweep.index, count), columns, scratch_alloc)
        a_span, b_span = (source.span(f, sweep.index) for source in sources)
        _sweep(plan)(
            plan, rows, columns, sources[0].cells, sources[1].cells, sweep_cells, False,
            sweep_trips, a_span, b_span, acc, zero_init and once, sums, a.rows,
        ).emit(f)  # fmt: skip
    if tail is not None:
        rest, done = f.new_label("rest"), f.new_label("done")
        f.branch_if(f.icmp("sgt", tail, _ZERO), rest, done)
        f.label(rest)
        ran = f.intrinsic("smax", trips, _ZERO)
        moved = times(f, ran, a_advance), times(f, ran, b_advance)
        _emit_part(f, plan, a, b, acc, shape, scratch_alloc, False, tail, moved)
        f.branch(done)
        f.label(done)


def _and(f: Function, conditions: list[Value]) -> Value:
    """The conjunction of conditions (i1, a constant where that is known)."""
    left = [condition for condition in conditions if condition.ref != "true"]
    known = next((condition for condition in left if condition.ref == "false"), None)
    if known is not None or not left:
        return known or const("i1", True)
    return reduce(partial(f.op, "and"), left)


def _joined(f: Function, runs_on: Value, trips: Value, cells: Value) -> tuple[Value, Value | None]:
    """The cells along k of a sweep, and the number of sweeps (None: one). One sweep goes over all
    where the cells of an iteration follow those of the one before."""
    if runs_on.ref == "false":
        return cells, trips
    whole = f.op("mul", trips, cells)
    if runs_on.ref == "true":
        return whole, None
    return f.select(runs_on, whole, cells), f.select(runs_on, _ONE, trips)


def _sources(
    f: Function, plan: Plan, a: View | Chunks, b: View | Chunks, shape: tuple[int, int, int],
    repeats: list[Repeats], scratch_alloc: ScratchAlloc,
) -> tuple[Source, Source]:  # fmt: skip
    rows, columns, depth = plan.orient(shape)
    sources = plan.operands(a, b, shape)
    if plan.swap:
        repeats = repeats[::-1]
    found = (
        Source.prepare(f, plan, source, (outer, depth), is_b, often, scratch_alloc)
        for source, outer, is_b, often in zip(
            sources, (rows, columns), (False, True), repeats, strict=True
        )
    )
    return next(found), next(found)


def _corrections(
    f: Function, plan: Plan, b: Source, block: tuple[Value, Value], columns: int,
    scratch_alloc: ScratchAlloc,
) -> Value | None:  # fmt: skip
    """The sums of B's columns over a block of iterations, (first, count)."""
    if b.sums is None:
        return None
    sums, vectors = scratch_alloc(4 * columns), columns // plan.lanes
    type, size = vector("i32", plan.lanes), 4 * plan.lanes
    start = b.sums_of(f, b.first_slot(f, block[0]))
    together = min(8, vectors)
    for first in range(0, vectors, together):
        offsets = [(first + i) * size for i in range(together)]
        with f.loop(_ZERO, block[1], _ONE, [const(type, 0)] * together) as slot:
            row = f.gep("i8", start, times(f, slot.index, 4 * columns))
            parts = [f.load(type, f.offset(row, offset), size) for offset in offsets]
            slot.next = [f.op("add", t, p) for t, p in zip(slot.carried, parts, strict=True)]
        for offset, total in zip(offsets, slot.results, strict=True):
            f.store(total, f.offset(sums, offset), size)
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
