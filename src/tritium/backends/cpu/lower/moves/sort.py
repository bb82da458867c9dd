"""Sorting along the last axis: bitonic networks on vectors of integer keys.

Floats become signed integers in the same order, and falling order is rising order of complements,
so that a comparator is one vector minimum and one maximum. Lanes are sorted within each vector
first; a stage then merges two sorted runs by comparing one with the other reversed (elements i and
2n - 1 - i) and after that elements at half, a quarter, ... of the distance. Up to three of these
levels are done with the vectors in registers, before they are stored again. Batcher, "Sorting
networks and their applications" (1968).
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tritium.backends.cpu.lower.context import Context
from tritium.codegen.llvm.types import memory_bytes
from tritium.codegen.llvm.writer import Function, Value, const, lanes, vector
from tritium.codegen.registry import lowers
from tritium.ir import types as ir
from tritium.ops.ttir.sort import SortOp

_LEVELS = 3
"""How many levels of a merge are done at a time: on eight vectors."""
_MANTISSA: dict[ir.Type, int] = {ir.f16: 10, ir.bf16: 7, ir.f32: 23, ir.f64: 52}


@lowers("cpu.whole_tile", SortOp)
def sort(c: Context, op: SortOp) -> None:
    """Sort rows in the result's buffer, or in temporary memory where only `k` of them are kept."""
    source, target = c.filled[op.src], c.function.buffers[op.result]
    shape = ir.shape_of(op.src.type)
    size, total = shape[-1], 1
    for extent in shape:
        total *= extent
    keys = _Keys(c.f, op)
    width = min(c.host.bits // keys.bits, total)
    if op.k == size:
        work = c.address(target)
        sorter = _Sorter(c.f, keys, width, size, total, work)
        sorter.within(c.address(source), last=size <= width)
        sorter.stages(size, size)
    else:
        with c.temporary() as allocate:
            sorter = _Sorter(c.f, keys, width, size, total, allocate(total * keys.bits // 8))
            sorter.within(c.address(source), last=False)
            run = max(op.k, min(width, size))
            sorter.stages(run, 0)
            while run < size:
                sorter.halve(run)
                size //= 2
            sorter.extract(c.address(target), op.k, size)
    c.fill(op.result)


class _Keys:
    """Elements as integers that compare as they do."""

    def __init__(self, f: Function, op: Any):
        element = ir.element_type(op.src.type)
        self.f, self.bits = f, 8 * memory_bytes(element)
        self.mantissa = _MANTISSA.get(element)
        self.flip = -1 if op.descending else 0
        prefix = "u" if op.unsigned else "s"
        self.least, self.most = f"{prefix}min", f"{prefix}max"

    @property
    def type(self) -> str:
        return f"i{self.bits}"

    def make(self, v: Value) -> Value:
        """Keys of elements, given as bits."""
        f = self.f
        if self.mantissa is not None:
            most = (1 << (self.bits - 1)) - 1
            infinity = most >> self.mantissa << self.mantissa
            magnitude = f.op("and", v, const(v.type, most))
            nan = f.icmp("ugt", magnitude, const(v.type, infinity))
            v = f.select(nan, const(v.type, most), self._ordered(v))
        return f.op("xor", v, const(v.type, -1)) if self.flip else v

    def back(self, v: Value) -> Value:
        """The elements again."""
        v = self.f.op("xor", v, const(v.type, -1)) if self.flip else v
        return v if self.mantissa is None else self._ordered(v)

    def _ordered(self, v: Value) -> Value:
        """The lower bits of negative numbers complemented."""
        f, most = self.f, (1 << (self.bits - 1)) - 1
        sign = f.op("ashr", v, const(v.type, self.bits - 1))
        return f.op("xor", v, f.op("and", sign, const(v.type, most)))


@dataclass
class _Sorter:
    """Rows of `size` keys, `total` in all, at `work`, in vectors of `width` lanes."""

    f: Function
    keys: _Keys
    width: int
    size: int
    total: int
    work: Value

    @contextmanager
    def _loop(self, stop: int, step: int = 1) -> Generator[Value]:
        """`for (i = 0; i < stop; i += step)`; no loop where there is only one iteration."""
        if stop <= step:
            yield const("i64", 0)
            return
        with self.f.loop(const("i64", 0), const("i64", stop), const("i64", step),
                         at_least_once=True) as loop:  # fmt: skip
            yield loop.index

    def _at(self, base: Value, vectors: Value, shift: int) -> Value:
        """The address of vector number `vectors + shift`."""
        held = vector(self.keys.type, self.width)
        place = self.f.gep(held, base, vectors)
        return self.f.offset(place, shift * self.width * self.keys.bits // 8) if shift else place

    def _load(self, base: Value, vectors: Value, shift: int = 0) -> Value:
        held = vector(self.keys.type, self.width)
        return self.f.load(held, self._at(base, vectors, shift), self._align)

    def _store(self, value: Value, base: Value, vectors: Value, shift: int = 0) -> None:
        self.f.store(value, self._at(base, vectors, shift), self._align)

    @property
    def _align(self) -> int:
        return self.width * self.keys.bits // 8

    def _exchange(self, a: Value, b: Value) -> tuple[Value, Value]:
        f = self.f
        return f.intrinsic(self.keys.least, a, b), f.intrinsic(self.keys.most, a, b)

    # Within vectors

    def _lanes(self, v: Value, across: int, bit: int) -> Value:
        """Compare lanes i and i ^ across; the larger goes where `bit` of i is set."""
        f, width = self.f, lanes(v.type)
        low, high = self._exchange(v, f.shuffle(v, None, [i ^ across for i in range(width)]))
        return f.shuffle(low, high, [i + width if i & bit else i for i in range(width)])

    def _merge_lanes(self, v: Value, run: int) -> Value:
        """Sort each `run` lanes, which are bitonic."""
        distance = run // 2
        while distance:
            v = self._lanes(v, distance, distance)
            distance //= 2
        return v

    def within(self, source: Value, *, last: bool) -> None:
        """Keys of all elements at `source`, sorted within vectors; elements again if `last`."""
        width = self.width
        with self._loop(self.total // width) as i:
            v = self.keys.make(self._load(source, i))
            run = 2
            while run <= min(width, self.size):
                v = self._lanes(v, run - 1, run // 2)
                v = self._merge_lanes(v, run // 2)
                run *= 2
            self._store(self.keys.back(v) if last else v, self.work, i)

    # Across vectors

    def stages(self, until: int, last: int) -> None:
        """Merge sorted vectors to runs of `until` keys; at length `last` write elements."""
        run = 2 * self.width
        while run <= until:
            finish = self.keys.back if run == last else None
            self._merge(run // self.width, finish, mirrored=True)
            run *= 2

    def _merge(self, count: int, finish: Callable[[Value], Value] | None, mirrored: bool) -> None:
        """Sort each `count` vectors, which are two sorted runs (`mirrored`) or bitonic."""
        levels = count.bit_length() - 1
        while levels:
            done = min(levels, _LEVELS)
            levels -= done
            block = 1 << (levels + done)
            if mirrored:
                self._mirrored(block, done, finish, end=levels == 0)
            else:
                self._levels(block, done, finish, end=levels == 0)
            mirrored = False

    def _mirrored(
        self, block: int, levels: int, finish: Callable[[Value], Value] | None, end: bool
    ) -> None:
        """Compare vectors i and block - 1 - i, then `levels - 1` levels in both halves."""
        f, half = self.f, 1 << (levels - 1)
        step = block >> levels
        with self._loop(self.total // self.width, block) as base, self._loop(step) as i:
            first = f.op("add", base, i)
            last = f.op("sub", f.op("add", base, const("i64", block - 1)), i)
            low = [self._load(self.work, first, j * step) for j in range(half)]
            high = [self._load(self.work, last, -j * step) for j in range(half)]
            for j in range(half):
                low[j], other = self._exchange(low[j], self._reversed(high[j]))
                high[j] = self._reversed(other)
            self._distances(low)
            high.reverse()
            self._distances(high)
            high.reverse()
            for j in range(half):
                self._put(low[j], first, j * step, finish, end)
                self._put(high[j], last, -j * step, finish, end)

    def _levels(
        self, block: int, levels: int, finish: Callable[[Value], Value] | None, end: bool
    ) -> None:
        """Compare vectors at half of `block`, at a quarter, ..., `levels` in all."""
        step = block >> levels
        with self._loop(self.total // self.width, block) as base, self._loop(step) as i:
            first = self.f.op("add", base, i)
            held = [self._load(self.work, first, j * step) for j in range(1 << levels)]
            self._distances(held)
            for j, value in enumerate(held):
                self._put(value, first, j * step, finish, end)

    def _distances(self, values: list[Value]) -> None:
        distance = len(values) // 2
        while distance:
            for j in range(len(values)):
                if not j & distance:
                    pair = self._exchange(values[j], values[j + distance])
                    values[j], values[j + distance] = pair
            distance //= 2

    def _put(self, value: Value, at: Value, shift: int, finish: Callable[[Value], Value] | None,
             end: bool) -> None:  # fmt: skip
        """Store a vector, with its lanes merged if it is at the `end` of a stage."""
        if end:
            value = self._merge_lanes(value, self.width)
            value = value if finish is None else finish(value)
        self._store(value, self.work, at, shift)

    def _reversed(self, v: Value) -> Value:
        return self.f.shuffle(v, None, list(range(lanes(v.type) - 1, -1, -1)))

    # The first k

    def halve(self, run: int) -> None:
        """Of two sorted runs at a time the smaller half, sorted, in half of the memory."""
        f, count = self.f, run // self.width
        two = const("i64", 2)
        with self._loop(self.total // self.width // 2, count) as base, self._loop(count) as i:
            left = f.op("add", f.op("mul", base, two), i)
            right = f.op("sub", f.op("add", f.op("mul", base, two), const("i64", 2 * count - 1)), i)
            other = self._reversed(self._load(self.work, right))
            low = f.intrinsic(self.keys.least, self._load(self.work, left), other)
            if count == 1:
                low = self._merge_lanes(low, self.width)
            self._store(low, self.work, f.op("add", base, i))
        self.total //= 2
        self._merge(count, None, mirrored=False)

    def extract(self, target: Value, k: int, size: int) -> None:
        """Elements from the first `k` keys of each `size`."""
        f, width = self.f, min(k, self.width)
        held, align = vector(self.keys.type, width), self.keys.bits // 8
        with self._loop(self.total // size) as row, self._loop(k, width) as i:
            source = f.op("add", f.op("mul", row, const("i64", size)), i)
            place = f.op("add", f.op("mul", row, const("i64", k)), i)
            value = f.load(held, f.gep(self.keys.type, self.work, source), align)
            f.store(self.keys.back(value), f.gep(self.keys.type, target, place), align)
