"""The loops over the register blocks of a tile, and over k in each, on vectors.

    for a block of columns:                  its addresses of B are computed here
        for a block of rows:                 its addresses of A, its accumulators are loaded
            for iteration:                   of a k-loop around the dot, if there is one
                for k: multiply              all accumulators in registers
            store the accumulators
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tritium.backends.cpu.dot.convert import widen
from tritium.backends.cpu.dot.multiply import (
    exchange,
    load_a,
    load_b,
    load_columns,
    load_rows,
    multiply,
    to_result,
)
from tritium.backends.cpu.dot.operand import (
    ELEMENT_BYTES,
    LINE_BYTES,
    Operand,
    Step,
    add,
    as_value,
    count,
    dense,
    prefetch,
    scale,
    static,
)
from tritium.backends.cpu.dot.plan import Method, Plan
from tritium.codegen.llvm.writer import Function, Value, const, vector

_ZERO, _ONE = const("i64", 0), const("i64", 1)
_CHAINS = 8
"""Sums that do not wait for each other, of which two units for multiply-adds of four cycles
always have one to add to."""


@dataclass(frozen=True)
class Sweep:
    """One pass over the register blocks of a tile.

    Args:
        rows, columns: the shape of the tile.
        a, b: operands of cells.
        cells: cells along k of one iteration; `arbitrary`: it may be zero and need not divide by
            the unrolling.
        trips: how many iterations, at least one, or None for one.
        a_span, b_span: bytes to the first iteration, and from one to the next.
        acc: the result tile; `from_zero`: its old content does not count.
        sums: what to take off of each column at the start (VNNI).
        limit: how many rows, at least one, matter; None: all.
    """

    plan: Plan
    rows: int
    columns: int
    a: Operand
    b: Operand
    cells: Value
    arbitrary: bool
    trips: Value | None
    a_span: tuple[Value, Step]
    b_span: tuple[Value, Step]
    acc: Value
    from_zero: bool
    sums: Value | None
    limit: Value | None

    def corner(self, f: Function, m: Value, n: Value) -> Value:
        """The address of an element of the result tile."""
        place = f.op("add", f.op("mul", m, const("i64", self.columns)), n)
        size = const("i64", ELEMENT_BYTES[self.plan.result])
        return f.gep("i8", self.acc, f.op("mul", place, size))


@dataclass(frozen=True)
class VectorSweep(Sweep):
    """A pass with accumulators in vector registers."""

    def emit(self, f: Function) -> None:
        """Write the loops. LLVM splits vectors that are longer than a register: one for the columns
        of a block makes a quarter of the text, and the same instructions."""
        wide = self._wide
        if wide is not None:
            replace(self, plan=wide).emit(f)
            return
        plan = self.plan
        width = plan.lanes * plan.block_vectors
        with count(f, self.columns, width) as n:
            offsets = [i * plan.lanes for i in range(plan.block_vectors)]
            places = self.b.places(f, n.index, offsets)
            whole, tall, rest = self._split()
            rows = count(f, whole, plan.block_rows)
            if self.limit is not None and whole > plan.block_rows:
                step = const("i64", plan.block_rows)
                rows = f.loop(_ZERO, self.limit, step, at_least_once=True)
            with rows as m:
                self._block(f, m.index, n.index, plan.block_rows, places)
            if rest:
                with count(f, rest * tall, tall) as m:
                    self._block(f, as_value(add(f, m.index, whole)), n.index, tall, places)

    def _split(self) -> tuple[int, int, int]:
        """The rows of whole register blocks; the rows of the blocks after them, and how many those
        are. A last block with too few accumulators takes half of the one before it as well."""
        plan = self.plan
        tall, rest = plan.block_rows, self.rows % plan.block_rows
        whole, both = self.rows - rest, tall + rest
        bits = 8 * ELEMENT_BYTES[plan.accumulate] * plan.lanes * plan.block_vectors
        few = 0 < rest * bits < _CHAINS * plan.host.bits
        if few and self.limit is None and whole > tall and both % 4 == 0:
            return whole - tall, both // 2, 2
        return whole, rest, 1 if rest else 0

    @property
    def _wide(self) -> Plan | None:
        """The plan with one vector for the columns of a block; None where elements are converted,
        or vectors are apart."""
        plan, b = self.plan, self.b
        types = {plan.compute, plan.accumulate, plan.result, self.a.element, b.element}
        if plan.method is not Method.FMA or len(types) > 1 or self.a.convert or b.convert:
            return None
        if plan.block_vectors not in (2, 4, 8) or static(b.outer_step or 0) != 1:
            return None
        return replace(plan, lanes=plan.lanes * plan.block_vectors, block_vectors=1)

    def _block(
        self, f: Function, m: Value, n: Value, rows: int, b: list[tuple[Value, int]]
    ) -> None:
        """The accumulators of `rows` rows from (m, n) on."""
        a = self.a.places(f, m, list(range(rows)))
        size = ELEMENT_BYTES[self.plan.result]
        corner = self.corner(f, m, n)
        slots = [
            f.offset(corner, (r * self.columns + c * self.plan.lanes) * size)
            for r in range(rows)
            for c in range(self.plan.block_vectors)
        ]
        accs = self._start(f, n, slots)
        if self.trips is None:
            accs = self._depth(f, a, b, self.a_span[0], self.b_span[0], accs)
        else:
            carried = [self.a_span[0], self.b_span[0], *accs]
            with f.loop(_ZERO, self.trips, _ONE, carried, at_least_once=True) as loop:
                a_at, b_at = loop.carried[:2]
                inner = self._depth(f, a, b, a_at, b_at, loop.carried[2:])
                loop.next = [
                    f.op("add", a_at, as_value(self.a_span[1])),
                    f.op("add", b_at, as_value(self.b_span[1])),
                    *inner,
                ]
            accs = loop.results[2:]
        if self.plan.method.in_pairs:
            accs = exchange(f, accs, self.plan.block_vectors)
        for slot, acc in zip(slots, accs, strict=True):
            f.store(to_result(f, self.plan, acc), slot, min(64, self.plan.lanes * size))

    def _start(self, f: Function, n: Value, slots: Sequence[Value]) -> list[Value]:
        """The accumulators before the first iteration."""
        plan = self.plan
        type = vector(plan.result, plan.lanes)
        wide = vector(plan.accumulate, plan.lanes)
        if self.from_zero:
            accs = [const(wide, 0)] * len(slots)
        else:
            size = min(64, plan.lanes * ELEMENT_BYTES[plan.result])
            source = dense(plan.result, self.acc, 1, 1, 1)
            loaded = (f.load(type, slot, size) for slot in slots)
            accs = [widen(f, plan.host, source, acc, plan.accumulate) for acc in loaded]
        if plan.method.in_pairs:
            return accs if self.from_zero else exchange(f, accs, plan.block_vectors)
        if self.sums is None:
            return accs
        bytes_ = plan.lanes * 4
        first = f.gep("i32", self.sums, n)
        count = plan.block_vectors
        sums = [f.load(wide, f.offset(first, c * bytes_), bytes_) for c in range(count)]
        return [f.op("sub", acc, sums[i % count]) for i, acc in enumerate(accs)]

    def _depth(
        self, f: Function, a: list[tuple[Value, int]], b: list[tuple[Value, int]],
        a_at: Value, b_at: Value, accs: list[Value],
    ) -> list[Value]:  # fmt: skip
        """Emit all cells of one iteration, `a_at` and `b_at` bytes from the addresses on."""
        assert self.a.k_step is not None and self.b.k_step is not None
        a_step = scale(f, self.a.k_step, self.a.size)
        b_step = scale(f, self.b.k_step, self.b.size)
        unroll = 1 if self.arbitrary else self.plan.unroll
        # Processors keep decoded instructions by lines of code; a loop of 130 bytes is in two or
        # three of them (Zen 3, products in fp32: 2 to 4 % of the time).
        aligned = f.module.loop_metadata("llvm.loop.align", LINE_BYTES)
        steps = [(scale(f, a_step, u), scale(f, b_step, u)) for u in range(unroll + 1)]

        def iteration(a_at: Value, b_at: Value, accs: list[Value]) -> list[Value]:
            for a_skip, b_skip in steps[:unroll]:
                accs = self._cell(f, a, b, (a_at, a_skip), (b_at, b_skip), accs)
            return accs

        if static(self.cells) == unroll:
            return iteration(a_at, b_at, accs)
        with f.loop(
            _ZERO, self.cells, const("i64", unroll), [a_at, b_at, *accs],
            at_least_once=not self.arbitrary,
            metadata=aligned,
        ) as loop:  # fmt: skip
            a_at, b_at = loop.carried[:2]
            accs = iteration(a_at, b_at, loop.carried[2:])
            a_next = f.op("add", a_at, as_value(steps[unroll][0]))
            b_next = f.op("add", b_at, as_value(steps[unroll][1]))
            loop.next = [a_next, b_next, *accs]
        return loop.results[2:]

    def _cell(
        self, f: Function, a: list[tuple[Value, int]], b: list[tuple[Value, int]],
        a_at: tuple[Value, Step], b_at: tuple[Value, Step], accs: list[Value],
    ) -> list[Value]:  # fmt: skip
        """One step of k."""
        plan = self.plan
        if plan.method.in_pairs:
            return self._pairs(f, _walk(f, a, *a_at), _walk(f, b, *b_at), accs)
        columns = [load_b(f, plan, self.b, pointer) for pointer in _walk(f, b, *b_at)]
        if plan.prefetch:
            assert self.b.k_step is not None
            ahead = scale(f, self.b.k_step, self.b.size * plan.prefetch)
            skip = add(f, b_at[0], add(f, b_at[1], ahead))
            prefetch(f, b, self.b.size * plan.lanes, skip)
        result: list[Value] = []
        for row, pointer in enumerate(_walk(f, a, *a_at)):
            value = load_a(f, plan, self.a, pointer)
            for c, column in enumerate(columns):
                acc = accs[row * len(columns) + c]
                result.append(multiply(f, plan, acc, value, column))
        return result

    def _pairs(
        self, f: Function, a: Sequence[Value], b: Sequence[Value], accs: Sequence[Value]
    ) -> list[Value]:
        """One step of k on blocks of two rows by two columns, whose places `exchange` describes.
        The cells of A stay in registers; those of B, which are more, come one by one."""
        result, width = list(accs), len(b)
        pairs = zip(a[::2], a[1::2], strict=True)
        rows = [load_rows(f, self.plan, self.a, pair) for pair in pairs]
        for c, pointer in enumerate(b):
            for half, columns in enumerate(load_columns(f, self.plan, pointer)):
                for pair, cells in enumerate(rows):
                    at = (2 * pair + half) * width + c
                    result[at] = multiply(f, self.plan, result[at], cells, columns)
        return result


def _walk(f: Function, places: list[tuple[Value, int]], at: Value, skip: Step) -> list[Value]:
    """The addresses of `places` after `at` + `skip` bytes, sharing what they have in common."""
    known = static(skip)
    moved: dict[str, Value] = {}
    pointers: list[Value] = []
    for pointer, offset in places:
        if pointer.ref not in moved:
            base = pointer if static(at) == 0 else f.gep("i8", pointer, at)
            moved[pointer.ref] = base if known is not None else f.gep("i8", base, as_value(skip))
        pointers.append(f.offset(moved[pointer.ref], offset + (known or 0)))
    return pointers
