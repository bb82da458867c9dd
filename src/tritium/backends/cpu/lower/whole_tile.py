"""Ops on whole tiles that are neither loop nests nor dots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tritium.backends.cpu.lower.access import load_buffer, store_buffer
from tritium.backends.cpu.lower.context import Context
from tritium.backends.cpu.lower.emitter import Emitter
from tritium.backends.cpu.lower.moves.shape import unflatten
from tritium.backends.cpu.lower.types import memory_type
from tritium.backends.cpu.lower.values import Index, Kind, Uniform
from tritium.codegen.llvm.types import memory_bytes
from tritium.codegen.llvm.writer import Value, const, mangle, scalar, vector
from tritium.codegen.registry import lowers
from tritium.ir import types as ir
from tritium.ops.ttir.reduction import MapElementwiseOp
from tritium.ops.ttir.shape import HistogramOp

_ZERO = const("i64", 0)
_CHUNK = 16
"""Elements that a histogram looks at before it counts them."""
_COPIES, _COPIES_BYTES = 4, 16384
"""The number of copies that a histogram has of its bins, and the most bytes of all of them."""


@lowers("cpu.whole_tile", HistogramOp)
def histogram(c: Context, op: HistogramOp) -> None:
    """Count chunk by chunk: where all elements of one count, without a test for each; else one
    after the other. Neighbours count in different copies of the bins, unless these are many: a
    count that has just been written is read with a delay."""
    f, target = c.f, c.function.buffers[op.result]
    (bins,), (size,) = ir.shape_of(op.result.type), ir.shape_of(op.src.type)
    held, align = memory_type(op.result.type), memory_bytes(op.result.type)
    copies = _COPIES if _COPIES * bins <= size and _COPIES * bins * align <= _COPIES_BYTES else 1
    with c.temporary() as allocate:
        bases = [c.address(target), *(allocate(bins * align) for _ in range(copies - 1))]
        lanes = min(bins, c.host.bits // (8 * align))
        wide = vector(held, lanes)
        with f.loop(_ZERO, const("i64", bins), const("i64", lanes), at_least_once=True) as i:
            for base in bases:
                f.store(const(wide, 0), f.gep(held, base, i.index), align)
        e = Emitter(c, min(size, _CHUNK))
        e.push()
        with e.loop(size, e.width) as i:
            _count(e, op, i.index, bases)
        e.pop()
        if copies > 1:
            with f.loop(_ZERO, const("i64", bins), const("i64", lanes), at_least_once=True) as i:
                places = [f.gep(held, base, i.index) for base in bases]
                total, *more = (f.load(wide, place, align) for place in places)
                for counts in more:
                    total = f.op("add", total, counts)
                f.store(total, places[0], align)
    c.fill(op.result)


def _count(e: Emitter, op: HistogramOp, start: Value, bases: Sequence[Value]) -> None:
    """Count the elements of one chunk."""
    f, c, width = e.f, e.context, e.width
    (bins,) = ir.shape_of(op.result.type)
    held, align = memory_type(op.result.type), memory_bytes(op.result.type)

    def counts(at: Index) -> tuple[Value, Value]:
        """The elements at a position, and which of them count."""
        value = e.vec(load_buffer(e, c.filled[op.src], (at,)))
        inside = const(vector("i1", e.width), True)
        if bins < 1 << int(scalar(value.type)[1:]):
            inside = f.icmp("ult", value, const(value.type, bins))
        if op.mask is not None:
            mask = e.vec(load_buffer(e, c.filled[op.mask], (at,)))
            inside = f.op("and", inside, mask)
        return value, inside

    def add(base: Value, value: Value) -> None:
        place = f.gep(held, base, f.cast("zext", value, "i64"))
        f.store(f.op("add", f.load(held, place, align), const(held, 1)), place, align)

    fast, slow, counted = map(f.new_label, ("all", "some", "counted"))
    _, inside = counts(Index(Kind.LANES, start, 0, e.depth))
    if width > 1:
        inside = f.call("i1", f"llvm.vector.reduce.and.{mangle(inside.type)}", inside)
    f.branch_if(inside, fast, slow)
    e.width = 1
    f.label(fast)
    e.push()
    for number in range(width):
        value, _ = counts(Index(Kind.SCALAR, start, number, e.depth))
        add(bases[number % len(bases)], value)
    e.pop()
    f.branch(counted)
    f.label(slow)
    e.push()
    with e.loop(f.op("add", start, const("i64", width)), start=start) as i:
        value, inside = counts(Index(Kind.SCALAR, i.index, 0, e.depth))
        with f.when(inside, "count", "done"):
            add(bases[0], value)
    e.pop()
    f.branch(counted)
    f.label(counted)
    e.width = width


def _scalar(e: Emitter, c: Context, value: Any, at: tuple[Index, ...]) -> Value:
    found = load_buffer(e, c.filled[value], at)
    assert isinstance(found, Uniform)
    return found.value


@lowers("cpu.whole_tile", MapElementwiseOp)
def map_elementwise(c: Context, op: MapElementwiseOp) -> None:
    """Run the region for each element, or group of `pack` neighbours."""
    f, shape, pack = c.f, ir.shape_of(op.inputs[0].type), op.pack
    total = 1
    for size in shape:
        total *= size
    body: Any = op.regions[0].block
    e = Emitter(c, 1)
    e.push()
    with e.loop(total, pack) as i:
        places = [
            unflatten(e, Uniform(f.op("add", i.index, const("i64", k)), e.depth), shape)
            for k in range(pack)
        ]
        arguments = iter(body.args)
        for value in op.inputs:
            for place in places:
                c.scalars[next(arguments)] = _scalar(e, c, value, place)
        c.run(c, body)
        results = iter(body.last_op.operands)
        for buffer in map(c.function.buffers.__getitem__, op.results):
            for place in places:
                store_buffer(e, buffer, place, Uniform(c.scalars[next(results)], e.depth))
    e.pop()
    for result in op.results:
        c.fill(result)
