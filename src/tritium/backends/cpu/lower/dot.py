"""`tt.dot` steps: operands as views of memory or of buffers; whole loops over K at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any

from xdsl.ir import SSAValue

from tritium.analysis.loops import trip_count
from tritium.backends.cpu.dot import (
    Chunks,
    Kept,
    View,
    emit_batched_dot,
    emit_dot,
    emit_dot_loop,
    make_plan,
)
from tritium.backends.cpu.dot.operand import Step, scale, static
from tritium.backends.cpu.lower.access import load_buffer, store_buffer
from tritium.backends.cpu.lower.analysis.assume_no_wrap import Assumption, assumption
from tritium.backends.cpu.lower.analysis.strides import Strides
from tritium.backends.cpu.lower.atomics.polling import may_observe
from tritium.backends.cpu.lower.context import NOTHING_ASSUMED, Context, either
from tritium.backends.cpu.lower.emitter import Emitter
from tritium.backends.cpu.lower.scalars import scalar_op
from tritium.backends.cpu.lower.types import fp, memory_type, value_type
from tritium.backends.cpu.lower.values import Index, Kind, Uniform, Vec
from tritium.backends.cpu.tiles.index_arithmetic import index_arithmetic
from tritium.backends.cpu.tiles.ir import ZERO, is_scalar, views_of
from tritium.backends.cpu.tiles.views import Prefix, is_stored_within, peel, prefix_masks
from tritium.codegen.llvm.types import FORMATS, memory_bytes
from tritium.codegen.llvm.writer import Function, Value, const, vector
from tritium.ir import types as ir
from tritium.ops.scf import ForOp
from tritium.ops.tile import BUFFERS, BufferOp
from tritium.ops.ttir.dot import MatrixProduct

Operand = View | Chunks

_FEW_ROWS = 16
"""Up to so many rows of A, those that a mask leaves are computed in blocks of four, for less
than all of them: memory is waited for."""


@dataclass(frozen=True)
class Dot:
    """A product: `buffer` holds C on entry (unless `zero`) and the result afterwards."""

    op: Any
    buffer: BufferOp
    zero: bool
    a_is_view: bool
    b_is_view: bool

    @classmethod
    def of(cls, c: Context, op: Any) -> Dot:
        """As the op's attributes say."""
        return cls(op, c.function.buffers[op.result], ZERO in op.attributes, *views_of(op))


def lower_dot(
    c: Context, op: MatrixProduct, copy: Callable[[Context, SSAValue, BufferOp], None]
) -> None:
    """Write a dot: accumulate a @ b in its buffer. Operands that are views of memory are read where
    they are if their addresses, and the masks along K, do not wrap around, and the masks along
    their other axes are true; else they are copied first, by `copy`."""
    step = Dot.of(c, op)
    prefixes = _prefixes(c, step)
    seldom = all(prefix.along_k for prefix in prefixes)
    found = None if c.copies_views else _assumption(c, [step])
    if c.copies_views:
        _lower_copied(c, step, copy, seldom)
        return
    holds = _and(c.f, None if found is None else found.holds, _within(c, prefixes))

    def viewed() -> None:
        c.assumed = NOTHING_ASSUMED if found is None else found.then
        _lower_dot(c, step)

    def copied() -> None:
        c.assumed = NOTHING_ASSUMED
        _lower_copied(c, step, copy, seldom and found is not None)

    if found is None:
        copied()
    elif holds is None:
        viewed()
    else:
        either(c, (), holds, viewed, copied, ("viewed", "copied"))
    c.assumed = NOTHING_ASSUMED


def _and(f: Function, *conditions: Value | None) -> Value | None:
    """Whether all of some conditions hold (i1); None for none."""
    given = [condition for condition in conditions if condition is not None]
    return reduce(partial(f.op, "and"), given) if given else None


def _assumption(
    c: Context, dots: list[Dot], loop: Any = None, iterations: Value | None = None
) -> Assumption | None:
    """The assumptions under which dots read their operands in place; None if they never hold."""
    values, exact = list[SSAValue](), list[SSAValue]()
    for step in dots:
        op: Any = step.op
        for value, view in ((op.a, step.a_is_view), (op.b, step.b_is_view)):
            source: Any = peel(value, c.filled)[0]
            if view and source not in c.filled:
                values.append(source.owner.ptr)
        for prefix in _prefixes(c, step):
            exact.extend(prefix.compared)
    arithmetic = index_arithmetic(c.function, [*values, *exact], c.filled, loop)
    return assumption(c, arithmetic, loop, iterations, exact)


