"""One multiply-accumulate of cells, for each method of a plan."""

from __future__ import annotations

from tritium.backends.cpu.dot.convert import float_to_half, widen
from tritium.backends.cpu.dot.operand import Operand, Step, as_value, count, static
from tritium.backends.cpu.dot.plan import Method, Plan
from tritium.codegen.llvm.writer import Function, Value, const, vector

_OFFSET_BYTES = -2139062144  # 0x80808080, 128 in each byte


def load_a(f: Function, plan: Plan, operand: Operand, pointer: Value) -> Value:
    """A cell of A in every lane, as the multiplication wants it."""
    if plan.method is Method.FMA:
        value = f.load(operand.element, pointer, operand.align)
        return f.splat(widen(f, plan.host, operand, value, plan.compute), plan.lanes)
    return _cells(f, plan, f.splat(f.load("i32", pointer, operand.align), plan.lanes))


def load_b(f: Function, plan: Plan, operand: Operand, pointer: Value) -> Value:
    """A vector of neighbouring cells of B, as the multiplication wants it."""
    if plan.method is Method.FMA:
        value = f.load(vector(operand.element, plan.lanes), pointer, operand.align)
        return widen(f, plan.host, operand, value, plan.compute)
    return _cells(f, plan, f.load(vector("i32", plan.lanes), pointer, 4 * plan.lanes))


def _cells(f: Function, plan: Plan, value: Value) -> Value:
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
    if plan.method is Method.VNNI:  # the unsigned factor comes first
        return f.call(acc.type, f"llvm.{plan.instruction}", acc, b, a)
    if plan.method is not Method.FMA:
        return f.call(acc.type, f"llvm.{plan.instruction}", acc, a, b)
    if plan.accumulate.startswith("i"):
        return f.op("add", acc, f.op("mul", a, b))
    if plan.host.fma:
        return f.fma(a, b, acc)
    return f.op("fadd", acc, f.op("fmul", a, b))


def row_sums(
    f: Function, plan: Plan, a: Operand, shape: tuple[int, int], cells: Value,
    trips: Value | None, span: tuple[Value, Step], sums: Value,
) -> None:  # fmt: skip
    """sums[m] = 128 * (the sum of row m of A): what `vpdpbusd` adds too much, as its B is offset by
    128 (`Packing.load`).

    Args:
        shape: rows, and cells along k of one iteration.
        cells, trips: cells along k to sum in each of so many iterations (None: one).
        span: bytes to the first iteration, and from one to the next.
    """
    rows, within = shape
    along_k = static(a.k_step or 0) == 1
    width = min(plan.lanes, within if along_k else rows)
    vectors = min(4, rows if along_k else rows // width)
    type, size = vector("i32", width), 4 * width
    instruction = f"llvm.x86.avx512.vpdpbusd.{32 * width}"
    ones, zero, one = const(type, _OFFSET_BYTES), const("i64", 0), const("i64", 1)
    step = width if along_k else 1

    def iteration(at: Value, totals: list[Value], places: list[tuple[Value, int]]) -> list[Value]:
        stride = const("i64", step * a.size * (static(a.k_step or 0) or 0))
        with f.loop(zero, cells, const("i64", step), [at, *totals], at_least_once=True) as k:
            here, *before = k.carried
            parts = [f.load(type, f.offset(f.gep("i8", p, here), o), a.align) for p, o in places]
            k.next = [f.op("add", here, stride)]
            k.next += [
                f.call(type, instruction, total, ones, part)
                for total, part in zip(before, parts, strict=True)
            ]
        return k.results[1:]

    with count(f, rows, vectors if along_k else vectors * width) as m:
        offsets = [i if along_k else i * width for i in range(vectors)]
        places = a.places(f, m.index, offsets)
        totals = [const(type, 0)] * vectors
        if trips is None:
            totals = iteration(span[0], totals, places)
        else:
            with f.loop(zero, trips, one, [span[0], *totals], at_least_once=True) as loop:
                at = loop.carried[0]
                inner = iteration(at, loop.carried[1:], places)
                loop.next = [f.op("add", at, as_value(span[1])), *inner]
            totals = loop.results[1:]
        first = f.gep("i32", sums, m.index)
        for offset, total in zip(offsets, totals, strict=True):
            if along_k:
                total = f.call("i32", f"llvm.vector.reduce.add.v{width}i32", total)
            f.store(total, f.offset(first, 4 * offset), 4 if along_k else size)


def to_result(f: Function, plan: Plan, value: Value) -> Value:
    """Accumulators as elements of the result tile."""
    if plan.result == plan.accumulate:
        return value
    if not plan.host.half:
        return float_to_half(f, value)
    short = f.cast("fptrunc", value, vector("half", plan.lanes))
    return f.cast("bitcast", short, vector(plan.result, plan.lanes))

