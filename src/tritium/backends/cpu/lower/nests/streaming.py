"""Stores past the caches.

Where a launch writes far more than the caches hold, stores that bypass them save reading every
line before it is written (vector add from DRAM: 1.2 to 1.3 of torch instead of .8 to .95). Such
stores must be aligned and whole: they are one of a nest's `multiversioning`.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import NamedTuple

from xdsl.ir import SSAValue

from tritium.backends.cpu.lower.access import PIECE
from tritium.backends.cpu.lower.context import Context
from tritium.backends.cpu.lower.dot import number_at
from tritium.backends.cpu.lower.emitter import Emitter
from tritium.backends.cpu.lower.values import Index, Kind
from tritium.backends.cpu.tiles.alias import base_of
from tritium.backends.cpu.tiles.ir import Nest, Shape, TileFunction
from tritium.backends.cpu.tiles.slices import Slice
from tritium.backends.cpu.tiles.version import LINE, is_long
from tritium.codegen.llvm.types import memory_bytes
from tritium.codegen.llvm.writer import Value, const, const_vector
from tritium.ir import types as ir
from tritium.ops.tile.nests import NestOp, nests_in
from tritium.ops.ttir.function import FuncOp


def stored_bytes(function: FuncOp) -> int:
    """The least number of bytes that one program writes by long nests outside of loops; 0 if none
    of these stores past the caches."""
    nests = _nests(function)
    if not any("streaming" in nest.versions for nest in nests):
        return 0
    stores = [nest for nest in nests if is_long(Nest.of(nest)) and nest.roots[0].stores_elements]
    roots = [root for nest in stores for root in nest.roots]
    return sum(memory_bytes(r.value.type) * prod(ir.shape_of(r.value.type)) for r in roots)


def written_and_read(function: TileFunction) -> list[tuple[SSAValue, SSAValue]]:
    """The pairs of a kernel's arguments of which one is stored through past the caches and the
    other is loaded through: if they are equal, the caches hold what is overwritten."""
    nests = [nest for nest in _nests(function.op) if "streaming" in nest.versions]
    written = dict.fromkeys(base_of(root.ptr) for nest in nests for root in nest.roots)
    arguments = function.op.body.args
    return [(w, r) for w in written if w in arguments for r in arguments if r in function.read]


def _nests(function: FuncOp) -> list[NestOp]:
    return [nest for nest in nests_in(function) if nest.parent_op() is function]


class Lines(NamedTuple):
    """The number of elements in a line of the caches, and of those of a tile before the first line
    that is written whole (i64)."""

    elements: int
    lead: Value


def may_stream(c: Context, part: Slice) -> tuple[Value, Lines]:
    """A condition (i1), that stores past the caches pay and are possible, and where the lines
    begin."""
    f, holds, zero = c.f, c.program["stream"], const("i64", 0)
    lead: Value | None = None
    for root in part.stores:
        start = (zero,) * len(ir.shape_of(root.ptr.type))
        address = f.cast("ptrtoint", number_at(c, root.ptr, start), "i64")
        ahead = f.op("and", f.op("sub", zero, address), const("i64", LINE - 1))
        if lead is None:
            lead = ahead
            odd = f.op("and", ahead, const("i64", PIECE - 1))
            holds = f.op("and", holds, f.icmp("eq", odd, zero))
        else:
            holds = f.op("and", holds, f.icmp("eq", lead, ahead))
    assert lead is not None
    size = c.pointee_bytes(part.stores[0].ptr.type)
    return holds, Lines(LINE // size, f.op("lshr", lead, const("i64", size.bit_length() - 1)))


def write_lines(
    e: Emitter, size: int, shape: Shape, lines: Lines, chunk: Callable[[Index, Value | None], None]
) -> None:
    """A tile of `size` elements, by `chunk(index, lanes that are stored)`: lines that are written
    whole past the caches; then, if these are not all, what is before and behind them.

    The chunks at the ends overlap others, of which they store nothing; what they compute there may
    be wrong by then.
    """
    f, width, lead = e.f, shape.width, lines.lead
    step, rest = width * shape.unroll, f.op("sub", const("i64", size), lead)
    e.aligned, e.streams = False, True

    def whole(by: int) -> Value:
        return f.op("add", lead, f.op("and", rest, const("i64", -by)))

    middle = whole(step)
    with e.loop(middle, step, start=lead, at_least_once=False) as loop:
        for number in range(shape.unroll):
            chunk(Index(Kind.LANES, loop.index, number * width, e.depth), None)
    if step > width:
        with e.loop(whole(width), width, start=middle, at_least_once=False) as loop:
            chunk(Index(Kind.LANES, loop.index, 0, e.depth), None)
    ends, done = f.new_label("ends"), f.new_label("stored")
    f.branch_if(f.icmp("ne", lead, const("i64", 0)), ends, done)
    f.label(ends)
    lanes = const_vector(f"<{width} x i64>", list(range(width)))

    def compared(how: str, bound: Value) -> Value:
        return f.icmp(how, lanes, f.splat(bound, width))

    for start in range(0, lines.elements, width):
        bound = f.op("sub", lead, const("i64", start))
        chunk(Index(Kind.LANES, None, start, 0), compared("slt", bound))
    over = f.op("and", rest, const("i64", width - 1))
    chunk(
        Index(Kind.LANES, None, size - width, 0),
        compared("sge", f.op("sub", const("i64", width), over)),
    )
    f.branch(done)
    f.label(done)
