"""Prefetches of a nest: lines of memory that are asked for while its loops compute."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xdsl.ir import SSAValue

from tritium.backends.cpu.lower.context import STREAM, Context
from tritium.backends.cpu.lower.dot import number_at
from tritium.backends.cpu.tiles.version import LINE
from tritium.codegen.llvm.writer import Value, const
from tritium.ir import types as ir
from tritium.ops.arith import constant_int
from tritium.ops.base import Op
from tritium.ops.tile.nests import PrefetchOp

_NEAREST, _DATA = 3, 1
"""Operands of LLVM's prefetch: all caches, of data."""


class Ahead(NamedTuple):
    """A tile of memory that is prefetched: its first address, the bytes of an element, and whether
    it is stored to."""

    start: Value
    size: int
    written: bool


def memory_of(c: Context, ops: Sequence[PrefetchOp]) -> list[Ahead]:
    """The memory of a nest's prefetches, found at the current position. Where it is not to be
    prefetched, the thread's scratch, which the caches hold: a branch in the loop costs registers.
    """
    f, known, found = c.f, dict[object, Value](), list[Ahead]()
    rounds = _rounds(c, ops[0]) if ops else None
    for op in ops:
        assert rounds is not None
        shape, key = ir.shape_of(op.ptr.type), (op.rounds, op.mask, op.unless_streaming)
        if key not in known:
            holds = f.icmp("sge", rounds, const("i64", op.rounds))
            if op.mask is not None:
                middle = number_at(c, op.mask, tuple(const("i64", size // 2) for size in shape))
                holds = f.op("and", holds, middle)
            if op.unless_streaming:
                holds = f.op("and", holds, f.op("xor", c.program[STREAM], const("i1", True)))
            known[key] = holds
        start = number_at(c, op.ptr, (const("i64", 0),) * len(shape))
        start = f.select(known[key], start, c.scratch)
        found.append(Ahead(start, c.pointee_bytes(op.ptr.type), op.written))
    return found


def _rounds(c: Context, op: PrefetchOp) -> Value:
    """The number of programs, or, in a loop, that of the iterations of all: what the loop runs
    over, which the programs divide if the step is not known at compile time (i64)."""
    f = c.f

    def number(value: SSAValue) -> Value:
        return f.cast("sext", c.scalars[value], "i64")

    x, y, z = (f.cast("zext", c.program[name], "i64") for name in ("nx", "ny", "nz"))
    programs = f.op("mul", f.op("mul", x, y), z)
    nest = op.parent_op()
    loop = None if nest is None else nest.parent_op()
    if not isinstance(loop, Op) or loop.counting is None:
        return programs
    _, lower, upper, by = loop.counting
    size = f.op("sub", number(upper), number(lower))
    step = constant_int(by)
    if step is None:
        return size
    return f.op("mul", f.op("sdiv", size, const("i64", step)), programs)


def prefetch(c: Context, tiles: Sequence[Ahead], first: Value, count: int) -> None:
    """Ask for the lines of `count` elements of each tile, from the element `first` on."""
    f = c.f
    for tile in tiles:
        address = f.gep(f"i{8 * tile.size}", tile.start, first)
        flags = [const("i32", n) for n in (int(tile.written), _NEAREST, _DATA)]
        for offset in range(0, count * tile.size, LINE):
            f.call("void", "llvm.prefetch.p0", f.offset(address, offset), *flags)
