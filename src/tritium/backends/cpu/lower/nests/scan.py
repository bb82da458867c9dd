"""Scans: along the lanes within vectors and from chunk to chunk, or row by row of vectors."""

from __future__ import annotations

from typing import Any

from tritium.backends.cpu.lower.access import copy, inlined, store_buffer
from tritium.backends.cpu.lower.context import Context
from tritium.backends.cpu.lower.emitter import At, Emitter
from tritium.backends.cpu.lower.nests.prefetch import memory_of, prefetch
from tritium.backends.cpu.lower.nests.reduce import combine_region
from tritium.backends.cpu.lower.values import ZERO, Index, Kind, Uniform, Vec
from tritium.backends.cpu.tiles.ir import Nest
from tritium.codegen.llvm.types import memory_bytes
from tritium.codegen.llvm.writer import Value, const, lanes, scalar
from tritium.ir import types as ir
from tritium.ops.ttir.reduction import combining_op

_FLOAT_BITS = {"float": 32, "double": 64}


def lower_scan(c: Context, nest: Nest) -> None:
    """Write the loops of a nest with one scan, and copies of what it reads."""
    _Scan(c, nest).run()


class _Scan:
    def __init__(self, c: Context, nest: Nest):
        assert nest.scan is not None
        self.root = nest.scan
        op: Any = self.root
        if len(op.regions[0].blocks) != 1:
            raise c.unsupported(op, " (branches in the combine function)")
        self.c, self.nest, self.op = c, nest, op
        assert nest.axis is not None and nest.shape is not None
        self.axis, self.domain = nest.axis, nest.domain
        self.lane, self.width = nest.shape.lane, nest.shape.width
        element = ir.element_type(self.root.operands[0].type)
        operator = combining_op(op.regions[0].block)
        self.neutral = None if operator is None else operator.identity_of(element)
        self.e = Emitter(c, self.width, inlined(nest))
        self.at: list[Index] = [ZERO] * len(self.domain)

    def run(self) -> None:
        self.e.push()
        dims = [d for d in range(len(self.domain)) if d not in (self.lane, self.axis)]
        write = self._along if self.axis == self.lane else self._across
        self.e.loops(self.domain, dims, self.at, write)
        self.e.pop()

    def _values(self, at: At) -> list[Value]:
        copy(self.e, self.nest.copies, at)
        return [self.e.vec(self.e.emit(v, at)) for v in self.root.operands]

    def _combine(self, left: list[Value], right: list[Value]) -> list[Value]:
        return combine_region(self.c, self.root, [*left, *right], "a scan")

    def _keep(self, values: list[Value], at: At) -> None:
        for buffer, value in zip(self.c.function.held(self.root), values, strict=True):
            if buffer is not None:
                kind = Uniform if self.width == 1 else Vec
                store_buffer(self.e, buffer, at, kind(value, self.e.depth))

    def _position(self, number: Value, size: int) -> Value:
        """The position of step `number`: from the end when the scan is reversed."""
        if not self.op.reverse:
            return number
        return self.e.f.op("sub", const("i64", size), number)

    def _across(self) -> None:
        """Another axis than that of the lanes: the running values are vectors."""
        e = self.e
        size, columns = self.domain[self.axis], self.domain[self.lane]
        kind = Kind.LANES if self.width > 1 else Kind.SCALAR
        with e.loop(columns, self.width) as chunk:
            self.at[self.lane] = Index(kind, chunk.index, 0, e.depth)
            first = size - 1 if self.op.reverse else 0
            self.at[self.axis] = Index(Kind.SCALAR, None, first, 0)
            start = self._values(tuple(self.at))
            self._keep(start, tuple(self.at))
            with e.loop(size, 1, start, start=1, at_least_once=False) as loop:
                place = self._position(loop.index, size - 1)
                self.at[self.axis] = Index(Kind.SCALAR, place, 0, e.depth)
                at = tuple(self.at)
                loop.next = self._combine(loop.carried, self._values(at))
                self._keep(loop.next, at)

    def _along(self) -> None:
        """The axis of the lanes: scan each vector, then combine with what came before it."""
        e = self.e
        size, width = self.domain[self.lane], self.width
        kind = Kind.LANES if width > 1 else Kind.SCALAR
        first = size - width if self.op.reverse else 0
        ahead = memory_of(self.c, self.nest.prefetches)
        prefetch(self.c, ahead, const("i64", 0), width)
        self.at[self.lane] = Index(kind, None, first, 0)
        start = self._within(self._values(tuple(self.at)))
        self._keep(start, tuple(self.at))
        if size == width:
            return
        with e.loop(size, width, self._last(start), start=width) as loop:
            prefetch(self.c, ahead, loop.index, width)
            place = self._position(loop.index, size - width)
            self.at[self.lane] = Index(kind, place, 0, e.depth)
            at = tuple(self.at)
            inner = self._within(self._values(at))
            # Not the last of the combined lanes, which is the same: the next chunk would wait for
            # that lane to be found and spread too.
            loop.next = self._combine(loop.carried, self._last(inner))
            self._keep(self._combine(loop.carried, inner), at)

    def _last(self, values: list[Value]) -> list[Value]:
        """The lane that has seen all others, in every lane: quicker than by way of a scalar."""
        if self.width == 1:
            return values
        lane = 0 if self.op.reverse else self.width - 1
        return [self.e.f.shuffle(v, None, [lane] * self.width) for v in values]

    def _within(self, values: list[Value]) -> list[Value]:
        """Scan the lanes of vectors, in log2(width) steps (Hillis and Steele): first those of each
        sixteen bytes, by shuffles within these, which take a cycle on x86, not three to eight; then
        each sixteen bytes with the last lane of those before."""
        f, width, distance = self.e.f, self.width, 1
        neutral = [const(v.type, self.neutral) for v in values] if self.neutral is not None else []
        while distance < width:
            source = self._sources(distance)
            if neutral:  # comes in from the side, and needs no blending afterwards
                picks = [width if i is None else i for i in source]
                shifted = [f.shuffle(v, n, picks) for v, n in zip(values, neutral, strict=True)]
                values = self._combine(shifted, values)
            else:
                picks = [lane if i is None else i for lane, i in enumerate(source)]
                shifted = [f.shuffle(v, None, picks) for v in values]
                combined = [self._in_all_lanes(v) for v in self._combine(shifted, values)]
                picks = [width + lane if i is None else lane for lane, i in enumerate(source)]
                pairs = zip(combined, values, strict=True)
                values = [f.shuffle(new, old, picks) for new, old in pairs]
            assert lanes(values[0].type) == width
            distance *= 2
        return values

    def _in_all_lanes(self, value: Value) -> Value:
        """The value, of whose lanes LLVM does not know that some are replaced: it would compute
        these from whatever a register holds. Indices for permutations are subnormal floats, which
        take Intel's processors some 150 cycles each (a linear recurrence on an Emerald Rapids took
        9 ns an element). They come in by AVX-512's permutations of two registers. Without those all
        lanes are of the values, and a recurrence takes 0.65 of the time if LLVM may choose."""
        bits = _FLOAT_BITS.get(scalar(value.type), 0) * lanes(value.type)
        if bits != 512 or self.c.host.bits != 512:
            return value
        return self.e.f.emit(value.type, f'call {value.type} asm "", "=x,0"({value})')

    def _sources(self, distance: int) -> list[int | None]:
        """The lane that each lane is combined with in the step of a distance, if there is one."""
        width, size = self.width, max(memory_bytes(v.type) for v in self.root.operands)
        block = min(width, 16 // size)
        found: list[int | None] = []
        for place in range(width):
            within, source = distance < block, place - distance
            if not within:
                source = (place - distance) // block * block + block - 1
            inside = source >= (place // block * block if within else 0)
            found.append((width - 1 - source if self.op.reverse else source) if inside else None)
        return found[::-1] if self.op.reverse else found
