"""Bulk copies of rows by their numbers: four rows an instruction. The numbers go through shared
memory to the thread that starts the copies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tritium.backends.nvidia.lower.hardware import NVIDIA
from tritium.backends.nvidia.lower.tma import cache_hint, pieces
from tritium.codegen.gpu.collective.gather import offsets, row_major
from tritium.codegen.gpu.context import Context, layout_of
from tritium.codegen.gpu.memory.access import distinct_registers
from tritium.codegen.gpu.types import SHARED
from tritium.codegen.llvm.writer import Value
from tritium.codegen.registry import lowers
from tritium.ir import types as ir
from tritium.ops import ttgir

AT_ONCE = 4


def scratch_bytes(op: Any) -> int:
    """Shared memory for the numbers of the rows."""
    return 4 * ir.shape_of(op.x_offsets.type)[0]


def _copies(c: Context, op: Any, memory: Any) -> Iterator[tuple[Value, list[Value]]]:
    """(address in shared memory, column and four rows) of each instruction."""
    f, layout, base = c.f, layout_of(op.x_offsets.type), c.shared(c.offsets[op])
    count = ir.shape_of(op.x_offsets.type)[0]
    registers, rows = distinct_registers(layout), c.tile(op.x_offsets)
    places = c.positions(offsets(layout, row_major((count,)), count), registers)
    for register, place in zip(registers, places, strict=True):
        pointer = f.emit(SHARED, f"getelementptr i32, {base}, {place}")
        c.hardware.shared.store(c, pointer, [rows[register]], c.owner(layout))
    c.barrier()
    start, column = c.address(memory.address), c.scalar(op.y_offset)
    for (first, further), offset in pieces(memory, AT_ONCE):
        numbers = [f.load("i32", c.byte_offset(base, c.i32(4 * (first + i))), 4)
                   for i in range(AT_ONCE)]  # fmt: skip
        at = f.op("add", column, c.i32(further), "nsw") if further else column
        place = f.op("add", start, c.i32(offset)) if offset else start
        yield place, [at, *numbers]


@lowers(NVIDIA, ttgir.AsyncTMAGatherOp, scratch=scratch_bytes)
def gather_rows(c: Context, op: Any) -> None:
    barrier, descriptor = c.address(c.memory(op.barrier).address), c.scalar(op.desc)
    condition = c.f.op("and", c.f.icmp("eq", c.thread, c.i32(0)), c.scalar(op.pred))
    hint, policy, policies = cache_hint(c, op, 9)
    text = (
        "@$3 cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes"
        f"{hint} [$0], [$1, {{$4, $5, $6, $7, $8}}], [$2]{policy};"
    )
    constraints = ",".join(["r,l,r,b,r,r,r,r,r", *["l"] * len(policies), "~{memory}"])
    for place, coordinates in _copies(c, op, c.memory(op.result)):
        c.asm("void", text, constraints, place, descriptor, barrier, condition, *coordinates,
              *policies)  # fmt: skip


@lowers(NVIDIA, ttgir.AsyncTMAScatterOp, scratch=scratch_bytes)
def scatter_rows(c: Context, op: Any) -> None:
    descriptor, condition = c.scalar(op.desc), c.f.icmp("eq", c.thread, c.i32(0))
    hint, policy, policies = cache_hint(c, op, 8)
    text = (
        f"@$2 cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group{hint} "
        f"[$1, {{$3, $4, $5, $6, $7}}], [$0]{policy};"
    )
    constraints = ",".join(["r,l,b,r,r,r,r,r", *["l"] * len(policies), "~{memory}"])
    for place, coordinates in _copies(c, op, c.memory(op.src)):
        c.asm("void", text, constraints, place, descriptor, condition, *coordinates, *policies)
    c.asm("void", "cp.async.bulk.commit_group;", "~{memory}")
