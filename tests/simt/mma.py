"""The matrix instruction of `Simt`: products of tiles with the layouts of NVIDIA's `mma.sync`.

The lanes of a warp put their parts of the operands into memory that the warp has to itself, and
each then computes its elements of the result. Where a layout is wrong, or a conversion to it, a
lane finds numbers that no lane has put there. A GPU's instruction rounds in other places.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from tests.simt.machine import WARP_BYTES
from tritium.codegen.gpu.casts import FORMATS, float_from
from tritium.codegen.gpu.collective.gather import offsets, row_major
from tritium.codegen.gpu.context import Context, layout_of
from tritium.codegen.gpu.emitter import bits_of
from tritium.codegen.gpu.types import value_type
from tritium.codegen.llvm.writer import Value, const
from tritium.ir import types as ir

UNSET = 0xC5


def multiply(c: Context, op: Any) -> None:
    """A product of tiles, or of batches of them, whose result has a matrix unit's layout."""
    result = op.results[0].type
    held = value_type(result)
    wide = "float" if held == "half" else held
    (*batch, m, n), depth = ir.shape_of(result), ir.shape_of(op.a.type)[-1]
    count = prod(batch)
    size = bits_of(wide) // 8 * count * depth * (m + n)
    if size > WARP_BYTES:
        raise c.unsupported(op, f"operands of {size} bytes")
    a = c.f.call("ptr", "simt_warp_memory")
    b = c.byte_offset(a, c.i32(bits_of(wide) // 8 * count * m * depth))
    _unset(c, a, size)
    _put(c, op.a, a, wide)
    _put(c, op.b, b, wide)
    _meet(c)
    places = places_of(c, result)
    rows = [c.f.op("lshr", p, c.i32(n.bit_length() - 1)) for p in places]
    columns = [c.f.op("and", p, c.i32(n - 1)) for p in places]
    if count > 1:  # the product of a batch that an element is in
        numbers = [c.f.op("lshr", row, c.i32(m.bit_length() - 1)) for row in rows]
        firsts = [c.f.op("mul", number, c.i32(depth * n)) for number in numbers]
        columns = [c.f.op("add", *pair) for pair in zip(columns, firsts, strict=True)]
    starts = [c.f.op("mul", row, c.i32(depth)) for row in rows]
    sums = [float_from(c, v, "fp16", "fp32") if held == "half" else v for v in c.tile(op.c)]
    with c.f.loop(c.i32(0), c.i32(depth), c.i32(1), sums, at_least_once=True) as loop:
        row = c.f.op("mul", loop.index, c.i32(n))
        for start, column, total in zip(starts, columns, loop.carried, strict=True):
            x = _load(c, wide, a, c.f.op("add", start, loop.index))
            y = _load(c, wide, b, c.f.op("add", row, column))
            loop.next.append(multiply_add(c, x, y, total))
    _meet(c)
    found = loop.results
    c.set(op.results[0], [float_from(c, v, "fp32", "fp16") for v in found]
          if held == "half" else found)  # fmt: skip


def exchange(c: Context, operand: Any, memory: Value, wide: str) -> None:
    """The lanes of a warp put what they have of an operand into the warp's memory."""
    size = bits_of(wide) // 8 * prod(ir.shape_of(operand.type))
    if size > WARP_BYTES:
        raise NotImplementedError(f"operands of {size} bytes")
    _unset(c, memory, size)
    _put(c, operand, memory, wide)
    _meet(c)


def _unset(c: Context, memory: Value, size: int) -> None:
    def fill() -> Sequence[Value]:
        c.f.call("ptr", "memset", memory, c.i32(UNSET), const("i64", size))
        return []

    c.f.choose_all(c.f.icmp("eq", c.lane, c.i32(0)), [], fill)
    _meet(c)


def _meet(c: Context) -> None:
    """Wait for all lanes of the warp."""
    c.f.call("i32", "simt_shuffle", c.i32(0), c.i32(0))


def places_of(c: Context, type: Any) -> list[Value]:
    """The number of each register's element, counted along the rows."""
    layout, shape = layout_of(type), ir.shape_of(type)
    numbers = offsets(layout, row_major(shape), prod(shape))
    return c.positions(numbers, range(layout.in_size("register")))


def _put(c: Context, operand: Any, memory: Value, wide: str) -> None:
    """Write this lane's part of an operand, in the type of the sum."""
    element = ir.element_type(operand.type)
    for value, place in zip(c.tile(operand), places_of(c, operand.type), strict=True):
        if wide[0] == "i":
            number = c.f.cast("sext", value, wide)
        else:
            number = float_from(c, value, FORMATS[element], "fp64" if wide == "double" else "fp32")
        c.f.store(number, c.f.gep(wide, memory, place), bits_of(wide) // 8)


def _load(c: Context, type: str, memory: Value, place: Value) -> Value:
    return c.f.load(type, c.f.gep(type, memory, place), bits_of(type) // 8)


def multiply_add(c: Context, a: Value, b: Value, total: Value) -> Value:
    if total.type[0] == "i":
        return c.f.op("add", c.f.op("mul", a, b), total)
    return c.f.fma(a, b, total)
