"""Products without tensor cores: every thread has whole rows of a and columns of b for its elements
of the result, and multiplies them one by one.

The operands of a large product do not fit a thread's registers: for a result of 128x128 four warps
take 1536 elements a thread of operands with a K of 64. Where both come from shared memory, a loop
over K reads a block of them at a time. That also keeps the code small: 8192 products of a
thread, one after the other, take an assembler ten seconds and overflow the instruction cache.
"""

from __future__ import annotations

from typing import Any

from xdsl.ir import SSAValue

from tritium.codegen.gpu.casts import float_from
from tritium.codegen.gpu.context import Context, layout_of
from tritium.codegen.gpu.matmul.k_blocking import k_block, outer_bits
from tritium.codegen.gpu.memory.access import distinct_registers, grouped
from tritium.codegen.gpu.memory.shared import memory_layout, read
from tritium.codegen.gpu.types import GPU, memory_type, value_type
from tritium.codegen.llvm.types import FORMATS, memory_bytes
from tritium.codegen.llvm.writer import Value
from tritium.codegen.registry import lowers
from tritium.ir import types as ir
from tritium.ir.layouts.encodings import REGISTER, BlockedEncoding
from tritium.ir.layouts.pieces import register_coordinates
from tritium.ir.layouts.swizzle import place_of, run_bits
from tritium.ops import ttir

Elements = dict[tuple[int, ...], Value]
"""A thread's elements of an operand by their coordinates in the first thread."""


@lowers(GPU, ttir.DotScaledOp)
def multiply_scaled(c: Context, op: Any) -> None:
    c.hardware.products.multiply(c, op)


@lowers(GPU, ttir.DotOp)
def multiply(c: Context, op: Any) -> None:
    """A product whose result has a blocked layout; others are the matrix units'."""
    result = op.results[0].type
    if not isinstance(result.encoding, BlockedEncoding):
        c.hardware.products.multiply(c, op)
        return
    layout = layout_of(result)
    kept = distinct_registers(layout)
    coordinates = register_coordinates(layout)
    sums = {coordinates[r]: c.tile(op.c)[r] for r in kept}
    block = k_block(c, op)
    if block:
        _in_blocks(c, op, sums, block)
    else:
        operands = [
            dict(zip(register_coordinates(layout_of(v.type)), c.tile(v), strict=True))
            for v in (op.a, op.b)
        ]
        _add_products(c, sums, _as_wide(c, op.a, result, operands[0]),
                      _as_wide(c, op.b, result, operands[1]), op.k)  # fmt: skip
    c.set(op.results[0], [sums[coordinate] for coordinate in coordinates])


def _in_blocks(c: Context, op: Any, sums: Elements, block: int) -> None:
    result, rank = op.results[0].type, len(ir.shape_of(op.a.type))
    iterations, places = op.k // block, list(sums)
    with c.f.loop(
        c.i32(0), c.i32(iterations), c.i32(1), list(sums.values()), at_least_once=True,
        metadata=c.f.module.loop_metadata("llvm.loop.unroll.disable"),
    ) as loop:  # fmt: skip
        sums.update(zip(places, loop.carried, strict=True))
        a = _block_of(c, op.a, rank - 1, block, loop.index)
        b = _block_of(c, op.b, rank - 2, block, loop.index)
        _add_products(c, sums, _as_wide(c, op.a, result, a), _as_wide(c, op.b, result, b), block)
        loop.next = [sums[p] for p in places]
    sums.update(zip(places, loop.results, strict=True))


def _block_of(c: Context, value: SSAValue, axis: int, block: int, iteration: Value) -> Elements:
    """Read an operand's elements from `block * iteration` on along an axis; by their coordinates in
    the first block."""
    memory, type, tile = c.memory(value), value.type, layout_of(value.type)
    place, size = place_of(tile, memory_layout(memory.type)), memory_bytes(type)
    outer = outer_bits(tile, axis, block)
    later = sum(1 << b for b in outer)
    columns = place.columns_of(REGISTER)
    moved, reached = [columns[b] for b in outer], 0
    for column in moved:
        reached |= column
    registers = [r for r in distinct_registers(tile) if not r & later]
    run = [b for b in run_bits(place, size) if b not in outer]
    groups, element = grouped(registers, run), memory_type(type)
    firsts, coordinates = [g[0] for g in groups], register_coordinates(tile)
    further = c.linear_map(iteration, moved), reached
    pointers = c.pointers(memory.address, place, firsts, element, further)
    found: Elements = {}
    for group, pointer in zip(groups, pointers, strict=True):
        parts = read(c, pointer, element, len(group), type)
        found.update(zip((coordinates[r] for r in group), parts, strict=True))
    return found


def _add_products(c: Context, sums: Elements, a: Elements, b: Elements, count: int) -> None:
    for k in range(count):
        for place, total in sums.items():
            *batch, m, n = place
            sums[place] = _multiply_add(c, a[(*batch, m, k)], b[(*batch, k, n)], total)


def _as_wide(c: Context, value: SSAValue, result: ir.Type, elements: Elements) -> Elements:
    """An operand's elements in the type of the sum."""
    wanted = ir.element_type(result)
    if ir.is_integer(wanted):
        return {p: c.f.cast("sext", v, value_type(wanted)) for p, v in elements.items()}
    source, target = FORMATS[ir.element_type(value.type)], FORMATS[wanted]
    known = {v: float_from(c, v, source, target) for v in dict.fromkeys(elements.values())}
    return {p: known[v] for p, v in elements.items()}


def _multiply_add(c: Context, a: Value, b: Value, total: Value) -> Value:
    if total.type[0] == "i":
        return c.f.op("add", c.f.op("mul", a, b), total)
    return c.f.fma(a, b, total)
