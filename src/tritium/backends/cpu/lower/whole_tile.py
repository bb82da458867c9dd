"""Ops on whole tiles that are neither loop nests nor dots."""

from __future__ import annotations

from typing import Any

from tritium.backends.cpu.lower.access import load_buffer, store_buffer
from tritium.backends.cpu.lower.context import Context
from tritium.backends.cpu.lower.emitter import Emitter
from tritium.backends.cpu.lower.moves.shape import unflatten
from tritium.backends.cpu.lower.types import memory_type
from tritium.backends.cpu.lower.values import Index, Kind, Uniform
from tritium.codegen.llvm.types import memory_bytes
from tritium.codegen.llvm.writer import Value, const
from tritium.codegen.registry import lowers
from tritium.ir import types as ir
from tritium.ops.ttir.reduction import MapElementwiseOp
from tritium.ops.ttir.shape import HistogramOp

_ZERO, _ONE = const("i64", 0), const("i64", 1)


@lowers("cpu.whole_tile", HistogramOp)
def histogram(c: Context, op: HistogramOp) -> None:
    """Count in the result's buffer, one element after the other."""
    f, target = c.f, c.function.buffers[op.result]
    (bins,), (size,) = ir.shape_of(op.result.type), ir.shape_of(op.src.type)
    base, held = c.address(target), memory_type(op.result.type)
    align = memory_bytes(op.result.type)
    with f.loop(_ZERO, const("i64", bins), _ONE, at_least_once=True) as i:
        f.store(const(held, 0), f.gep(held, base, i.index), align)
    e = Emitter(c, 1)
    e.push()
    with e.loop(size) as i:
        at = (Index(Kind.SCALAR, i.index, 0, e.depth),)
        value = _scalar(e, c, op.src, at)
        if value.type != "i64":
            value = f.cast("zext", value, "i64")
        inside = f.icmp("ult", value, const("i64", bins))
        if op.mask is not None:
            inside = f.op("and", inside, _scalar(e, c, op.mask, at))
        with f.when(inside, "count", "counted"):
            place = f.gep(held, base, value)
            f.store(f.op("add", f.load(held, place, align), const(held, 1)), place, align)
    e.pop()
    c.fill(op.result)


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
