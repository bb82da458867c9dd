"""Bulk copies of rows by their numbers: four rows an instruction. The numbers go through shared
memory to the thread that starts the copies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tritium.backends.nvidia.lower.hardware import NVIDIA
from tritium.backends.nvidia.lower.tma import (
    arch_of,
    barrier_of_copy,
    cache_hint,
    is_padded,
    own_place,
    pieces,
    sharing,
)
from tritium.codegen.gpu.collective.gather import offsets, row_major
from tritium.codegen.gpu.context import Context, layout_of
from tritium.codegen.gpu.memory.access import distinct_registers
from tritium.codegen.gpu.memory.shared import memory_layout
from tritium.codegen.gpu.types import SHARED
from tritium.codegen.llvm.writer import Value
from tritium.codegen.registry import lowers
from tritium.ir import types as ir
from tritium.ir.layouts.encodings import BLOCK
from tritium.ops import ttgir

AT_ONCE = 4


def scratch_bytes(op: Any) -> int:
    """Shared memory for the numbers of the rows."""
    return 4 * ir.shape_of(op.x_offsets.type)[0]


def _copies(c: Context, op: Any, memory: Any) -> Iterator[tuple[Value, list[Value]]]:
    """(address in shared memory, column and four rows) of each instruction."""
    if is_padded(memory):
        raise c.unsupported(op, "with gaps between elements of 4 bits")
    f, layout, base = c.f, layout_of(op.x_offsets.type), c.shared(c.offsets[op])
    count = ir.shape_of(op.x_offsets.type)[0]
    mine = [basis[0] for basis in layout.bases(BLOCK)] if BLOCK in layout.in_names else []
    if any(mine) and mine != [basis[0] for basis in memory_layout(memory.type).bases(BLOCK)]:
        raise c.unsupported(op, "of rows whose numbers another block of the cluster has")
    registers, rows = distinct_registers(layout), c.tile(op.x_offsets)
    places = c.positions(offsets(layout, row_major((count,)), count), registers)
    for register, place in zip(registers, places, strict=True):
        pointer = f.emit(SHARED, f"getelementptr i32, {base}, {place}")
        c.hardware.shared.store(c, pointer, [rows[register]], c.owner(layout))
    c.barrier()
    start = c.address(memory.address)
    row, column = own_place(c, memory, [c.i32(0), c.scalar(op.y_offset)])
    base = f.emit(SHARED, f"getelementptr i32, {base}, {row}")
    for (first, further), offset in pieces(memory, AT_ONCE):
        numbers = [f.load("i32", c.byte_offset(base, c.i32(4 * (first + i))), 4)
                   for i in range(AT_ONCE)]  # fmt: skip
        at = f.op("add", column, c.i32(further), "nsw") if further else column
        place = f.op("add", start, c.i32(offset)) if offset else start
        yield place, [at, *numbers]


@lowers(NVIDIA, ttgir.AsyncTMAGatherOp, scratch=scratch_bytes)
def gather_rows(c: Context, op: Any) -> None:
    memory, (barrier, group) = c.memory(op.result), barrier_of_copy(c, op)
    descriptor, (blocks, leads) = c.scalar(op.desc), sharing(c, op, memory)
    condition = c.f.op("and", c.f.icmp("eq", c.thread, c.i32(0)), c.scalar(op.pred))
    condition = condition if leads is None else c.f.op("and", condition, leads)
    how, mask = ("", "") if blocks is None else (".multicast::cluster", ", $9")
    hint, policy, policies = cache_hint(c, op, 9 + (blocks is not None))
    # From sm_120 on rows come to the block's own memory alone.
    space = "cta" if blocks is None and not group else "cluster"
    if space == "cluster" and arch_of(c) >= 120:
        raise c.unsupported(op, "to several blocks, from sm_120 on")
    text = (
        f"@$3 cp.async.bulk.tensor.2d{group}.shared::{space}.global.tile::gather4"
        f".mbarrier::complete_tx::bytes{how}{hint} [$0], [$1, {{$4, $5, $6, $7, $8}}], "
        f"[$2]{mask}{policy};"
    )
    shared = [] if blocks is None else [blocks]
    codes = ["r,l,r,b,r,r,r,r,r", *["h"] * len(shared), *["l"] * len(policies), "~{memory}"]
    for place, coordinates in _copies(c, op, memory):
        c.asm("void", text, ",".join(codes), place, descriptor, barrier, condition, *coordinates,
              *shared, *policies)  # fmt: skip


@lowers(NVIDIA, ttgir.AsyncTMAScatterOp, scratch=scratch_bytes)
def scatter_rows(c: Context, op: Any) -> None:
    memory, descriptor = c.memory(op.src), c.scalar(op.desc)
    condition = c.f.icmp("eq", c.thread, c.i32(0))
    owner = c.owner(memory_layout(memory.type), of_program=True)
    condition = condition if owner is None else c.f.op("and", condition, owner)
    hint, policy, policies = cache_hint(c, op, 8)
    text = (
        f"@$2 cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group{hint} "
        f"[$1, {{$3, $4, $5, $6, $7}}], [$0]{policy};"
    )
    constraints = ",".join(["r,l,b,r,r,r,r,r", *["l"] * len(policies), "~{memory}"])
    for place, coordinates in _copies(c, op, memory):
        c.asm("void", text, constraints, place, descriptor, condition, *coordinates, *policies)
    c.asm("void", "cp.async.bulk.commit_group;", "~{memory}")
