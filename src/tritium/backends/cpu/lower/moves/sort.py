"""Sorting along the last axis: bitonic networks on vectors of integer keys.

Floats become signed integers in the same order, and falling order is rising order of complements,
so that a comparator is one vector minimum and one maximum. Lanes are sorted within each vector
first; a stage then merges two sorted runs by comparing one with the other reversed (elements i and
2n - 1 - i) and after that elements at half, a quarter, ... of the distance. Up to three of these
levels are done with the vectors in registers, before they are stored again. Batcher, "Sorting
networks and their applications" (1968).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from tritium.backends.cpu.lower.context import Context
from tritium.codegen.llvm.types import memory_bytes
from tritium.codegen.llvm.writer import Function, Value, const, lanes, vector
from tritium.codegen.registry import lowers
from tritium.ir import types as ir
from tritium.ops.ttir.sort import SortOp

_LEVELS = 3
"""The number of levels of a merge that are done at a time: on eight vectors."""
_MANTISSA: dict[ir.Type, int] = {ir.f16: 10, ir.bf16: 7, ir.f32: 23, ir.f64: 52}


class Step(NamedTuple):
    """Lanes i and i ^ across are compared; the larger goes where `bit` of i is set."""

    across: int
    bit: int


def _falling(run: int) -> list[Step]:
    """The steps that sort each `run` lanes, which are bitonic."""
    return [Step(1 << i, 1 << i) for i in reversed(range(run.bit_length() - 1))]


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
    two = keys.bits >= 32 or (keys.bits == 16 and c.host.bits == 512)
    if op.k == size:
        work = c.address(target)
        sorter = _Sorter(c.f, keys, width, size, total, work, two)
        sorter.within(c.address(source), last=size <= width)
        sorter.stages(size, size)
    else:
        with c.temporary() as allocate:
            work = allocate(total * keys.bits // 8)
            sorter = _Sorter(c.f, keys, width, size, total, work, two)
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
    """Rows of `size` keys, `total` in all, at `work`, in vectors of `width` lanes; returns whether
    one instruction picks lanes of two vectors."""

    f: Function
    keys: _Keys
    width: int
    size: int
    total: int
    work: Value
    shuffles_two: bool

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

    def _network(self, values: list[Value], steps: Sequence[Step]) -> list[Value]:
        """Compare lanes of vectors, of two at a time."""
        found: list[Value] = []
        if self.shuffles_two:
            for a, b in zip(values[::2], values[1::2], strict=False):
                found += self._pair(a, b, steps)
        for v in values[len(found) :]:
            for step in steps:
                v = self._lanes(v, step)
            found.append(v)
        return found

    def _lanes(self, v: Value, step: Step) -> Value:
        """Compare the lanes of one vector: a shuffle, the smaller, the larger, a selection."""
        f, width = self.f, lanes(v.type)
        other = f.shuffle(v, None, [i ^ step.across for i in range(width)])
        low, high = self._exchange(v, other)
        return f.shuffle(low, high, [i + width if i & step.bit else i for i in range(width)])

    def _pair(self, a: Value, b: Value, steps: Sequence[Step]) -> tuple[Value, Value]:
        """Compare the lanes of two vectors. The smaller ones of all pairs of lanes are in one and
        the larger in the other, so that a step takes a shuffle and a comparison a vector; at last
        each lane goes to its place."""
        f, width = self.f, self.width
        held, every = (a, b), list(range(2 * width))  # which lane is where: those of b from width
        for step in steps:
            # Shuffles within parts of 128 bits are cheap.
            part = min(width, 128 // self.keys.bits) if step.bit * self.keys.bits < 128 else width
            slots = (i + v for i in range(0, width, part) for v in (0, width))
            low = [every[j] for i in slots for j in range(i, i + part) if not every[j] & step.bit]
            high = [lane ^ step.across for lane in low]
            held = self._exchange(*(f.shuffle(*held, list(map(every.index, of)))
                                    for of in (low, high)))  # fmt: skip
            every = low + high
        first, second = (list(map(every.index, range(i, i + width))) for i in (0, width))
        return f.shuffle(*held, first), f.shuffle(*held, second)

    def within(self, source: Value, *, last: bool) -> None:
        """Keys of all elements at `source`, sorted within vectors; elements again if `last`."""
        steps: list[Step] = []
        run = 2
        while run <= min(self.width, self.size):
            steps += [Step(run - 1, run // 2), *_falling(run // 2)]
            run *= 2
        count = min(2, self.total // self.width)
        with self._loop(self.total // self.width, count) as i:
            held = [self.keys.make(self._load(source, i, j)) for j in range(count)]
            for j, v in enumerate(self._network(held, steps)):
                self._store(self.keys.back(v) if last else v, self.work, i, j)

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
            found = self._finished([*low, *high], finish, end)
            for j in range(half):
                self._store(found[j], self.work, first, j * step)
                self._store(found[j + half], self.work, last, -j * step)

    def _levels(
        self, block: int, levels: int, finish: Callable[[Value], Value] | None, end: bool
    ) -> None:
        """Compare vectors at half of `block`, at a quarter, ..., `levels` in all."""
        step = block >> levels
        with self._loop(self.total // self.width, block) as base, self._loop(step) as i:
            first = self.f.op("add", base, i)
            held = [self._load(self.work, first, j * step) for j in range(1 << levels)]
            self._distances(held)
            for j, value in enumerate(self._finished(held, finish, end)):
                self._store(value, self.work, first, j * step)

    def _distances(self, values: list[Value]) -> None:
        distance = len(values) // 2
        while distance:
            for j in range(len(values)):
                if not j & distance:
                    pair = self._exchange(values[j], values[j + distance])
                    values[j], values[j + distance] = pair
            distance //= 2

    def _finished(
        self, values: list[Value], finish: Callable[[Value], Value] | None, end: bool
    ) -> list[Value]:
        """Vectors with their lanes merged if they are at the `end` of a stage."""
        if not end:
            return values
        values = self._network(values, _falling(self.width))
        return values if finish is None else [finish(v) for v in values]

    def _reversed(self, v: Value) -> Value:
        return self.f.shuffle(v, None, list(range(lanes(v.type) - 1, -1, -1)))

    # The first k

    def halve(self, run: int) -> None:
        """Keep the smaller half, sorted, of each two sorted runs, in half of the memory."""
        f, count = self.f, run // self.width
        two = const("i64", 2)
        with self._loop(self.total // self.width // 2, count) as base, self._loop(count) as i:
            left = f.op("add", f.op("mul", base, two), i)
            right = f.op("sub", f.op("add", f.op("mul", base, two), const("i64", 2 * count - 1)), i)
            other = self._reversed(self._load(self.work, right))
            low = f.intrinsic(self.keys.least, self._load(self.work, left), other)
            if count == 1:
                (low,) = self._network([low], _falling(self.width))
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
