"""One multiply-accumulate of cells, for each method of a plan."""

from __future__ import annotations

from collections.abc import Sequence

from tritium.backends.cpu.dot.convert import float_to_half, widen
from tritium.backends.cpu.dot.operand import Operand
from tritium.backends.cpu.dot.plan import Method, Plan
from tritium.codegen.llvm.writer import Function, Value, const, vector

_OFFSET_BYTES = -2139062144  # 0x80808080, 128 in each byte


def load_a(f: Function, plan: Plan, operand: Operand, pointer: Value) -> Value:
    """A cell of A in every lane, as the multiplication wants it."""
    if plan.method is Method.FMA:
        value = f.load(operand.element, pointer, operand.align)
        return f.splat(widen(f, plan.host, operand, value, plan.compute), plan.lanes)
    value = f.splat(f.load(plan.cell, pointer, operand.align), plan.lanes)
    if plan.method is Method.VNNI:
        # vpdpbusd takes an unsigned A: a + 128, put right by `column_sums`.
        value = f.op("xor", value, const(value.type, _OFFSET_BYTES))
    return _cells(f, plan, value)


def load_b(f: Function, plan: Plan, operand: Operand, pointer: Value) -> Value:
    """A vector of neighbouring cells of B, as the multiplication wants it."""
    if plan.method is Method.FMA:
        value = f.load(vector(operand.element, plan.lanes), pointer, operand.align)
        return widen(f, plan.host, operand, value, plan.compute)
    return _cells(f, plan, f.load(vector("i32", plan.lanes), pointer, 4 * plan.lanes))


def load_rows(f: Function, plan: Plan, operand: Operand, rows: Sequence[Value]) -> Value:
    """The cells of two rows of A at their addresses, one after the other in a vector."""
    value = Value(vector(plan.cell, 2), "poison")
    for lane, pointer in enumerate(rows):
        value = f.insert(value, f.load(plan.cell, pointer, operand.align), lane)
    return _cells(f, plan, value)


def load_columns(f: Function, plan: Plan, pointer: Value) -> list[Value]:
    """A vector's columns of packed cells of B, two columns in each result."""
    type, size = vector(plan.cell, 2), 16
    places = [f.offset(pointer, size * pair) for pair in range(plan.lanes // 2)]
    return [_cells(f, plan, f.load(type, place, size)) for place in places]


def exchange(f: Function, rows: Sequence[Value], vectors: int) -> list[Value]:
    """Blocks of two rows by two columns for rows of `vectors` vectors of four columns: the two
    blocks of each vector take the places of the rows' vectors. Rows for such blocks as well."""
    result = list(rows)
    for top in range(len(rows)):
        below = top + vectors
        if top // vectors % 2 == 0:
            pair = rows[top], rows[below]
            result[top] = f.shuffle(*pair, (0, 1, 4, 5))
            result[below] = f.shuffle(*pair, (2, 3, 6, 7))
    return result


def _cells(f: Function, plan: Plan, value: Value) -> Value:
    if plan.method is Method.BFMMLA:
        return f.cast("bitcast", value, vector("bfloat", 2 * plan.lanes))
    if plan.method is Method.MMLA:
        return f.cast("bitcast", value, vector("i8", 4 * plan.lanes))
    if plan.method is Method.BF16:
        return f.cast("bitcast", value, vector("bfloat", 2 * plan.lanes))
    if plan.method is Method.MADD:
        return f.cast("bitcast", value, vector("i16", 2 * plan.lanes))
    if plan.method is Method.SDOT:
        return f.cast("bitcast", value, vector("i8", 4 * plan.lanes))
    return value


def multiply(f: Function, plan: Plan, acc: Value, a: Value, b: Value) -> Value:
    """acc + a * b, summed over the elements of each cell."""
    if plan.method is Method.MADD:
        return f.op("add", acc, f.call(acc.type, f"llvm.{plan.instruction}", a, b))
    if plan.method is not Method.FMA:
        return f.call(acc.type, f"llvm.{plan.instruction}", acc, a, b)
    if plan.accumulate.startswith("i"):
        return f.op("add", acc, f.op("mul", a, b))
    if plan.host.fma:
        return f.fma(a, b, acc)
    return f.op("fadd", acc, f.op("fmul", a, b))


def column_sums(
    f: Function, plan: Plan, packed: Value, sums: Value, columns: int, cells: Value
) -> None:
    """sums[n] = 128 * (the sum of column n of B), for a packed B of `cells` cells along k.

    What `vpdpbusd` adds too much when its A is offset by 128. Several vectors of columns are summed
    together: one sum would wait for itself in every step.
    """
    type = vector("i32", plan.lanes)
    size, count = 4 * plan.lanes, min(4, columns // plan.lanes)
    zero, one = const("i64", 0), const("i64", 1)
    ones = const(type, _OFFSET_BYTES)
    stop, step = const("i64", columns * 4), const("i64", count * size)
    with f.loop(zero, stop, step, at_least_once=True) as at:
        column = f.gep("i8", packed, at.index)
        zeros = [const(type, 0)] * count
        with f.loop(zero, cells, one, zeros, at_least_once=True) as k:
            row = f.gep("i8", column, f.op("mul", k.index, const("i64", columns * 4)))
            parts = [f.load(type, f.offset(row, i * size), size) for i in range(count)]
            sums_and_parts = zip(k.carried, parts, strict=True)
            k.next = [multiply(f, plan, total, ones, part) for total, part in sums_and_parts]
        first = f.gep("i8", sums, at.index)
        for i, total in enumerate(k.results):
            f.store(total, f.offset(first, i * size), size)


def to_result(f: Function, plan: Plan, value: Value) -> Value:
    """Accumulators as elements of the result tile."""
    if plan.result == plan.accumulate:
        return value
    if not plan.host.half:
        return float_to_half(f, value)
    short = f.cast("fptrunc", value, vector("half", plan.lanes))
    return f.cast("bitcast", short, vector(plan.result, plan.lanes))
