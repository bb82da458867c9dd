"""Index arithmetic on arithmetic progressions, the results that are such, and addresses.

Sums, differences and products with a scalar of progressions are progressions, which wrap around as
the numbers do. Extensions are so only where nothing wraps around within a tile (`assume_no_wrap`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tritium.backends.cpu.dot.operand import static
from tritium.backends.cpu.lower.context import Context
from tritium.backends.cpu.lower.emitter import Emitter
from tritium.backends.cpu.lower.types import value_type
from tritium.backends.cpu.lower.values import Lanes, Linear, Origin, Uniform
from tritium.codegen.llvm.writer import Value, const, lanes, scalar, vector
from tritium.codegen.registry import lowers
from tritium.ops.arith import AddIOp, ExtSIOp, ExtUIOp, IndexCastOp, MulIOp, ShLIOp, SubIOp
from tritium.ops.base import Op
from tritium.ops.ttir.memory import AddPtrOp


def wrapped(type: str, number: int) -> int:
    """`number` as a signed integer of an LLVM type such as `i32`."""
    bits = int(type[1:])
    low = number & ((1 << bits) - 1)
    return low - (1 << bits) if low >> (bits - 1) else low


def combine(e: Emitter, opcode: str, left: Value, right: Value, level: int) -> Value:
    """An integer instruction (add, sub, mul), folded where the operands are known."""
    a, b = static(left), static(right)
    if a is not None and b is not None:
        number = {"add": a + b, "sub": a - b, "mul": a * b}[opcode]
        return const(left.type, wrapped(left.type, number))
    if b == 0 and opcode != "mul":
        return left
    if a == 0 and opcode == "add":
        return right
    if opcode == "mul":
        if a == 0 or b == 0:
            return const(left.type, 0)
        if b == 1:
            return left
        if a == 1:
            return right
    return e.once((opcode, left, right), level, e.f.op, opcode, left, right)


def _strides(e: Emitter, opcode: str, a: Value | int, b: Value | int, type: str, level: int):
    """Combine two strides; an int where possible. Returns (stride, level)."""
    if isinstance(a, int) and isinstance(b, int):
        return {"add": a + b, "sub": a - b, "mul": a * b}[opcode]
    left = const(type, a) if isinstance(a, int) else a
    right = const(type, b) if isinstance(b, int) else b
    result = combine(e, opcode, left, right, level)
    number = static(result)
    return result if number is None else number


def _sum(e: Emitter, opcode: str, a: Lanes, b: Lanes) -> Linear | None:
    """a + b or a - b for progressions or scalars, at least one of them a progression."""
    if isinstance(a, Linear) and isinstance(b, Linear):
        if a.index != b.index or a.shift != b.shift:
            a, b = e.pinned(a), e.pinned(b)
        level = max(a.level, b.level)
        base = combine(e, opcode, a.base, b.base, level)
        stride = _strides(e, opcode, a.stride, b.stride, a.base.type, level)
        return Linear(
            base, stride, a.index, a.shift, level, max(a.index_level, b.index_level),
            a.pinned or b.pinned,
        )  # fmt: skip
    if isinstance(a, Linear) and isinstance(b, Uniform):
        level = max(a.level, b.level)
        base = combine(e, opcode, a.base, b.value, level)
        return a._replace(base=base, level=level, pinned=a.pinned or b.pinned)
    if isinstance(a, Uniform) and isinstance(b, Linear):
        level = max(a.level, b.level)
        base = combine(e, opcode, a.value, b.base, level)
        stride = b.stride
        if opcode == "sub":
            stride = _strides(e, "sub", 0, stride, b.base.type, b.level)
        pinned = a.pinned or b.pinned
        return b._replace(base=base, stride=stride, level=level, pinned=pinned)
    return None


@lowers("cpu.linear", AddIOp)
def add(e: Emitter, op: Op, arguments: Sequence[Lanes]) -> Linear | None:
    return _no_flag(_sum(e, "add", arguments[0], arguments[1]))


@lowers("cpu.linear", SubIOp)
def sub(e: Emitter, op: Op, arguments: Sequence[Lanes]) -> Linear | None:
    return _no_flag(_sum(e, "sub", arguments[0], arguments[1]))


@lowers("cpu.linear", MulIOp)
def mul(e: Emitter, op: Op, arguments: Sequence[Lanes]) -> Linear | None:
    a, b = arguments
    if isinstance(a, Uniform):
        a, b = b, a
    return _no_flag(_scaled(e, a, b))


@lowers("cpu.linear", ShLIOp)
def shift_left(e: Emitter, op: Op, arguments: Sequence[Lanes]) -> Linear | None:
    a, b = arguments
    amount = static(b.value) if isinstance(b, Uniform) else None
    if amount is None or not isinstance(b, Uniform) or not 0 <= amount < int(b.value.type[1:]) - 1:
        return None
    factor = Uniform(const(b.value.type, 1 << amount), b.level)
    return _no_flag(_scaled(e, a, factor))


def _scaled(e: Emitter, a: Lanes, b: Lanes) -> Linear | None:
    if not isinstance(a, Linear) or not isinstance(b, Uniform):
        return None
    level = max(a.level, b.level)
    number = static(b.value)
    base = combine(e, "mul", a.base, b.value, level)
    factor = b.value if number is None else number
    stride = _strides(e, "mul", a.stride, factor, a.base.type, level)
    pinned = a.pinned or b.pinned
    return a._replace(base=base, stride=stride, level=level, pinned=pinned)


def _no_flag(result: Linear | None) -> Linear | None:
    """Refuse i1."""
    return None if result is None or result.base.type == "i1" else result


@lowers("cpu.linear", ExtSIOp, ExtUIOp, IndexCastOp)
def extend(e: Emitter, op: Any, arguments: Sequence[Lanes]) -> Linear | None:
    (a,) = arguments
    from_type, to = _cast_types(op)
    if not isinstance(a, Linear) or from_type == "i1":
        return None
    before, after = int(from_type[1:]), int(to[1:])
    if after > before and op.operands[0] not in e.context.assumed.unwrapped:
        return None
    opcode = "trunc" if after < before else "zext" if op.non_negative else "sext"
    return widened(e, a, to, opcode)


def _cast_types(op: Op) -> tuple[str, str]:
    return value_type(op.operands[0].type), value_type(op.results[0].type)


def widened(e: Emitter, a: Linear, to: str, opcode: str = "sext") -> Linear:
    """The progression, which does not wrap, with base and stride extended to type `to`."""
    if a.base.type == to:
        return a
    base = extended(e, a.base, to, a.level, opcode)
    stride = a.stride
    if not isinstance(stride, int):
        stride = extended(e, stride, to, a.level, "sext" if opcode == "zext" else opcode)
    return a._replace(base=base, stride=stride)


def extended(e: Emitter, value: Value, to: str, level: int, opcode: str = "sext") -> Value:
    """A scalar integer cast to type `to`."""
    number = static(value)
    if number is not None:
        if opcode == "zext":
            number &= (1 << int(value.type[1:])) - 1
        return const(to, wrapped(to, number))
    if value.type == to:
        return value
    return e.once((opcode, value, to), level, e.f.cast, opcode, value, to)


@lowers("cpu", AddPtrOp)
def addptr(c: Context, op: Op, pointer: Value, offset: Value) -> Value:
    """Offsets are signed numbers of elements."""
    size = c.pointee_bytes(op.results[0].type)
    if scalar(offset.type) != "i64":
        offset = c.f.cast("sext", offset, vector("i64", lanes(offset.type)))
    return c.f.gep({1: "i8", 2: "i16", 4: "i32", 8: "i64"}[size], pointer, offset, flags="")


@lowers("cpu.origin", AddPtrOp)
def origin(e: Emitter, op: Op, arguments: list[Lanes]) -> Origin | None:
    pointer, offset = arguments
    if not isinstance(pointer, Uniform) or isinstance(offset, Uniform):
        return None
    offsets = e.vec(offset)
    size = e.context.pointee_bytes(op.results[0].type)
    return Origin(pointer.value, offsets, size) if scalar(offsets.type) == "i32" else None


@lowers("cpu.linear", AddPtrOp)
def linear_address(e: Emitter, op: Op, arguments: Sequence[Lanes]) -> Linear | None:
    pointer, offset = arguments
    size = e.context.pointee_bytes(op.results[0].type)
    if isinstance(offset, Linear):
        if offset.base.type != "i64" and op.operands[1] not in e.context.assumed.unwrapped:
            return None
        offset = widened(e, offset, "i64")
        stride = _strides(e, "mul", offset.stride, size, "i64", offset.level)
        start, level = offset.base, offset.level
    elif isinstance(offset, Uniform):
        start, level, stride = extended(e, offset.value, "i64", offset.level), offset.level, 0
    else:
        return None
    if isinstance(pointer, Linear):
        if isinstance(offset, Linear):
            if (pointer.index, pointer.shift) != (offset.index, offset.shift):
                pointer, offset = e.pinned(pointer), e.pinned(offset)
                start, level = offset.base, offset.level
            index_level = max(pointer.index_level, offset.index_level)
        else:
            index_level = pointer.index_level
        level = max(level, pointer.level)
        stride = _strides(e, "add", pointer.stride, stride, "i64", level)
        base, index, shift = pointer.base, pointer.index, pointer.shift
    elif isinstance(pointer, Uniform) and isinstance(offset, Linear):
        level = max(level, pointer.level)
        base, index, shift = pointer.value, offset.index, offset.shift
        index_level = offset.index_level
    else:
        return None
    if static(start) != 0:
        unit = {1: "i8", 2: "i16", 4: "i32", 8: "i64"}[size]
        number = static(start)
        if number is not None:
            unit, start = "i8", const("i64", number * size)
        base = e.once(("gep", unit, base, start), level, e.f.gep, unit, base, start)
    pinned = pointer.pinned or offset.pinned
    return Linear(base, stride, index, shift, level, index_level, pinned)
