"""Elementwise ops as LLVM instructions on scalars; `emit` applies a rule to every register.

A rule takes the context, the op and one value for each operand, and returns the result's value.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

from xdsl.ir import SSAValue

from tritium.codegen.gpu.context import UNUSED, Context, layout_of
from tritium.codegen.gpu.types import ELEMENTWISE, memory_type, value_type
from tritium.codegen.llvm import elementwise as table
from tritium.codegen.llvm.types import FORMATS, memory_bytes
from tritium.codegen.llvm.writer import Value, const
from tritium.codegen.registry import lowers
from tritium.ir import types as ir
from tritium.ir.layouts.encodings import REGISTER
from tritium.ir.layouts.linear import LinearLayout
from tritium.ops import arith, math, ttir
from tritium.ops.base import Op
from tritium.ops.dialects import op_classes
from tritium.ops.elementwise import CastOp

_NARROW = frozenset({"half", "bfloat"})
CASTS: frozenset[type[Op]] = frozenset(
    cls for name in ("arith", "tt") for cls in op_classes(name)
    if issubclass(cls, CastOp) and cls.source == cls.target == "float"
)  # fmt: skip
"""Casts between formats of floats."""


def repeating_bits(axis_info: Callable[[SSAValue], Any], value: SSAValue) -> int:
    """The register bits, as a mask, that a tile's elements are known not to depend on: a mask of
    `columns < n` is the same for 16 neighbours if n is divisible by 16."""
    shape = ir.shape_of(value.type)
    if not shape:
        return 0
    constancy = axis_info(value).constancy
    if all(n == 1 for n in constancy):
        return 0
    return _within(layout_of(value.type), constancy)


@functools.lru_cache(maxsize=1024)
def _within(layout: LinearLayout, sizes: tuple[int, ...]) -> int:
    """The register bits that stay in a block of these sizes."""
    bases = enumerate(layout.bases(REGISTER))
    return sum(1 << bit for bit, basis in bases if all(map(operator.lt, basis, sizes)))


def first_of_equal(used: int, repeating: int, count: int) -> int:
    """The registers, of `count`, to compute so that those in `used` are known."""
    if not repeating:
        return used
    return functools.reduce(
        int.__or__, {1 << (r & ~repeating) for r in range(count) if used >> r & 1}, 0
    )


def computed_together(c: Context, op: Any) -> int:
    """The number of neighbouring registers of an op that are computed as a vector: a power of 2."""
    casts = type(op) in CASTS
    if not casts and not op.in_pairs:
        return 1
    kinds = [ir.element_type(value.type) for value in (*op.operands, *op.results)]
    if casts:
        return c.hardware.cast_together(*(FORMATS[kind] for kind in kinds))
    return 2 if {value_type(kind) for kind in kinds} <= c.hardware.pairs else 1


def emit(c: Context, op: Any) -> bool:
    """Lower an elementwise op; false if it is none. Registers with equal operands (those of a
    splat, say) or that are known to be equal are computed once."""
    rule = c.hardware.elementwise.get(type(op))  # pyright: ignore[reportUnknownArgumentType]
    if rule is None:
        return False
    operands = [c.tile(v) for v in op.operands]
    count, used = max((len(o) for o in operands), default=1), c.demand(op.results[0])
    repeating = repeating_bits(c.axis_info, op.results[0])
    used = first_of_equal(used, repeating, count)
    known: dict[tuple[Value, ...], Value] = {}
    results: list[Value] = []
    most = min(count, computed_together(c, op))
    for i in range(count):
        if i & repeating:
            results.append(results[i & ~repeating])
            continue
        if not used >> i & 1:
            results.append(UNUSED)
            continue
        values = _operands(operands, i)
        if values not in known:
            size, unused = most, ~(used >> i)
            while i % size or repeating & (size - 1) or unused & ((1 << size) - 1):
                size //= 2
            group = [_operands(operands, n) for n in range(i, i + size)]
            if len(set(group)) == size > 1:
                found = c.parted(rule(c, op, *map(c.joined, *group)))
                known |= zip(group, found, strict=True)
            else:
                known[values] = rule(c, op, *values)
        results.append(known[values])
    c.set(op.results[0], results)
    return True


def _operands(tiles: Sequence[Sequence[Value]], register: int) -> tuple[Value, ...]:
    return tuple([tile[register % len(tile)] for tile in tiles])


def in_float(c: Context, values: tuple[Value, ...], compute: Callable[..., Value]) -> Value:
    """`compute` on 16-bit operands as floats, the result rounded to their type again."""
    narrow = values[0].type
    if narrow not in _NARROW:
        return compute(*values)
    result = compute(*(c.f.cast("fpext", v, "float") for v in values))
    return c.f.cast("fptrunc", result, narrow) if result.type == "float" else result


for _op, _rule in table.shared_rules(in_float, value_type).items():
    lowers(ELEMENTWISE, _op)(_rule)


@lowers(ELEMENTWISE, math.AbsFOp)
def absolute(c: Context, op: Op, a: Value) -> Value:
    if a.type == "i8":
        return table.clear_sign(c, op, a)
    return in_float(c, (a,), functools.partial(c.f.intrinsic, "fabs"))


for _op, _opcode in (table.SHIFTS | table.DIVISIONS).items():
    lowers(ELEMENTWISE, _op)(table.binary(_opcode))


@lowers(ELEMENTWISE, arith.FloorDivSIOp, arith.CeilDivSIOp, arith.CeilDivUIOp)
def divide_rounded(c: Context, op: Op, a: Value, b: Value) -> Value:
    """Division rounded down or up: truncated, then corrected by one where something is left."""
    f = c.f
    signed, up = type(op) is not arith.CeilDivUIOp, type(op) is not arith.FloorDivSIOp
    quotient = f.op("sdiv" if signed else "udiv", a, b)
    rest = f.op("sub", a, f.op("mul", quotient, b))
    inexact = f.icmp("ne", rest, const(a.type, 0))
    if signed:
        different = f.icmp("slt", f.op("xor", rest, b), const(a.type, 0))
        if up:
            different = f.op("xor", different, const("i1", 1))
        inexact = f.op("and", inexact, different)
    corrected = f.op("add" if up else "sub", quotient, const(a.type, 1))
    return f.select(inexact, corrected, quotient)


@lowers(ELEMENTWISE, arith.AddFOp, arith.SubFOp, arith.MulFOp)
def float_binary(c: Context, op: Op, a: Value, b: Value) -> Value:
    return c.f.op(table.FLOAT_BINARY[type(op)], a, b, c.contract)


@lowers(ELEMENTWISE, arith.NegFOp)
def negate(c: Context, op: Op, a: Value) -> Value:
    return c.f.fneg(a)


@lowers(ELEMENTWISE, arith.FPToSIOp, arith.FPToUIOp)
def to_integer(c: Context, op: Op, a: Value) -> Value:
    """Toward zero; undefined where it does not fit."""
    opcode = "fptosi" if isinstance(op, arith.FPToSIOp) else "fptoui"
    return c.f.cast(opcode, a, value_type(op.results[0].type))


@lowers(ELEMENTWISE, arith.BitcastOp, ttir.BitcastOp, ttir.PtrToIntOp, ttir.IntToPtrOp)
def bitcast(c: Context, op: Op, a: Value) -> Value:
    return c.as_type(a, value_type(op.results[0].type))


@lowers(ELEMENTWISE, ttir.AddPtrOp)
def add_pointer(c: Context, op: Op, pointer: Value, offset: Value) -> Value:
    """Offsets are signed; elements of one bit take a byte."""
    pointee: Any = ir.element_type(op.results[0].type)
    if memory_bytes(pointee.pointee) * 8 < ir.bit_width(pointee.pointee):
        raise c.unsupported(op, f"pointers to {pointee.pointee}")
    element = memory_type(pointee.pointee)
    if not _is_moved_before(c, op):
        return _moved(c, element, pointer, offset)
    start, step, index = c.pointer_sums[pointer]
    return _moved(c, step, _moved(c, element, start, offset), index)


def _moved(c: Context, element: str, pointer: Value, offset: Value) -> Value:
    """A pointer moved on by an offset in elements."""
    key = c.f.block, element, pointer.ref, offset.ref
    if key not in c.moved_pointers:
        wide = c.f.cast("sext", offset, "i64") if offset.type != "i64" else offset
        sum = c.f.emit(pointer.type, f"getelementptr {element}, {pointer}, {wide}")
        c.moved_pointers[key], c.pointer_sums[sum] = sum, (pointer, element, wide)
    return c.moved_pointers[key]


def _is_moved_before(c: Context, op: Op) -> bool:
    """True if the pointers of a tile, which are used by this op alone, are sums of one pointer and
    more indices than there are offsets: of rows, to which columns are added. To move the one on and
    add the indices to that takes one addition for each element, not two."""
    if op not in c.moved_before:
        pointers, offsets = ({v for v in c.tile(o) if v is not UNUSED} for o in op.operands)
        starts = {c.pointer_sums[p][0] if p in c.pointer_sums else None for p in pointers}
        few = len(starts) == 1 and None not in starts and len(offsets) < len(pointers)
        c.moved_before[op] = few and op.operands[0].has_one_use()
    return c.moved_before[op]


@lowers(ELEMENTWISE, ttir.MulHiUIOp)
def multiply_high(c: Context, op: Op, a: Value, b: Value) -> Value:
    bits = int(a.type[1:])
    wide = f"i{2 * bits}"
    product = c.f.op("mul", c.f.cast("zext", a, wide), c.f.cast("zext", b, wide))
    return c.f.cast("trunc", c.f.op("lshr", product, const(wide, bits)), a.type)


@lowers(ELEMENTWISE, math.FmaOp)
def fused_multiply_add(c: Context, op: Op, *values: Value) -> Value:
    """Multiply and add in the operands' own precision, with one rounding of the result."""
    return c.f.intrinsic("fma", *values)
