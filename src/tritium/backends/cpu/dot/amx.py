"""The loops over the register blocks of a tile on AMX: registers of 16 rows of 64 bytes.

A holds 16 rows of 16 cells, B 16 cells along k of 16 columns, the accumulator 16 rows of 16
columns. The process must have asked for the registers (`native.host`). LLVM writes their
configuration, which calls lose, so that all of a sweep is in one function; it gives each register
one shape in a function, so that all shapes are the same.
"""

from __future__ import annotations

from dataclasses import dataclass

from tritium.backends.cpu.dot.operand import as_value, count, scale, static
from tritium.backends.cpu.dot.sweep import Sweep
from tritium.codegen.llvm.writer import Function, Value, const

_SIDE = 16
"""Rows of a register, and cells of 4 bytes in each."""
_SHAPE = const("i16", _SIDE), const("i16", 4 * _SIDE)
_TILE = "x86_amx"
_ZERO, _ONE = const("i64", 0), const("i64", 1)


@dataclass(frozen=True)
class TileSweep(Sweep):
    """A pass with accumulators in AMX registers; B is packed, A packed by rows or read in place."""

    def emit(self, f: Function) -> None:
        plan = self.plan
        width = plan.lanes * plan.block_vectors
        with count(f, self.columns, width) as n, count(f, self.rows, plan.block_rows) as m:
            self._block(f, m.index, n.index)

    def _block(self, f: Function, m: Value, n: Value) -> None:
        """The accumulators of a register block, from (m, n) on."""
        plan, stride = self.plan, const("i64", 4 * self.columns)
        down, across = range(0, plan.block_rows, _SIDE), range(0, 16 * plan.block_vectors, _SIDE)
        assert self.a.outer_step is not None and self.b.k_step is not None
        a = _Registers(
            self.a.places(f, m, down), as_value(scale(f, self.a.outer_step, self.a.size)),
            const("i64", 4 * _SIDE),
        )  # fmt: skip
        b_stride = as_value(scale(f, self.b.k_step, self.b.size))
        step = as_value(scale(f, b_stride, _SIDE))
        b = _Registers(self.b.places(f, n, across), b_stride, step)
        corner = self.corner(f, m, n)
        slots = [f.offset(corner, 4 * (i * self.columns + j)) for i in down for j in across]
        if self.from_zero:
            accs = [f.call(_TILE, "llvm.x86.tilezero.internal", *_SHAPE) for _ in slots]
        else:
            accs = [_load(f, slot, stride) for slot in slots]
        if self.trips is None:
            accs = self._depth(f, a, b, self.a_span[0], self.b_span[0], accs)
        else:
            carried = [self.a_span[0], self.b_span[0], *accs]
            with f.loop(_ZERO, self.trips, _ONE, carried, at_least_once=True) as loop:
                a_at, b_at, *accs = loop.carried
                inner = self._depth(f, a, b, a_at, b_at, accs)
                a_next = f.op("add", a_at, as_value(self.a_span[1]))
                loop.next = [a_next, f.op("add", b_at, as_value(self.b_span[1])), *inner]
            accs = loop.results[2:]
        for slot, acc in zip(slots, accs, strict=True):
            f.call("void", "llvm.x86.tilestored64.internal", *_SHAPE, slot, stride, acc)

    def _depth(
        self, f: Function, a: _Registers, b: _Registers, a_at: Value, b_at: Value,
        accs: list[Value],
    ) -> list[Value]:  # fmt: skip
        """Emit all cells of one iteration, `a_at` and `b_at` bytes from the addresses on."""
        cells = static(self.cells)
        assert cells is not None and cells % _SIDE == 0
        if cells == _SIDE:
            return self._step(f, a.load(f, a_at), b.load(f, b_at), accs)
        carried = [a_at, b_at, *accs]
        with f.loop(_ZERO, const("i64", cells // _SIDE), _ONE, carried, at_least_once=True) as loop:
            a_at, b_at, *accs = loop.carried
            accs = self._step(f, a.load(f, a_at), b.load(f, b_at), accs)
            loop.next = [f.op("add", a_at, a.step), f.op("add", b_at, b.step), *accs]
        return loop.results[2:]

    def _step(self, f: Function, a: list[Value], b: list[Value], accs: list[Value]) -> list[Value]:
        """One step along k: each register of A with each of B."""
        sizes = (*_SHAPE, _SHAPE[1])
        name = f"llvm.{self.plan.instruction}"
        pairs = ((row, column) for row in a for column in b)
        return [
            f.call(_TILE, name, *sizes, acc, row, column)
            for acc, (row, column) in zip(accs, pairs, strict=True)
        ]


@dataclass(frozen=True)
class _Registers:
    """The registers of an operand in one step along k.

    Args:
        places: the address of each at the start.
        stride: bytes from row to row in memory.
        step: bytes to the next step along k.
    """

    places: list[tuple[Value, int]]
    stride: Value
    step: Value

    def load(self, f: Function, at: Value) -> list[Value]:
        """Load all tile registers, from `at` bytes behind the start on."""
        found: list[Value] = []
        for pointer, offset in self.places:
            base = pointer if static(at) == 0 else f.gep("i8", pointer, at)
            found.append(_load(f, f.offset(base, offset), self.stride))
        return found


def _load(f: Function, pointer: Value, stride: Value) -> Value:
    """A register from memory."""
    return f.call(_TILE, "llvm.x86.tileloadd64.internal", *_SHAPE, pointer, stride)
