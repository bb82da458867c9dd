"""Parts of a tile in shared memory that warps copy: they share the work along its slowest axes;
where it has not enough rows, several copy the same."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

from tritium.codegen.gpu.context import Context
from tritium.codegen.llvm.types import memory_bytes
from tritium.codegen.llvm.writer import Value
from tritium.ir.layouts.partitioned import PARTITION_BYTES, PartitionedSharedEncoding


class Part(NamedTuple):
    """Part of a block that a warp copies: its shape, and its start for each bit of the number of
    the warp among those that take part."""

    shape: tuple[int, ...]
    starts: tuple[tuple[int, ...], ...]


def part_of(shape: tuple[int, ...], count: int, least: int) -> Part:
    """Part of a block for each of `count` warps, which share it along its slowest axes; of `least`
    elements or more."""
    part, starts = list(shape), list[tuple[int, ...]]()
    for axis in range(len(shape)):
        while len(starts) < count.bit_length() - 1 and part[axis] % 2 == 0 \
                and prod(part) // 2 >= least:  # fmt: skip
            part[axis] //= 2
            starts.append(tuple(part[axis] if i == axis else 0 for i in range(len(shape))))
    return Part(tuple(part), tuple(starts))


def start_of_warp(
    c: Context, number: Value, chosen: Sequence[int], starts: Sequence[int]
) -> Value | None:
    """A sum of `starts`, by the bits in which the numbers of the chosen warps differ; None for
    0."""
    bits = [bit for bit in range(chosen[-1].bit_length())
            if any((warp ^ chosen[0]) >> bit & 1 for warp in chosen)]  # fmt: skip
    total: Value | None = None
    for bit, start in zip(bits, starts, strict=False):
        if start:
            here = c.f.op("and", c.f.op("lshr", number, c.i32(bit)), c.i32(1))
            step = c.f.op("mul", here, c.i32(start))
            total = step if total is None else c.f.op("add", total, step)
    return total


def takes_part(c: Context, number: Value, chosen: Sequence[int]) -> Value | None:
    """True if the warp is among the chosen ones; None: all are."""
    if len(chosen) == c.num_warps:
        return None
    free = 0
    for warp in chosen:
        free |= warp ^ chosen[0]
    kept = c.f.op("and", number, c.i32(~free))
    return c.f.icmp("eq", kept, c.i32(chosen[0] & ~free))


class Pieces(NamedTuple):
    """The pieces of a block, each of which lies in one place: their shape, the axis along which
    they are, how many there are, in how many partitions, and the bytes of one."""

    shape: tuple[int, ...]
    axis: int
    total: int
    partitions: int
    size: int

    @staticmethod
    def of(type: Any) -> Pieces:
        """Pieces of memory of a type."""
        encoding, shape = type.encoding, type.get_shape()
        size = memory_bytes(type.element_type)
        if not isinstance(encoding, PartitionedSharedEncoding):
            return Pieces(shape, 0, 1, 1, 0)
        piece, partitions = encoding.piece(shape), encoding.get("numPartitions")
        own = encoding.get("partitionLayout").elements_of_block(piece) * size
        return Pieces(piece, encoding.get("partitionDim"), encoding.pieces, partitions, own)

    def place(self, c: Context, number: Value) -> Value:
        """The place of a piece in bytes: pieces are in the partitions in turn."""
        partition = c.f.op("and", number, c.i32(self.partitions - 1))
        group = c.f.op("lshr", number, c.i32(self.partitions.bit_length() - 1))
        before = c.f.op("mul", group, c.i32(self.size))
        return c.f.op("add", c.f.op("mul", partition, c.i32(PARTITION_BYTES)), before)