def _lower_copied(
    c: Context, step: Dot, copy: Callable[[Context, SSAValue, BufferOp], None], seldom: bool
) -> None:
    """The dot of copies of its operands; `seldom` code, for addresses that wrap around, is short
    rather than fast."""
    op: Any = step.op
    types = {value_type(v.type) for v in (op.a, op.b, op.result)}
    if seldom and len(ir.shape_of(op.a.type)) == 2 and types in ({"float"}, {"double"}):
        _lower_by_elements(c, step)
        return
    added = list[tuple[SSAValue, BufferOp]]()
    with c.temporary() as allocate:
        for value, view in ((op.a, step.a_is_view), (op.b, step.b_is_view)):
            source = peel(value, c.filled)[0]
            if view and source not in c.filled:
                buffer = BufferOp.build(sym_name="viewed", tile=source.type)
                c.external[id(buffer)] = allocate(buffer.bytes)
                copy(c, source, buffer)
                c.filled[source] = buffer
                added.append((source, buffer))
        _lower_dot(c, replace(step, a_is_view=False, b_is_view=False), allocate, seldom)
    for source, buffer in added:
        del c.filled[source]
        del c.external[id(buffer)]


def _lower_by_elements(c: Context, step: Dot) -> None:
    """The dot of elements that are computed where they are multiplied."""
    f, op, buffer = c.f, step.op, step.buffer
    (rows, depth), columns = ir.shape_of(op.operands[0].type), buffer.shape[1]
    width = min(c.host.bits // (8 * buffer.element_bytes), columns)
    e = Emitter(c, width)
    e.push()
    kind = Kind.LANES if width > 1 else Kind.SCALAR
    with e.loop(rows) as m, e.loop(columns, width) as n:
        i = Index(Kind.SCALAR, m.index, 0, e.depth - 1)
        j = Index(kind, n.index, 0, e.depth)
        zero = const(vector(value_type(op.results[0].type), width), 0)
        start = zero if step.zero else e.vec(load_buffer(e, buffer, (i, j)))
        with e.loop(depth, 1, [start]) as loop:
            k = Index(Kind.SCALAR, loop.index, 0, e.depth)
            a, b = e.vec(e.emit(op.operands[0], (i, k))), e.vec(e.emit(op.operands[1], (k, j)))
            (total,) = loop.carried
            loop.next = [
                f.fma(a, b, total) if c.host.fma else f.op("fadd", total, f.op("fmul", a, b))
            ]
        result = (Vec if width > 1 else Uniform)(loop.results[0], e.depth)
        store_buffer(e, buffer, (i, j), result)
    e.pop()


def _lower_dot(c: Context, step: Dot, allocate: Any = None, seldom: bool = False) -> None:
    op: Any = step.op
    shape_a, shape_b = ir.shape_of(op.a.type), ir.shape_of(op.b.type)
    shape = (shape_a[-2], shape_b[-1], shape_a[-1])
    steps = Strides(c)
    acc, result = c.address(step.buffer), value_type(op.result.type)
    with c.temporary() if allocate is None else nullcontext(allocate) as scratch:
        if len(shape_a) == 3:
            _batched(c, step, shape, scratch)
            return
        a, b = (operand(c, steps, step, is_b) for is_b in (False, True))
        plan = make_plan(c.host, a, b, result, shape, _precision(op))
        if seldom:
            plan = plan.shortest
        elif allocate is not None:
            plan = plan.compact
        extent = _extent(c, step)
        emit_dot(c.f, plan, a, b, acc, shape, scratch_alloc=scratch, zero_init=step.zero,
                 k_extent=None if extent is None else _clamped(c.f, extent, shape[2]))  # fmt: skip


def _precision(op: Any) -> str:
    name = op.inputPrecision.name.lower()
    return name if name in ("tf32", "tf32x3") else "ieee"


def _clamped(f: Function, extent: Value, size: int) -> Value:
    return f.intrinsic("smax", f.intrinsic("smin", extent, const("i64", size)), const("i64", 0))


def operand(c: Context, steps: Strides, step: Dot, is_b: bool) -> Operand:
    """An operand of a two-dimensional dot, as it lies in memory."""
    op: Any = step.op
    value, swapped = peel(op.b if is_b else op.a, c.filled)
    element = memory_type(value.type)
    convert = _converter(c, value.type)
    held = c.filled.get(value)
    if held is not None:
        _rows, columns = held.shape
        strides = (1, columns) if swapped else (columns, 1)
        return View(element, c.address(held), *strides, convert=convert)
    load: Any = value.owner
    return pointed(c, steps, load.ptr, swapped, is_b, element, convert)


def pointed(
    c: Context, steps: Strides, pointer: SSAValue, swapped: bool, is_b: bool, element: str,
    convert: Any,
) -> Operand:  # fmt: skip
    """The operand at a tile of addresses."""
    along = [steps.along(pointer, d) for d in (0, 1)]
    if swapped:
        along.reverse()
    row, column = along
    if row is not None and column is not None:
        zero = const("i64", 0)
        return View(element, address_of(c, pointer, (zero, zero)), row, column, convert=convert)

    def address(f: Function, r: Value, k: Value) -> Value:
        return address_of(c, pointer, (k, r) if swapped else (r, k))

    run = c.info(pointer).contiguity[0 if swapped else 1]
    return Chunks(element, address, run, row if is_b else column, convert=convert)


def address_of(c: Context, pointer: SSAValue, at: tuple[Value, ...]) -> Value:
    """The address in one place of a tile of addresses; code goes to the current position."""
    return number_at(c, pointer, at)


def number_at(c: Context, value: SSAValue, at: tuple[Value, ...]) -> Value:
    """One element of a tile."""
    e = Emitter(c, 1)
    e.push()
    found = e.emit(value, tuple(_index(v) for v in at))
    e.pop()
    assert isinstance(found, Uniform)
    return found.value


def _index(value: Value) -> Index:
    known = static(value)
    if known is not None:
        return Index(Kind.SCALAR, None, known, 0)
    return Index(Kind.SCALAR, value, 0, 0)


def _converter(c: Context, type: ir.Type) -> Any:
    """fp8, which LLVM has no type for, is converted to float on the way."""
    name = FORMATS.get(ir.element_type(type), "")
    if not name.startswith("fp8"):
        return None

    def convert(f: Function, value: Value) -> Value:
        return fp(f, value, name, "fp32", features=c.features)

    return convert


def _batched(c: Context, step: Dot, shape: tuple[int, int, int], scratch: Any) -> None:
    """A dot with a batch axis in front; its operands are in buffers."""
    op: Any = step.op
    held = [c.filled[v] for v in (op.a, op.b)]

    def operands(f: Function, index: Value) -> tuple[View, View]:
        views: list[View] = []
        for value, buffer in zip((op.a, op.b), held, strict=False):
            _, rows, columns = buffer.shape
            size = rows * columns * buffer.element_bytes
            known = static(index)
            offset = const("i64", known * size) if known is not None else f.op(
                "mul", index, const("i64", size)
            )  # fmt: skip
            base = f.gep("i8", c.address(buffer), offset)
            convert = _converter(c, value.type)
            views.append(View(memory_type(value.type), base, columns, 1, convert=convert))
        return views[0], views[1]

    sample = operands(c.f, const("i64", 0))
    plan = make_plan(c.host, *sample, value_type(op.result.type), shape, _precision(op))
    emit_batched_dot(
        c.f, plan, operands, c.address(step.buffer), held[0].shape[0], shape,
        scratch_alloc=scratch, zero_init=step.zero,
    )  # fmt: skip


# Masks


def _prefixes(c: Context, step: Dot) -> list[Prefix]:
    """The masks of the operands that are views."""
    op: Any = step.op
    return [*_masks(c, op.a, step.a_is_view, 1), *_masks(c, op.b, step.b_is_view, 0)]


def _masks(c: Context, value: SSAValue, view: bool, axis: int) -> list[Prefix]:
    """The mask of an operand, K running along its `axis`, if it is a view."""
    value, swapped = peel(value, c.filled)
    if not view or value in c.filled:  # what is in a buffer has been loaded under its mask
        return []
    masks = prefix_masks(value.owner, 1 - axis if swapped else axis)
    assert masks is not None
    return masks


def _within(c: Context, prefixes: Iterable[Prefix]) -> Value | None:
    """Whether the masks along other axes than K are true (i1); None if there are none."""
    tests: list[Value] = []
    for prefix in prefixes:
        shape = ir.shape_of(prefix.condition.type)
        if not shape:
            tests.append(c.scalars[prefix.condition])
        elif not prefix.along_k:
            last = [size - 1 if axis == prefix.axis else 0 for axis, size in enumerate(shape)]
            at = tuple(const("i64", place) for place in last)
            tests.append(number_at(c, prefix.condition, at))
    return _and(c.f, *tests)


def _extent(c: Context, step: Dot) -> Value | None:
    """The number of elements along K that take part, if masks say so; an i64, not clamped."""
    extents = [_first_extent(c, prefix) for prefix in _prefixes(c, step) if prefix.along_k]
    return reduce(partial(c.f.intrinsic, "smin"), extents) if extents else None


def _first_extent(c: Context, prefix: Prefix) -> Value:
    zeros = tuple(const("i64", 0) for _ in ir.shape_of(prefix.condition.type))
    start, bound = (c.f.cast("sext", number_at(c, v, zeros), "i64") for v in prefix.compared)
    return c.f.op("sub", bound, start)


# Whole loops


@dataclass(frozen=True)
class _Loop:
    """A loop around one dot: its step, how far each operand moves in an iteration (bytes), how many
    elements along K take part if masks say so, whether other masks are true, and which rows of A
    there are, if only these matter."""

    dot: Dot
    advance: tuple[Step, Step]
    extent: Value | None
    within: Value | None
    rows: Prefix | None


def lower_dot_loop(c: Context, op: ForOp, otherwise: Callable[[], None]) -> bool:
    """Write `for k: acc += a_k @ b_k` with the accumulators in registers throughout, if the loop
    is of that form; returns whether it was. `otherwise` writes the loop iteration by
    iteration, for where addresses or masks wrap around."""
    dot = _only_dot(c, op)
    if dot is None:
        return False
    terminator: Any = op.body.last_op
    buffers = c.function.held(op)
    carried = [i for i, buffer in enumerate(buffers) if buffer is not None]
    if len(carried) != 1 or buffers[carried[0]] is not dot.buffer or dot.zero:
        return False
    if terminator.operands[carried[0]] is not dot.op.results[0]:
        return False
    if any(r.uses for i, r in enumerate(op.results) if i not in carried) or op.unsignedCmp:
        return False
    if any(inner.memory_effects() for inner in _scalars(op)):
        return False
    trips = _trips(c.f, op, *(c.scalars[v] for v in (op.lower, op.upper, op.step)))
    given = _assumption(c, [dot], op, trips)
    if given is None:
        return False
    rows = _rows_used(c, dot, op.results[carried[0]])
    outside = dict(c.scalars)
    c.assumed = given.then
    _first_iteration(c, op)
    found = _analyse(c, Strides(c, op), dot, rows)
    if found is None:
        c.assumed = NOTHING_ASSUMED
        return False
    at_once = partial(_emit_loop, c, Strides(c, op), found, trips)
    holds = _and(c.f, given.holds, found.within)
    if holds is None:
        at_once()
    else:

        def one_by_one() -> None:
            c.assumed = NOTHING_ASSUMED
            c.scalars.clear()
            c.scalars.update(outside)
            c.copies_views = True
            otherwise()
            c.copies_views = False

        either(c, (), holds, at_once, one_by_one, ("at.once", "by.iterations"))
    c.assumed = NOTHING_ASSUMED
    return True


def _only_dot(c: Context, loop: ForOp) -> Dot | None:
    found: list[Any] = [op for op in loop.body.ops if BUFFERS in op.attributes or op.regions]
    if len(found) != 1 or not isinstance(found[0], MatrixProduct):
        return None
    return Dot.of(c, found[0]) if len(ir.shape_of(found[0].result.type)) == 2 else None


def _scalars(loop: ForOp) -> list[Any]:
    return [op for op in loop.body.ops if is_scalar(op) and op is not loop.body.last_op]


def _first_iteration(c: Context, op: ForOp) -> None:
    """Compute the scalars of the body as in the first iteration."""
    c.scalars[op.body.args[0]] = c.scalars[op.lower]
    for argument, init in zip(op.body.args[1:], op.inits, strict=False):
        if not isinstance(init.type, ir.TensorType):
            c.scalars[argument] = c.scalars[init]
    for inner in _scalars(op):
        scalar_op(c, inner)


def _analyse(c: Context, steps: Strides, dot: Dot, rows: Prefix | None) -> _Loop | None:
    op: Any = dot.op
    advances: list[Step] = []
    for value, view in ((op.a, dot.a_is_view), (op.b, dot.b_is_view)):
        source, _ = peel(value, c.filled)
        if source in c.filled:
            advances.append(0)
            continue
        if not view:
            return None
        load: Any = source.owner
        advance = steps.along(load.ptr, None)
        if advance is None:
            return None
        advances.append(scale(c.f, advance, memory_bytes(source.type)))
    depth = ir.shape_of(op.a.type)[1]
    prefixes = _prefixes(c, dot)
    for prefix in prefixes:
        changes = [steps.along(v, None) for v in prefix.compared or (prefix.condition,)]
        known = [0 if change is None else static(change) for change in changes]
        if None in changes or None in known:
            return None
        if prefix.along_k and known[0] - known[1] != depth:  # pyright: ignore
            return None
        if not prefix.along_k and any(known):
            return None
    within = _within(c, (prefix for prefix in prefixes if prefix != rows))
    return _Loop(dot, (advances[0], advances[1]), _extent(c, dot), within, rows)


def _rows_used(c: Context, dot: Dot, result: SSAValue) -> Prefix | None:
    """The mask of a few rows of A if no others of the result are used."""
    op: Any = dot.op
    if ir.shape_of(op.a.type)[0] > _FEW_ROWS:
        return None
    masks = _masks(c, op.a, dot.a_is_view, 1)
    rows = next((mask for mask in masks if not mask.along_k and mask.compared), None)
    return rows if rows is not None and is_stored_within(result, rows, 0) else None


def _emit_loop(c: Context, steps: Strides, found: _Loop, trips: Value) -> None:
    f, op = c.f, found.dot.op
    shape_a, shape_b = ir.shape_of(op.operands[0].type), ir.shape_of(op.operands[1].type)
    shape = (shape_a[0], shape_b[1], shape_a[1])
    tail = None
    if found.extent is not None:
        depth = const("i64", shape[2])
        left = f.intrinsic("smax", found.extent, const("i64", 0))
        whole = f.op("udiv", left, depth)
        rest = f.op("urem", left, depth)
        fits = f.icmp("slt", whole, trips)
        tail = f.select(fits, rest, const("i64", 0))
        trips = f.intrinsic("smin", trips, whole)
    with c.temporary() as scratch:
        a, b = (operand(c, steps, found.dot, is_b) for is_b in (False, True))
        if found.rows is not None:
            rows = f.intrinsic("smin", _first_extent(c, found.rows), const("i64", shape[0]))
            none = f.icmp("slt", rows, const("i64", 1))
            trips = f.select(none, const("i64", 0), trips)
            tail = None if tail is None else f.select(none, const("i64", 0), tail)
            a = replace(a, rows=rows)
        plan = make_plan(c.host, a, b, value_type(op.results[0].type), shape, _precision(op))
        if found.rows is not None:
            plan = replace(plan.compact, prefetch=plan.prefetch)
        emit_dot_loop(
            f, plan, a, b, c.address(found.dot.buffer), shape, trips=trips,
            a_advance=found.advance[0], b_advance=found.advance[1], scratch_alloc=scratch,
            tail=tail, kept=_kept(c, found.dot),
        )  # fmt: skip


def _kept(c: Context, dot: Dot) -> tuple[Kept | None, Kept | None]:
    """The memory for copies of A and B that the next program may use: those of memory that no
    program writes while another one reads it."""
    op, function = dot.op, c.function.op
    once = function.sym_visibility == "public" and op.parent_op().parent is function.body
    if not once or any(may_observe(inner) for inner in function.walk() if inner is not function):
        return None, None
    a, b = (
        None if peel(value, c.filled)[0] in c.filled else Kept(c.keep, c.processor.l2)
        for value in (op.a, op.b)
    )
    return a, b


def _trips(f: Function, loop: Any, lower: Value, upper: Value, by: Value) -> Value:
    """The trip count of a loop, i64, not negative."""
    known = trip_count(loop)
    if known is not None:
        return const("i64", known)
    runs = f.icmp("sgt", upper, lower)
    distance = f.select(runs, f.op("sub", upper, lower), const(lower.type, 0))
    distance = f.cast("zext", distance, "i64") if lower.type != "i64" else distance
    if static(by) == 1:
        return distance
    by = f.cast("zext", by, "i64") if by.type != "i64" else by
    by = f.intrinsic("umax", by, const("i64", 1))  # a division by 0 would end the process
    before = f.op("sub", distance, const("i64", 1))
    steps = f.op("add", f.op("udiv", before, by), const("i64", 1))
    return f.select(runs, steps, const("i64", 0))
