"""Global scratch memory: each program has a share of what the launcher supplies."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tritium.codegen.gpu.context import Context
from tritium.codegen.gpu.types import GPU
from tritium.codegen.llvm.writer import Value
from tritium.codegen.registry import lowers
from tritium.ops import ttgir

ALIGNMENT = 128
"""The alignment of a program's share in bytes: that of a tensor map."""


@dataclass(frozen=True)
class Share:
    """A program's share of global scratch memory: `places` of allocations, in bytes from its start,
    and its size."""

    places: dict[Any, int]
    size: int

    @property
    def alignment(self) -> int:
        """The alignment of the memory; 1 where there is none."""
        return ALIGNMENT if self.size else 1


def share_of(functions: Iterable[Any]) -> Share:
    """One place for each allocation in some functions."""
    places: dict[Any, int] = {}
    size = 0
    for function in functions:
        for op in function.walk():
            if isinstance(op, ttgir.GlobalScratchAllocOp):
                places[op] = -(-size // op.alignment) * op.alignment
                size = places[op] + op.nbytes
    return Share(places, -(-size // ALIGNMENT) * ALIGNMENT)


def start_of_share(c: Context, scratch: Value, size: int) -> Value:
    """The start of the share of this thread block."""
    lines = c.f.enter(c.entry)
    index = c.i32(0)
    for axis in reversed(range(3)):
        block = c.hardware.grid.program_id(c, axis, blocks=True)
        count = c.hardware.grid.num_programs(c, axis, blocks=True)
        index = c.f.op("add", c.f.op("mul", index, count), block)
    offset = c.f.op("mul", c.f.cast("zext", index, "i64"), Value("i64", str(size)))
    start = c.byte_offset(scratch, offset)
    c.f.leave(lines)
    return start


@lowers(GPU, ttgir.GlobalScratchAllocOp)
def allocate(c: Context, op: Any) -> None:
    share, places = c.share
    c.set(op.results[0], c.byte_offset(share, c.i32(places[op])))
