"""Operands of a dot: strided views, callback-addressed tiles, and the form that both become.

The emitters treat A (M, K) and B (K, N) alike: as a matrix of `outer` (m or n) by k. `Operand` is
that form; it knows which runs are contiguous and which addresses differ by constants, so that the
kernels keep as few pointers in registers as possible.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace

from tritium.codegen.llvm.writer import BITS_OF, Function, Loop, Value, const

Convert = Callable[[Function, Value], Value]
Address = Callable[[Function, Value, Value], Value]
Step = Value | int

FLOAT16, BFLOAT16 = BITS_OF["half"], BITS_OF["bfloat"]
ELEMENT_BYTES = {
    "i8": 1, "i16": 2, "i32": 4, "i64": 8, "float": 4, "double": 8,
    FLOAT16: 2, BFLOAT16: 2,
}  # fmt: skip
LINE_BYTES = 64
"""Bytes that a cache reads at once, of data and of code."""


def static(step: Step) -> int | None:
    """The number that a step is known to be, or None when it is only known at run time."""
    if isinstance(step, int):
        return step
    return int(step.ref) if step.ref.lstrip("-").isdigit() else None


def as_value(step: Step) -> Value:
    """A step as an i64 value."""
    return const("i64", step) if isinstance(step, int) else step


def add(f: Function, left: Step, right: Step) -> Step:
    """left + right, folded where possible."""
    a, b = static(left), static(right)
    if a is not None and b is not None:
        return a + b
    if a == 0:
        return right
    if b == 0:
        return left
    return f.op("add", as_value(left), as_value(right))


def scale(f: Function, step: Step, factor: int) -> Step:
    """step * factor, folded where possible."""
    known = static(step)
    if known is not None or not factor:
        return (known or 0) * factor
    assert isinstance(step, Value)
    return step if factor == 1 else f.op("mul", step, const("i64", factor))


def count(f: Function, stop: int, step: int) -> AbstractContextManager[Loop]:
    """A loop from 0 to `stop`, at least once; no code where it is once."""
    zero = const("i64", 0)
    if stop <= step:
        return nullcontext(Loop(zero, []))
    return f.loop(zero, const("i64", stop), const("i64", step), at_least_once=True)


def prefetch(f: Function, places: Sequence[tuple[Value, int]], size: int, ahead: Step) -> None:
    """Have the lines of pieces of `size` bytes, `ahead` bytes behind `places`, read into L2."""
    hints = [const("i32", n) for n in (0, 2, 1)]  # a read, not for L1, of data
    moved, seen = dict[str, Value](), set[tuple[str, int]]()
    for pointer, offset in places:
        for at in range(offset, offset + size, LINE_BYTES):
            if (pointer.ref, at // LINE_BYTES) in seen:
                continue
            seen.add((pointer.ref, at // LINE_BYTES))
            if pointer.ref not in moved:
                moved[pointer.ref] = f.gep("i8", pointer, as_value(ahead))
            f.call("void", "llvm.prefetch.p0", f.offset(moved[pointer.ref], at), *hints)


@dataclass(frozen=True)
class View:
    """A strided tile in memory: element (r, c) is at `base + r * row_stride + c * col_stride`.

    Args:
        element: LLVM type of one element in memory (`float`, `FLOAT16`, `BFLOAT16`, `i8`, ...).
        base: pointer to element (0, 0), valid where the dot is emitted.
        row_stride, col_stride: in elements; an int, or an i64 value. A dense row-major scratch tile
            of C columns has strides (C, 1), a transposed one (1, R).
        unsigned: integer elements are zero-extended rather than sign-extended.
        align: alignment in bytes of every element (default: the size of one).
        convert: maps a loaded scalar or vector of `element` to the same number of lanes of `float`,
            numbers that bfloat16 holds exactly; for the formats LLVM has no type for (fp8).
        rows: the number of rows of A (an i64 of at least 1); what is computed of others does
            not matter.
    """

    element: str
    base: Value
    row_stride: Step
    col_stride: Step
    unsigned: bool = False
    align: int = 0
    convert: Convert | None = None
    rows: Value | None = None

    def at(self, f: Function, row: Value, col: Value) -> Value:
        """The address of element (row, col)."""
        size = ELEMENT_BYTES[self.element]
        offset: Step = 0
        for index, stride in ((row, self.row_stride), (col, self.col_stride)):
            known, place = static(stride), static(index)
            if known is not None:
                term = scale(f, index, known * size)
            elif place is not None:
                term = scale(f, stride, place * size)
            else:
                term = scale(f, f.op("mul", index, as_value(stride)), size)
            offset = add(f, offset, term)
        if static(offset) == 0:
            return self.base
        return f.gep("i8", self.base, as_value(offset))


@dataclass(frozen=True)
class Chunks:
    """A tile whose addresses come from a callback, for index arithmetic with no single stride
    (`(pid * BN + arange) % N`).

    Args:
        element: LLVM type of one element in memory.
        address: `address(f, row, col)` emits the address of an element; row and col are i64 values.
        contiguity: elements (row, c) .. (row, c + contiguity - 1) are adjacent in memory for every
            c that is a multiple of `contiguity` (a power of two).
        k_step: elements between (m, k) and (m, k + 1) of A, or (k, n) and (k + 1, n) of B, the same
            all over the tile (int or i64 value). None: no such step, so the tile is copied to
            scratch before use. With a step, `address` is only called at k = 0 and outside of the k
            loops.
        unsigned, align, convert, rows: as in `View`.
    """

    element: str
    address: Address
    contiguity: int = 1
    k_step: Step | None = None
    unsigned: bool = False
    align: int = 0
    convert: Convert | None = None
    rows: Value | None = None


@dataclass(frozen=True)
class Operand:
    """A or B of a dot as an (outer, k) matrix; made by `operand_a` and `operand_b`.

    Args:
        size: bytes of one element; `element` its LLVM type.
        pointer: emits the address of (outer, k).
        k_step: elements between neighbours along k, None when there is no fixed number.
        outer_step: the same along the outer dimension.
        k_run, outer_run: how many elements are adjacent in memory along k or the outer dimension,
            from every multiple of the number on.
    """

    element: str
    pointer: Address
    k_step: Step | None
    outer_step: Step | None
    k_run: int
    outer_run: int
    unsigned: bool
    align: int
    convert: Convert | None = field(compare=False)

    @property
    def size(self) -> int:
        return ELEMENT_BYTES[self.element]

    def places(self, f: Function, start: Value, offsets: Sequence[int]) -> list[tuple[Value, int]]:
        """Addresses of (start + offset, 0) as (pointer, constant bytes) pairs that share pointers
        wherever the distance is known when compiling. `offsets` start with 0 and ascend."""
        step = None if self.outer_step is None else static(self.outer_step)
        places: list[tuple[Value, int]] = []
        anchor, anchored = Value("ptr", "null"), 0
        strides = dict[int, Value]()
        for offset in offsets:
            distance = offset - anchored
            within = distance < self.outer_run and self.outer_run > 1
            if places and step is None and self.outer_step is not None and not within:
                if distance not in strides:
                    stride = scale(f, self.outer_step, distance * self.size)
                    strides[distance] = as_value(stride)
                anchor, anchored = f.gep("i8", anchor, strides[distance]), offset
            elif not places or (step is None and not within):
                row = add(f, start, offset)
                anchor, anchored = self.pointer(f, as_value(row), const("i64", 0)), offset
            places.append((anchor, (offset - anchored) * (1 if step is None else step) * self.size))
        return places


def tabulated(f: Function, source: Operand, outer: int, every: int, table: Value) -> Operand:
    """The same operand with the addresses of (n * every, 0) computed here, once, into a table.

    For operands whose addresses take divisions to find, and are found again and again.
    """
    assert source.k_step is not None
    step = as_value(scale(f, source.k_step, source.size))
    zero = const("i64", 0)
    with f.loop(zero, const("i64", outer), const("i64", every), at_least_once=True) as place:
        entry = f.gep("i8", table, f.op("mul", place.index, const("i64", 8)))
        f.store(source.pointer(f, place.index, zero), entry, 8)

    def pointer(f: Function, place: Value, k: Value) -> Value:
        found = f.load("ptr", f.gep("i8", table, f.op("mul", place, const("i64", 8))), 8)
        return found if static(k) == 0 else f.gep("i8", found, f.op("mul", k, step))

    return replace(source, pointer=pointer)


def _operand(source: View | Chunks, outer: int, inner: int, swap: bool) -> Operand:
    align = source.align or ELEMENT_BYTES[source.element]
    at = source.at if isinstance(source, View) else source.address

    def pointer(f: Function, place: Value, k: Value) -> Value:
        if source.rows is not None:  # others are read as the last
            place = f.intrinsic("smin", place, f.op("sub", source.rows, const("i64", 1)))
        return at(f, k, place) if swap else at(f, place, k)

    if isinstance(source, View):
        steps = (source.row_stride, source.col_stride)
        outer_step, k_step = reversed(steps) if swap else steps
        k_run = inner if static(k_step) == 1 else 1
        outer_run = outer if static(outer_step) == 1 else 1
    else:
        outer_step, k_step = None, source.k_step
        run = max(1, source.contiguity)
        k_run = 1 if swap else min(run, inner)
        outer_run = min(run, outer) if swap else 1
        if k_step is not None and static(k_step) == 1:
            k_run = inner
    if source.rows is not None:
        outer_step, outer_run = None, 1
    return Operand(
        source.element, pointer, k_step, outer_step, k_run, outer_run,
        source.unsigned, align, source.convert,
    )  # fmt: skip


def operand_a(a: View | Chunks, rows: int, depth: int) -> Operand:
    """A, of shape (rows, depth), as an operand whose outer dimension is its rows."""
    return _operand(a, rows, depth, swap=False)


def operand_b(b: View | Chunks, depth: int, columns: int) -> Operand:
    """B, of shape (depth, columns), as an operand whose outer dimension is its columns."""
    return _operand(b, columns, depth, swap=True)


def dense(element: str, base: Value, outer_step: int, k_step: int, cells: int) -> Operand:
    """A 64-byte-aligned scratch matrix with constant steps; `cells` along the
    dimension of step 1."""

    def pointer(f: Function, place: Value, k: Value) -> Value:
        return View(element, base, outer_step, k_step).at(f, place, k)

    return Operand(
        element, pointer, k_step, outer_step,
        cells if k_step == 1 else 1, cells if outer_step == 1 else 1,
        False, ELEMENT_BYTES[element], None,
    )  # fmt: skip
