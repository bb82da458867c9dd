"""`tt.dot` steps: operands as views of memory or of buffers; whole loops over K at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any

from xdsl.ir import SSAValue

from tritium.backends.cpu.dot import Kept, Plan, View, emit_batched_dot, emit_dot, emit_dot_loop
from tritium.backends.cpu.dot.operand import Step, static
from tritium.backends.cpu.dot.stated import Views, follow
from tritium.backends.cpu.lower.access import load_buffer, store_buffer
from tritium.backends.cpu.lower.analysis.assume_no_wrap import Assumption, assumption
from tritium.backends.cpu.lower.analysis.strides import Strides
from tritium.backends.cpu.lower.context import NOTHING_ASSUMED, Context, either
from tritium.backends.cpu.lower.emitter import Emitter
from tritium.backends.cpu.lower.scalars import scalar_op
from tritium.backends.cpu.lower.types import fp, value_type
from tritium.backends.cpu.lower.values import Index, Kind, Uniform, Vec
from tritium.backends.cpu.tiles.index_arithmetic import index_arithmetic
from tritium.backends.cpu.tiles.products import Operands, Product, advances, scalars_of
from tritium.backends.cpu.tiles.views import Prefix, peel
from tritium.codegen.llvm.types import FORMATS
from tritium.codegen.llvm.writer import Function, Value, const, vector
from tritium.ir import types as ir
from tritium.ops.scf import ForOp
from tritium.ops.tile import OPERANDS, BufferOp
from tritium.ops.ttir.dot import MatrixProduct


def lower_dot(
    c: Context, op: MatrixProduct, copy: Callable[[Context, SSAValue, BufferOp], None]
) -> None:
    """Write a dot: accumulate a @ b in its buffer. Operands that are views of memory are read where
    they are if their addresses, and the masks along K, do not wrap around, and the masks along
    their other axes are true; else they are copied first, by `copy`."""
    step = Product.of(c.function, op, c.filled)
    prefixes = step.prefixes
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
    """True if all of some conditions hold (i1); None for none."""
    given = [condition for condition in conditions if condition is not None]
    return reduce(partial(f.op, "and"), given) if given else None


def _assumption(
    c: Context, dots: list[Product], loop: Any = None, iterations: Value | None = None
) -> Assumption | None:
    """The assumptions under which dots read their operands in place; None if they never hold."""
    values, exact = list[SSAValue](), list[SSAValue]()
    for step in dots:
        for value, view, _ in step.operands:
            source: Any = peel(value, c.filled)[0]
            if view and source not in c.filled:
                values.append(source.owner.ptr)
        for prefix in step.prefixes:
            exact.extend(prefix.compared)
    arithmetic = index_arithmetic(c.function, [*values, *exact], c.filled, loop)
    return assumption(c, arithmetic, loop, iterations, exact)


def _lower_copied(
    c: Context, step: Product, copy: Callable[[Context, SSAValue, BufferOp], None], seldom: bool
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
        for value, view, _ in step.operands:
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


def _lower_by_elements(c: Context, step: Product) -> None:
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


def _lower_dot(c: Context, step: Product, allocate: Any = None, seldom: bool = False) -> None:
    shape, acc = step.shape, c.address(step.buffer)
    operands = _Operands(c, Strides(c))
    with c.temporary() if allocate is None else nullcontext(allocate) as scratch:
        if step.is_batched:
            _batched(c, step, operands, scratch)
            return
        a, b = operands.of(step, False), operands.of(step, True)
        plan = _plan(c, step, (a, b))
        if allocate is not None:
            sources = plan.operands(a, b, shape)
            plan = plan.for_copies(*sources, plan.orient(shape)[0])
            plan = plan.shortest if seldom else plan.compact
        extent = _extent(c, step)
        emit_dot(c.f, plan, a, b, acc, shape, scratch_alloc=scratch, zero_init=step.zero,
                 k_extent=None if extent is None else _clamped(c.f, extent, shape[2]))  # fmt: skip


def _plan(c: Context, step: Product, views: Views) -> Plan:
    """The plan that a product states."""
    op: Any = step.op
    if step.plan is None:
        raise c.unsupported(op, " without a plan: tile-plan-products has not run")
    return follow(step.plan, c.host, views, value_type(op.result.type), step.shape)


def _clamped(f: Function, extent: Value, size: int) -> Value:
    return f.intrinsic("smax", f.intrinsic("smin", extent, const("i64", size)), const("i64", 0))


class _Operands(Operands):
    """The operands of products as they lie in memory, in code."""

    def __init__(self, c: Context, steps: Strides):
        super().__init__(steps, c.info)
        self.c = c

    def place(self, value: SSAValue) -> Value:
        return self.c.address(self.c.filled[value])

    def address(self, pointer: SSAValue, at: tuple[Value, ...]) -> Value:
        return number_at(self.c, pointer, at)

    def converter(self, type: ir.Type) -> Any:
        name = FORMATS.get(ir.element_type(type), "")
        if not name.startswith("fp8"):
            return None

        def convert(f: Function, value: Value) -> Value:
            return fp(f, value, name, "fp32", features=self.c.features)

        return convert


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


def _batched(c: Context, step: Product, operands: Operands, scratch: Any) -> None:
    """A dot with a batch axis in front; its operands are in buffers."""
    op: Any = step.op
    held = [c.filled[v] for v in (op.a, op.b)]

    def of(f: Function, index: Value) -> tuple[View, View]:
        views: list[View] = []
        for buffer in held:
            _, rows, columns = buffer.shape
            size = rows * columns * buffer.element_bytes
            known = static(index)
            offset = const("i64", known * size) if known is not None else f.op(
                "mul", index, const("i64", size)
            )  # fmt: skip
            base = f.gep("i8", c.address(buffer), offset)
            views.append(operands.of_batch(step, bool(views), base))
        return views[0], views[1]

    plan = _plan(c, step, of(c.f, const("i64", 0)))
    emit_batched_dot(
        c.f, plan, of, c.address(step.buffer), held[0].shape[0], step.shape,
        scratch_alloc=scratch, zero_init=step.zero,
    )  # fmt: skip


# Masks


def _within(c: Context, prefixes: Iterable[Prefix]) -> Value | None:
    """True if the masks along other axes than K are true (i1); None if there are none."""
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


def _extent(c: Context, step: Product) -> Value | None:
    """The number of elements along K that take part, if masks say so; an i64, not clamped."""
    extents = [_first_extent(c, prefix) for prefix in step.prefixes if prefix.along_k]
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

    dot: Product
    advance: tuple[Step, Step]
    extent: Value | None
    within: Value | None
    rows: Prefix | None


def lower_dot_loop(c: Context, op: ForOp, otherwise: Callable[[], None]) -> bool:
    """Write `for k: acc += a_k @ b_k` with the accumulators in registers throughout, if the plan of
    the product says so and addresses are known to move steadily; returns whether it was.
    `otherwise` writes the loop iteration by iteration, for where addresses or masks wrap around."""
    inner = next((inner for inner in c.function.products if inner.parent is op.body), None)
    dot = None if inner is None else Product.of(c.function, inner, c.filled)
    if dot is None or dot.plan is None or not dot.plan.loop:
        return False
    trips = _trips(c.f, op, *(c.scalars[v] for v in (op.lower, op.upper, op.step)))
    given = _assumption(c, [dot], op, trips)
    if given is None:
        return False
    rows = dot.used_rows if dot.plan.used_rows else None
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


def _first_iteration(c: Context, op: ForOp) -> None:
    """Compute the scalars of the body as in the first iteration."""
    c.scalars[op.body.args[0]] = c.scalars[op.lower]
    for argument, init in zip(op.body.args[1:], op.inits, strict=False):
        if not isinstance(init.type, ir.TensorType):
            c.scalars[argument] = c.scalars[init]
    for inner in scalars_of(op):
        scalar_op(c, inner)


def _analyse(c: Context, steps: Strides, dot: Product, rows: Prefix | None) -> _Loop | None:
    advance = advances(steps, dot)
    if advance is None:
        return None
    within = _within(c, (prefix for prefix in dot.prefixes if prefix != rows))
    return _Loop(dot, advance, _extent(c, dot), within, rows)


def _emit_loop(c: Context, steps: Strides, found: _Loop, trips: Value) -> None:
    f, shape = c.f, found.dot.shape
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
        operands = _Operands(c, steps)
        a, b = operands.of(found.dot, False), operands.of(found.dot, True)
        if found.rows is not None:
            rows = f.intrinsic("smin", _first_extent(c, found.rows), const("i64", shape[0]))
            none = f.icmp("slt", rows, const("i64", 1))
            trips = f.select(none, const("i64", 0), trips)
            tail = None if tail is None else f.select(none, const("i64", 0), tail)
            a = replace(a, rows=rows)
        plan = _plan(c, found.dot, (a, b))
        emit_dot_loop(
            f, plan, a, b, c.address(found.dot.buffer), shape, trips=trips,
            a_advance=found.advance[0], b_advance=found.advance[1], scratch_alloc=scratch,
            tail=tail, kept=_kept(c, found.dot),
        )  # fmt: skip


def _kept(c: Context, dot: Product) -> tuple[Kept | None, Kept | None]:
    """The memory for copies of A and B that the next program may use."""
    assert dot.plan is not None
    memory = Kept(c.keep, dot.plan.room)
    a, b = (memory if name in dot.plan.keep else None for name in OPERANDS)
    return (b, a) if dot.plan.transposed else (a, b)


def _trips(f: Function, loop: Any, lower: Value, upper: Value, by: Value) -> Value:
    """The trip count of a loop, i64, not negative."""
    known = loop.trip_count
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
