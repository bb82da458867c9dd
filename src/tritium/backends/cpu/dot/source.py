"""The operands of a dot as the kernel reads them: in place, or copied first."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tritium.backends.cpu.dot.multiply import column_sums
from tritium.backends.cpu.dot.operand import (
    ELEMENT_BYTES,
    Operand,
    Step,
    add,
    as_value,
    scale,
    static,
    tabulated,
)
from tritium.backends.cpu.dot.pack import Packing, ScratchAlloc
from tritium.backends.cpu.dot.plan import Method, Plan
from tritium.backends.cpu.dot.reuse import Kept, Panel, facts
from tritium.codegen.llvm.writer import Function, Value, const

_ZERO, _ONE = const("i64", 0), const("i64", 1)


@dataclass(frozen=True)
class Repeats:
    """The packing of an operand in a loop: `together` iterations of `trips` at a time, each
    `advance` bytes after the one before. `kept` is for the copy, if it may outlive the program;
    `shared`: more than two blocks of rows read it, so that copying it pays."""

    trips: Value
    together: int
    advance: Step
    kept: Kept | None = None
    shared: bool = False


@dataclass(frozen=True)
class Source:
    """An operand as the kernel reads it.

    Args:
        cells: where it is read.
        between: bytes there from one iteration to the next.
        packing: the copy to make first, to `target`; None: there is none.
        advance: bytes from one iteration to the next in memory.
        panel: where the copy is, if it may be that of the program before.
        lazy: it is only copied if the program before had the same operand, or where it is read
            from few sets of the second cache. `copied`: an i1, whether it is.
        sums: where the sums of each tile's columns are (VNNI).
    """

    cells: Operand
    between: Step
    packing: Packing | None
    target: Value
    advance: Step
    panel: Panel | None = None
    lazy: bool = False
    copied: Value | None = None
    sums: Value | None = None

    @classmethod
    def prepare(
        cls, f: Function, plan: Plan, source: Operand, shape: tuple[int, int], is_b: bool,
        repeats: Repeats, scratch_alloc: ScratchAlloc,
    ) -> Source:  # fmt: skip
        """`shape` is (outer, depth)."""
        advance, kept = repeats.advance, repeats.kept
        packs = plan.pack_b if is_b else plan.pack_a
        by_outer = source.k_run < min(4, shape[1]) and source.outer_run >= min(4, shape[0])
        by_outer &= not plan.method.in_tiles
        packing = Packing(plan, source, *shape, k_major=is_b or by_outer, ahead=advance)
        repeated = static(repeats.trips) != 1 and source.k_step is not None
        size = packing.bytes * repeats.together
        extra = 4 * shape[0] if is_b and plan.method is Method.VNNI else 0
        keeps = repeated and kept is not None and kept.bytes >= 2 * size
        lazy = keeps and is_b and not packs and plan.method is Method.FMA
        lazy = lazy and source.element == plan.compute
        table = None
        if repeated and source.outer_step is None and (packs or lazy or not is_b):
            table = scratch_alloc(8 * shape[0])
            run = packing.address_run if is_b or packs else 1
            source = tabulated(f, source, shape[0], run, table)
            packing = replace(packing, source=source)
        if lazy and kept is not None:
            packing = replace(packing, panel=kept.most(packing) * shape[1])
        if not packs and not lazy:
            if plan.method is not Method.FMA and not plan.method.in_tiles:
                source = _as_cells(source, plan.cell)
            return cls(source, advance, None, const("ptr", 0), advance)
        panel = None
        if keeps and kept is not None:
            of = facts(source, advance)
            panel = Panel.find(f, kept, packing, table, of, repeats.trips, extra)
        if lazy and panel is not None:
            copied = panel.whole
            if repeats.shared and kept is not None:
                few = _few_sets(f, source, shape[1] * repeats.together, kept.bytes)
                copied = f.op("or", copied, few)
            return cls._lazy(f, source, packing, advance, panel, copied)
        if panel is not None:
            target, rest = panel.target, panel.rest
        else:
            target = scratch_alloc(size + repeats.together * extra)
            rest = f.offset(target, size)
        cells, sums = packing.cells(target), rest if extra else None
        return cls(cells, packing.between, packing, target, advance, panel, sums=sums)

    @classmethod
    def _lazy(
        cls, f: Function, source: Operand, packing: Packing, advance: Step, panel: Panel,
        is_copied: Value,
    ) -> Source:  # fmt: skip
        """An operand that is read in place or from its copy, by the same code."""
        copied = packing.cells(panel.target)

        def pointer(f: Function, place: Value, k: Value) -> Value:
            found = (form.pointer(f, place, k) for form in (copied, source))
            return f.select(is_copied, *found)

        def either(there: Step, here: Step | None) -> Value:
            return f.select(is_copied, as_value(there), as_value(here or 0))

        cells = replace(source, pointer=pointer, k_step=either(packing.width, source.k_step))
        between = either(packing.between, advance)
        return cls(cells, between, packing, panel.target, advance, panel, True, is_copied)

    def pack(self, f: Function, iteration: Value, slot: Value, extent: Value | None = None) -> None:
        """Copy the tile of an iteration to a slot of the copy."""
        if self.packing is not None:
            target = times(f, slot, self.packing.between)
            target = self.target if static(target) == 0 else f.gep("i8", self.target, target)
            self.packing.emit(f, target, times(f, iteration, self.advance), extent)
            if self.sums is not None:
                plan, columns = self.packing.plan, self.packing.outer
                cells = const("i64", self.packing.depth // plan.method.group)
                column_sums(f, plan, target, self.sums_of(f, slot), columns, cells)

    def sums_of(self, f: Function, slot: Value) -> Value:
        """The address of the sums of a tile's columns."""
        assert self.sums is not None and self.packing is not None
        if static(slot) == 0:
            return self.sums
        return f.gep("i8", self.sums, times(f, slot, 4 * self.packing.outer))

    def pack_block(self, f: Function, first: Value, count: Value) -> None:
        """Copy the tiles of `count` iterations from `first` on, unless they are there."""
        if self.packing is None:
            return
        if self.panel is None:
            self._pack_block(f, first, count)
            return
        missing = f.op("xor", self.panel.filled, const("i1", True))
        if self.copied is not None:
            missing = f.op("and", missing, self.copied)
        with f.when(missing):
            self._pack_block(f, first, count)

    def _pack_block(self, f: Function, first: Value, count: Value) -> None:
        start = self.first_slot(f, first)
        with f.loop(_ZERO, count, _ONE, at_least_once=True) as slot:
            iteration = f.op("add", first, slot.index)
            self.pack(f, iteration, as_value(add(f, start, slot.index)))

    def runs_on(self, f: Function, cells: int) -> Value:
        """The cells of an iteration follow those of the one before at the same step (i1,
        a constant where that is known)."""
        if self.packing is not None and not self.lazy:
            return const("i1", self.packing.k_major)
        assert self.cells.k_step is not None
        distance = scale(f, self.cells.k_step, self.cells.size * cells)
        known = static(distance), static(self.between)
        if None not in known:
            return const("i1", known[0] == known[1])
        return f.icmp("eq", as_value(distance), as_value(self.between))

    def first_slot(self, f: Function, iteration: Value) -> Value:
        """The place, among those of iterations, of the first of a block."""
        if self.packing is None:
            return iteration
        if self.panel is None:
            return _ZERO
        own = self.panel.whole
        if self.copied is not None:  # in memory each iteration has its own place as well
            own = f.op("or", own, f.op("xor", self.copied, const("i1", True)))
        return f.select(own, iteration, _ZERO)

    def span(self, f: Function, first: Value) -> tuple[Value, Step]:
        """Bytes from the beginning to the tile of a block's first iteration, where it is read, and
        from one iteration's tile to the next."""
        return times(f, self.first_slot(f, first), self.between), self.between


def _few_sets(f: Function, source: Operand, rows: int, size: int) -> Value:
    """True if `rows` rows of B are more lines than the second cache, of `size` bytes, holds of
    lines that are apart by the largest power of two that divides B's step (i1)."""
    assert source.k_step is not None
    step = as_value(scale(f, source.k_step, source.size))
    power = f.op("and", step, f.op("sub", _ZERO, step))
    return f.icmp("ugt", power, const("i64", size // rows))


def times(f: Function, value: Value, step: Step) -> Value:
    """value * step, folded where possible."""
    known, number = static(step), static(value)
    if number is not None:
        return as_value(scale(f, step, number))
    if known is not None:
        return as_value(scale(f, value, known))
    return f.op("mul", value, as_value(step))


def _as_cells(source: Operand, cell: str) -> Operand:
    """A matrix with neighbours along k adjacent, as one of cells."""
    size, step = ELEMENT_BYTES[cell], None
    if source.outer_step is not None:
        step = static(source.outer_step)
    if step is not None and step * source.size % size == 0:
        return replace(source, element=cell, k_step=1, outer_step=step * source.size // size)
    return replace(source, element=cell, k_step=1, outer_step=None, outer_run=1)
